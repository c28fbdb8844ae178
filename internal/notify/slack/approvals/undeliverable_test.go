package approvals

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/notify/slack/slacktest"
)

// approved approves a run on the command line.
func (h *harness) approved(run string) { h.ordered(run, machine.CmdDecide) }

// ended ends a run that asks.
func (h *harness) ended(run string) {
	h.t.Helper()
	if h.ordered(run, machine.CmdCancel); h.phase(run) != machine.PhaseEnded {
		h.t.Fatal("the run goes on")
	}
}

func (h *harness) ordered(run string, c machine.CommandKind) {
	h.t.Helper()
	if err := h.do(run, machine.Command{Kind: c, Decision: &machine.Decision{By: "user:ada", Approve: true, Channel: "cli", Reason: "test"}}); err != nil {
		h.t.Fatal(err)
	}
}

// An edit that Slack refuses for its form is replaced by a plain notice, and
// the next edit is shown in full again.
func TestRefusedEditIsSaidInPlainWords(t *testing.T) {
	h, s := newHarness(t), workspace(t)
	h.open(t, s)
	h.asking("r-1")
	until(t, s, "the question", one(s, "Approval needed"))
	until(t, s, "that it was seen", func() bool { return len(h.records(KindSent)) == 1 })
	s.Fail("chat.update", 1, slacktest.Fault{Code: "invalid_blocks"})
	h.approved("r-1")
	until(t, s, "the plain words", one(s, "Approval for serving/r-1: approved"))
	h.applied("r-1")
	until(t, s, "the end in full", one(s, "user:ada"))
	if n := len(h.records(KindOutage)); n != 0 {
		t.Errorf("%d outages", n)
	}
}

// A refused plain notice is an outage, as for a new message.
func TestEditRefusedInPlainWordsIsAnOutage(t *testing.T) {
	h, s := newHarness(t), workspace(t)
	d := h.open(t, s)
	h.asking("r-1")
	until(t, s, "the question", one(s, "Approval needed"))
	until(t, s, "that it was seen", func() bool { return len(h.records(KindSent)) == 1 })
	s.Fail("chat.update", 2, slacktest.Fault{Code: "something_new"})
	h.approved("r-1")
	until(t, s, "the outage", func() bool { return d.Down()[oncall] == string(fault.Invalid) })
	h.applied("r-1")
	until(t, s, "the end", one(s, "user:ada"))
	until(t, s, "the recovery", func() bool { return len(d.Down()) == 0 })
}

// A line of the thread that Slack refuses is written as a plain notice. Refused
// again it is journaled and omitted, and later lines are written.
func TestRefusedLineOfTheThread(t *testing.T) {
	for refusals, want := range map[int]string{1: "Slack refused what happened in run r-1", 2: ""} {
		h, s := newHarness(t), workspace(t)
		h.terms = &machine.Terms{Remind: 2 * time.Minute, Tiers: []machine.Tier{{After: 5 * time.Minute, To: []string{"pager"}}}}
		h.open(t, s)
		h.asking("r-1")
		until(t, s, "the question", one(s, "Approval needed"))
		s.Fail("chat.postMessage", refusals, slacktest.Fault{Code: "msg_too_long"})
		h.advance(3 * time.Minute)
		if err := h.do("r-1", machine.Command{Kind: machine.CmdTick}); err != nil {
			t.Fatal(err)
		}
		if want != "" {
			until(t, s, "the plain line", func() bool { th := threads(s); return len(th) == 1 && says(th[0], want) })
		} else {
			until(t, s, "that it is on record", func() bool {
				r := h.records(KindLeft)
				return len(r) == 1 && r[0].Reason == "invalid" && r[0].Run == "r-1"
			})
		}
		h.advance(3 * time.Minute)
		if err := h.do("r-1", machine.Command{Kind: machine.CmdTick}); err != nil {
			t.Fatal(err)
		}
		until(t, s, "the next line", func() bool {
			th := threads(s)
			return len(th) == 2-len(h.records(KindLeft)) && says(th[len(th)-1], "pager is told") && !says(th[len(th)-1], "still needed")
		})
	}
}

