package sandbox

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/kube"
)

// known is a world whose only series is a counter that the test wrote down.
func known(first time.Time, values ...float64) *World {
	w := &World{clock: NewManualClock(first), store: newStore(), promql: newPromQL(), at: first.Add(time.Hour)}
	s := w.store.add("requests_total", first, "pod", "a")
	s.values = values
	return w
}

// The numbers are worked out by hand: a server that computes them otherwise
// rehearses something that production does not do.
func TestPromQLAgreesWithHandArithmetic(t *testing.T) {
	w := known(morning, 0, 30, 60, 90, 120, 10, 40, staleMarker)
	at := func(seconds int) time.Time { return morning.Add(time.Duration(seconds) * time.Second) }
	for _, c := range []struct {
		expr string
		at   int
		want float64
	}{
		{"requests_total", 0, 0},
		{"requests_total", 29, 30}, // the sample before
		{"requests_total", 59, 90}, // of 45 s
		// (0,60] holds 30..120 over 45 s; the 15 s before the first sample are
		// filled up, since the counter would have been 0 just then.
		{"rate(requests_total[1m])", 60, 2},
		{"increase(requests_total[1m])", 60, 120},
		// (60,90] holds 10 and 40: 30 in 15 s, filled up by the 5 s in which the
		// counter came from 0, not by the whole 15 s.
		{"increase(requests_total[30s])", 90, 40},
		{"resets(requests_total[2m])", 90, 1},
		{"max_over_time(requests_total[2m])", 90, 120},
	} {
		if got := one(t, w, c.expr, at(c.at)); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s at %ds = %v, want %v", c.expr, c.at, got, c.want)
		}
	}
	for _, missing := range []string{"requests_total", `requests_total{pod="b"}`, "no_such_metric"} {
		if got := instant(t, w, missing, at(105)); len(got) != 0 {
			t.Errorf("%s after the pod is gone = %v, want nothing: missing is never zero", missing, got)
		}
	}
}

func TestErrorRatioIsWhatTheEngineWasGiven(t *testing.T) {
	w, clock := open(t, "bad-rollout")
	clock.Advance(10 * time.Minute)
	s, _ := chat(w)
	chat := w.scenario.services[0]
	// A step of 17 ms takes 12 tokens of a prompt: one of more than this comes late. The
	// share of a log-normal above it, from the definition.
	late, length := 0.5/0.0172*12+float64(chat.load.Shared/16*16), chat.load.Prompt
	want := 0.5 * math.Erfc((math.Log(late/length.Mean)+length.Sigma*length.Sigma/2)/(length.Sigma*math.Sqrt2))
	if got := one(t, w, ttftErrors(s, "5m"), clock.Now()); math.Abs(got-want) > 0.02 {
		t.Errorf("error ratio under the bad revision = %.4f, want about %.4f", got, want)
	}
	if got := one(t, w, ttftErrors(s, "5m"), morning.Add(-15*time.Minute)); got < 0 || got > 0.003 {
		t.Errorf("error ratio before the bad revision = %.4f, want nearly none", got)
	}
	if got, want := one(t, w, "sum(rate(vllm:time_to_first_token_seconds_count{"+s.Selector+"}[6h]))", morning), chat.load.Rate; math.Abs(got-want) > 0.1 {
		t.Errorf("requests per second over six hours = %.2f, want about %.2f", got, want)
	}
	q := "histogram_quantile(0.5, sum by (le) (rate(vllm:time_to_first_token_seconds_bucket{" + s.Selector + "}[5m])))"
	if got := one(t, w, q, clock.Now()); got < 0.75 || got > 1 {
		t.Errorf("median TTFT from the buckets = %.3f s, want the bucket around 0.9 s", got)
	}
}

func TestMissingIsNeverZero(t *testing.T) {
	w, _ := open(t, "bad-rollout")
	for _, expr := range []string{
		"vllm:gpu_cache_usage_perc",                         // removed from vLLM
		"vllm:num_preemptions",                              // scraped with _total
		`vllm:time_to_first_token_seconds_bucket{le="0.4"}`, // no such bound
		`vllm:num_requests_running{service="other"}`,
	} {
		if got := instant(t, w, expr, morning); len(got) != 0 {
			t.Errorf("%s = %v, want no series", expr, got)
		}
	}
	for _, expr := range []string{`vllm:time_to_first_token_seconds_bucket{le="0.5"}`, `vllm:request_time_per_output_token_seconds_bucket{le="0.05"}`, "vllm:num_preemptions_total"} {
		for _, s := range instant(t, w, expr, morning) {
			for _, l := range []string{"namespace", "service", "model_name", "pod", "engine"} {
				if s.Labels[l] == "" {
					t.Fatalf("%s: a series without the label %s: %v", expr, l, s.Labels)
				}
			}
		}
		if n := len(instant(t, w, expr, morning)); n != 6 {
			t.Errorf("%s: %d series, want one for each of the 6 pods", expr, n)
		}
	}
}

