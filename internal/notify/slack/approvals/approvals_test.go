package approvals

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/notify/slack"
	"github.com/inference-responder/responder/internal/notify/slack/slacktest"
)

func says(m slacktest.Message, text string) bool {
	return strings.Contains(m.Text+"\n"+strings.Join(slacktest.Texts(m.Blocks), "\n"), text)
}

func one(s *slacktest.Server, text string) func() bool {
	return func() bool { p := posts(s); return len(p) == 1 && says(p[0], text) }
}

func TestApproveInSlack(t *testing.T) {
	h, s := newHarness(t), workspace(t)
	h.open(t, s)
	h.asking("r-1")
	until(t, s, "the question", one(s, "Approval needed"))
	m := posts(s)[0]
	for _, want := range []string{"turn r-1 to 6", "serving/r-1", "p99 is 4.2 s", "spec.replicas", "put 4 back", `slow_ratio{service="serving/r-1"} &lt; 0.01`, "user:ada", "4 now, at least 4 on the way, 6 after"} {
		if !says(m, want) {
			t.Errorf("the question does not say %q: %s", want, dump(s))
		}
	}
	if _, err := s.Click(ada, oncall, m.TS, "responder.approve"); err != nil {
		t.Fatal(err)
	}
	until(t, s, "the approval", one(s, "Approved"))
	h.applied("r-1")
	until(t, s, "the end in the thread", func() bool {
		last := threads(s)
		return len(last) > 0 && says(last[len(last)-1], "ended resolved")
	})
	until(t, s, "who decided", one(s, "user:ada"))
	if h.count("r-1", machine.Applied) != 1 || h.state("r-1").Ending.Outcome != machine.OutcomeResolved {
		t.Fatal("the run was not carried through")
	}
	if v := s.Violations(); len(v) > 0 {
		t.Fatal(v)
	}
}

func TestDenyTakesAReason(t *testing.T) {
	h, s := newHarness(t), workspace(t)
	h.open(t, s)
	h.asking("r-1")
	until(t, s, "the question", one(s, "Approval needed"))
	if _, err := s.Click(bob, oncall, posts(s)[0].TS, "responder.deny"); err != nil {
		t.Fatal(err)
	}
	until(t, s, "the dialog", func() bool { return len(s.Views(bob)) == 1 })
	if _, err := s.Submit(bob, s.Views(bob)[0].ID, "reason", "responder.reason", "not during the <!channel> launch"); err != nil {
		t.Fatal(err)
	}
	until(t, s, "the denial", one(s, "Denied"))
	until(t, s, "the reason", one(s, "launch"))
	if m := posts(s)[0].Mentions(); len(m) > 1 || len(m) == 1 && !strings.HasPrefix(m[0], "https://responder.example/") {
		t.Fatalf("a reason notifies people: %v", m)
	}
	if h.count("r-1", machine.Applied) != 0 || h.count("r-1", machine.GateDecided) != 1 {
		t.Fatal("a denied plan is not applied")
	}
}

func TestQuorumIsShownAsItGrows(t *testing.T) {
	h, s := newHarness(t), workspace(t)
	h.terms = &machine.Terms{Needs: []machine.Need{{Rule: "policy two, policy.yaml:3", From: []string{"user:ada", "user:bob"}, Quorum: 2}}}
	h.open(t, s)
	h.asking("r-1")
	until(t, s, "the question", one(s, "0 of 2"))
	ts := posts(s)[0].TS
	if _, err := s.Click(ada, oncall, ts, "responder.approve"); err != nil {
		t.Fatal(err)
	}
	until(t, s, "the first vote", one(s, "1 of 2 (`user:ada`)"))
	if _, err := s.Click(ada, oncall, ts, "responder.approve"); err != nil {
		t.Fatal(err)
	}
	until(t, s, "that one person is one vote", func() bool {
		e := s.Ephemerals()
		return len(e) == 1 && e[0].User == ada && says(e[0], "has voted already")
	})
	if h.phase("r-1") != machine.PhaseDeciding {
		t.Fatal("one person decided for two")
	}
	if _, err := s.Click(bob, oncall, ts, "responder.approve"); err != nil {
		t.Fatal(err)
	}
	until(t, s, "the approval", one(s, "Approved"))
}

