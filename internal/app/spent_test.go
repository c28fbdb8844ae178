package app

import (
	"log/slog"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/sandbox"
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
	b := newBudgets(sim, sim.Clock().Now, slog.New(slog.DiscardHandler))
	got := b.spent(t.Context(), run, events).Spent
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
	for _, o := range b.spent(t.Context(), run, events).Spent {
		if o.Why == "" || len(o.Parts) > 0 {
			t.Errorf("without Prometheus: %+v", o)
		}
	}
}
