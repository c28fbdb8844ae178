package executor

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/executor/dispatch"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// byHand is a rig whose catalog has the test's services, under autonomy
// suggest: what is started asks people.
func byHand(h *rig) {
	h.options = func(o *Options) {
		o.Autonomy = playbook.Suggest
		o.Catalog = func() ([]playbook.Service, error) {
			return []playbook.Service{testServices()["a"], testServices()["b"]}, nil
		}
	}
	h.start()
}

var wish = StartRequest{Key: "k-1", Playbook: "ladder", Service: "a", By: "user:ada", Person: true, Reason: "load test", Labels: map[string]string{"team": "chat"}}

// A request that is sent again, also after a restart, starts nothing; another
// one under its key is refused, and another person's keys are their own.
func TestStartRunOnce(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		byHand(h)
		id, again, err := h.e.StartRun(t.Context(), wish)
		if err != nil || again {
			t.Fatal(id, again, err)
		}
		for range 2 {
			if got, again, err := h.e.StartRun(t.Context(), wish); got != id || !again || err != nil {
				t.Fatalf("sent again: %s %v %v, want %s", got, again, err, id)
			}
			if err := h.stop(); err != nil {
				t.Fatal(err)
			}
			byHand(h)
		}
		other := wish
		other.Service = "b"
		if _, _, err := h.e.StartRun(t.Context(), other); !errors.Is(err, ErrConflict) || !strings.Contains(err.Error(), "was used for another request") {
			t.Errorf("another request under its key: %v", err)
		}
		theirs := wish
		theirs.By = "user:bob"
		if _, _, err := h.e.StartRun(t.Context(), theirs); !errors.Is(err, ErrConflict) || !strings.Contains(err.Error(), id+" of playbook ladder on a is open already") {
			t.Errorf("a second run on the service: %v", err)
		}
		s := h.only()
		if s.Start.By != "user:ada" || s.Start.Reason != "load test" || s.Start.Alert.Labels["team"] != "chat" || s.Episodes.Len() != 0 || !s.Firing() {
			t.Errorf("started with %+v, episodes %v", s.Start, s.Episodes)
		}
	})
}

// refusedRequests are the records of requests that were refused.
func (h *rig) refusedRequests() []RequestRefused {
	h.t.Helper()
	var out []RequestRefused
	for rec, err := range h.e.o.Journal.Stream(streamControl, 0) {
		if err != nil {
			h.t.Fatal(err)
		}
		if rec.Kind != KindRequestRefused {
			continue
		}
		r, err := decode[RequestRefused](rec)
		if err != nil {
			h.t.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

// Who tries what, and why it does not go, is recorded, but not without bound,
// and no more of a name than people read.
func TestRefusedRequestsAreRecorded(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		byHand(h)
		bad := wish
		bad.Service = strings.Repeat("z", 1000)
		for range maxRefusedBy + 5 {
			if _, _, err := h.e.StartRun(t.Context(), bad); !errors.Is(err, ErrNotFound) || len(err.Error()) > 300 {
				t.Fatal(err)
			}
		}
		got := h.refusedRequests()
		if len(got) != maxRefusedBy {
			t.Fatalf("%d recorded, want %d", len(got), maxRefusedBy)
		}
		want := RequestRefused{
			Playbook: "ladder", Service: bad.Service[:maxWritten], Reason: "load test", By: "user:ada",
			Why: "not found: no service is named \"" + bad.Service[:maxWritten] + "\"; 'responder services' lists them",
		}
		if d := cmp.Diff(want, got[0]); d != "" {
			t.Errorf("-want +got\n%s", d)
		}
		if last := got[len(got)-1]; !strings.Contains(last.Why, "no longer recorded") {
			t.Errorf("the last says %q", last.Why)
		}
		h.pass(time.Hour)
		if _, _, err := h.e.StartRun(t.Context(), bad); err == nil {
			t.Fatal("started")
		}
		if n := len(h.refusedRequests()); n != maxRefusedBy+1 {
			t.Errorf("%d recorded an hour later, want one more", n)
		}
	})
}

// What cannot start is refused in words, and leaves a record and no run behind.
func TestStartRunRefused(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		byHand(h)
		change := func(f func(*StartRequest)) StartRequest {
			q := wish
			f(&q)
			return q
		}
		for _, tt := range []struct {
			q    StartRequest
			kind error
			want string
		}{
			{change(func(q *StartRequest) { q.By = "" }), ErrInvalid, "who wants it"},
			{change(func(q *StartRequest) { q.Playbook = "lader" }), ErrNotFound, `no playbook is named "lader"`},
			{change(func(q *StartRequest) { q.Service = "z" }), ErrNotFound, `no service is named "z"`},
		} {
			if _, _, err := h.e.StartRun(t.Context(), tt.q); !errors.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%+v: %v, want %s", tt.q, err, tt.want)
			}
		}
		if err := h.e.Pause(t.Context(), Scope{Service: "a"}, "user:bob", "maintenance"); err != nil {
			t.Fatal(err)
		}
		if _, _, err := h.e.StartRun(t.Context(), wish); !errors.Is(err, ErrConflict) || !strings.Contains(err.Error(), "service a is paused by user:bob: maintenance") {
			t.Errorf("while paused: %v", err)
		}
		if n := len(h.runs()); n != 0 {
			t.Errorf("%d runs", n)
		}
		var why []string
		for _, r := range h.refusedRequests() {
			why = append(why, r.By+": "+r.Why)
		}
		if got := strings.Join(why, "\n"); len(why) != 3 || !strings.Contains(got, `user:ada: not found: no playbook is named "lader"`) || !strings.Contains(got, "paused by user:bob: maintenance") {
			t.Errorf("recorded is\n%s", got)
		}
		if err := h.e.Unpause(t.Context(), Scope{Service: "a"}, "user:bob", ""); err != nil {
			t.Fatal(err)
		}
		if _, again, err := h.e.StartRun(t.Context(), wish); err != nil || again {
			t.Errorf("the key of a refused request is used up: %v %v", again, err)
		}
	})
}

