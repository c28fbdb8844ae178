package app

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/sandbox"
	"github.com/inference-responder/responder/internal/slo"
	"github.com/inference-responder/responder/internal/step"
)

// A report attributes requests to the parts of a run's time as Prometheus counted them.
// Without Prometheus, and of a budget whose period it does not have, it says so.
func TestSpentInEachPart(t *testing.T) {
	sim, err := sandbox.New(DefaultScenario, sandbox.NewManualClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)))
	if err != nil {
		t.Fatal(err)
	}
	svc := sim.Services()[0]
	fired := sim.Clock().Now().Add(-6 * time.Minute) // it burns
	start := machine.Start{Run: "r-1", Service: svc}
	start.Alert.StartsAt = fired
	run := machine.State{Start: start, Began: fired.Add(time.Minute)}
	events := []machine.Event{
		{Kind: machine.RunStarted, At: fired.Add(time.Minute), Start: &start},
		{Kind: machine.GateOpened, At: fired.Add(2 * time.Minute)},
		{Kind: machine.GateDecided, At: fired.Add(5 * time.Minute)},
		{Kind: machine.RunEnded, At: fired.Add(6 * time.Minute)},
	}
	b := newSpendings(sim, sim.Clock().Now, slog.New(slog.DiscardHandler))
	got := b.of(t.Context(), run, events).Spent
	if len(got) != len(svc.SLOs) {
		t.Fatalf("%+v of %d objectives", got, len(svc.SLOs))
	}
	ttft, parts := got[0], map[string]float64{}
	for _, p := range ttft.Parts {
		if p.Bad == nil || p.Share != nil {
			t.Fatalf("%s: %+v", p.Name, p)
		}
		parts[p.Name] = *p.Bad
	}
	if ttft.Why == "" || len(parts) != 4 || !(parts["approval"] > 2*parts["act"]) || !(parts["act"] > 50) {
		t.Errorf("%s (%s): bad requests %v", ttft.Objective, ttft.Why, parts)
	}
	b.q = nil
	for _, o := range b.of(t.Context(), run, events).Spent {
		if o.Why == "" || len(o.Parts) > 0 {
			t.Errorf("without Prometheus: %+v", o)
		}
	}
}

// counting is a Prometheus that is busy for a second with each query.
type counting struct {
	step.Querier
	fails atomic.Bool

	mu                sync.Mutex // guards these
	asked, busy, most int
}

func (c *counting) Instant(context.Context, string, time.Time) (slo.Vector, error) {
	c.count(1)
	defer c.count(-1)
	time.Sleep(time.Second)
	if c.fails.Load() {
		return slo.Vector{}, errors.New("too busy")
	}
	return slo.Vector{}, nil
}

func (c *counting) count(by int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy += by
	c.asked, c.most = c.asked+max(by, 0), max(c.most, c.busy)
}

// TestSpentIsAskedOnce: a report that is read again and again costs Prometheus nothing more,
// and many reports at a time do not overwhelm it. A failure is asked for again.
func TestSpentIsAskedOnce(t *testing.T) {
	sim, err := sandbox.New(DefaultScenario, sandbox.NewManualClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)))
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		q := &counting{}
		q.fails.Store(true)
		b := newSpendings(q, time.Now, slog.New(slog.DiscardHandler))
		began := time.Now().Add(-2 * time.Hour)
		svc := sim.Services()[0]
		svc.SLOs = svc.SLOs[:1]
		events := func(run string) (machine.State, []machine.Event) {
			start := machine.Start{Run: run, Service: svc}
			return machine.State{Start: start, Began: began}, []machine.Event{
				{Kind: machine.RunStarted, At: began, Start: &start}, {Kind: machine.RunEnded, At: began.Add(time.Hour)},
			}
		}
		many := func() {
			for _, id := range []string{"r-1", "r-2", "r-3", "r-4"} {
				for range 3 {
					go func() {
						run, all := events(id)
						b.of(t.Context(), run, all)
					}()
				}
			}
			time.Sleep(30 * time.Second)
		}
		many()
		if q.asked != 4 || q.most != spentAtOnce {
			t.Errorf("%d queries of 4 runs, %d at a time", q.asked, q.most)
		}
		q.fails.Store(false)
		time.Sleep(failedFresh)
		many()
		again := q.asked
		if again <= 4 {
			t.Error("a failure is kept for ever")
		}
		time.Sleep(time.Hour)
		many()
		if q.asked != again {
			t.Errorf("%d more queries about runs that have ended", q.asked-again)
		}
	})
}

// TestSpentInAMoment: a part that is over at once is no query that Prometheus refuses.
func TestSpentInAMoment(t *testing.T) {
	sim, err := sandbox.New(DefaultScenario, sandbox.NewManualClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)))
	if err != nil {
		t.Fatal(err)
	}
	q := &spied{Querier: sim}
	now := sim.Clock().Now()
	start := machine.Start{Run: "r-1", Service: sim.Services()[0]}
	events := []machine.Event{{Kind: machine.RunStarted, At: now, Start: &start}, {Kind: machine.RunEnded, At: now.Add(100 * time.Microsecond)}}
	newSpendings(q, sim.Clock().Now, slog.New(slog.DiscardHandler)).of(t.Context(), machine.State{Start: start, Began: now}, events)
	if all := strings.Join(q.exprs, "\n"); strings.Contains(all, "[0ms]") || !strings.Contains(all, "[1ms]") {
		t.Errorf("it asks\n%s", all)
	}
}

// TestSpentWhileBusy: a report that other ones keep from asking says so, and does not
// blame Prometheus.
func TestSpentWhileBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &spied{}
		b := newSpendings(q, time.Now, slog.New(slog.DiscardHandler))
		for range spentAtOnce {
			b.turns <- struct{}{}
		}
		began := time.Now().Add(-2 * time.Hour)
		start := machine.Start{Run: "r-1", Service: playbook.Service{SLOs: []playbook.SLO{{Name: "ttft"}}}}
		events := []machine.Event{{Kind: machine.RunStarted, At: began, Start: &start}, {Kind: machine.RunEnded, At: began.Add(time.Hour)}}
		got := b.of(t.Context(), machine.State{Start: start, Began: began}, events).Spent
		if len(got) != 1 || got[0].Why != errBusy.Error() || len(q.exprs) > 0 {
			t.Errorf("%+v after %q, want %v", got, q.exprs, errBusy)
		}
	})
}

// spied remembers what Prometheus is asked.
type spied struct {
	step.Querier
	exprs []string
}

func (s *spied) Instant(ctx context.Context, expr string, at time.Time) (slo.Vector, error) {
	s.exprs = append(s.exprs, expr)
	return s.Querier.Instant(ctx, expr, at)
}