func TestWhoMayNotDecideIsToldWhoMay(t *testing.T) {
	h, s := newHarness(t), workspace(t)
	s.AddUser(slacktest.User{ID: "U0STRANGER"})
	h.open(t, s)
	h.asking("r-1")
	until(t, s, "the question", one(s, "Approval needed"))
	for i, c := range []struct{ user, want string }{{eve, "user:ada, user:bob"}, {"U0STRANGER", "nobody is known by"}} {
		if _, err := s.Click(c.user, oncall, posts(s)[0].TS, "responder.approve"); err != nil {
			t.Fatal(err)
		}
		until(t, s, "the answer to "+c.user, func() bool { e := s.Ephemerals(); return len(e) == i+1 && e[i].User == c.user && says(e[i], c.want) })
	}
	if h.phase("r-1") != machine.PhaseDeciding || h.count("r-1", machine.DecisionIgnored) != 1 || len(h.records(KindRefused)) != 1 {
		t.Fatal("what led to nothing is not on record")
	}
}

// A re-plan edits the message. A button of the earlier plan decides nothing.
func TestReplanEditsTheMessage(t *testing.T) {
	h, s := newHarness(t), workspace(t)
	d := h.open(t, s)
	h.asking("r-1")
	until(t, s, "the question", one(s, "to 6"))
	ts := posts(s)[0].TS
	if _, err := s.Click(ada, oncall, ts, "responder.replan"); err != nil {
		t.Fatal(err)
	}
	until(t, s, "that the plan is void", one(s, "Plan voided"))
	h.planned("r-1", "7")
	until(t, s, "the new plan", one(s, "to 7"))
	old := h.records(KindAsking)[0].ID
	d.Click(t.Context(), slack.Click{Kind: slack.KindApprove, ID: old, UserID: ada, Channel: oncall, MessageTS: ts})
	until(t, s, "the answer", func() bool { return len(s.Ephemerals()) == 1 })
	if h.phase("r-1") != machine.PhaseDeciding || h.count("r-1", machine.DecisionIgnored) != 1 {
		t.Fatal("the button of a plan that is void decided something")
	}
}

func TestTwoAtOnceDecideOnce(t *testing.T) {
	h, s := newHarness(t), workspace(t)
	h.open(t, s)
	h.asking("r-1")
	until(t, s, "the question", one(s, "Approval needed"))
	ts := posts(s)[0].TS
	var wg sync.WaitGroup
	for _, who := range []string{ada, bob, ada, bob} {
		wg.Go(func() {
			_, _ = s.ClickStale(who, oncall, ts, "responder.approve")
			_, _ = s.Click(who, oncall, ts, "responder.approve")
		})
	}
	wg.Wait()
	until(t, s, "the approval", one(s, "Approved"))
	if h.count("r-1", machine.GateDecided) != 1 {
		t.Fatalf("%d decisions", h.count("r-1", machine.GateDecided))
	}
}

// TestKilledBetweenPostAndRecord crashes before each record in turn is stored.
// After the restart there is one message.
func TestKilledBetweenPostAndRecord(t *testing.T) {
	for _, kind := range []string{KindAsking, KindPosted, KindSent, KindClosed} {
		t.Run(kind, func(t *testing.T) {
			h, s := newHarness(t), workspace(t)
			killed := make(chan struct{})
			h.crash = func(r Record) error {
				if r.Kind == kind {
					close(killed)
					return errors.New("killed")
				}
				return nil
			}
			first := h.open(t, s)
			h.asking("r-1")
			if kind == KindClosed {
				until(t, s, "the question", one(s, "Approval needed"))
				if err := h.do("r-1", machine.Command{Kind: machine.CmdCancel, Decision: &machine.Decision{By: "user:ada", Reason: "test"}}); err != nil {
					t.Fatal(err)
				}
			}
			select {
			case <-killed:
			case <-time.After(time.Minute):
				t.Fatal("the record was never written")
			}
			if err := first.stop(); err == nil {
				t.Fatal("approvals that cannot remember go on")
			}
			h.mu.Lock()
			h.crash = nil
			h.mu.Unlock()
			h.open(t, s)
			if kind == KindClosed {
				until(t, s, "the end", one(s, "Withdrawn"))
				return
			}
			until(t, s, "the question", one(s, "Approval needed"))
			if _, err := s.Click(ada, oncall, posts(s)[0].TS, "responder.approve"); err != nil {
				t.Fatal(err)
			}
			until(t, s, "the approval", one(s, "Approved"))
		})
	}
}