// A message that was deleted, or belongs to another app, is posted again in its
// current state, once, also when the service is killed meanwhile and the run
// has ended.
func TestMessageThatIsGoneIsPostedAgain(t *testing.T) {
	for _, ended := range []bool{false, true} {
		h, s := newHarness(t), workspace(t)
		first := h.open(t, s)
		h.asking("r-1")
		until(t, s, "the question", one(s, "Approval needed"))
		until(t, s, "that it was seen", func() bool { return len(h.records(KindSent)) == 1 })
		if err := first.stop(); err != nil {
			t.Fatal(err)
		}
		want := "Approved"
		if ended {
			want = "Withdrawn"
			h.ended("r-1")
			s.Remove(oncall, posts(s)[0].TS)
		} else {
			h.approved("r-1")
			s.Fail("chat.update", 1, slacktest.Fault{Code: "cant_update_message"})
		}
		killed := make(chan struct{})
		h.crash = func(r Record) error {
			if r.Kind == KindPosted {
				close(killed)
				return errors.New("killed")
			}
			return nil
		}
		second := h.open(t, s)
		select {
		case <-killed:
		case <-time.After(30 * time.Second):
			t.Fatal("no message was posted again")
		}
		_ = second.stop()
		h.mu.Lock()
		h.crash = nil
		h.mu.Unlock()
		before := len(h.records(KindSent))
		h.open(t, s)
		until(t, s, "how things are", func() bool {
			p := posts(s)
			return len(p) > 0 && says(p[len(p)-1], want) && len(h.records(KindSent)) > before
		})
		posted, old := 0, 0
		for _, m := range posts(s) {
			if says(m, want) {
				posted++
			} else {
				old++
			}
		}
		if posted != 1 || ended == (old == 1) || len(h.records(KindLost)) != 1 {
			t.Errorf("ended %v: %d new messages, %d old, %v", ended, posted, old, h.records(KindLost))
		}
	}
}

// Once a channel is unarchived, people see the outcome there.
func TestUnarchivedChannelShowsTheEnd(t *testing.T) {
	h, s := newHarness(t), workspace(t)
	h.open(t, s)
	h.asking("r-1")
	until(t, s, "the question", one(s, "Approval needed"))
	s.Archive(oncall, true)
	h.ended("r-1")
	until(t, s, "the outage", func() bool { return len(h.records(KindOutage)) == 1 })
	s.Archive(oncall, false)
	until(t, s, "the end", one(s, "Withdrawn"))
}

