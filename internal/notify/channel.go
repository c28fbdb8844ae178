package notify

import (
	"context"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/setting"
)

// Channel is one place where people are told. Its methods may be called
// concurrently. Their errors are a [*fault.Error], whose reason tells whether to
// try again; a channel tries nothing again by itself.
type Channel interface {
	// Tell delivers a notice. A notice with the same key may come again, when
	// its delivery was in doubt.
	Tell(ctx context.Context, n Notice) error
}

// Follower is a channel that also follows every run.
type Follower interface {
	// Follows returns the kinds of events that the channel is sent.
	Follows() []machine.EventKind
	// TellFact delivers an event of one of these kinds, possibly again. One that
	// it refuses as invalid is left out.
	TellFact(ctx context.Context, f Fact) error
}

// Settings are the block of one channel in responder.yaml.
type Settings interface {
	setting.Block
	// Open reads the files of the settings and returns the channel. It does not
	// connect.
	Open(link Link) (Channel, error)
}

// Notice is one message to people.
type Notice struct {
	Key      string // idempotency key: the same notice has the same key
	Run      string
	Playbook string
	State    string
	Service  playbook.Service
	Alert    playbook.Alert
	Text     string
	To       []string  // channels by their configured names; empty: the default ones
	Urgent   bool      // a person has to take over
	Asks     bool      // a question was just asked, which is shown elsewhere too
	At       time.Time // when it was decided that people are told
}

// Fact is one event of a run.
type Fact struct {
	ID    string // idempotency key: the same fact has the same ID
	Run   string
	Event machine.Event // only kind, time and a message about it when its entry cannot be read
	State machine.State // the current one, which may be later than the event

	// PeopleTold reports whether people were told something of the run. It is
	// set for the end of a run only, and true when nobody can tell.
	PeopleTold bool

	unread bool          // of a reminder or an escalation: the run's state does not tell whether the question is open
	gate   *machine.Gate // the question, when unread and its own entry can be read
}

// Plan returns what the lever of the event changes, in words; empty: unknown.
func (f Fact) Plan() string {
	if l := f.State.Lever; l != nil && l.Plan != nil && l.State == f.Event.State {
		return l.Plan.Summary
	}
	return ""
}

// Link is the external URL of this service. Empty: messages have no links.
type Link string

// Of returns the address of what a notice is about: the page of its run, or else the first
// page; empty: there is none.
func (l Link) Of(n Notice) string {
	if n.Run == "" {
		return string(l)
	}
	return l.Run(n.Run)
}

// Run returns the address of a run's page; empty: there is none.
func (l Link) Run(id string) string {
	if l == "" || id == "" {
		return ""
	}
	return strings.TrimSuffix(string(l), "/") + "/runs/" + id
}
