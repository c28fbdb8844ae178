package executor

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// A search that stops early goes on where it stopped, and shows no run twice and none less.
func TestSearchGoesOn(t *testing.T) {
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
	for len(e.Runs(Filter{})) == 0 {
		<-changed
	}
	id := e.Runs(Filter{})[0].Start.Run
	e.mu.Lock()
	e.ended = append(e.ended, "r-0", "r-1", id) // two whose entries are gone, and one that is just ending
	e.mu.Unlock()
	// Neither a page of runs nor the number that is looked at bounds whom a beginning means.
	e.mu.Lock()
	kept := e.ended
	e.ended = append([]string{id}, slices.Repeat([]string{"r-z"}, scanRuns)...)
	e.mu.Unlock()
	for begins, want := range map[string]int{"": 0, id[:12]: 1, "r-none": 0} {
		if found := e.Runs(Filter{Begins: begins, Open: new(false)}); len(found) != want {
			t.Errorf("%q is the beginning of %d ended runs, want %d", begins, len(found), want)
		}
	}
	e.mu.Lock()
	e.ended = kept
	e.mu.Unlock()
	seen, before, asked := 0, "", 0
	for {
		f := e.Search(Search{Before: before, Limit: 1, Read: 1})
		if seen, asked = seen+len(f.Runs), asked+1; f.Read > 1 {
			t.Fatalf("looks at %d runs", f.Read)
		}
		if before = f.Next; before == "" {
			break
		}
	}
	if seen != 1 || asked != 3 {
		t.Errorf("%d runs in %d answers, want 1 in 3", seen, asked)
	}
	for _, c := range []struct {
		q    Search
		want int
	}{
		{Search{Text: id[5:12]}, 1},
		{Search{Text: "none"}, 0},
		{Search{Before: id}, 0},
		{Search{Before: id + "0"}, 1},
		{Search{Passes: func(machine.State) bool { return false }}, 0},
	} {
		c.q.Limit, c.q.Read = 9, 9
		if f := e.Search(c.q); len(f.Runs) != c.want || f.Next != "" {
			t.Errorf("%+v: %d runs, next %q", c.q, len(f.Runs), f.Next)
		}
	}
}
