package executor

import (
	"context"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/executor/dispatch"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// The journal takes nothing, and everything that writes waits for it: views,
// figures and probes answer all the same.
func TestViewsDoNotWaitForTheJournal(t *testing.T) {
	var blocked sync.WaitGroup
	block, release := make(chan struct{}), make(chan struct{})
	j, err := audit.Open(filepath.Join(t.TempDir(), "journal.db"), audit.Options{NoSync: true, Failpoint: func(name string) error {
		select {
		case <-block:
			<-release
		default:
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	var set atomic.Pointer[playbook.Set]
	set.Store(waitingSet(t))
	e, stop := liveWith(t, Options{
		Journal: j, Playbooks: set.Load, Kinds: testKinds(), Services: testServices(), Steps: newWorld(time.Now), Autonomy: playbook.Auto,
	})
	for _, service := range []string{"a", "b", "c"} {
		admit(t, j, playbook.Notification{Alerts: []playbook.Alert{alertOf("Slow", service)}})
	}
	asked := func() []machine.State {
		var out []machine.State
		for _, s := range e.Runs(Filter{}) {
			if s.Gate != nil {
				out = append(out, s)
			}
		}
		return out
	}
	for len(asked()) < 3 {
		time.Sleep(5 * time.Millisecond)
	}
	runs := asked()
	ended := runs[2].Start.Run
	if err := e.Command(t.Context(), ended, machine.Command{Kind: machine.CmdCancel, Decision: &machine.Decision{By: "user:ada"}}); err != nil {
		t.Fatal(err)
	}

	close(block)
	go func() { // the dispatcher, too, has something to write
		n := playbook.Notification{Alerts: []playbook.Alert{alertOf("Slow", "n1"), resolvedOf(alertOf("Slow", "b"))}}
		_, _ = j.Append(context.Background(), audit.Append{ //nolint:errcheck // what becomes of it is not asked
			Stream: dispatch.StreamIntake, After: audit.Any, Records: []audit.Record{{Kind: "notification", Data: n.AppendJSON(nil)}},
		})
	}()
	write := func(do func() error) {
		blocked.Go(func() {
			if err := do(); err != nil {
				t.Errorf("a write that waited for the journal: %v", err)
			}
		})
	}
	decide := machine.Command{Kind: machine.CmdDecide, Decision: &machine.Decision{Approve: true, By: "user:ada"}}
	write(func() error { return e.Command(context.Background(), runs[0].Start.Run, decide) })
	write(func() error { return e.Pause(context.Background(), Scope{}, "user:ada", "full") })
	write(func() error { return e.RecordPolicy(PolicyLoaded{Digest: "d"}) })
	set.Store(loadSet(t, nil))
	write(e.RecordPlaybooks)
	time.Sleep(50 * time.Millisecond) // they wait for the journal now

	answers := make(chan string)
	go func() {
		for name, view := range map[string]func(){
			"figures": func() { e.Figures() },
			"demoted": func() { e.ladder.DemotedBy() },
			"runs":    func() { e.Runs(Filter{}) },
			"open":    func() { e.Runs(Filter{Open: new(true)}) },
			"run":     func() { e.RunState(runs[0].Start.Run) },
			"ended":   func() { e.RunState(ended) },
			"events":  func() { _, _ = e.RunEvents(runs[1].Start.Run) },     //nolint:errcheck // whether it answers is asked
			"history": func() { _, _, _ = e.RunHistory(runs[1].Start.Run) }, //nolint:errcheck // likewise
			"pauses":  func() { e.Pauses() },
			"ready":   func() { _ = e.Ready() }, //nolint:errcheck // likewise
			"ladder":  func() { e.Ladder(Filter{}) },
			"good":    func() { e.ladder.Goods(""); e.ladder.LastGood("a", "knob") },
		} {
			answers <- name
			view()
		}
		close(answers)
	}()
	name, late := "", time.After(10*time.Second)
	for open := true; open; {
		var next string
		select {
		case next, open = <-answers:
			name = next
		case <-late:
			t.Fatalf("%s waits for the journal", name)
		}
	}
	close(release)
	blocked.Wait()
	stop()
}
