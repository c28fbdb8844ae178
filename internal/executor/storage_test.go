package executor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/executor/dispatch"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/playbook"
)

// TestStoredForm pins what the journal holds: old journals must stay readable.
func TestStoredForm(t *testing.T) {
	at := time.Date(2026, 11, 21, 8, 0, 0, 5, time.UTC)
	value := 0.25
	tests := []struct {
		event machine.Event
		want  string
	}{
		{
			machine.Event{Kind: machine.EffectStarted, At: at, State: "scale", Effect: "r-1/scale#1/apply#1", Action: machine.ActionApply, Attempt: 1, Digest: "sha256:ab"},
			`{"at":"2026-11-21T08:00:00.000000005Z","state":"scale","effect":"r-1/scale#1/apply#1","action":"apply","attempt":1,"digest":"sha256:ab"}`,
		},
		{
			machine.Event{Kind: machine.GateDecided, At: at, State: "scale", Decision: &machine.Decision{Gate: "g", Digest: "sha256:ab", Approve: true, By: "user:ada", Channel: "cli"}},
			`{"at":"2026-11-21T08:00:00.000000005Z","state":"scale","decision":{"gate":"g","digest":"sha256:ab","approve":true,"by":"user:ada","door":"cli"}}`,
		},
		{
			machine.Event{Kind: machine.Sampled, At: at, State: "scale", Sample: &machine.Sample{At: at, Verdict: machine.VerdictWatching, Values: []machine.Reading{{Name: "burn", Value: &value, Limit: 1, Op: "<", OK: true}, {Name: "traffic", Op: ">=", Why: fault.NoData}}}},
			`{"at":"2026-11-21T08:00:00.000000005Z","state":"scale","sample":{"at":"2026-11-21T08:00:00.000000005Z","verdict":"watching","values":[{"name":"burn","value":0.25,"limit":1,"op":"\u003c","ok":true},{"name":"traffic","limit":0,"op":"\u003e=","ok":false,"why":"no_data"}]}}`,
		},
		{
			machine.Event{Kind: machine.RunEnded, At: at, Ending: &machine.Ending{Outcome: machine.OutcomeDiverted, Message: "m", Divert: "gpu-fault"}},
			`{"at":"2026-11-21T08:00:00.000000005Z","ending":{"outcome":"diverted","message":"m","divert":"gpu-fault"}}`,
		},
	}
	for _, tt := range tests {
		rec, err := record(tt.event)
		if err != nil {
			t.Fatal(err)
		}
		if rec.Kind != string(tt.event.Kind) || !rec.Time.Equal(at) || string(rec.Data) != tt.want {
			t.Errorf("%s is stored as %s\nwant %s", tt.event.Kind, rec.Data, tt.want)
		}
		back, err := event(rec)
		if d := cmp.Diff(tt.event, back); err != nil || d != "" {
			t.Errorf("%s comes back differently: %v %s", tt.event.Kind, err, d)
		}
	}
	d := encode(dispatch.Record{Notification: 7, Index: 3, Upto: 2, Done: true, Episodes: []string{"f@t"}, Run: "r-1", Playbook: "p", Service: "s", Status: "firing"})
	if want := `{"notification":7,"index":3,"upto":2,"done":true,"episodes":["f@t"],"run":"r-1","playbook":"p","service":"s","status":"firing"}`; string(d) != want {
		t.Errorf("a dispatched alert is stored as %s", d)
	}
}

func FuzzEvent(f *testing.F) {
	f.Add("lever.applied", []byte(`{"at":"2026-11-21T08:00:00Z","state":"x","data":{"generation":2}}`))
	f.Add("run.started", []byte(`{"start":{"run":"r","service":{"autonomy":"auto"}}}`))
	f.Fuzz(func(t *testing.T, kind string, data []byte) {
		rec := audit.Record{Kind: kind, Data: data}
		if why := decodedByHand(t, rec); why != nil {
			t.Log("left to encoding/json:", why)
		}
		ev, err := event(rec)
		if err != nil {
			return
		}
		if _, err := record(ev); err != nil && json.Valid(data) {
			t.Skip("a time out of range")
		}
	})
}

// A burst: one notification with ten thousand alerts of two thousand services.
func TestBurst(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		h.set = waitingSet(t)
		h.start()
		var alerts []playbook.Alert
		for i := range 2000 {
			for k := range 5 {
				a := alertOf("Slow", fmt.Sprintf("n%d", i))
				a.Fingerprint = fmt.Sprintf("f%d-%d", i, k)
				alerts = append(alerts, a)
			}
		}
		h.post(alerts...)
		h.pass(time.Minute)
		if n := h.e.Figures(); n.Open != 2000 || n.Episodes != 10_000 {
			t.Fatalf("%+v", n)
		}
		for _, s := range h.e.Runs(Filter{Open: new(true), Limit: 50}) {
			if s.Episodes.Len() != 5 {
				t.Errorf("run on %s has %d alerts", s.Start.Service.Name, s.Episodes.Len())
			}
		}
		for i := range alerts {
			alerts[i] = resolvedOf(alerts[i])
		}
		h.post(alerts...)
		h.pass(time.Minute)
		if n := h.e.Figures(); n.Open != 0 {
			t.Errorf("%d runs are open after everything resolved", n.Open)
		}
	})
}