func TestASeriesEndsWithItsPod(t *testing.T) {
	w, clock := open(t, "traffic-burst")
	_, ref := chat(w)
	before := workload(t, w, ref)
	if _, err := w.Scale(t.Context(), kube.ScaleChange{Ref: ref, Replicas: 3, Pre: kube.Precondition{UID: before.UID, Generation: before.Generation}}); err != nil {
		t.Fatal(err)
	}
	clock.Advance(time.Minute)
	after := workload(t, w, ref)
	if len(after.Pods) != 3 {
		t.Fatalf("%d pods after scaling to 3", len(after.Pods))
	}
	if n := len(instant(t, w, `vllm:num_requests_running{service="inference-chat"}`, clock.Now())); n != 3 {
		t.Errorf("%d pods answer with a running gauge, want 3: a pod that is gone is stale at once", n)
	}
}

func TestIdleIsNotANumber(t *testing.T) {
	w, clock := open(t, "no-traffic")
	s, ref := chat(w)
	before := workload(t, w, ref)
	if _, err := w.Scale(t.Context(), kube.ScaleChange{Ref: ref, Replicas: 5, Pre: kube.Precondition{UID: before.UID, Generation: before.Generation}}); err != nil {
		t.Fatal(err)
	}
	clock.Advance(10 * time.Minute)
	if got := one(t, w, ttftErrors(s, "5m"), clock.Now()); !math.IsNaN(got) {
		t.Errorf("error ratio of no requests = %v, want NaN", got)
	}
}

func TestQueryErrorsAreTyped(t *testing.T) {
	w, _ := open(t, "bad-rollout")
	_, err := w.Instant(t.Context(), "sum(rate(", morning)
	var e *fault.Error
	if !errors.As(err, &e) || e.Reason != fault.Invalid {
		t.Errorf("an expression that does not parse: %v, want a fault.Error with reason invalid", err)
	}
	if _, err := w.Range(t.Context(), "up", morning, morning.Add(-time.Hour), time.Minute); !errors.As(err, &e) || e.Reason != fault.Invalid {
		t.Errorf("a range that ends before it begins: %v, want a fault.Error with reason invalid", err)
	}
	if _, err := w.Instant(t.Context(), "up[5m]", morning); !errors.As(err, &e) || e.Reason != fault.Invalid {
		t.Errorf("a matrix where numbers are wanted: %v, want a fault.Error with reason invalid", err)
	}
}

func TestRangeAgreesWithInstant(t *testing.T) {
	w, _ := open(t, "bad-rollout")
	s, _ := chat(w)
	m, err := w.Range(t.Context(), ttftErrors(s, "5m"), morning.Add(-30*time.Minute), morning, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Series) != 1 || len(m.Series[0].Points) != 31 {
		t.Fatalf("range answered %d series, want one with 31 points", len(m.Series))
	}
	for _, p := range m.Series[0].Points {
		if got := one(t, w, ttftErrors(s, "5m"), p.At); got != p.Value {
			t.Errorf("at %s the range says %v, the instant %v", p.At, p.Value, got)
		}
	}
}

// What the series hold must not depend on who asked when, or a rehearsal could
// not be repeated.
func TestSameSeedSameSeries(t *testing.T) {
	dump := func(look time.Duration) map[string][]float64 {
		w, clock := open(t, "bad-rollout")
		for at := look; at <= 10*time.Minute; at += look {
			clock.Set(morning.Add(at))
			w.advance()
		}
		clock.Set(morning.Add(10 * time.Minute))
		w.advance()
		out := map[string][]float64{}
		for _, list := range w.store.byName {
			for _, s := range list {
				out[s.labels.String()] = s.values
			}
		}
		return out
	}
	often, once := dump(7*time.Second), dump(10*time.Minute)
	if len(often) != len(once) {
		t.Errorf("looking often gives %d series, once %d", len(often), len(once))
	}
	for name, a := range often {
		// By bits: a stale marker is a NaN.
		if b := once[name]; !slices.EqualFunc(a, b, func(x, y float64) bool { return math.Float64bits(x) == math.Float64bits(y) }) {
			t.Fatalf("looking often changed %s: %d samples against %d, the last %v and %v", name, len(a), len(b), a[len(a)-1], b[len(b)-1])
		}
	}
}

// A histogram's slow and fast events both only grow; otherwise an error ratio
// could be negative.
func TestHistogramsAreMonotonic(t *testing.T) {
	w, _ := open(t, "bad-rollout")
	rows := map[uint64][]*series{}
	for _, s := range w.store.byName["vllm:time_to_first_token_seconds_bucket"] {
		h := labels.NewBuilder(s.labels).Del("le").Labels().Hash()
		rows[h] = append(rows[h], s)
	}
	for _, row := range rows {
		for i := 1; i < len(row); i++ {
			for j := 1; j < len(row[i].values) && row[i].values[j] == row[i].values[j]; j++ {
				lower, upper := row[i-1].values[j], row[i].values[j]
				if lower > upper || upper-lower < row[i].values[j-1]-row[i-1].values[j-1] {
					t.Fatalf("%s at sample %d: %v after %v events below it", row[i].labels, j, upper, lower)
				}
			}
		}
	}
}
