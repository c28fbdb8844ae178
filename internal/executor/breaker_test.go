package executor

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/ladder"
)

// breaksAfter configures the circuit breaker to trip after n failures, and no demotion.
func breaksAfter(n int) func(o *Options) {
	return func(o *Options) {
		c := ladder.DefaultConfig()
		c.DemoteAfter, c.BreakAfter, c.BreakWithin = 0, n, 12*time.Hour
		o.Ladder = recordOf(c)
	}
}

// Changes that do not help whatever they are and wherever pause everything; people are
// told once, and only a person who says why goes on, from then on as if nothing had failed.
func TestCircuitBreaker(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		h.options = breaksAfter(3)
		h.world.helps = func(int) bool { return false }
		h.start()
		for _, service := range []string{"a", "b", "c"} {
			if len(h.e.Pauses()) > 0 {
				t.Fatalf("paused before %s: %+v", service, h.e.Pauses())
			}
			h.incident(service, time.Hour)
		}
		paused := h.e.Pauses()
		if len(paused) != 1 || paused[0].Scope != (Scope{}) || paused[0].By != "responder" || !strings.HasPrefix(paused[0].Reason, "circuit breaker: 3 changes in a row were not proven to help within 12h: test.turn on a (") {
			t.Fatalf("paused: %+v", paused)
		}
		if n := h.world.told("Everything is paused. circuit breaker"); n != 1 {
			t.Errorf("people were told %d times", n)
		}
		h.mustFold("after the break")
		if err := h.stop(); err != nil {
			t.Fatal(err)
		}
		h.start()
		runs := len(h.runs())
		h.post(alertOf("Slow", "a"))
		h.pass(10 * time.Minute)
		if len(h.e.Pauses()) != 1 || len(h.runs()) != runs {
			t.Errorf("after a restart it acts again: %+v, %d runs, %d before", h.e.Pauses(), len(h.runs()), runs)
		}
		if err := h.e.Unpause(t.Context(), Scope{}, "user:ada", ""); !errors.Is(err, ErrInvalid) {
			t.Errorf("lifted without a reason: %v", err)
		}
		if err := h.e.Unpause(t.Context(), Scope{}, "user:ada", "the model store is back"); err != nil {
			t.Fatal(err)
		}
		h.pass(time.Hour)
		if len(h.e.Pauses()) > 0 {
			t.Errorf("the next failure alone pauses everything again: %+v", h.e.Pauses())
		}
	})
}

// The steps of a run are one attempt: that one is not enough is what the next is for. Neither
// is everything paused for them, nor is their lever demoted.
func TestStepsAreOneAttempt(t *testing.T) {
	record := recordOf(ladder.Config{BreakAfter: 3, BreakWithin: time.Hour, DemoteAfter: 3, Within: time.Hour})
	now := time.Date(2026, 5, 4, 3, 0, 0, 0, time.UTC)
	for i, step := range []struct {
		run     string
		result  ladder.Result
		breaks  bool
		demoted int
	}{
		{"r-1", ladder.ResultIneffective, false, 0},
		{"r-1", ladder.ResultIneffective, false, 0},
		{"r-1", ladder.ResultIneffective, false, 0},
		{"r-2", ladder.ResultIneffective, false, 0},
		{"r-2", ladder.ResultIneffective, false, 0},
		{"r-3", ladder.ResultImproved, false, 0},
		{"r-3", ladder.ResultIneffective, false, 0}, // its first step has helped
		{"r-4", ladder.ResultIneffective, false, 0},
		{"r-5", ladder.ResultInconclusive, true, 0},
		{"r-6", ladder.ResultIneffective, true, 1},
	} {
		now = now.Add(time.Minute)
		r := []ladder.LeverResult{{LeverID: firstOn("a"), Run: step.run, Result: step.result, Applied: true}}
		_, breaks := record.Breaks(r, now)
		demotions := record.Demotions(r, now)
		if breaks != step.breaks || len(demotions) != step.demoted {
			t.Errorf("step %d: breaks %t, %d demoted, want %t, %d", i, breaks, len(demotions), step.breaks, step.demoted)
		}
		record.Take(ladder.Additions{Results: r}, now)
	}
}

// A step that another may follow is not the last word: bursts on several services that all
// need more than one step do not pause everything. Their last steps count.
func TestOpenStepsDoNotBreak(t *testing.T) {
	record := recordOf(ladder.Config{BreakAfter: 3, BreakWithin: time.Hour})
	now := time.Date(2026, 5, 4, 3, 0, 0, 0, time.UTC)
	for _, further := range []bool{true, false} {
		for i := range 3 {
			r := []ladder.LeverResult{{LeverID: firstOn("a"), Run: fmt.Sprint("r-", i), Result: ladder.ResultIneffective, Applied: true, Further: further}}
			if _, breaks := record.Breaks(r, now); breaks != (!further && i == 2) {
				t.Errorf("run %d, a step may follow: %t: breaks %t", i, further, breaks)
			}
			record.Take(ladder.Additions{Results: r}, now)
		}
	}
}

// A change that helps in between shows that levers work: what failed before does not count.
func TestCircuitBreakerIsResetByHelp(t *testing.T) {
	record := recordOf(ladder.Config{BreakAfter: 3, BreakWithin: time.Hour})
	now := time.Date(2026, 5, 4, 3, 0, 0, 0, time.UTC)
	for i, step := range []struct {
		result  ladder.Result
		applied bool
		after   time.Duration
		breaks  bool
	}{
		{ladder.ResultIneffective, true, 0, false},
		{ladder.ResultInconclusive, true, time.Minute, false},
		{ladder.ResultImproved, true, time.Minute, false},
		{ladder.ResultIneffective, true, time.Minute, false},
		{ladder.ResultIneffective, true, time.Minute, false},
		{ladder.ResultRefused, false, time.Minute, false}, // nothing was changed
		{ladder.ResultDenied, false, time.Minute, false},
		{ladder.ResultIneffective, true, 2 * time.Hour, false}, // the others are too long ago
		{ladder.ResultIneffective, true, time.Minute, false},
		{ladder.ResultInconclusive, true, time.Minute, true},
		{ladder.ResultIneffective, true, time.Minute, true}, // what was under way fails too; the pause is there
	} {
		now = now.Add(step.after)
		r := []ladder.LeverResult{{LeverID: firstOn("a"), Run: fmt.Sprint("run-", i), Result: step.result, Applied: step.applied}}
		if _, breaks := record.Breaks(r, now); breaks != step.breaks {
			t.Errorf("step %d: breaks %t, want %t", i, breaks, step.breaks)
		}
		record.Take(ladder.Additions{Results: r}, now)
	}
	one := []ladder.LeverResult{{LeverID: firstOn("b"), Run: "r-2", Result: ladder.ResultIneffective, Applied: true}}
	neutral := []ladder.LeverResult{{LeverID: firstOn("b"), Run: "r-3", Result: ladder.ResultVerified, Applied: true, Neutral: true}}
	record.Take(ladder.Additions{Results: neutral}, now)
	if _, breaks := record.Breaks(one, now); !breaks {
		t.Error("a loan that was given back counts as a change that helped")
	}
	record.Rearm()
	if _, breaks := record.Breaks(one, now); breaks {
		t.Error("after a person lifted the pause, one failure pauses everything again")
	}
}