// A channel that stays archived is not retried without end.
func TestArchivedForLongIsGivenUp(t *testing.T) {
	h, s := newHarness(t), workspace(t)
	d := h.open(t, s)
	for _, run := range []string{"r-1", "r-2", "r-3"} {
		h.asking(run)
	}
	until(t, s, "the questions", func() bool { return len(posts(s)) == 3 && len(h.records(KindSent)) == 3 })
	s.Archive(oncall, true)
	h.ended("r-1")
	h.ended("r-2")
	until(t, s, "the outage", func() bool { return len(h.records(KindOutage)) == 1 })
	h.mu.Lock()
	h.skew = giveUpAfter + time.Hour
	h.mu.Unlock()
	until(t, s, "that both are given up", func() bool { return len(h.records(KindClosed)) == 2 })
	for _, r := range h.records(KindClosed) {
		if r.Reason != "archived" || r.Message == "" || r.Run == "r-3" {
			t.Errorf("closed %+v", r)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.memory.tickets) != 1 {
		t.Errorf("%d runs are kept, one goes on", len(d.memory.tickets))
	}
}

// Runs in a list use its thread. A reply that was written before the service
// was killed is not written twice.
func TestRunsInAListAreToldInItsThread(t *testing.T) {
	h, s := newHarness(t), workspace(t)
	h.terms = &machine.Terms{Remind: 2 * time.Minute, Tiers: []machine.Tier{{After: 5 * time.Minute, To: []string{"pager"}}}}
	first, list := burstOf(t, h, s)
	told := func(run, text string) int {
		return len(slices.DeleteFunc(threads(s), func(m slacktest.Message) bool {
			return m.ThreadTS != list.TS || !says(m, "run "+run+":") || !says(m, text)
		}))
	}
	killed := make(chan struct{})
	h.mu.Lock()
	h.crash = func(r Record) error {
		if r.Kind == KindSent && r.Run == "r-5" {
			close(killed)
			return errors.New("killed")
		}
		return nil
	}
	h.mu.Unlock()
	h.advance(3 * time.Minute)
	for _, run := range []string{"r-5", "r-6"} {
		if err := h.do(run, machine.Command{Kind: machine.CmdTick}); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-killed:
	case <-time.After(30 * time.Second):
		t.Fatal("nothing was told")
	}
	_ = first.stop()
	h.mu.Lock()
	h.crash = nil
	h.mu.Unlock()
	h.open(t, s)
	until(t, s, "the reminders", func() bool { return told("r-5", "still needed") > 0 && told("r-6", "still needed") > 0 })
	h.advance(3 * time.Minute)
	if err := h.do("r-5", machine.Command{Kind: machine.CmdTick}); err != nil {
		t.Fatal(err)
	}
	h.ended("r-5")
	h.ended("r-6")
	until(t, s, "the end of the list", func() bool { return len(h.records(KindClosed)) == 1 })
	for _, want := range [][2]string{{"r-5", "still needed"}, {"r-6", "still needed"}, {"r-5", "pager is told"}, {"r-5", "ended"}, {"r-6", "ended"}} {
		if n := told(want[0], want[1]); n != 1 {
			t.Errorf("%s %q is told %d times: %s", want[0], want[1], n, dump(s))
		}
	}
}

// The next start reads the needed records and no closed ones.
func TestStartReadsWhatIsNeeded(t *testing.T) {
	h := newHarness(t)
	start := func() *Approvals {
		d, err := New(Options{Runs: h, Control: h, Memory: h, Slack: struct{ Slack }{}, Names: h, Channel: func(machine.State) string { return oncall }})
		if err != nil {
			t.Fatal(err)
		}
		h.folded = 0
		if err := d.load(); err != nil {
			t.Fatal(err)
		}
		return d
	}
	over := func(d *Approvals, n int) {
		d.mu.Lock()
		defer d.mu.Unlock()
		for range n {
			run := newID()
			if err := d.note(t.Context(), Record{Kind: KindAsking, Run: run, Gate: run + "/g", ID: newID(), Channel: oncall},
				Record{Kind: KindPosted, Run: run, Channel: oncall, TS: "1.0"}, Record{Kind: KindClosed, Run: run}); err != nil {
				t.Fatal(err)
			}
		}
	}
	d := start()
	over(d, 2000)
	for range 3 {
		if d = start(); h.folded > forgetEvery {
			t.Errorf("%d records of what is over were read", h.folded)
		}
	}
	d.mu.Lock()
	if err := d.note(t.Context(), Record{Kind: KindOutage, Channel: "C0GONE0001", Reason: "archived"}, Record{Kind: KindAsking, Run: "r-1", Gate: "g", ID: "0123456789", Channel: oncall}); err != nil {
		t.Fatal(err)
	}
	d.mu.Unlock()
	over(d, 2000)
	start()
	d = start()
	if d.memory.asked["0123456789"].run != "r-1" || d.Down()["C0GONE0001"] != "archived" || h.folded != 6002 {
		t.Errorf("%v, %v, %d records", d.memory.asked, d.Down(), h.folded)
	}
}
