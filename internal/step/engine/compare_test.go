package engine

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/step"
)

// firstTokens adds the first tokens of a replica: two a second, of which a share is
// late, and was late until twenty minutes ago.
func firstTokens(s *store, pod string, was, is float64, change func(i, v float64) float64, more ...string) {
	add := func(name, le string, was, is float64) {
		of := map[string]string{"service": "chat", "job": "vllm", "pod": pod, "instance": pod + ":8000", "engine": "0", "model_name": `org/"big" model`}
		for i := 0; i < len(more); i += 2 {
			of[more[i]] = more[i+1]
		}
		if le != "" {
			of["le"] = le
		}
		at := counted(was, is)
		s.add(name, of, func(i float64) float64 {
			if change == nil {
				return at(i)
			}
			return change(i, at(i))
		})
	}
	const name = "vllm:time_to_first_token_seconds"
	add(name+"_bucket", "0.5", 2*(1-was), 2*(1-is))
	add(name+"_bucket", "+Inf", 2, 2)
	add(name+"_count", "", 2, 2)
}

func compared(t *testing.T, s *store, n int) compareOut {
	t.Helper()
	var names []string
	for i := range n {
		names = append(names, podName(i))
	}
	f, err := NewCompare(step.Deps{Querier: s, Workloads: pods{names: names}}).Run(t.Context(), step.Input{Service: chat(), Now: end})
	if err != nil {
		t.Fatal(err)
	}
	out, _ := f.Out.(compareOut)
	return out
}

// TestCompareManyReplicas: the odd one of sixty is found, with what all of them
// missed before.
func TestCompareManyReplicas(t *testing.T) {
	s := &store{}
	for i := range 60 {
		is := 0.001
		if i == 37 {
			is = 0.95
		}
		firstTokens(s, podName(i), 0.001, is, nil)
	}
	out := compared(t, s, 60)
	if out.Scope != scopeReplica || out.Pod != podName(37) || len(out.Replicas) != maxReplicas || math.Abs(value(out.Before)-0.001) > 1e-4 || s.queries > 6 {
		t.Errorf("%s %q, before %v, %d queries: %s", out.Scope, out.Pod, value(out.Before), s.queries, out.Why)
	}
	for _, want := range []string{podName(37), "95 % of 600 requests are slow", "before the alert 0.1 % of all were"} {
		if !strings.Contains(out.Why, want) {
			t.Errorf("%q is not in: %s", want, out.Why)
		}
	}
}

// TestCompareBefore: a replica that has been slow since long ago is told from one that
// became slow, and one that served nothing then has no share.
func TestCompareBefore(t *testing.T) {
	s := &store{}
	for i := range 4 {
		was := 0.6
		change := func(_, v float64) float64 { return v }
		switch i {
		case 1:
			was = 0
		case 2: // it is young
			change = func(i, v float64) float64 {
				if i < changedAt {
					return math.NaN()
				}
				return v
			}
		}
		firstTokens(s, podName(i), was, 0.6, change)
	}
	out := compared(t, s, 4)
	got := ""
	for _, r := range out.Replicas {
		got += fmt.Sprintf("%s %.1f ", r.Pod[len(r.Pod)-1:], value(r.Before))
	}
	if out.Scope != scopeAll || got != "0 0.6 1 0.0 2 NaN 3 0.6 " {
		t.Errorf("%s, before: %s: %s", out.Scope, got, out.Why)
	}
}

// TestCompareBadInput: whatever is wrong with the series, nobody is blamed by guess.
func TestCompareBadInput(t *testing.T) {
	for name, tt := range map[string]struct {
		pods   func(s *store)
		scope  string
		bad    string
		reason string
	}{
		"one restarts, and is as the others": {func(s *store) {
			for i := range 3 {
				firstTokens(s, podName(i), 0.9, 0.9, func(at, v float64) float64 {
					if i == 1 && at >= scrapeCount-8 {
						return v - counted(1, 1)(scrapeCount-8) // of all series alike: below any of them
					}
					return v
				})
			}
		}, scopeAll, "", ""},
		"one has gaps": {func(s *store) {
			for i := range 3 {
				firstTokens(s, podName(i), 0.9, 0.9, func(at, v float64) float64 {
					if i == 1 && int(at)%3 != 0 {
						return math.NaN()
					}
					return v
				})
			}
		}, scopeAll, "", ""},
		"one has no bucket at the threshold": {func(s *store) {
			for i := range 3 {
				firstTokens(s, podName(i), 0.9, 0.9, nil)
			}
			delete(s.Store, "vllm:time_to_first_token_seconds_bucket")
		}, scopeUnknown, "", "whether ttft is missed is not known"},
		"all are scraped twice": {func(s *store) {
			for i, is := range []float64{0.001, 0.9, 0.001} {
				firstTokens(s, podName(i), 0.001, is, nil)
				firstTokens(s, podName(i), 0.001, is, nil, "job", "pods")
			}
		}, scopeReplica, podName(1), ""},
		"no label pod": {func(s *store) {
			for i := range 3 {
				firstTokens(s, podName(i), 0.9, 0.9, nil, "pod", "")
			}
		}, scopeUnknown, "", "fewer than two of them show requests under the label pod"},
		"no traffic": {func(s *store) {
			for i := range 3 {
				firstTokens(s, podName(i), 0.9, 0.9, func(_, _ float64) float64 { return 100 })
			}
		}, scopeNone, "", ""},
	} {
		s := &store{}
		tt.pods(s)
		out := compared(t, s, 3)
		if out.Scope != tt.scope || out.Pod != tt.bad || !strings.Contains(out.Why, tt.reason) {
			t.Errorf("%s: %s %q: %s", name, out.Scope, out.Pod, out.Why)
		}
	}
}
