package executor

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// A reader that an append woke sees the run as the journal has it, although the
// owner has not published that state yet.
func TestRunStateIsNotOlderThanTheJournal(t *testing.T) {
	j, err := audit.Open(filepath.Join(t.TempDir(), "journal.db"), audit.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	set := waitingSet(t)
	e, stop := liveWith(t, Options{
		Journal: j, Playbooks: func() *playbook.Set { return set }, Kinds: testKinds(), Services: testServices(), Steps: newWorld(time.Now), Autonomy: playbook.Auto,
	})
	defer stop()
	admit(t, j, playbook.Notification{Alerts: []playbook.Alert{alertOf("Slow", "a")}})
	changed, end := j.Watch()
	defer end()
	var asked machine.State
	for asked.Gate == nil {
		if runs := e.Runs(Filter{}); len(runs) == 1 && runs[0].Gate != nil {
			asked = runs[0]
			break
		}
		<-changed
	}
	r := e.find(asked.Start.Run)
	before := r.published.Load()
	cancel := machine.Command{Kind: machine.CmdCancel, Decision: &machine.Decision{By: "user:ada"}}
	if err := e.Command(t.Context(), asked.Start.Run, cancel); err != nil {
		t.Fatal(err)
	}
	r.published.Store(before) // as between the append and the publication
	if s := e.current(r); s.Head <= before.state.Head || s.Phase != machine.PhaseEnded {
		t.Errorf("the state is that of head %d, phase %s; the journal has the end", s.Head, s.Phase)
	}
}