// Who started a run does not approve it, and others do; the guards say on whose
// word it goes on, and the policy can read that.
func TestStarterDoesNotApprove(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		byHand(h)
		id, _, err := h.e.StartRun(t.Context(), wish)
		if err != nil {
			t.Fatal(err)
		}
		h.pass(time.Second)
		s := h.only()
		if s.Gate == nil {
			t.Fatalf("the run is %s: %+v", s.Phase, s.Ending)
		}
		said := ""
		for _, g := range s.Lever.Guards {
			if g.Guard == "firing" {
				said = g.Why
			}
		}
		if said != "started by user:ada, and no alert is asked" {
			t.Errorf("the guard firing says %q", said)
		}
		for _, channel := range []string{"cli", "api", "slack", "web"} {
			for _, glass := range []bool{false, true} {
				d := &machine.Decision{Approve: true, By: "user:ada", Person: true, Channel: channel, BreakGlass: glass, Reason: "because"}
				if err := h.e.Command(t.Context(), id, machine.Command{Kind: machine.CmdDecide, Decision: d}); !errors.Is(err, ErrForbidden) {
					t.Errorf("ada over %s, alone %v: %v", channel, glass, err)
				}
			}
		}
		if n := h.world.count("apply"); n != 0 {
			t.Fatalf("%d applied", n)
		}
		if err := h.e.Command(t.Context(), id, machine.Command{Kind: machine.CmdDecide, Decision: &machine.Decision{Approve: true, By: "user:eve", Person: true, Groups: []string{"sre"}}}); err != nil {
			t.Fatal(err)
		}
		h.pass(10 * time.Minute)
		if n := h.world.count("apply"); n != 1 {
			t.Errorf("%d applied after another one's yes", n)
		}
	})
}

// Whoever starts a run chooses what it reads. So it asks, also where the configuration
// lets levers act, and only a declared person starts one.
func TestStartedByHandAsks(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		h.options = func(o *Options) {
			o.Autonomy = playbook.Auto
			o.Catalog = func() ([]playbook.Service, error) { return []playbook.Service{testServices()["a"]}, nil }
		}
		h.start()
		second := wish
		second.By, second.Person = "user:laptop", false
		if _, _, err := h.e.StartRun(t.Context(), second); !errors.Is(err, ErrForbidden) || !strings.Contains(err.Error(), "auth.people does not list the credential user:laptop") {
			t.Errorf("an undeclared credential: %v", err)
		}
		lacking := wish
		lacking.By, lacking.Refused = "user:eve", "user:eve lacks the right start on service a"
		if _, _, err := h.e.StartRun(t.Context(), lacking); !errors.Is(err, ErrForbidden) {
			t.Errorf("who lacks the right: %v", err)
		}
		if r := h.refusedRequests(); len(r) != 2 || !strings.Contains(r[1].Why, "lacks the right start on service a") {
			t.Errorf("recorded is %+v", r)
		}
		if _, _, err := h.e.StartRun(t.Context(), wish); err != nil {
			t.Fatal(err)
		}
		h.pass(time.Minute)
		if s := h.only(); s.Gate == nil || h.world.count("apply") != 0 || s.Start.Autonomy != playbook.Suggest {
			t.Errorf("the run is %s at %s, %d applied", s.Phase, s.Start.Autonomy, h.world.count("apply"))
		}
	})
}

