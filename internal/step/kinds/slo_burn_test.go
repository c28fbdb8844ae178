package kinds_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/sandbox"
	"github.com/inference-responder/responder/internal/slo"
	"github.com/inference-responder/responder/internal/step"
	"github.com/inference-responder/responder/internal/step/kinds"
)

// badRelease is the steps over a simulated cluster at noon, twelve minutes after
// a release that made first tokens slow, and the service.
func badRelease(t *testing.T) (*step.Set, playbook.Service) {
	t.Helper()
	clock := sandbox.NewManualClock(noon)
	w, err := sandbox.New("bad-rollout", clock)
	if err != nil {
		t.Fatal(err)
	}
	return kinds.New(step.Deps{Querier: w, Workloads: w, Now: clock.Now}), w.Services()[0]
}

// burnEvidence is what conditions read of slo.burn.
type burnEvidence struct {
	Status        string     `json:"status"`
	Worst         string     `json:"worst"`
	Burn          *float64   `json:"burn"`
	Direction     string     `json:"direction"`
	Ending        bool       `json:"ending"`
	Window        string     `json:"window"`
	Since         *time.Time `json:"since"`
	StuckReplicas int        `json:"stuck_replicas"`
	Query         string     `json:"query"`
	QueryLong     string     `json:"query_long"`
	Note          string     `json:"note"`
	Objectives    []struct {
		Name, Status, Series, Why string
	} `json:"objectives"`
}

func burnOf(t *testing.T, set *step.Set, svc playbook.Service) (burnEvidence, machine.Outcome) {
	t.Helper()
	o := set.Do(t.Context(), machine.Effect{Key: "k", Run: "r-1", Action: machine.ActionCheck, Step: "slo.burn", Service: svc, Timeout: time.Minute})
	var out burnEvidence
	if o.Status == machine.StatusOK {
		if err := json.Unmarshal(o.Data, &out); err != nil {
			t.Fatal(err)
		}
	}
	return out, o
}

// TestBurnNotConfigured: without a Prometheus nothing comes back that a run could wait
// for, so its evidence says so, and what to set.
func TestBurnNotConfigured(t *testing.T) {
	o := kinds.New(step.Deps{}).Do(t.Context(), machine.Effect{Key: "k", Run: "r-1", Action: machine.ActionCheck, Step: "slo.burn", Timeout: time.Minute})
	var got struct {
		Status     string
		Configured *bool
		Note       string
	}
	if err := json.Unmarshal(o.Data, &got); err != nil {
		t.Fatalf("%v: %+v", err, o)
	}
	if got.Status != "unknown" || got.Configured == nil || *got.Configured || !strings.Contains(got.Note, "prometheus.url") {
		t.Errorf("%+v", got)
	}
}

// TestBurnInScenarios reads the simulated fleet's series in the real PromQL engine.
func TestBurnInScenarios(t *testing.T) {
	tests := []struct {
		scenario string
		service  int
		after    time.Duration
		status   string
		worst    string
		since    time.Duration // about how long ago it began
	}{
		{"bad-rollout", 0, 0, "breached", "ttft", 12 * time.Minute},
		{"bad-rollout", 1, 0, "met", "", 0}, // the neighbor
		{"traffic-burst", 0, 5 * time.Minute, "breached", "ttft", 10 * time.Minute},
	}
	for _, tt := range tests {
		t.Run(tt.scenario, func(t *testing.T) {
			clock := sandbox.NewManualClock(noon)
			w, err := sandbox.New(tt.scenario, clock)
			if err != nil {
				t.Fatal(err)
			}
			clock.Advance(tt.after)
			got, o := burnOf(t, kinds.New(step.Deps{Querier: w, Now: clock.Now}), w.Services()[tt.service])
			if got.Status != tt.status || got.Worst != tt.worst || got.Ending || got.StuckReplicas != 0 || got.Note != "" {
				t.Errorf("%+v: %s", got, strings.Join(o.Facts, "\n"))
			}
			if !strings.Contains(got.Query, "[300000ms]") || !strings.Contains(got.QueryLong, "[3600000ms]") {
				t.Errorf("queries %q and %q", got.Query, got.QueryLong)
			}
			if tt.status != "breached" {
				return
			}
			if ago := clock.Now().Sub(*got.Since); ago < tt.since-3*time.Minute || ago > tt.since+3*time.Minute {
				t.Errorf("began %v ago, want about %v", ago, tt.since)
			}
			window, err := playbook.ParseDuration(got.Window)
			if err != nil || window < tt.since+20*time.Minute {
				t.Errorf("window %v, %v: too short for what caused it", window, err)
			}
		})
	}
}

