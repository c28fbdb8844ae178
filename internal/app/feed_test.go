package app

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/notify/notifytest"
)

// brokenRuns are runs of which the state cannot be read; what entries say by
// themselves is there for those that events has.
type brokenRuns struct {
	aside  bool // the state is what could be salvaged
	events map[string][]machine.Event
}

func (b brokenRuns) RunState(id string) (machine.State, bool) {
	if !b.aside {
		return machine.State{}, false
	}
	return machine.State{Start: machine.Start{Run: id}, Phase: machine.PhaseHeld, Aside: &machine.Aside{Message: "cannot be folded"}}, true
}

func (b brokenRuns) RunEvents(id string) ([]machine.Event, error) {
	if e, ok := b.events[id]; ok {
		return e, nil
	}
	return nil, errors.New("cannot be read")
}

// A question of a run that cannot be read may be open, and people are told of
// it: whom its tier names when its own entry can be read, everybody otherwise.
func TestUnreadableQuestionIsTold(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	question := machine.Event{Kind: machine.GateOpened, At: at, Gate: &machine.Gate{
		ID: "g", Opened: at, Text: "roll back chat", Tiers: []machine.Tier{{After: time.Minute, To: []string{"pager"}}},
	}}
	asks := []machine.Event{question, {Kind: machine.GateReminded, At: at}, {Kind: machine.GateEscalated, At: at, Tier: 1}}
	for name, aside := range map[string]bool{"no state": false, "set aside": true} {
		t.Run(name, func(t *testing.T) {
			usual, pager := notifytest.StartReceiver(t), notifytest.StartReceiver(t)
			all := channelsOf(t, fmt.Sprintf(`
channels:
  - {name: usual, default: true, webhook: {url: %q}}
  - {name: pager, webhook: {url: %q}}
`, usual.URL, pager.URL))
			s, _ := startService(t, SandboxConfig())
			defer startFeeds(t, s, all, brokenRuns{aside, map[string][]machine.Event{
				"r-known": asks, "r-closed": append(slices.Clone(asks), machine.Event{Kind: machine.GateDecided}),
			}})()
			for _, run := range []string{"r-closed", "r-known", "r-unknown"} {
				appendEvents(t, s.journal, run, asks...)
			}
			damaged := audit.Record{Kind: string(machine.GateEscalated), Time: at, Data: []byte(`{"tier": "first"}`)}
			if _, err := s.journal.Append(t.Context(), audit.Append{Stream: runStreams + "r-damaged", After: audit.Any, Records: []audit.Record{damaged}}); err != nil {
				t.Fatal(err)
			}
			until(t, "what may be open", func() bool { return len(usual.Events()) == 4 && len(pager.Events()) == 3 })
			got := append(texts(usual), texts(pager)...)
			for i, want := range []string{
				"roll back chat|whether the question is still open", // the reminder
				"state of run r-unknown cannot be read",             // its reminder
				"state of run r-unknown cannot be read|(tier 1)",
				"state of run r-damaged cannot be read",
				"roll back chat|(tier 1)",
				"state of run r-unknown cannot be read|(tier 1)",
				"state of run r-damaged cannot be read",
			} {
				for part := range strings.SplitSeq(want, "|") {
					if !strings.Contains(got[i], part) {
						t.Errorf("%d: %s does not say %q", i, got[i], part)
					}
				}
			}
		})
	}
}

func texts(r *notifytest.Receiver) []string {
	var all []string
	for _, e := range r.Events() {
		all = append(all, string(e.Data))
	}
	return all
}