// Somebody else writes a run's stream: it is folded anew, and the command is
// decided on what is true.
func TestConflictRefolds(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		h.set = waitingSet(t)
		h.start()
		h.post(alertOf("Slow", "a"))
		h.pass(time.Second)
		s := h.only()
		rec, err := record(machine.Event{Kind: machine.PauseSeen, At: time.Now().UTC(), Message: "from elsewhere"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.journal.Append(context.Background(), audit.Append{Stream: streamOf(s.Start.Run), After: s.Head, Records: []audit.Record{rec}}); err != nil {
			t.Fatal(err)
		}
		d := &machine.Decision{Approve: true, By: "user:ada"}
		if err := h.e.Command(t.Context(), s.Start.Run, machine.Command{Kind: machine.CmdDecide, Decision: d}); err != nil {
			t.Fatal(err)
		}
		if s = h.only(); s.Paused != "from elsewhere" || s.Phase != machine.PhasePlanning || h.e.Ready() != nil {
			t.Errorf("paused %q, %s, ready: %v", s.Paused, s.Phase, h.e.Ready())
		}
	})
}

// A full disk: the executor waits and goes on by itself when there is space. A
// failed write: it stops and says so.
func TestJournalFails(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error
		goes bool
	}{{"full", syscall.ENOSPC, true}, {"broken", syscall.EIO, false}} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newRig(t)
				failing := h.failing(t, tt.err)
				h.start()
				h.post(alertOf("Slow", "a"))
				h.pass(30 * time.Second)
				failing.Store(true)
				h.pass(time.Minute)
				if h.e.Ready() == nil {
					t.Error("ready with a journal that takes nothing")
				}
				failing.Store(false)
				h.pass(10 * time.Minute)
				if !tt.goes {
					if err := <-h.ended; !errors.Is(err, tt.err) && !errors.Is(err, audit.ErrUnavailable) {
						t.Errorf("ended with %v", err)
					}
					h.end = nil
					return
				}
				if s := h.only(); h.e.Ready() != nil || s.Ending == nil || s.Ending.Outcome != machine.OutcomeResolved {
					t.Errorf("ready: %v, %s", h.e.Ready(), s.Phase)
				}
				if err := h.stop(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// Something kills the process each time: after a few starts it is quarantined,
// and the rest goes on. A process killed for other reasons loses nothing.
func TestPoisonIsSetAside(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		h.options = func(o *Options) { o.Steps = deadly{h.world, h} }
		h.start()
		h.post(alertOf("Slow", "b"))
		h.pass(time.Second)
		for range 12 {
			if h.e.err() == nil {
				break
			}
			h.crashed()
			h.start()
			h.pass(10 * time.Second)
		}
		if err := h.e.Ready(); err != nil {
			t.Fatalf("still dying: %v", err)
		}
		if h.world.told("was quarantined") == 0 {
			t.Errorf("nobody was told: %q", h.world.notices)
		}
		h.post(alertOf("Slow", "a"))
		h.pass(10 * time.Minute)
		runs := h.runs()
		if len(runs) != 2 || runs[1].Ending == nil || runs[1].Ending.Outcome != machine.OutcomeResolved {
			t.Errorf("the other run: %d, %+v", len(runs), runs[len(runs)-1].Ending)
		}
		if err := h.stop(); err != nil {
			t.Fatal(err)
		}
		h.start()
		h.pass(time.Minute)
		if err := h.e.Ready(); err != nil {
			t.Errorf("it is met again after a restart: %v", err)
		}
	})
}

// deadly ends the process, as far as a test can, over the checks of service b.
type deadly struct {
	*world
	h *rig
}

// Do implements Steps.
func (d deadly) Do(ctx context.Context, e machine.Effect) machine.Outcome {
	if e.Action == machine.ActionCheck && e.Service.Name == "b" {
		d.h.e.fail(errCrash) // nothing after this is recorded
	}
	return d.world.Do(ctx, e)
}

// Killed at the same place again and again, but for no fault of the run: as
// long as it moves on between the kills, it is not quarantined.
func TestKillsAreNotPoison(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		for k := 1; k < 12; k++ {
			h.stopAt(3 * k)
			h.start()
			if k == 1 {
				h.post(alertOf("Slow", "a"))
			}
			h.passUntil(func() bool {
				runs := h.runs()
				return h.e.err() != nil || len(runs) == 1 && runs[0].Ending != nil
			})
			if h.e.err() == nil {
				break
			}
			h.crashed()
		}
		if s := h.only(); s.Ending == nil || s.Ending.Outcome != machine.OutcomeResolved || h.world.count("apply") != 1 {
			t.Errorf("%s, %d applied, told %q", s.Phase, h.world.count("apply"), strings.Join(h.world.notices, "; "))
		}
	})
}