// TestBurnEnding: replicas are added, the queues drain, and the evidence says so
// before the five-minute mean is good.
func TestBurnEnding(t *testing.T) {
	clock := sandbox.NewManualClock(noon)
	w, err := sandbox.New("traffic-burst", clock)
	if err != nil {
		t.Fatal(err)
	}
	svc := w.Services()[0]
	now, err := w.Workload(t.Context(), step.RefOf(svc))
	if err != nil {
		t.Fatal(err)
	}
	change := kube.ScaleChange{Ref: now.Ref, Replicas: 10, Pre: kube.Precondition{UID: now.UID, Generation: now.Generation}}
	if _, err := w.Scale(t.Context(), change); err != nil {
		t.Fatal(err)
	}
	set := kinds.New(step.Deps{Querier: w, Now: clock.Now})
	var said []string
	for range 40 {
		got, o := burnOf(t, set, svc)
		word := got.Status
		if got.Ending {
			word += ", ending"
		}
		if len(said) == 0 || said[len(said)-1] != word {
			said = append(said, word)
			t.Logf("%s: %s: %s", clock.Now().Format(time.TimeOnly), word, o.Facts[0])
		}
		clock.Advance(30 * time.Second)
	}
	if want := "breached breached, ending met"; strings.Join(said, " ") != want {
		t.Errorf("said %q, want %s", said, want)
	}
}

func TestBurnUnknown(t *testing.T) {
	set, chat := badRelease(t)
	t.Run("another engine", func(t *testing.T) {
		svc := chat
		svc.Engine = "sglang"
		got, _ := burnOf(t, set, svc)
		if got.Status != "unknown" || !strings.Contains(got.Objectives[0].Why, "sglang:time_to_first_token_seconds_bucket") || got.Note == "" {
			t.Errorf("%+v", got)
		}
	})
	t.Run("a threshold without a bucket", func(t *testing.T) {
		svc := chat
		svc.SLOs = []playbook.SLO{{Name: "first token", Indicator: "ttft", Objective: 0.99, Threshold: 0.6}}
		got, _ := burnOf(t, set, svc)
		if got.Status != "unknown" || got.Worst != "first token" || !strings.Contains(got.Objectives[0].Why, "0.5 s and 0.75 s") {
			t.Errorf("%+v", got)
		}
	})
	t.Run("no objectives", func(t *testing.T) {
		svc := chat
		svc.SLOs = nil
		if got, _ := burnOf(t, set, svc); got.Status != "unknown" || got.Note == "" {
			t.Errorf("%+v", got)
		}
	})
}

// away is a Prometheus that answers only after a while.
type away struct {
	step.Querier
	until time.Time
}

func (a away) Instant(ctx context.Context, expr string, at time.Time) (slo.Vector, error) {
	if time.Now().Before(a.until) {
		return slo.Vector{}, &fault.Error{Reason: fault.Unreachable, Message: "prometheus restarts"}
	}
	return a.Querier.Instant(ctx, expr, at)
}

// TestBurnWaits: Prometheus is away for some seconds, then for too long.
func TestBurnWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := sandbox.NewManualClock(noon)
		w, err := sandbox.New("bad-rollout", clock)
		if err != nil {
			t.Fatal(err)
		}
		for outage, want := range map[time.Duration]machine.Status{20 * time.Second: machine.StatusOK, time.Hour: machine.StatusFailed} {
			began := time.Now()
			set := kinds.New(step.Deps{Querier: away{w, began.Add(outage)}, Now: clock.Now})
			_, o := burnOf(t, set, w.Services()[0])
			if o.Status != want || time.Since(began) > time.Minute {
				t.Errorf("away for %v: %s after %v: %s", outage, o.Status, time.Since(began), o.Message)
			}
		}
	})
}
