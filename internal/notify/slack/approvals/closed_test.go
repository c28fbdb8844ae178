package approvals

import (
	"errors"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/notify/slack"
	"github.com/inference-responder/responder/internal/notify/slack/slacktest"
)

// A refused click that is journaled before the memory is folded does not make a
// start forget the shown messages.
func TestRefusedBeforeTheStartForgetsNothing(t *testing.T) {
	h := newHarness(t)
	records := []Record{{Kind: KindAsking, Run: "r-1", Gate: "g", ID: "0123456789", Channel: oncall}}
	for len(records) <= forgetEvery {
		records = append(records, Record{Kind: KindRefused, User: eve, Reason: "closed"})
	}
	if _, err := h.Append(t.Context(), records...); err != nil {
		t.Fatal(err)
	}
	d, err := New(Options{Runs: h, Control: h, Memory: h, Slack: struct{ Slack }{}, Names: h, Channel: func(machine.State) string { return oncall }})
	if err != nil {
		t.Fatal(err)
	}
	d.recordRefusal(t.Context(), slack.Refused{Reason: slack.WrongTeam, Transport: slack.HTTP, UserID: eve})
	if err := d.load(); err != nil {
		t.Fatal(err)
	}
	if d.memory.asked["0123456789"].run != "r-1" || h.forgot != 0 {
		t.Errorf("%d records were forgotten, known is %v", h.forgot, d.memory.asked)
	}
}

// A line of a thread that was not written when the service was killed is
// written by the next start, although the run does not change.
func TestKilledBetweenEditAndThread(t *testing.T) {
	h, s := newHarness(t), workspace(t)
	h.terms = &machine.Terms{Needs: []machine.Need{{Rule: "policy two, policy.yaml:3", From: []string{"user:ada", "user:bob"}, Quorum: 2}}}
	first := h.open(t, s)
	h.asking("r-1")
	until(t, s, "the question", one(s, "0 of 2"))
	until(t, s, "that it was seen", func() bool { return len(h.records(KindSent)) == 1 })
	killed := make(chan struct{})
	h.mu.Lock()
	h.crash = func(r Record) error {
		if r.Kind == KindOutage {
			close(killed)
			return errors.New("killed")
		}
		return nil
	}
	h.mu.Unlock()
	s.Fail("chat.postMessage", 1, slacktest.Fault{Code: "internal_error"})
	if _, err := s.Click(ada, oncall, posts(s)[0].TS, "responder.approve"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-killed:
	case <-time.After(time.Minute):
		t.Fatal("the thread was never tried")
	}
	_ = first.stop()
	h.mu.Lock()
	h.crash = nil
	h.mu.Unlock()
	h.open(t, s)
	until(t, s, "the vote in the thread", func() bool {
		th := threads(s)
		return len(th) == 1 && says(th[0], "approved by user:ada")
	})
}

// A dialog shows what its buttons stand for: buttons of a replaced plan are
// refused, and the details are those of the newest question.
func TestDialogOfAReplacedPlan(t *testing.T) {
	h, s := newHarness(t), workspace(t)
	h.terms = &machine.Terms{BreakGlass: []string{"user:bob"}}
	d := h.open(t, s)
	h.asking("r-1")
	until(t, s, "the question", one(s, "turn r-1 to 6"))
	ts := posts(s)[0].TS
	if _, err := s.Click(ada, oncall, ts, "responder.replan"); err != nil {
		t.Fatal(err)
	}
	until(t, s, "the void", func() bool { return h.count("r-1", machine.GateVoided) == 1 })
	h.planned("r-1", "8")
	until(t, s, "the fresh plan", one(s, "turn r-1 to 8"))
	old := slack.Click{ID: h.records(KindAsking)[0].ID, UserID: bob, Channel: oncall, MessageTS: ts}
	for i, kind := range []slack.Kind{slack.KindDeny, slack.KindBreakGlass} {
		old.Kind = kind
		d.Click(t.Context(), old)
		until(t, s, "that the plan was replaced", func() bool {
			e := s.Ephemerals()
			return len(e) == i+1 && says(e[i], "another plan replaced it") && len(h.records(KindRefused)) == i+1
		})
	}
	_, trigger, err := s.Payload(bob, oncall, ts, "responder.details", false)
	if err != nil {
		t.Fatal(err)
	}
	old.Kind, old.TriggerID = slack.KindDetails, trigger
	d.Click(t.Context(), old)
	until(t, s, "the details", func() bool { return len(s.Views(bob)) == 1 })
	view := s.Views(bob)[0].ID
	if _, err := s.ClickIn(bob, view, "responder.breakglass"); err != nil {
		t.Fatal(err)
	}
	until(t, s, "the dialog over it", func() bool { return len(s.Views(bob)) == 2 })
	for _, v := range s.Views(bob) {
		if v.ID == view {
			continue
		}
		if _, err := s.Submit(bob, v.ID, "reason", "responder.reason", "nobody else is awake"); err != nil {
			t.Fatal(err)
		}
	}
	until(t, s, "the decision by one alone", one(s, "BREAK-GLASS"))
}
