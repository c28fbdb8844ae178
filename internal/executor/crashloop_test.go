package executor

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/executor/dispatch"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// What a start makes of how the last process ended.
func TestStartsNext(t *testing.T) {
	run, note := "run/r-1@r-1/look#1/check#1/1", "intake@3/0"
	for _, tt := range []struct {
		name       string
		last, want starts
	}{
		{"in order", starts{Ends: map[string]int{run: 2}}, starts{Up: true}},
		{"the first bad end", starts{Up: true}, starts{Up: true, Care: true}},
		{"it died over a place", starts{Up: true, Care: true, Places: []string{run}}, starts{Up: true, Care: true, Ends: map[string]int{run: 1}}},
		{"and again", starts{Up: true, Care: true, Places: []string{run}, Ends: map[string]int{run: 1}}, starts{Up: true, Care: true, Ends: map[string]int{run: 2}}},
		{"over another: the first is cleared", starts{Up: true, Care: true, Places: []string{note}, Ends: map[string]int{run: 2}}, starts{Up: true, Care: true, Ends: map[string]int{note: 1}}},
		{"over nothing: all are cleared", starts{Up: true, Care: true, Ends: map[string]int{run: 2, note: 1}}, starts{Up: true, Care: true}},
		{"over one of several", starts{Up: true, Care: true, Places: []string{run, note}}, starts{Up: true, Care: true, Ends: map[string]int{run: 1, note: 1}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.want.Ends == nil {
				tt.want.Ends = map[string]int{}
			}
			if d := cmp.Diff(tt.want, tt.last.next()); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

// Suspects are worked on one at a time and hold up nobody else, and the cell
// names what is under way.
func TestSuspectsTakeTurns(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		if err := h.journal.SetMeta(cellStarts, encode(starts{Up: true, Care: true, Places: []string{"run/r-1@x/1", "run/r-2@x/1"}})); err != nil {
			t.Fatal(err)
		}
		c := newCrashGuard(h.journal, func() bool { return true })
		if _, err := c.started(); err != nil {
			t.Fatal(err)
		}
		enter := func(place string) (func(), time.Duration) {
			began := time.Now()
			v, ok := c.enter(t.Context(), place)
			if !ok {
				t.Fatalf("%s has no turn", place)
			}
			v.begin()
			return v.survived, time.Since(began)
		}
		first, waited := enter("run/r-1@x/1")
		if waited != suspectWait {
			t.Errorf("a suspect waited %s", waited)
		}
		time.AfterFunc(time.Hour, first)
		other, waited := enter("run/r-3@x/1")
		if waited != 0 {
			t.Errorf("a place without a count waited %s", waited)
		}
		if d := cmp.Diff([]string{"run/r-1@x/1", "run/r-3@x/1"}, c.cell.Places); d != "" {
			t.Errorf("written down (-want +got):\n%s", d)
		}
		second, waited := enter("run/r-2@x/1")
		if waited != time.Hour {
			t.Errorf("the second suspect waited %s", waited)
		}
		other()
		second()
		second()
		if len(c.cell.Places) != 0 || len(c.cell.Ends) != 0 {
			t.Errorf("survived, and still written down: %+v", c.cell)
		}
	})
}

// The environment of a child process: what it does, and where its journal is.
const (
	envChild   = "EXECUTOR_TEST_CHILD"
	envJournal = "EXECUTOR_TEST_JOURNAL"
)

// child starts this test again as a process of its own that can be killed.
func child(t *testing.T, does, dir string) *exec.Cmd {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestChild$", "-test.count=1")
	cmd.Env = append(os.Environ(), envChild+"="+does, envJournal+"="+filepath.Join(dir, "journal.db"))
	return cmd
}

// A check, or a notification, kills the process each time it is processed: after
// a few starts it is quarantined and the rest goes on.
func TestPoisonKillsRealProcesses(t *testing.T) {
	for _, tt := range []struct {
		does string
		most int // ends before it is quarantined
	}{{"die in a check", 4}, {"die in the catalog", 2}} {
		t.Run(tt.does, func(t *testing.T) {
			dir := t.TempDir()
			for n := 0; ; n++ {
				out, err := child(t, tt.does, dir).CombinedOutput()
				if err == nil {
					if n == 0 {
						t.Errorf("it never died: nothing is tested\n%s", out)
					}
					return
				}
				if n == tt.most {
					t.Fatalf("died %d times and goes on dying: %v\n%s", n+1, err, out)
				}
			}
		})
	}
}

// Whoever kills the process again and again while a healthy check waits for the
// network does not get its run quarantined.
func TestKillsWhileWaitingAreNotPoison(t *testing.T) {
	dir := t.TempDir()
	for n := range 8 {
		cmd := child(t, "wait in a check", dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 1)); err != nil {
			t.Fatalf("start %d: it said nothing: %v", n+1, err)
		}
		time.Sleep(100 * time.Millisecond) // real processes: there is nothing to wait for
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err == nil {
			t.Fatalf("start %d: it ended by itself: nothing is tested", n+1)
		}
	}
	if out, err := child(t, "wait in a check", dir).CombinedOutput(); err != nil {
		t.Errorf("after the kills: %v\n%s", err, out)
	}
}

// mortal is a world in which one thing ends the process.
type mortal struct {
	*world
	does string
}

// Do implements Steps.
func (m mortal) Do(ctx context.Context, e machine.Effect) machine.Outcome {
	if e.Action == machine.ActionCheck && e.Service.Name == "b" {
		switch m.does {
		case "die in a check":
			if err := syscall.Kill(os.Getpid(), syscall.SIGKILL); err != nil {
				return machine.Outcome{Status: machine.StatusFailed, Message: err.Error()}
			}
			select {} // the signal arrives before anything else is done
		case "wait in a check":
			select {
			case <-time.After(500 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	}
	return m.world.Do(ctx, e)
}

// Resolve implements Services. A stack that overflows is no panic.
func (m mortal) Resolve(a playbook.Alert) ([]playbook.Service, string, error) {
	if m.does == "die in the catalog" && a.Labels["service"] == "b" {
		debug.SetMaxStack(1 << 20)
		return m.Resolve(a)
	}
	return testServices().Resolve(a)
}

// TestChild is what the processes of the tests above do: two alerts come in; it
// ends well when both have come to rest.
func TestChild(t *testing.T) {
	does := os.Getenv(envChild)
	if does == "" {
		t.Skip("it is a process of other tests")
	}
	j, err := audit.Open(os.Getenv(envJournal), audit.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	h := &rig{t: t, journal: j}
	m := mortal{newWorld(time.Now), does}
	e, err := New(Options{
		Journal: j, Playbooks: func() *playbook.Set { return waitingSet(t) }, Kinds: testKinds(),
		Services: m, Steps: m, Autonomy: playbook.Auto,
	})
	if err != nil {
		t.Fatal(err)
	}
	if does != "wait in a check" {
		e.crashes.wait /= 50
	}
	h.e = e
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	head, err := j.Head(dispatch.StreamIntake)
	if err != nil {
		t.Fatal(err)
	}
	for _, service := range []string{"a", "b"}[min(head, 2):] {
		h.postNow(service)
		for n := 0; n < 200 && (service == "a") && h.resting("a") == ""; n++ {
			time.Sleep(10 * time.Millisecond) // real processes
		}
	}
	said := false
	for n := 0; n < 2000; n++ {
		if s := h.stateOn("b"); s.Phase == machine.PhaseChecking && !said {
			fmt.Println("checking")
			said = true
		}
		a, b := h.resting("a"), h.resting("b")
		if a == "asks" && (b == "asks" && does == "wait in a check" || b == "quarantined") {
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if err := j.Close(); err != nil {
				t.Error(err)
			}
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("a %q, b %q: %v", h.resting("a"), h.resting("b"), h.fates())
}

func (h *rig) postNow(service string) {
	n := playbook.Notification{Version: "4", Status: playbook.Firing, GroupKey: "{}", Alerts: []playbook.Alert{alertOf("Slow", service)}, ReceivedAt: time.Now().UTC()}
	_, err := h.journal.Append(context.Background(), audit.Append{
		Stream: dispatch.StreamIntake, After: audit.Any, Records: []audit.Record{{Kind: "notification", Data: n.AppendJSON(nil)}},
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *rig) stateOn(service string) machine.State {
	for _, s := range h.e.Runs(Filter{Service: service}) {
		return s
	}
	return machine.State{}
}

// resting reports how a service's alert has come to rest; empty: it has not.
func (h *rig) resting(service string) string {
	if s := h.stateOn(service); s.Quarantine != nil {
		return "quarantined"
	} else if s.Phase == machine.PhaseDeciding {
		return "asks"
	}
	for rec, err := range h.journal.Stream(dispatch.Stream, 0) {
		if d, derr := dispatch.DecodeRecord(rec); err == nil && derr == nil && rec.Kind == dispatch.KindQuarantined && d.Index == 1 && service == "b" {
			return "quarantined"
		}
	}
	return ""
}