// Who lacks a right changes nothing, whatever the command, and that is recorded once.
func TestCommandsWithoutTheRight(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		byHand(h)
		id, _, err := h.e.StartRun(t.Context(), wish)
		if err != nil {
			t.Fatal(err)
		}
		h.pass(time.Second)
		for _, kind := range []machine.CommandKind{
			machine.CmdDecide, machine.CmdReplan, machine.CmdCancel, machine.CmdResolve, machine.CmdProceed, machine.CmdRelease,
		} {
			before := h.only()
			c := machine.Command{
				Kind: kind, Refused: "user:eve lacks the right",
				Decision: &machine.Decision{By: "user:eve", Person: true, Groups: []string{"sre"}, Approve: true, Reason: "mine"},
			}
			if err := h.e.Command(t.Context(), id, c); !errors.Is(err, ErrForbidden) || !strings.Contains(err.Error(), c.Refused) {
				t.Errorf("%s: %v", kind, err)
			}
			after, records := h.only(), recordedInRun(kind)
			if after.Phase != machine.PhaseDeciding || after.Ignored != before.Ignored+records || after.Head != before.Head+uint64(records) {
				t.Errorf("%s: the run is %s, %d entries more", kind, after.Phase, after.Head-before.Head)
			}
		}
		if rec := h.lastControl(KindRightRefused); !strings.Contains(rec, `"by":"user:eve","right":"release","why":"user:eve lacks the right"`) {
			t.Errorf("recorded is %s", rec)
		}
	})
}

// recordedInRun is how many events of the run record a refused command. A release is recorded
// beside the run, which may be unreadable.
func recordedInRun(kind machine.CommandKind) int {
	if kind == machine.CmdRelease {
		return 0
	}
	return 1
}

// An alert that begins meanwhile joins the run. When it has resolved, what the
// person asked for has been overtaken: questions are withdrawn.
func TestAlertsOvertakeAStarter(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		byHand(h)
		if _, _, err := h.e.StartRun(t.Context(), wish); err != nil {
			t.Fatal(err)
		}
		h.pass(time.Second)
		a := alertOf("Slow", "a")
		h.post(a)
		h.pass(time.Second)
		if s := h.only(); s.Episodes.Len() != 1 || s.Gate == nil {
			t.Fatalf("%d alerts joined, the run is %s", s.Episodes.Len(), s.Phase)
		}
		h.post(resolvedOf(a))
		h.pass(time.Second)
		if s := h.only(); s.Ending == nil || s.Ending.Outcome != machine.OutcomeCleared {
			t.Errorf("the run is %s", s.Phase)
		}
	})
}

// A process that dies around the start has started one run or none, and the
// request that is sent again gives one.
func TestStartRunCrash(t *testing.T) {
	for n := 1; n <= 6; n++ {
		bubble(t, func(t *testing.T, h *rig) {
			s := h.stopAt(n)
			crash := h.options
			h.options = func(o *Options) {
				crash(o)
				o.Autonomy, o.Catalog = playbook.Suggest, func() ([]playbook.Service, error) { return []playbook.Service{testServices()["a"]}, nil }
			}
			h.start()
			_, _, err := h.e.StartRun(t.Context(), wish)
			h.pass(time.Second)
			if s.at() != "" {
				h.crashed()
			} else if err := h.stop(); err != nil {
				t.Fatal(err)
			}
			byHand(h)
			id, again, err2 := h.e.StartRun(t.Context(), wish)
			if err2 != nil || (err == nil && !again) {
				t.Errorf("stopped at %q: first %v, then %s %v %v", s.at(), err, id, again, err2)
			}
			h.pass(time.Second)
			if got := h.only(); got.Gate == nil {
				t.Errorf("stopped at %q: the run is %s", s.at(), got.Phase)
			}
		})
	}
}

// No run starts while the cluster is replaced. What came in meanwhile is decided
// afterwards, or by the next process. An open run keeps the cluster from being replaced.
func TestHoldStarts(t *testing.T) {
	for name, after := range map[string]func(h *rig, release func()){
		"released":  func(_ *rig, release func()) { release() },
		"restarted": func(h *rig, _ func()) { h.restart() },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *rig) {
				byHand(h)
				release, open, err := h.e.HoldStarts(t.Context(), "the cluster is replaced")
				if err != nil || len(open) > 0 {
					t.Fatal(open, err)
				}
				h.post(alertOf("Slow", "b"))
				h.pass(time.Minute)
				if seen, _ := h.e.Alerts(dispatch.SeenFilter{}, 1); len(seen) != 1 || seen[0].Paused || !seen[0].Retry || seen[0].Reason != "the cluster is replaced" {
					t.Errorf("the alert: %+v", seen)
				}
				if _, _, err := h.e.StartRun(t.Context(), wish); !errors.Is(err, ErrConflict) || !strings.Contains(err.Error(), "the cluster is replaced") {
					t.Errorf("a start by hand: %v", err)
				}
				if runs := h.runs(); len(runs) > 0 {
					t.Fatalf("runs opened: %v", h.fates())
				}
				after(h, release)
				h.pass(time.Minute)
				run := h.only().Start
				if run.Service.Name != "b" {
					t.Errorf("started %+v", run)
				}
				if _, open, err := h.e.HoldStarts(t.Context(), "again"); err != nil || len(open) != 1 || open[0].Start.Run != run.Run {
					t.Errorf("with an open run: %v, %v", open, err)
				}
				if _, _, err := h.e.StartRun(t.Context(), wish); err != nil {
					t.Errorf("an open run let the hold stand: %v", err)
				}
			})
		})
	}
}
