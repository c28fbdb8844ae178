package engine

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/slo"
	"github.com/inference-responder/responder/internal/step"
)

// pods is a workload with ready pods.
type pods struct {
	step.Workloads
	names []string
}

func (p pods) Workload(context.Context, kube.Ref) (kube.Workload, error) {
	w := kube.Workload{Ready: len(p.names)}
	for _, n := range p.names {
		w.Pods = append(w.Pods, kube.Pod{Name: n, Ready: true})
	}
	return w, nil
}

// TestProgress: a replica that stands still is told from one that is busy, idle,
// young, or not seen. All of them are ready.
func TestProgress(t *testing.T) {
	still := func(from float64) func(name string, i, v float64) float64 {
		at := map[string]float64{}
		return func(name string, i, v float64) float64 {
			if !strings.Contains(name, "_total") {
				return v
			}
			if i <= from {
				at[name] = v
			}
			return at[name]
		}
	}
	since := func(from, to float64) func(name string, i, v float64) float64 {
		return func(_ string, i, v float64) float64 {
			if i < from || i > to {
				return math.NaN()
			}
			return v
		}
	}
	const last = scrapeCount - 1
	s := &store{}
	busy, idle, full, waits := usual(), vllm{}, usual(), vllm{waiting: 4}
	full.cache, full.waiting = 1, 7
	want := map[string]string{}
	replica := func(name, state string, v vllm, change func(name string, i, v float64) float64) {
		v.add(s, name, change)
		want[name] = state
	}
	replica("busy", "serving", busy, nil)
	replica("idle", "idle", idle, nil)
	replica("full", "saturated", full, nil)
	replica("hangs", "stuck", busy, still(last-20))
	replica("pauses", "unknown", busy, func(name string, i, v float64) float64 { // it was idle until a minute ago
		if v = still(last-20)(name, i, v); name == "vllm:num_requests_running" && i < last-4 {
			return 0
		}
		if strings.Contains(name, "_total") {
			return 5000
		}
		return v
	})
	replica("young", "unknown", busy, func(name string, i, v float64) float64 {
		if strings.Contains(name, "_total") {
			v = 0
		}
		return since(last-4, last)(name, i, v)
	})
	replica("gone", "unknown", busy, since(0, last-12))
	replica("starved", "unknown", waits, nil)
	want["dark"] = "unknown"
	var names []string
	for n := range want {
		names = append(names, n)
	}
	in := step.Input{Service: chat(), Now: end}
	f, err := NewProgress(step.Deps{Querier: s, Workloads: pods{names: names}}).Run(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	out, _ := f.Out.(progressOut)
	for _, r := range out.Replicas {
		if r.State != want[r.Name] || (r.Why == "") == (r.State == "unknown") {
			t.Errorf("%s is %s: %q, want %s", r.Name, r.State, r.Why, want[r.Name])
		}
		delete(want, r.Name)
	}
	if len(want) > 0 || out.Stuck != 1 || out.Serving != 1 || out.Idle != 1 || out.Saturated != 1 || out.Unknown != 5 || out.Pod != "hangs" || s.queries != 3 {
		t.Errorf("missing %v, %d queries: %+v", want, s.queries, out)
	}
	said := strings.Join(f.Facts, "\n")
	for _, fact := range []string{"of 9 replicas 1 stuck, 5 unknown", "hangs (5 in flight)", "gone: its newest sample is 3m0s old", "dark: it is ready, and none of its series exists"} {
		if !strings.Contains(said, fact) {
			t.Errorf("%q is not in %s", fact, said)
		}
	}
}

// TestProgressPods: what is left of the series of a pod that is gone is no replica, and
// pods are missed only where series have their names.
func TestProgressPods(t *testing.T) {
	s := &store{}
	usual().add(s, "a", nil)
	usual().add(s, "evicted", func(_ string, i, v float64) float64 {
		if i > scrapeCount-12 {
			return math.NaN()
		}
		return v
	})
	for name, tt := range map[string]struct {
		pods    []string
		unknown int
		said    string
	}{
		"evicted":          {[]string{"a"}, 0, "of 1 replicas 1 serving"},
		"one without":      {[]string{"a", "b"}, 1, "b: it is ready, and none of its series exists"},
		"other names":      {[]string{"x", "y"}, 1, "no series has the name of a pod"},
		"pods not known":   {nil, 1, "evicted: its newest sample is 2m45s old"},
		"evicted, no more": {[]string{"a", "evicted"}, 1, "evicted: its newest sample"},
	} {
		f, err := NewProgress(step.Deps{Querier: s, Workloads: pods{names: tt.pods}}).Run(t.Context(), step.Input{Service: chat(), Now: end})
		if err != nil {
			t.Fatal(err)
		}
		out, _ := f.Out.(progressOut)
		if out.Unknown != tt.unknown || out.Serving != 1 || !strings.Contains(strings.Join(f.Facts, "\n"), tt.said) {
			t.Errorf("%s: %+v %q", name, out, f.Facts)
		}
	}
}

// TestProgressInstances: series without the label pod do not tell which pods have none.
func TestProgressInstances(t *testing.T) {
	for name, named := range map[string]int{"no series has the label": 0, "some have it": 2} {
		s := &store{}
		for i, pod := range []string{"a", "b", "c"} {
			v := usual()
			if i >= named {
				v.labels = map[string]string{"pod": "", "instance": "10.0.0.1:800" + pod}
			}
			v.add(s, pod, nil)
		}
		f, err := NewProgress(step.Deps{Querier: s, Workloads: pods{names: []string{"a", "b", "c"}}}).Run(t.Context(), step.Input{Service: chat(), Now: end})
		if err != nil {
			t.Fatal(err)
		}
		out, _ := f.Out.(progressOut)
		if out.Serving != 3 || out.Unknown != 0 || strings.Count(strings.Join(f.Facts, "\n"), "label pod") != 1 {
			t.Errorf("%s: %+v %q", name, out, f.Facts)
		}
	}
}

// partly is a store that answers its n-th query only in part.
type partly struct {
	*store
	n int
}

func (p partly) Instant(ctx context.Context, expr string, at time.Time) (slo.Vector, error) {
	v, err := p.store.Instant(ctx, expr, at)
	if p.queries == p.n {
		v.Warnings = append(v.Warnings, "store-2 is away")
	}
	return v, err
}

// TestPartial: whichever part of the answer is not complete, no replica counts as one
// that makes progress, and nothing is the bound.
func TestPartial(t *testing.T) {
	for n, unknown := range []int{2, -1, 2} { // the view, the replicas, which stand still
		s := &store{}
		usual().add(s, "a", nil)
		f, err := NewProgress(step.Deps{Querier: partly{s, n + 1}, Workloads: pods{names: []string{"a", "b"}}}).Run(t.Context(), step.Input{Service: chat(), Now: end})
		if err != nil {
			t.Fatal(err)
		}
		out, _ := f.Out.(progressOut)
		if out.Unknown != unknown || out.Serving != 0 || !strings.Contains(strings.Join(f.Facts, "\n"), "partial: store-2 is away") {
			t.Errorf("progress, query %d: %+v %q", n+1, out, f.Facts)
		}
		s.queries = 0
		if f, err = NewSnapshot(step.Deps{Querier: partly{s, n + 1}}).Run(t.Context(), step.Input{Service: chat(), Now: end}); err != nil {
			t.Fatal(err)
		}
		if out, _ := f.Out.(snapshotOut); out.Bound != boundUnknown || out.ReplicasShort != 0 {
			t.Errorf("snapshot, query %d: %+v %q", n+1, out, f.Facts)
		}
	}
}

// TestProgressTold: a replica without a step is said to be neither serving nor young
// where nobody can tell whether it stands still.
func TestProgressTold(t *testing.T) {
	const last = scrapeCount - 1
	rarely := func(_ string, i, v float64) float64 { // every three minutes
		if math.Mod(last-i, 12) != 0 {
			return math.NaN()
		}
		return v
	}
	since := func(from float64, and func(string, float64, float64) float64) func(string, float64, float64) float64 {
		return func(name string, i, v float64) float64 {
			if strings.Contains(name, "_total") && i > from {
				v = 9000
			}
			return and(name, i, v)
		}
	}
	always := func(_ string, _, v float64) float64 { return v }
	for name, tt := range map[string]struct {
		change func(name string, i, v float64) float64
		window string
		why    string
		fact   string
	}{
		"hangs, scraped rarely": {since(0, rarely), "10m", "whether it stands still is not known", "requests that never finish are not seen"},
		"works, scraped rarely": {rarely, "10m", "whether it stands still is not known", "requests that never finish are not seen"},
		"a short window":        {since(last-5, always), "1m", "it took no step for 1m0s, a stuck replica takes none for two minutes", ""},
	} {
		s := &store{}
		usual().add(s, "a", tt.change)
		out, facts := find[progressOut](t, s, NewProgress, step.Input{With: map[string]any{"window": tt.window}})
		if out.Unknown != 1 || !strings.Contains(out.Replicas[0].Why, tt.why) || !strings.Contains(strings.Join(facts, "\n"), tt.fact) {
			t.Errorf("%s: %+v %q", name, out, facts)
		}
	}
}

// TestProgressUnknown: without series nothing is idle.
func TestProgressUnknown(t *testing.T) {
	out, facts := find[progressOut](t, &store{}, NewProgress, step.Input{})
	if out.Unknown != -1 || out.Idle != 0 || len(out.Replicas) != 0 || !strings.Contains(facts[0], "not known") {
		t.Errorf("%+v %q", out, facts)
	}
	partly := &store{}
	for _, job := range []string{"vllm", "pods"} {
		v := usual()
		v.labels = map[string]string{"job": job}
		v.add(partly, "a", nil)
	}
	if out, _ = find[progressOut](t, partly, NewProgress, step.Input{}); out.Serving != 1 || *out.Replicas[0].Running != 5 {
		t.Errorf("scraped twice: %+v", out)
	}
	usual().add(partly, "b", nil)
	if out, facts = find[progressOut](t, partly, NewProgress, step.Input{}); out.Unknown != 0 || !strings.Contains(strings.Join(facts, "\n"), "scraped more often than others") {
		t.Errorf("one of two scraped twice: %+v %q", out, facts)
	}
	s := &store{}
	usual().add(s, "a", func(name string, _, v float64) float64 {
		if name == "vllm:iteration_tokens_total_count" || name == "vllm:generation_tokens_total" {
			return math.NaN()
		}
		return v
	})
	if out, facts = find[progressOut](t, s, NewProgress, step.Input{}); out.Unknown != 1 || out.Serving != 0 {
		t.Errorf("no counter of steps: %+v %q", out, facts)
	}
}