func TestOutage(t *testing.T) {
	h, s := newHarness(t), workspace(t)
	h.open(t, s)
	h.asking("r-0")
	until(t, s, "a question before", one(s, "r-0"))
	s.Outage(true)
	h.asking("r-1")
	h.asking("r-2")
	until(t, s, "that it is on record", func() bool { return len(h.records(KindOutage)) == 1 })
	// Slack is down: the run is decided on the command line and goes on.
	if err := h.do("r-1", machine.Command{Kind: machine.CmdDecide, Decision: &machine.Decision{By: "user:ada", Approve: true, Channel: "cli"}}); err != nil {
		t.Fatal(err)
	}
	h.applied("r-1")
	s.Outage(false)
	until(t, s, "the question that is still open", func() bool { p := posts(s); return len(p) == 2 && says(p[1], "r-2") })
	until(t, s, "the recovery", func() bool { return len(h.records(KindRecovered)) == 1 })
	if p := posts(s); says(p[0], "r-1") || says(p[1], "r-1") {
		t.Fatal("a question that was answered meanwhile is asked again")
	}
}

func TestArchivedChannelIsNamed(t *testing.T) {
	h, s := newHarness(t), workspace(t)
	s.Archive(oncall, true)
	d := h.open(t, s)
	h.asking("r-1")
	until(t, s, "the outage", func() bool {
		r := h.records(KindOutage)
		return len(r) == 1 && r[0].Reason == "archived" && r[0].Channel == oncall
	})
	if d.Down()[oncall] != "archived" {
		t.Fatal(d.Down())
	}
	s.Archive(oncall, false)
	until(t, s, "the question", one(s, "Approval needed"))
}

func TestRestartSaysNothingNew(t *testing.T) {
	h, s := newHarness(t), workspace(t)
	first := h.open(t, s)
	for i := range 4 {
		h.asking(fmt.Sprintf("r-%d", i))
	}
	until(t, s, "the questions", func() bool { return len(posts(s)) == 4 && len(h.records(KindSent)) >= 4 })
	if err := first.stop(); err != nil {
		t.Fatal(err)
	}
	before := len(s.Calls("chat.postMessage")) + len(s.Calls("chat.update"))
	h.open(t, s)
	// A new message shows that the service has caught up.
	h.asking("r-9")
	until(t, s, "the new question", func() bool { return len(posts(s)) == 5 })
	if calls := len(s.Calls("chat.postMessage")) + len(s.Calls("chat.update")); calls != before+1 {
		t.Fatalf("%d calls after a restart over nothing new", calls-before-1)
	}
	if _, err := s.Click(ada, oncall, posts(s)[0].TS, "responder.approve"); err != nil {
		t.Fatal(err)
	}
	until(t, s, "a decision by a button of before", func() bool { return says(posts(s)[0], "Approved") })
}

func TestBurstBecomesOneList(t *testing.T) {
	h, s := newHarness(t), workspace(t)
	h.open(t, s)
	for i := range 12 {
		h.asking(fmt.Sprintf("r-%02d", i))
	}
	until(t, s, "five questions and a list", func() bool { p := posts(s); return len(p) == 6 && says(p[5], "7 of 7") })
	list := posts(s)[5]
	if _, err := s.Click(ada, oncall, list.TS, "responder.details"); err != nil {
		t.Fatal(err)
	}
	until(t, s, "the details", func() bool { return len(s.Views(ada)) == 1 })
	if _, err := s.ClickIn(ada, s.Views(ada)[0].ID, "responder.approve"); err != nil {
		t.Fatal(err)
	}
	until(t, s, "the decision in the list", func() bool { return says(posts(s)[5], "6 of 7") })
}

func TestReminderAndEscalationAreInTheThread(t *testing.T) {
	h, s := newHarness(t), workspace(t)
	h.terms = &machine.Terms{Remind: 2 * time.Minute, Tiers: []machine.Tier{{After: 5 * time.Minute, To: []string{"second-line", "pager"}}}}
	h.open(t, s)
	h.asking("r-1")
	until(t, s, "the question", one(s, "Approval needed"))
	h.advance(6 * time.Minute)
	if err := h.do("r-1", machine.Command{Kind: machine.CmdTick}); err != nil {
		t.Fatal(err)
	}
	until(t, s, "the thread", func() bool {
		th := threads(s)
		return len(th) > 0 && says(th[0], "still needed") && says(th[0], "second-line, pager is told")
	})
}

