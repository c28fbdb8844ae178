//go:build e2e && levers

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/test/e2e/rig"
)

// TestEveryLever drives every lever that writes to the cluster through the same
// disturbances, with a whole responder: what a lever promises by itself, TestLevers and its
// like hold. In storms each lever runs, and is taken back, with exactly the rights that the
// chart renders for it alone; in the other columns they share one responder, with all roles of
// deploy/kubernetes, or with none. It takes seven minutes, and so is no part of make e2e: make
// levers runs it.
func TestEveryLever(t *testing.T) {
	t.Parallel()
	for name, disturbance := range map[string]func(*testing.T){
		"killed": everyLeverKilled, "API server away": everyLeverAway, "storms": everyLeverInStorms,
		"somebody else": everyLeverMeddled, "no right": everyLeverWithoutRight,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			disturbance(t)
		})
	}
}

// everyLeverKilled kills the responder before the change of every lever arrives, then when
// all of them were carried out and none was answered, and once more long after.
func everyLeverKilled(t *testing.T) {
	// Whether a Job was made that is not there is for people to say: one that ran may be gone.
	w := newLeverRuns(t, leverOptions{only: func(r *leverRun) bool { return r.lever != "job.run" }})
	start := func() { w.responder.Process = rig.Start(t, w.responder.Spec()) }
	before := w.gate(t, rig.NeverArrives)
	w.begin(t)
	before.await(t)
	w.responder.Kill9()
	after := w.gate(t, rig.AnswerIsLost)
	before.open()
	start()
	after.await(t)
	w.responder.Kill9()
	w.front.Judge(nil)
	after.open()
	start()
	w.applied(t)
	w.responder.Kill9()
	start()
	w.asUsual(t)
}

// everyLeverAway takes the API server away for a minute when it has carried every change out
// and answered none.
func everyLeverAway(t *testing.T) {
	w := newLeverRuns(t, leverOptions{})
	gate := w.gate(t, rig.AnswerIsLost)
	w.begin(t)
	gate.await(t)
	w.front.Shut()
	w.front.Judge(nil)
	gate.open()
	since := time.Now()
	rig.Await(t, 2*time.Minute, "time without the API server", func(context.Context) (bool, string) {
		return time.Since(since) >= time.Minute, ""
	})
	w.front.Open(t)
	w.asUsual(t)
}

// everyLeverInStorms has the API server refuse the first attempts at every change, first for
// too many requests and then for conflicts that are none. People then cancel the runs, and
// the changes are taken back through the same. Each lever has a responder whose account has
// this lever's rights and no other's.
func everyLeverInStorms(t *testing.T) {
	w := newLeverRuns(t, leverOptions{never: true, own: true})
	w.storm()
	w.begin(t)
	w.applied(t)
	w.storm()
	w.each(t, "canceled", func(t *testing.T, r *leverRun) {
		if r.ends == "" { // it is under way for as long as its proof does not come
			run, err := runOf(t.Context(), r.responder, r.name, w.ns+"/"+r.name)
			if err != nil {
				t.Fatal(err)
			}
			r.responder.Must(t, "runs", "cancel", run.ID, "--reason", "not now")
		}
		run := w.end(t, r)
		want := machine.OutcomeCanceled
		if r.ends != "" {
			want = r.ends
		}
		wantEnd(t, run, want)
		if now := w.shown(t, r); !r.keeps && now != r.before {
			t.Errorf("it is %s, want it as before: %s\n%s", now, r.before, run)
		}
		if n, all := w.changes(r); !r.keeps && !r.steps && n != 2 {
			t.Errorf("%d changes, want one and the one that takes it back: %v\n%s", n, all, run)
		}
		wantIntact(t, r.responder)
	})
}

// storm refuses the next attempts at each change.
func (w *leverRuns) storm() {
	var mu sync.Mutex // guards seen
	seen := map[string]int{}
	w.front.Judge(func(c rig.Change) (rig.Fate, func()) {
		mu.Lock()
		defer mu.Unlock()
		seen[c.Path]++
		switch n := seen[c.Path]; {
		case n <= 3:
			return rig.Throttled, nil
		case n <= 5 && c.Method == http.MethodPatch: // a name that is taken is no storm
			return rig.Conflicts, nil
		}
		return rig.Passes, nil
	})
}

// everyLeverMeddled has a person change what each lever changed. The runs are handed over,
// and nothing is taken back.
func everyLeverMeddled(t *testing.T) {
	w := newLeverRuns(t, leverOptions{never: true, only: func(r *leverRun) bool { return len(r.meddle) > 0 }})
	w.begin(t)
	w.applied(t)
	w.each(t, "handed over", func(t *testing.T, r *leverRun) {
		w.cp.Kubectl(t, w.args(r, r.meddle)...)
		meddled := w.shown(t, r)
		run := w.end(t, r)
		wantEnd(t, run, machine.OutcomeHandedOver)
		if now := w.shown(t, r); now != meddled {
			t.Errorf("it is %s, want it as the person left it: %s\n%s", now, meddled, run)
		}
	})
}

// everyLeverWithoutRight runs as an account that may read, and nothing else: each plan names
// the right that is missing, and nothing is written.
func everyLeverWithoutRight(t *testing.T) {
	w := newLeverRuns(t, leverOptions{reads: true})
	w.begin(t)
	w.each(t, "refused", func(t *testing.T, r *leverRun) {
		run := w.end(t, r)
		wantEnd(t, run, machine.OutcomeEscalated)
		said := run.String()
		place := w.ns
		if strings.Contains(r.lacks, `"nodes"`) {
			place = r.node
		}
		for _, text := range []string{r.lacks, place} {
			if !strings.Contains(said, text) {
				t.Errorf("the run does not say %q:\n%s", text, said)
			}
		}
		if _, all := w.changes(r); len(all) > 0 {
			t.Errorf("changes: %v", all)
		}
	})
}

// gate holds the first change of every lever until all of them are there.
type gate struct {
	w      *leverRuns
	opened chan struct{}
	open   func() // lets the changes through; also at the end of the test

	mu      sync.Mutex // guards arrived
	arrived []string
}

// gate closes one. The changes have that fate once it is open; those whose answer is lost are
// carried out before.
func (w *leverRuns) gate(t *testing.T, fate rig.Fate) *gate {
	g := &gate{w: w, opened: make(chan struct{})}
	g.open = sync.OnceFunc(func() { close(g.opened) })
	t.Cleanup(g.open)
	w.front.Judge(func(c rig.Change) (rig.Fate, func()) {
		r := w.of(c)
		if r == nil {
			return rig.Passes, nil
		}
		wait := func() {
			g.mu.Lock()
			if !slices.Contains(g.arrived, r.name) {
				g.arrived = append(g.arrived, r.name)
			}
			g.mu.Unlock()
			<-g.opened
		}
		if fate == rig.AnswerIsLost {
			return fate, wait
		}
		wait()
		return fate, nil
	})
	return g
}

func (g *gate) await(t *testing.T) {
	t.Helper()
	rig.Await(t, 3*time.Minute, "the change of every lever", func(ctx context.Context) (bool, string) {
		g.mu.Lock()
		defer g.mu.Unlock()
		if len(g.arrived) == len(g.w.all) {
			return true, ""
		}
		var missing []string
		for _, r := range g.w.all {
			if !slices.Contains(g.arrived, r.name) {
				run, err := runOf(ctx, r.responder, r.name, g.w.ns+"/"+r.name)
				missing = append(missing, fmt.Sprint(r.name, ": ", run, err))
			}
		}
		return false, strings.Join(missing, "\n")
	})
}
