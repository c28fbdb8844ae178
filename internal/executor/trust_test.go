package executor

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// firstOn is the first lever of the playbook ladder.
func firstOn(service string) LeverID { return LeverID{"ladder", service, "first", "test.turn"} }

// trustIn gives the record of a lever, none when there is none.
func (h *house) trustIn(id LeverID) Trust {
	for _, t := range h.e.Ladder(Filter{}) {
		if t.LeverID == id {
			return t
		}
	}
	return Trust{LeverID: id}
}

// incident lets an alert fire and gives the run that it started, after a time.
func (h *house) incident(service string, d time.Duration) machine.State {
	h.t.Helper()
	h.post(alertOf("Slow", service))
	h.pass(d)
	all := h.runs()
	return all[len(all)-1]
}

// mustAgree holds that the record of levers is what the runs' own events say,
// and what a fresh start would read.
func (h *house) mustAgree(when string) {
	h.t.Helper()
	want := map[LeverID]Figured{}
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
			id := LeverID{s.Start.Playbook, s.Start.Service.Name, ev.State, "test.turn"}
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
				case ev.Reason == machine.ReasonCanceled:
					f.Overridden++
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
	got := map[LeverID]Figured{}
	for _, t := range h.e.Ladder(Filter{}) {
		f := t.Figured
		f.Refused, f.Denied, f.Recovered, f.Watched = 0, 0, 0, 0
		if f != (Figured{}) {
			got[t.LeverID] = f
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		h.t.Errorf("%s: the ladder differs from the runs (-runs +ladder):\n%s", when, diff)
	}
	h.mustFold(when)
}

// mustFold holds that the log gives what is in memory.
func (h *house) mustFold(when string) {
	h.t.Helper()
	fresh, err := New(h.e.o)
	if err != nil {
		h.t.Fatal(err)
	}
	if err := fresh.loadTrust(); err != nil {
		h.t.Fatal(err)
	}
	if diff := cmp.Diff(h.e.Ladder(Filter{}), fresh.Ladder(Filter{})); diff != "" {
		h.t.Errorf("%s: the log gives another ladder (-memory +log):\n%s", when, diff)
	}
	if diff := cmp.Diff(h.e.Goods(""), fresh.Goods("")); diff != "" {
		h.t.Errorf("%s: the log gives another last good (-memory +log):\n%s", when, diff)
	}
}

// mustKeep holds that what the first lever makes of service a is last good when
// it was verified, and only then.
func (h *house) mustKeep(verified bool) {
	h.t.Helper()
	want := []Good{}
	if verified {
		run := h.runs()[0]
		want = append(want, Good{Service: "a", Variable: "knob", Value: "5", Revision: "c2", Run: run.Start.Run, Lever: "test.turn"})
	}
	got := h.e.Goods("a")
	for i := range got {
		if got[i].At.IsZero() {
			h.t.Errorf("%+v has no time", got[i])
		}
		got[i].At = time.Time{}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		h.t.Errorf("last good -want +got:\n%s", diff)
	}
	value, revision, ok := h.e.LastGood("a", "knob")
	if _, newest, there := h.e.LastGood("a", ""); ok != verified || there != verified || newest != revision || verified && (value != "5" || revision != "c2") {
		h.t.Errorf("last good %q %q %v, newest %q %v", value, revision, ok, newest, there)
	}
}

// A lever that does not help three times in a row is put under people, says so
// everywhere, stays there over a restart, and is let go by a person only.
func TestDemotion(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
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
		h.pass(time.Hour)

		for _, bad := range []struct {
			id         LeverID
			by, reason string
			want       error
		}{
			{firstOn("a"), "", "x", ErrInvalid},
			{firstOn("a"), "user:ada", "", ErrInvalid},
			{firstOn("c"), "user:ada", "x", ErrNotFound},
			{LeverID{"ladder", "a", "second", ""}, "user:ada", "x", ErrNotFound},
		} {
			if err := h.e.PromoteLever(t.Context(), bad.id, bad.by, bad.reason); !errors.Is(err, bad.want) {
				t.Errorf("%+v: %v, want %v", bad, err, bad.want)
			}
		}
		if err := h.e.PromoteLever(t.Context(), LeverID{"ladder", "a", "test.turn", ""}, "user:ada", "the cause is fixed"); err != nil {
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
	tr := newTrust(LadderConfig{})
	id := firstOn("a")
	tr.demote(Demotion{LeverID: id, Failed: 3, To: playbook.Suggest})
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
		got, d := tr.terms(c.terms, id)
		if d == nil || got.Cap.Level != c.level || !strings.HasPrefix(got.Cap.Rule, c.rule) {
			t.Errorf("%s: %+v", name, got.Cap)
		}
		if c.terms != nil && !cmp.Equal(before, *c.terms) {
			t.Errorf("%s: the policy's own terms were changed", name)
		}
	}
	if got, d := tr.terms(nil, firstOn("b")); got != nil || d != nil {
		t.Errorf("a lever that is not demoted gets terms %+v", got)
	}
}

// Every way a lever can end leaves the figures it should, and no other.
func TestResults(t *testing.T) {
	decide := func(c machine.Command) func(h *house, id string) {
		return func(h *house, id string) {
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
		do      func(h *house, id string) // ten seconds after the alert
		want    Figured
	}{
		"verified":    {want: Figured{Attempts: 1, Verified: 1}},
		"ineffective": {helps: func(int) bool { return false }, want: Figured{Attempts: 1, Ineffective: 1, Undone: 1}},
		"denied":      {options: suggest, do: decide(no), want: Figured{Denied: 1}},
		"nobody":      {options: suggest, want: Figured{}},
		"approved":    {options: suggest, do: decide(yes("ada")), want: Figured{Attempts: 1, Verified: 1}},
		"withdrawn":   {options: suggest, do: func(h *house, _ string) { h.post(resolvedOf(h.only().Start.Alert)) }, want: Figured{}},
		"cancelled":   {options: suggest, do: decide(stop), want: Figured{}},
		"in mid-air":  {do: decide(stop), want: Figured{Attempts: 1, Overridden: 1, Undone: 1}},
		"by others": {
			options: suggest,
			do: func(h *house, id string) {
				h.world.before = func(e machine.Effect) {
					if e.Action == machine.ActionApply {
						h.world.object("a").generation++
					}
				}
				decide(yes("ada"))(h, id)
			},
			want: Figured{Overridden: 1},
		},
		"set aside": {
			do: func(h *house, id string) {
				h.setAsideNow(id)
				decide(letGo("put right by hand"))(h, id)
			},
			want: Figured{Attempts: 1, Overridden: 1},
		},
		"refused": {options: func(o *Options) {
			o.Policy = rules(func(PolicyInput) (machine.Terms, machine.GuardVerdict) {
				return machine.Terms{}, machine.GuardVerdict{Why: "never"}
			})
		}, want: Figured{Refused: 1}},
		"observed": {options: func(o *Options) { o.Autonomy = playbook.Observe }, want: Figured{WouldApply: 1, Watched: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, h *house) {
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

// The alert of a run that only observed recovers by itself, or after another run
// acted, or does not within a day. All of that survives restarts.
func TestShadow(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		h.options = func(o *Options) { o.Autonomy = playbook.Observe }
		h.start()
		one, two := alertOf("Slow", "a"), alertOf("Slow", "a")
		two.Fingerprint += "-2"
		h.post(one, two)
		h.post(alertOf("Slow", "b"))
		h.pass(time.Minute)
		if n := h.trustIn(firstOn("a")).Watched + h.trustIn(firstOn("b")).Watched; n != 2 {
			t.Fatalf("%d runs are watched, want 2: %v", n, h.fates())
		}
		h.post(resolvedOf(one))
		restart := func() {
			if err := h.stop(); err != nil {
				t.Fatal(err)
			}
			h.start()
		}
		restart()
		if sh := h.shadow("a"); sh == nil || sh.Known {
			t.Fatalf("one of two alerts resolved: %+v", sh)
		}
		h.pass(6 * time.Minute)
		h.post(resolvedOf(two))
		sh := h.shadow("a")
		if sh == nil || !sh.Recovered || sh.Acted != "" || sh.After.Round(time.Minute) != 7*time.Minute {
			t.Fatalf("both resolved: %+v", sh)
		}
		h.pass(26 * time.Hour)
		restart()
		if sh := h.shadow("b"); sh == nil || !sh.Known || sh.Recovered || sh.After < 24*time.Hour {
			t.Errorf("it never resolved: %+v", sh)
		}
		if sh := h.shadow("a"); sh == nil || !sh.Recovered {
			t.Errorf("forgotten: %+v", sh)
		}
		a, b := h.trustIn(firstOn("a")), h.trustIn(firstOn("b"))
		if a.Recovered != 1 || b.Recovered != 0 || a.Watched+b.Watched != 0 || a.WouldApply != 1 {
			t.Errorf("a %+v, b %+v", a.Figured, b.Figured)
		}
		h.mustAgree("at the end")
	})
}

func (h *house) shadow(service string) *machine.Shadow {
	h.t.Helper()
	for _, r := range h.runs() {
		if r.Start.Service.Name == service {
			s, _ := h.e.RunState(r.Start.Run)
			return s.Shadow
		}
	}
	return nil
}

// An alert that recovers after another run changed the service did not recover
// by itself.
func TestShadowNotByItself(t *testing.T) {
	bubble(t, func(t *testing.T, h *house) {
		h.options = func(o *Options) { o.Autonomy = playbook.Observe }
		h.start()
		a := alertOf("Slow", "a")
		h.post(a)
		h.pass(time.Minute)
		h.e.ledger.applied(machine.Start{Run: "r-other", Service: playbook.Service{Name: "a"}}, time.Now())
		h.pass(time.Minute)
		h.post(resolvedOf(a))
		if sh := h.shadow("a"); sh == nil || sh.Acted != "r-other" || h.trustIn(firstOn("a")).Recovered != 0 {
			t.Errorf("%+v", sh)
		}
	})
}

// What was learned is there after a crash at any place, and counts once.
func TestTrustSurvivesCrashes(t *testing.T) {
	for _, autonomy := range []playbook.Autonomy{playbook.Observe, playbook.Auto} {
		for k := 1; ; k++ {
			crashed := ""
			bubble(t, func(t *testing.T, h *house) {
				h.world.helps = func(int) bool { return false }
				stop := h.stopAt(k)
				failpoint := h.options
				h.options = func(o *Options) {
					failpoint(o)
					o.Autonomy, o.Ladder = autonomy, LadderConfig{DemoteAfter: 1}
				}
				h.start()
				a := alertOf("Slow", "a")
				h.post(a)
				h.passUntil(func() bool { return stop.at() != "" })
				if crashed = stop.at(); crashed == "" {
					return
				}
				h.crashed()
				h.end, h.options = nil, func(o *Options) { o.Autonomy, o.Ladder = autonomy, LadderConfig{DemoteAfter: 1} }
				h.start()
				h.pass(time.Hour)
				h.post(resolvedOf(a))
				when := fmt.Sprintf("%s, crash %d at %s", autonomy, k, crashed)
				h.mustAgree(when)
				got := h.trustIn(firstOn("a"))
				if autonomy == playbook.Observe && (got.Recovered != 1 || got.Watched != 0) {
					t.Errorf("%s: %+v", when, got.Figured)
				}
				if n := h.world.told("is demoted"); autonomy == playbook.Auto && (!got.Demoted || n < 1 || n > 2) {
					t.Errorf("%s: demoted %v, people told %d times", when, got.Demoted, n)
				}
			})
			if crashed == "" {
				break
			}
		}
	}
}

// Whatever happens to levers in whatever order, with restarts between, the
// figures are those that a plain count gives, a demotion stands exactly after so
// many failures in a row, and promotion is only proposed.
func TestTrustAgainstModel(t *testing.T) {
	all := []Result{ResultVerified, ResultIneffective, ResultInconclusive, ResultOverridden, ResultRefused, ResultDenied, ResultWouldApply}
	rapid.Check(t, func(rt *rapid.T) {
		c := LadderConfig{DemoteAfter: rapid.IntRange(0, 4).Draw(rt, "after"), Within: 10 * time.Hour, ProposeAfter: 3}
		ops := rapid.SliceOfN(rapid.IntRange(0, len(all)+1), 0, 60).Draw(rt, "ops")
		synctest.Test(t, func(t *testing.T) {
			h := newHouse(t)
			h.options = func(o *Options) { o.Ladder, o.Autonomy = c, playbook.Suggest }
			h.start()
			want, row, streak, demoted := Figured{}, []time.Time{}, 0, false
			for i, op := range ops {
				h.pass(time.Duration(1+op) * time.Hour)
				switch {
				case op == len(all): // restart
					if err := h.stop(); err != nil {
						rt.Fatal(err)
					}
					h.start()
				case op > len(all):
					if err := h.e.PromoteLever(t.Context(), firstOn("a"), "user:ada", "why not"); (err == nil) != demoted {
						rt.Fatalf("promote while demoted is %v: %v", demoted, err)
					}
					if demoted {
						row, streak, demoted = nil, 0, false
					}
				default:
					h.learn(all[op], i)
					want.add(LeverResult{Result: all[op], Applied: all[op] == ResultVerified || all[op].failed()})
					switch {
					case all[op] == ResultVerified:
						row, streak = nil, streak+1
					case all[op].failed():
						row, streak = append(row, time.Now()), 0
					case all[op] == ResultOverridden, all[op] == ResultDenied:
						streak = 0
					}
					if n := len(row); c.DemoteAfter > 0 && n >= c.DemoteAfter && all[op].failed() && time.Since(row[n-c.DemoteAfter]) <= c.Within {
						demoted = true
					}
				}
				got := h.trustIn(firstOn("a"))
				if got.Figured != want || got.Demoted != demoted || got.Streak != streak {
					rt.Fatalf("after %v: %+v, want %+v, demoted %v, streak %d", ops[:i+1], got, want, demoted, streak)
				}
				if proposed := strings.HasPrefix(got.Proposal, "propose auto"); proposed != (streak >= 3) {
					rt.Fatalf("after %v: streak %d, proposal %q", ops[:i+1], streak, got.Proposal)
				}
			}
			h.mustFold(fmt.Sprint(ops))
		})
	})
}

// learn commits a result as a run's batch does.
func (h *house) learn(r Result, i int) {
	h.t.Helper()
	e := h.e
	l := lesson{results: []LeverResult{{LeverID: firstOn("a"), Run: fmt.Sprintf("r-%d", i), Result: r, Applied: r == ResultVerified || r.failed()}}}
	now := e.clock.now()
	l.demotions = e.trust.demotions(l.results, now)
	a, _ := l.append(now)
	if err := e.append(a); err != nil {
		h.t.Fatal(err)
	}
	e.trust.take(l, now)
}

// BenchmarkLoadTrust folds what a hundred thousand levers came to, on a hundred
// services.
func BenchmarkLoadTrust(b *testing.B) {
	const records = 100_000
	j, err := audit.OpenTemp()
	if err != nil {
		b.Fatal(err)
	}
	defer j.Close()
	var l lesson
	for i := range records {
		l.results = append(l.results, LeverResult{
			LeverID: firstOn(fmt.Sprintf("team-%d/service", i%100)), Run: fmt.Sprintf("r-%026d", i),
			Result: ResultVerified, Level: playbook.Auto, Applied: true,
		})
		if len(l.results) == audit.MaxBatch {
			a, _ := l.append(time.Now())
			if _, err := j.Append(b.Context(), a); err != nil {
				b.Fatal(err)
			}
			l.results = nil
		}
	}
	e := &Executor{o: Options{Journal: j}}
	for b.Loop() {
		e.trust = newTrust(LadderConfig{})
		if err := e.loadTrust(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/records, "ns/record")
}