// A channel that is new is told of the escalations of questions that are open,
// once, and of nothing else that was before it.
func TestNewChannelHearsOfOpenEscalations(t *testing.T) {
	r := notifytest.StartReceiver(t)
	configuration := fmt.Sprintf("channels: [{name: pager, default: true, webhook: {url: %q, events: [run.started]}}]", r.URL)
	s, _ := startService(t, SandboxConfig())
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	opened, escalated := machine.Event{Kind: machine.GateOpened, At: at}, machine.Event{Kind: machine.GateEscalated, At: at.Add(time.Minute), Tier: 2}
	appendEvents(t, s.journal, "r-decided", machine.Event{Kind: machine.RunStarted, At: at}, opened, escalated, machine.Event{Kind: machine.GateDecided, At: at})
	appendEvents(t, s.journal, "r-asked-again", opened, escalated, opened)
	appendEvents(t, s.journal, "r-1", machine.Event{Kind: machine.RunStarted, At: at}, opened, escalated)
	appendEvents(t, s.journal, "r-2", opened, escalated)

	r.Fail(notifytest.Fault{Lose: true}) // the first is taken, and sent again by the same id
	told := func(want ...string) func() bool {
		return func() bool {
			ids := map[string]bool{}
			for _, e := range r.Events() {
				if strings.HasSuffix(e.Type, ".notice") {
					ids[e.ID] = true
				}
			}
			for _, id := range want {
				if !ids[id] {
					return false
				}
			}
			return len(ids) == len(want)
		}
	}
	stop := startFeeds(t, s, channelsOf(t, configuration), openRuns{at})
	until(t, "the escalations", told("r-1/gate#1/tier-2", "r-2/gate#1/tier-2"))
	until(t, "that the position is kept", func() bool {
		raw, err := s.journal.Meta("feed/pager")
		return err == nil && !strings.Contains(string(raw), "owed")
	})
	stop()
	before := len(r.Events())
	defer startFeeds(t, s, channelsOf(t, configuration), openRuns{at})()
	appendEvents(t, s.journal, "r-3", opened, escalated)
	until(t, "what comes later", told("r-1/gate#1/tier-2", "r-2/gate#1/tier-2", "r-3/gate#1/tier-2"))
	for i, e := range r.Events() {
		if strings.HasSuffix(e.Type, "run.started") || i >= before && e.Subject != "r-3" {
			t.Errorf("told of %s %s", e.Type, e.ID)
		}
	}
}

// A channel that was removed and is added again is new.
func TestChannelThatIsAddedAgainIsNew(t *testing.T) {
	s, _ := startService(t, SandboxConfig())
	position := func(names ...string) string {
		t.Helper()
		for _, name := range names {
			f := &feed{feedOptions: feedOptions{name: name}, journal: s.journal, log: slog.New(slog.DiscardHandler)}
			if err := f.begin(); err != nil {
				t.Fatal(err)
			}
		}
		raw, err := s.journal.Meta("feed/" + names[0])
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	kept := position("kept", "gone")
	if err := forgetFeeds(s.journal, []feedOptions{{name: "kept"}}); err != nil {
		t.Fatal(err)
	}
	appendEvents(t, s.journal, "r-1", machine.Event{Kind: machine.RunStarted})
	if got := position("kept"); got != kept {
		t.Errorf("a channel that stays went from %s to %s", kept, got)
	}
	if got := position("gone"); got == kept {
		t.Errorf("a channel that was gone goes on from %s", got)
	}
}

// The position that an earlier version kept is a number.
func TestFeedPositionOfBefore(t *testing.T) {
	s, _ := startService(t, SandboxConfig())
	appendEvents(t, s.journal, "r-1", machine.Event{Kind: machine.GateOpened}, machine.Event{Kind: machine.GateEscalated})
	for raw, want := range map[string]uint64{"1": 1, `{"next":1}`: 1, "99999": 0} {
		if err := s.journal.SetMeta("feed/a", []byte(raw)); err != nil {
			t.Fatal(err)
		}
		f := &feed{feedOptions: feedOptions{name: "a"}, journal: s.journal, log: slog.New(slog.DiscardHandler)}
		err := f.begin()
		if want == 0 {
			want = min(f.at.Next, s.journal.Size()) // no further than the log goes
		}
		if err != nil || f.at.Next != want || len(f.at.Owed) != 0 {
			t.Errorf("%s: %+v, %v", raw, f.at, err)
		}
	}
	if err := s.journal.SetMeta("feed/a", []byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := (&feed{feedOptions: feedOptions{name: "a"}, journal: s.journal}).begin(); err == nil {
		t.Error("a position that is none is taken")
	}
}
