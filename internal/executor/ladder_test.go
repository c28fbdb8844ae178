package executor

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/executor/guard"
	"github.com/inference-responder/responder/internal/executor/ladder"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/playbook"
)

// firstOn is the first lever of the playbook ladder.
func firstOn(service string) ladder.LeverID {
	return ladder.LeverID{Playbook: "ladder", Service: service, State: "first", Lever: "test.turn"}
}

// trustIn returns the record of a lever, none when there is none.
func (h *rig) trustIn(id ladder.LeverID) ladder.Entry {
	for _, t := range h.e.Ladder(Filter{}) {
		if t.LeverID == id {
			return t
		}
	}
	return ladder.Entry{LeverID: id}
}

// incident lets an alert fire and gives the run that it started, after a time.
func (h *rig) incident(service string, d time.Duration) machine.State {
	h.t.Helper()
	h.post(alertOf("Slow", service))
	h.pass(d)
	all := h.runs()
	return all[len(all)-1]
}

// mustAgree holds that the record of levers is what the runs' own events say,
// and what a fresh start would read.
func (h *rig) mustAgree(when string) {
	h.t.Helper()
	want := map[ladder.LeverID]ladder.Figured{}
	for _, s := range h.runs() {
		events, err := h.e.RunEvents(s.Start.Run)
		if err != nil {
			h.t.Fatal(err)
		}
		if again, history, err := h.e.RunHistory(s.Start.Run); err != nil || again.Head != s.Head || again.Phase != s.Phase || len(history) != len(events) {
			h.t.Errorf("%s: the history of %s is another than its state: %v", when, s.Start.Run, err)
		}
		ended := s.Ending != nil
		for i, ev := range events {
			id := ladder.LeverID{Playbook: s.Start.Playbook, Service: s.Start.Service.Name, State: ev.State, Lever: "test.turn"}
			left := ended
			for _, later := range events[i:] {
				left = left || later.Kind == machine.EdgeTaken && later.State == ev.State
			}
			if !left {
				continue // the run is not done with it
			}
			f := want[id]
			switch ev.Kind {
			case machine.Applied:
				f.Attempts++
			case machine.Verified:
				f.Verified++
			case machine.Undone:
				f.Undone++
			case machine.WouldApply:
				f.WouldApply++
			case machine.VerifyEnded:
				switch {
				case ev.Reason == fault.Canceled:
					f.Overridden++
				case ev.Verdict == machine.VerdictImproved:
					f.Improved++
				case ev.Verdict == machine.VerdictInconclusive:
					f.Inconclusive++
				default:
					f.Ineffective++
				}
			default:
				continue
			}
			want[id] = f
		}
	}
	got := map[ladder.LeverID]ladder.Figured{}
	for _, t := range h.e.Ladder(Filter{}) {
		f := t.Figured
		f.Refused, f.Denied, f.Recovered, f.Watched = 0, 0, 0, 0
		if f != (ladder.Figured{}) {
			got[t.LeverID] = f
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		h.t.Errorf("%s: the ladder differs from the runs (-runs +ladder):\n%s", when, diff)
	}
	h.mustFold(when)
}

// recordOf returns an empty track record.
func recordOf(c ladder.Config) *ladder.TrackRecord {
	r, err := ladder.New(c)
	if err != nil {
		panic(err)
	}
	return r
}

// mustFold holds that the log gives what is in memory.
func (h *rig) mustFold(when string) {
	h.t.Helper()
	o := h.e.o
	o.Ladder = nil
	if h.options != nil {
		h.options(&o)
	}
	fresh, err := New(o)
	if err != nil {
		h.t.Fatal(err)
	}
	if err := fresh.loadLadder(); err != nil {
		h.t.Fatal(err)
	}
	if diff := cmp.Diff(h.e.Ladder(Filter{}), fresh.Ladder(Filter{})); diff != "" {
		h.t.Errorf("%s: the log gives another ladder (-memory +log):\n%s", when, diff)
	}
	if diff := cmp.Diff(h.e.ladder.Goods(""), fresh.ladder.Goods("")); diff != "" {
		h.t.Errorf("%s: the log gives another last good (-memory +log):\n%s", when, diff)
	}
}

// mustKeep holds that what the first lever makes of service a is last good when
// it was verified, and only then.
func (h *rig) mustKeep(verified bool) {
	h.t.Helper()
	want := []ladder.Good{}
	if verified {
		run := h.runs()[0]
		want = append(want, ladder.Good{Service: "a", Variable: "knob", Value: "5", Revision: "c2", Run: run.Start.Run, Lever: "test.turn"})
	}
	got := h.e.ladder.Goods("a")
	for i := range got {
		if got[i].At.IsZero() {
			h.t.Errorf("%+v has no time", got[i])
		}
		got[i].At = time.Time{}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		h.t.Errorf("last good -want +got:\n%s", diff)
	}
	value, revision, ok := h.e.ladder.LastGood("a", "knob")
	if _, newest, there := h.e.ladder.LastGood("a", ""); ok != verified || there != verified || newest != revision || verified && (value != "5" || revision != "c2") {
		h.t.Errorf("last good %q %q %v, newest %q %v", value, revision, ok, newest, there)
	}
}

// A lever that does not help three times in a row is put under people, says so
// everywhere, stays there over a restart, and is lifted by a person only.
func TestDemotion(t *testing.T) {
	bubble(t, func(t *testing.T, h *rig) {
		h.world.helps = func(int) bool { return false }
		h.start()
		for i := range 3 {
			if s := h.incident("a", time.Hour); s.Ending == nil {
				t.Fatalf("run %d is %s", i, s.Phase)
			}
			if got, want := h.world.told("is demoted to suggest on service a: 3 attempts in a row"), i/2; got != want {
				t.Errorf("after %d failures people were told %d times", i+1, got)
			}
		}
		h.mustAgree("after three")
		if err := h.stop(); err != nil {
			t.Fatal(err)
		}
		h.start()
		s := h.incident("a", time.Minute)
		if s.Gate == nil || !strings.HasPrefix(s.Gate.Needs[0].Rule, "ladder: demoted after 3 attempts") {
			t.Fatalf("people are not asked, or not told why: %s %+v", s.Phase, s.Gate)
		}
		if !strings.Contains(verdictOf(s.Lever.Guards, "ladder"), "responder ladder promote ladder a first") {
			t.Errorf("the guards do not say how to lift it: %+v", s.Lever.Guards)
		}
		if s := h.incident("b", time.Minute); s.Gate != nil || h.trustIn(firstOn("b")).Demoted {
			t.Error("another service pays for it")
		}
		h.decide(false) // or another run would ask
		h.pass(time.Hour)

		for _, bad := range []struct {
			id         ladder.LeverID
			by, reason string
			want       error
		}{
			{firstOn("a"), "", "x", ErrInvalid},
			{firstOn("a"), "user:ada", "", ErrInvalid},
			{firstOn("c"), "user:ada", "x", ErrNotFound},
			{ladder.LeverID{Playbook: "ladder", Service: "a", State: "second", Lever: ""}, "user:ada", "x", ErrNotFound},
		} {
			if err := h.e.PromoteLever(t.Context(), bad.id, bad.by, bad.reason); !errors.Is(err, bad.want) {
				t.Errorf("%+v: %v, want %v", bad, err, bad.want)
			}
		}
		if err := h.e.PromoteLever(t.Context(), ladder.LeverID{Playbook: "ladder", Service: "a", State: "test.turn", Lever: ""}, "user:ada", "the cause is fixed"); err != nil {
			t.Fatal(err)
		}
		if err := h.e.PromoteLever(t.Context(), firstOn("a"), "user:ada", "again"); !errors.Is(err, ErrConflict) {
			t.Errorf("promoted twice: %v", err)
		}
		h.mustFold("after the promotion")
		if got := h.trustIn(firstOn("a")); got.Level != playbook.Auto || got.Why != "demotion lifted by user:ada: the cause is fixed" {
			t.Errorf("promoted: %+v", got)
		}
		if s := h.incident("a", time.Minute); s.Gate != nil {
			t.Error("people are asked although a person lifted it")
		}
		h.pass(time.Hour)
		if h.trustIn(firstOn("a")).Demoted {
			t.Error("one failure after the promotion demotes again")
		}
	})
}

func verdictOf(guards []machine.GuardVerdict, name string) string {
	for _, g := range guards {
		if g.Guard == name {
			return g.Why
		}
	}
	return ""
}

// The ladder never loosens what a policy says, and the policy's own word is
// kept where it is the lower one.
func TestDemotionAndPolicy(t *testing.T) {
	tr := recordOf(ladder.Config{})
	id := firstOn("a")
	tr.Demote(ladder.Demotion{LeverID: id, Failed: 3, To: playbook.Suggest})
	canary := &machine.Cap{Level: playbook.Observe, Rule: "policy canary, policy.yaml:14"}
	for name, c := range map[string]struct {
		terms *machine.Terms
		level playbook.Autonomy
		rule  string
	}{
		"no policy":   {nil, playbook.Suggest, "ladder: "},
		"no cap":      {&machine.Terms{Policy: "p"}, playbook.Suggest, "ladder: "},
		"lower cap":   {&machine.Terms{Cap: canary}, playbook.Observe, "policy canary"},
		"same cap":    {&machine.Terms{Cap: &machine.Cap{Level: playbook.Suggest, Rule: "policy x"}}, playbook.Suggest, "policy x"},
		"higher cap":  {&machine.Terms{Cap: &machine.Cap{Level: playbook.Auto, Rule: "policy y"}}, playbook.Suggest, "ladder: "},
		"other terms": {&machine.Terms{Needs: []machine.Need{{Rule: "r"}}}, playbook.Suggest, "ladder: "},
	} {
		before := machine.Terms{}
		if c.terms != nil {
			before = *c.terms
		}
		got, d := tr.Terms(c.terms, id)
		if d == nil || got.Cap.Level != c.level || !strings.HasPrefix(got.Cap.Rule, c.rule) {
			t.Errorf("%s: %+v", name, got.Cap)
		}
		if c.terms != nil && !cmp.Equal(before, *c.terms) {
			t.Errorf("%s: the policy's own terms were changed", name)
		}
	}
	if got, d := tr.Terms(nil, firstOn("b")); got != nil || d != nil {
		t.Errorf("a lever that is not demoted gets terms %+v", got)
	}
}

// Every way a lever can end leaves the figures it should, and no other.
func TestResults(t *testing.T) {
	decide := func(c machine.Command) func(h *rig, id string) {
		return func(h *rig, id string) {
			if err := h.e.Command(h.t.Context(), id, c); err != nil {
				h.t.Error(err)
			}
		}
	}
	no := machine.Command{Kind: machine.CmdDecide, Decision: &machine.Decision{By: "user:ada", Reason: "no"}}
	stop := machine.Command{Kind: machine.CmdCancel, Decision: &machine.Decision{By: "user:ada", Reason: "by hand"}}
	suggest := func(o *Options) { o.Autonomy = playbook.Suggest }
	for name, c := range map[string]struct {
		options func(*Options)
		helps   func(int) bool
		do      func(h *rig, id string) // ten seconds after the alert
		want    ladder.Figured
	}{
		"verified":    {want: ladder.Figured{Attempts: 1, Verified: 1}},
		"ineffective": {helps: func(int) bool { return false }, want: ladder.Figured{Attempts: 1, Ineffective: 1, Undone: 1}},
		"denied":      {options: suggest, do: decide(no), want: ladder.Figured{Denied: 1}},
		"nobody":      {options: suggest, want: ladder.Figured{}},
		"approved":    {options: suggest, do: decide(yes("ada")), want: ladder.Figured{Attempts: 1, Verified: 1}},
		"withdrawn":   {options: suggest, do: func(h *rig, _ string) { h.post(resolvedOf(h.only().Start.Alert)) }, want: ladder.Figured{}},
		"cancelled":   {options: suggest, do: decide(stop), want: ladder.Figured{}},
		"in mid-air":  {do: decide(stop), want: ladder.Figured{Attempts: 1, Overridden: 1, Undone: 1}},
		"by others": {
			options: suggest,
			do: func(h *rig, id string) {
				h.world.before = func(e machine.Effect) {
					if e.Action == machine.ActionApply {
						h.world.object("a").generation++
					}
				}
				decide(yes("ada"))(h, id)
			},
			want: ladder.Figured{Overridden: 1},
		},
		"quarantined": {
			do: func(h *rig, id string) {
				h.quarantineNow(id)
				decide(release("put right by hand"))(h, id)
			},
			want: ladder.Figured{Attempts: 1, Overridden: 1},
		},
		"refused": {options: func(o *Options) {
			o.Policy = rules(func(guard.PolicyInput) (machine.Terms, machine.GuardVerdict) {
				return machine.Terms{}, machine.GuardVerdict{Why: "never"}
			})
		}, want: ladder.Figured{Refused: 1}},
		"observed": {options: func(o *Options) { o.Autonomy = playbook.Observe }, want: ladder.Figured{WouldApply: 1, Watched: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *rig) {
				h.options = c.options
				if c.helps != nil {
					h.world.helps = c.helps
				}
				h.start()
				id := h.incident("a", 10*time.Second).Start.Run
				if c.do != nil {
					c.do(h, id)
				}
				h.pass(2 * time.Hour)
				if s := h.runs()[0]; s.Ending == nil {
					t.Fatalf("the run is %s", s.Phase)
				}
				if diff := cmp.Diff(c.want, h.trustIn(firstOn("a")).Figured); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
				h.mustFold("at the end")
				h.mustKeep(c.want.Verified == 1)
			})
		})
	}
}
