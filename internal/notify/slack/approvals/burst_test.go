package approvals

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/notify/slack"
	"github.com/inference-responder/responder/internal/notify/slack/slacktest"
)

// burstOf starts the service over as many questions as make a list of two.
func burstOf(t *testing.T, h *harness, s *slacktest.Server) (d running, list slacktest.Message) {
	t.Helper()
	d = h.open(t, s)
	for i := range 5 {
		h.asking(fmt.Sprintf("r-%d", i))
	}
	until(t, s, "five questions", func() bool { return len(posts(s)) == 5 })
	h.asking("r-5")
	h.asking("r-6")
	until(t, s, "a list of the others", func() bool { p := posts(s); return len(p) == 6 && says(p[5], "2 of 2 questions") })
	return d, posts(s)[5]
}

// The runs of a list that its channel never accepted are asked in the channels
// of the corrected configuration, once. What people have seen stays.
func TestListMovesToTheCorrectedChannels(t *testing.T) {
	const old, other = "C0OLD00001", "C0OTHER001"
	h, s := newHarness(t), workspace(t)
	for _, c := range []string{old, other} {
		s.AddChannel(slacktest.Conversation{ID: c, Name: strings.ToLower(c), Member: true})
	}
	h.channel = old
	first := h.open(t, s)
	for i := range 5 {
		h.asking(fmt.Sprintf("r-%d", i))
	}
	until(t, s, "five questions", func() bool { return len(s.Messages(old)) == 5 && len(h.records(KindSent)) == 5 })
	s.Archive(old, true)
	for i := range 4 {
		h.asking(fmt.Sprintf("r-%d", 5+i))
	}
	until(t, s, "the outage", func() bool { return len(h.records(KindOutage)) == 1 && len(h.records(KindAsking)) == 9 })
	if err := first.stop(); err != nil {
		t.Fatal(err)
	}
	h.place = func(s machine.State) string {
		if strings.HasSuffix(s.Start.Run, "8") {
			return other
		}
		return oncall
	}
	second := h.open(t, s)
	until(t, s, "the list", func() bool { p := posts(s); return len(p) == 1 && says(p[0], "3 of 3 questions") })
	until(t, s, "the list in the other channel", func() bool { m := s.Messages(other); return len(m) == 1 && says(m[0], "1 of 1 questions") })
	until(t, s, "that both are on record", func() bool { return len(h.records(KindPosted)) == 7 })
	if err := second.stop(); err != nil {
		t.Fatal(err)
	}
	third := h.open(t, s)
	if _, err := s.Click(ada, other, s.Messages(other)[0].TS, "responder.details"); err != nil {
		t.Fatal(err)
	}
	until(t, s, "the details", func() bool { return len(s.Views(ada)) == 1 })
	if _, err := s.ClickIn(ada, s.Views(ada)[0].ID, "responder.approve"); err != nil {
		t.Fatal(err)
	}
	until(t, s, "the decision in the list", func() bool { return says(s.Messages(other)[0], "0 of 1 questions") })
	if h.count("r-8", machine.GateDecided) != 1 || len(posts(s)) != 1 || len(s.Messages(other)) != 1 || third.Down()[old] != "archived" {
		t.Fatalf("%d and %d messages, down is %v", len(posts(s)), len(s.Messages(other)), third.Down())
	}
}

// A deleted list is posted again, once, in its current state.
func TestListThatIsGoneIsPostedAgain(t *testing.T) {
	h, s := newHarness(t), workspace(t)
	_, list := burstOf(t, h, s)
	s.Remove(oncall, list.TS)
	h.approved("r-5")
	until(t, s, "the list, again", func() bool { p := posts(s); return len(p) == 6 && p[5].TS != list.TS && says(p[5], "1 of 2 questions") })
	h.approved("r-6")
	until(t, s, "that it is edited", func() bool { p := posts(s); return len(p) == 6 && says(p[5], "0 of 2 questions") })
	lost := h.records(KindLost)
	if len(lost) != 1 || lost[0].List == "" || lost[0].Run != "" || lost[0].Reason != string(fault.NotFound) {
		t.Errorf("lost %+v", lost)
	}
}

// unreadable breaks runs and lets the service retry them until it gives up.
func (h *harness) unreadable(t *testing.T, s *slacktest.Server, d running, runs ...string) {
	t.Helper()
	h.mu.Lock()
	h.broken = map[string]bool{}
	for _, run := range runs {
		h.broken[run] = true
	}
	h.mu.Unlock()
	look := func() {
		for _, run := range runs {
			d.sender.mark(run)
		}
		d.sender.wake()
	}
	look()
	until(t, s, "that they cannot be read", func() bool {
		for _, run := range runs {
			if k, ok := d.ticket(run); !ok || k.unread.IsZero() {
				return false
			}
		}
		return true
	})
	h.mu.Lock()
	h.skew = unreadMost + time.Minute
	h.mu.Unlock()
	look()
}

// A run that cannot be read has no buttons, and does not keep later starts from
// forgetting closed records.
func TestUnreadableRunIsNotKeptForEver(t *testing.T) {
	h, s := newHarness(t), workspace(t)
	d := h.open(t, s)
	h.asking("r-1")
	until(t, s, "the question", one(s, "Approval needed"))
	until(t, s, "that it was seen", func() bool { return len(h.records(KindSent)) == 1 })
	h.unreadable(t, s, d, "r-1")
	until(t, s, "that a person has to look", one(s, "cannot be read"))
	until(t, s, "that it is given up", func() bool { r := h.records(KindClosed); return len(r) == 1 && r[0].Reason == reasonUnread })
	if says(posts(s)[0], "Approve") {
		t.Error("it can be approved")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.memory.needed() != d.memory.next {
		t.Errorf("a start reads from %d of %d", d.memory.needed(), d.memory.next)
	}
}

// An unreadable run is named in its list, and the list ends with the other
// runs.
func TestUnreadableRunInAList(t *testing.T) {
	h, s := newHarness(t), workspace(t)
	d, _ := burstOf(t, h, s)
	h.unreadable(t, s, d, "r-5")
	until(t, s, "that it is named", func() bool {
		return says(posts(s)[5], "responder runs show r-5") && says(posts(s)[5], "1 of 2 questions")
	})
	h.ended("r-6")
	until(t, s, "the end of the list", func() bool { return len(h.records(KindClosed)) == 1 })
}

// posting is a Slack that accepts posts.
type posting struct {
	Slack
	posts int
}

func (p *posting) Post(_ context.Context, channel string, _ slack.Meta, _ slack.Message) (slack.Ref, error) {
	p.posts++
	return slack.Ref{Channel: channel, TS: fmt.Sprint(p.posts)}, nil
}

// After a renewed token nothing waits because of the old one.
func TestRenewedTokenIsTriedAtOnce(t *testing.T) {
	h, p := newHarness(t), &posting{}
	h.asking("r-1")
	d, err := New(Options{Runs: h, Control: h, Memory: h, Slack: p, Names: h, Channel: func(machine.State) string { return oncall }})
	if err != nil {
		t.Fatal(err)
	}
	d.sender.next[""], d.sender.fails[""] = time.Now().Add(time.Hour), 9
	work := func() {
		d.sender.mark("r-1")
		if _, err := d.work(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	if work(); p.posts != 0 {
		t.Fatal("it does not wait")
	}
	if d.Renewed(); len(d.sender.woken) != 1 {
		t.Error("nobody is told to look")
	}
	if work(); p.posts != 1 || len(d.sender.fails) != 0 {
		t.Errorf("%d messages, failures %v", p.posts, d.sender.fails)
	}
}