// Forged requests, which anybody can send, fill neither the journal nor the
// limit for what people did.
func TestForgedRequestsHideNobody(t *testing.T) {
	h, s := newHarness(t), workspace(t)
	d := h.open(t, s)
	for range 1000 {
		d.recordRefusal(t.Context(), slack.Refused{Reason: slack.BadSignature, Transport: slack.HTTP})
	}
	d.recordRefusal(t.Context(), slack.Refused{Reason: slack.WrongTeam, Transport: slack.HTTP, UserID: eve})
	records := h.records(KindRefused)
	if len(records) != refusedForgers+1 || records[len(records)-1].User != eve {
		t.Fatalf("%d records, the last %+v", len(records), records[len(records)-1])
	}
}

// A question that Slack refuses for its form is asked in a plain notice. It is
// never dropped.
func TestRefusedMessageIsAskedInPlainWords(t *testing.T) {
	h, s := newHarness(t), workspace(t)
	s.Fail("chat.postMessage", 1, slacktest.Fault{Code: "invalid_blocks"})
	h.open(t, s)
	h.asking("r-1")
	until(t, s, "the plain question", func() bool { p := posts(s); return len(p) == 1 && says(p[0], "responder approve r-1") })
	until(t, s, "that it was seen", func() bool { return len(h.records(KindSent)) == 1 })
	if err := h.do("r-1", machine.Command{Kind: machine.CmdDecide, Decision: &machine.Decision{By: "user:ada", Channel: "cli", Reason: "no"}}); err != nil {
		t.Fatal(err)
	}
	until(t, s, "the decision in the same message", func() bool { p := posts(s); return len(p) == 1 && says(p[0], "Denied") })
}

func TestRefusedInPlainWordsIsAnOutage(t *testing.T) {
	h, s := newHarness(t), workspace(t)
	s.Fail("chat.postMessage", 2, slacktest.Fault{Code: "something_new"})
	d := h.open(t, s)
	h.asking("r-1")
	until(t, s, "the outage", func() bool { return d.Down()[oncall] == string(fault.Invalid) })
	if outages := h.records(KindOutage); len(outages) != 1 {
		t.Fatal(outages)
	}
}

// A mistyped channel is corrected by a restart, also for waiting questions.
func TestQuestionMovesToTheCorrectedChannel(t *testing.T) {
	h, s := newHarness(t), workspace(t)
	h.channel = "C0WRONG001"
	first := h.open(t, s)
	h.asking("r-1")
	until(t, s, "the outage", func() bool { return len(h.records(KindOutage)) == 1 })
	if err := first.stop(); err != nil {
		t.Fatal(err)
	}
	h.channel = oncall
	second := h.open(t, s)
	until(t, s, "the question", one(s, "Approval needed"))
	until(t, s, "the end of the outage", func() bool { return len(second.Down()) == 0 })
	if err := second.stop(); err != nil {
		t.Fatal(err)
	}
	h.channel = "C0OTHER001" // messages that people have seen stay
	h.open(t, s)
	if _, err := s.Click(ada, oncall, posts(s)[0].TS, "responder.approve"); err != nil {
		t.Fatal(err)
	}
	until(t, s, "the decision", func() bool { return says(posts(s)[0], "Approved") })
	if n := len(posts(s)); n != 1 {
		t.Fatalf("%d messages", n)
	}
}

// Runs are not read while their channel has to wait: in an outage of hours
// there are a thousand of them.
func TestWaitingRunsAreNotRead(t *testing.T) {
	h := newHarness(t)
	h.asking("r-1")
	d, err := New(Options{
		Runs: h, Control: h, Memory: h, Slack: struct{ Slack }{}, Names: h, Channel: func(machine.State) string { return oncall },
	})
	if err != nil {
		t.Fatal(err)
	}
	d.memory.fold(Record{Kind: KindAsking, Run: "r-1", Channel: oncall, Gate: "g", ID: "0123456789"})
	later := time.Now().Add(time.Hour)
	d.sender.next[oncall] = later
	if at, err := d.show(t.Context(), "r-1"); err != nil || !at.Equal(later) || h.reads != 0 {
		t.Fatalf("go on at %s, %d reads, %v; want %s and none", at, h.reads, err, later)
	}
}
