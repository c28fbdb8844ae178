package sandbox

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/slo"
)

var morning = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

// open opens a scenario on a clock that the test moves.
func open(t *testing.T, name string) (*World, *Clock) {
	t.Helper()
	clock := NewManualClock(morning)
	w, err := New(name, clock)
	if err != nil {
		t.Fatal(err)
	}
	return w, clock
}

// chat is the service with the incident.
func chat(w *World) (playbook.Service, kube.Ref) {
	s := w.Services()[0]
	return s, kube.Ref{Kind: s.Workload.Kind, Namespace: s.Namespace, Name: s.Workload.Name}
}

func workload(t *testing.T, w *World, ref kube.Ref) kube.Workload {
	t.Helper()
	got, err := w.Workload(t.Context(), ref)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func instant(t *testing.T, w *World, expr string, at time.Time) []slo.Sample {
	t.Helper()
	v, err := w.Instant(t.Context(), expr, at)
	if err != nil {
		t.Fatal(err)
	}
	return v.Samples
}

// one is the value of the only series that answers.
func one(t *testing.T, w *World, expr string, at time.Time) float64 {
	t.Helper()
	v := instant(t, w, expr, at)
	if len(v) != 1 {
		t.Fatalf("%s at %s: %d series answer, want 1", expr, at, len(v))
	}
	return v[0].Value
}

// ttftErrors is the share of slow first tokens of the service over a window.
func ttftErrors(s playbook.Service, window string) string {
	return fmt.Sprintf(`1 - sum(rate(vllm:time_to_first_token_seconds_bucket{%[1]s,le="0.5"}[%[2]s])) / sum(rate(vllm:time_to_first_token_seconds_count{%[1]s}[%[2]s]))`,
		s.Selector, window)
}

func TestUnknownScenarioNamesTheKnownOnes(t *testing.T) {
	_, err := New("meteor", NewManualClock(morning))
	if err == nil {
		t.Fatal("a world of an unknown scenario was opened")
	}
	for _, s := range Scenarios() {
		if !strings.Contains(err.Error(), s.Name) {
			t.Errorf("the error %q does not name %s", err, s.Name)
		}
	}
}

func TestClockRunsAtItsPace(t *testing.T) {
	if _, err := NewClock(morning, 0); err == nil {
		t.Error("a clock that stands still was made: nothing would ever happen")
	}
	synctest.Test(t, func(t *testing.T) {
		c, err := NewClock(morning, 60)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if got := c.Now().Sub(morning); got != 10*time.Minute {
			t.Errorf("ten real seconds at pace 60 are %s", got)
		}
		if err := c.SetPace(1); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if got := c.Now().Sub(morning); got != 10*time.Minute+10*time.Second {
			t.Errorf("ten more at pace 1 make %s: time jumped or stood", got)
		}
	})
}
