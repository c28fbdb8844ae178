package app

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/slo"
)

// ranger answers range queries with one series of a constant.
type ranger struct {
	asked  atomic.Int32
	points atomic.Int32 // of the largest answer
	hangs  bool
	err    error
}

func (r *ranger) Instant(context.Context, string, time.Time) (slo.Vector, error) {
	return slo.Vector{}, errors.New("not asked")
}

func (r *ranger) Range(ctx context.Context, expr string, from, to time.Time, every time.Duration) (slo.Matrix, error) {
	r.asked.Add(1)
	r.points.Store(max(r.points.Load(), int32(to.Sub(from)/every)+1))
	if r.hangs {
		<-ctx.Done()
		return slo.Matrix{}, ctx.Err()
	}
	time.Sleep(100 * time.Millisecond)
	value := 0.5
	if strings.Contains(expr, "[1h]") {
		value = 0.05
	}
	return slo.Matrix{Series: []slo.Series{{Points: []slo.Point{{At: from, Value: value}, {At: to, Value: value}}}}}, r.err
}

// burnt is a run with the evidence of slo.burn.
func burnt(id, query string, began time.Time) machine.State {
	run := machine.State{Began: began, Phase: machine.PhaseChecking, Evidence: map[string]*machine.Evidence{}}
	run.Start.Run, run.Start.Alert.StartsAt = id, began.Add(-time.Minute)
	data, _ := json.Marshal(map[string]any{
		"query": query, "query_long": strings.ReplaceAll(query, "5m", "1h"), "worst": "", "since": began.Add(-10 * time.Minute),
		"objectives": []any{map[string]any{"name": "e2e", "objective": 0.9, "burn_short": 0.1}, map[string]any{"name": "ttft", "objective": 0.99, "burn_short": 2}},
	})
	run.Evidence["before"] = &machine.Evidence{At: began.Add(-time.Hour), Step: "slo.burn", Data: []byte(`{"objectives":[{"name":"old"}]}`)}
	run.Evidence["slo"] = &machine.Evidence{At: began, Step: "slo.burn", Data: data}
	run.Evidence["other"] = &machine.Evidence{At: began.Add(time.Hour), Step: "kube.workload", Data: []byte(`{"objectives":[{"name":"other"}]}`)}
	run.Evidence["broken"] = &machine.Evidence{At: began.Add(time.Hour), Step: "slo.burn", Data: []byte(`[]`)}
	return run
}

func TestCurve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &ranger{}
		c := newCurves(q, time.Now, slog.New(slog.DiscardHandler))
		run := burnt("r-1", "bad[5m]", time.Now().Add(-time.Hour))
		var viewers sync.WaitGroup
		for range 50 {
			viewers.Go(func() {
				got, err := c.of(t.Context(), run)
				if err != nil || got.Objective != "ttft" || got.Wanted != 0.99 || len(got.Lines) != 2 || got.Lines[0].Window != "5m" || got.Lines[1].Window != "1h" {
					t.Errorf("%+v: %v", got, err)
					return
				}
				if b := got.Lines[0].Points[0].Burn; b < 49.9 || b > 50.1 {
					t.Errorf("burns %v times", b)
				}
				if want := run.Began.Add(-25 * time.Minute); !got.From.Equal(want) || !got.Began.Equal(run.Began.Add(-10*time.Minute)) || got.To.Before(run.Began) {
					t.Errorf("from %s to %s, breach since %s", got.From, got.To, got.Began)
				}
			})
		}
		viewers.Wait()
		if n := q.asked.Load(); n != 2 || q.points.Load() > curvePoints+2 {
			t.Errorf("50 viewers cost %d queries, of at most %d points", n, q.points.Load())
		}
		time.Sleep(curveFresh)
		run.Phase, run.Ended = machine.PhaseEnded, run.Began.Add(20*time.Minute)
		if got, err := c.of(t.Context(), run); err != nil || q.asked.Load() != 4 || !got.To.Equal(run.Ended.Add(curveAround)) {
			t.Errorf("asked %d times, until %s: %v", q.asked.Load(), got.To, err)
		}
		for i := range 3 * mostAnswers {
			if _, err := c.of(t.Context(), burnt("r-"+string(rune('a'+i)), "bad[5m]", time.Now())); err != nil {
				t.Fatal(err)
			}
		}
		if len(c.kept.kept) > mostAnswers {
			t.Errorf("%d answers are kept", len(c.kept.kept))
		}
	})
}

// A page says why there is no curve, and waits no longer than two seconds for it; while
// nothing answers, not each viewer waits.
func TestNoCurve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hanging, failing := &ranger{hangs: true}, &ranger{err: errors.New("at http://prometheus.internal: no")}
		run := burnt("r-1", "bad[5m]", time.Now())
		silent := slog.New(slog.DiscardHandler)
		for _, tt := range []struct {
			name string
			c    *curves
			run  machine.State
			want string
		}{
			{"no Prometheus", newCurves(nil, time.Now, silent), run, "no Prometheus is configured"},
			{"no evidence", newCurves(hanging, time.Now, silent), machine.State{}, "has not measured"},
			{"no series", newCurves(hanging, time.Now, silent), burnt("r-1", "", time.Now()), "no query for the objective ttft"},
			{"hangs", newCurves(hanging, time.Now, silent), run, "no answer from Prometheus in time"},
			{"fails", newCurves(failing, time.Now, silent), run, "no answer from Prometheus, the service's log shows why"},
		} {
			for i := range 2 {
				began := time.Now()
				_, err := tt.c.of(t.Context(), tt.run)
				if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "internal") {
					t.Errorf("%s: %v", tt.name, err)
				}
				if took := time.Since(began); took > answerTimeout || i > 0 && took > 0 {
					t.Errorf("%s: took %s the %d. time", tt.name, took, i+1)
				}
			}
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := newCurves(hanging, time.Now, silent).of(gone, run); !errors.Is(err, errUnanswered) {
			t.Errorf("of a viewer who left: %v", err)
		}
		time.Sleep(2 * answerTimeout)
	})
}

func TestWindowOf(t *testing.T) {
	for query, want := range map[string]string{"a[300000ms] / b[300000ms]": "5m", "a[1h]": "1h", "a": "", "a[x]": ""} {
		if got := windowOf(query); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
}
