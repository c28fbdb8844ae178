package approvals

import (
	"slices"
	"time"

	"github.com/inference-responder/responder/internal/notify/slack"
)

// Kinds of records in the stream. The names are stored and never change
// meaning.
const (
	KindAsking    = "desk.asking"    // a gate got its identifier; its message comes next
	KindPosted    = "desk.posted"    // the message of a run or of a list is in Slack
	KindSent      = "desk.sent"      // people see the run as of Head
	KindClosed    = "desk.closed"    // the run's message is final, or was given up
	KindLost      = "desk.lost"      // the message was deleted or can no longer be edited: another is posted
	KindLeft      = "desk.left"      // a line of the thread is omitted because Slack refuses it in every form
	KindOutage    = "desk.outage"    // Slack does not accept messages, and why
	KindRecovered = "desk.recovered" // Slack accepts messages again
	KindRefused   = "desk.refused"   // something people did, or somebody forged, that had no effect
)

// Record is one fact of the stream. Only the fields of its kind are set.
type Record struct {
	Kind  string    `json:"-"` // stored apart from the body
	At    time.Time `json:"-"`
	Index uint64    `json:"-"` // in the stream

	Run     string `json:"run,omitempty"`
	Gate    string `json:"gate,omitempty"`   // asking
	Digest  string `json:"digest,omitempty"` // asking: of the plan in question
	ID      string `json:"id,omitempty"`     // asking: the identifier in the buttons
	List    string `json:"list,omitempty"`   // asking, posted, lost, closed: the list that shows the run; empty: a message of its own
	Channel string `json:"channel,omitempty"`
	TS      string `json:"ts,omitempty"`    // posted
	Head    uint64 `json:"head,omitempty"`  // sent: events of the run that people have seen; 0: its thread is not complete yet
	Lines   uint64 `json:"lines,omitempty"` // sent, left, and asking in a list: events of the run that its thread covers

	Reason  string `json:"reason,omitempty"`  // outage, refused, lost, left, and closed when it was given up
	User    string `json:"user,omitempty"`    // refused: Slack's ID of the person, if known
	Message string `json:"message,omitempty"` // with a reason: one line for people
}

// question is the subject of a button.
type question struct {
	run, gate, digest string
}

// ticket is the state of one run's message.
type ticket struct {
	run     string
	from    uint64 // index of its first record
	channel string
	list    string    // the list that shows the run; empty: a message of its own
	ref     slack.Ref // zero: not posted, as far as known
	maybe   time.Time // since when an unrecorded message may exist; zero: none
	gate    string    // the newest gate that has an identifier
	id      string    // the identifier of that gate
	ids     []string  // the identifiers of all its gates
	head    uint64    // events of the run that people have seen
	lines   uint64    // events of the run that the thread covers
	look    string    // fingerprint of the posted message; empty: unknown
	doubt   bool      // the thread may hold more than is recorded
	lost    bool      // its message was found deleted
	plain   uint64    // events at which Slack refused the full message; a plain notice replaces it
	terse   uint64    // events of the thread's line that Slack refused in full
	tries   int       // how often the plain notice was refused too
	wait    time.Time // when the plain notice may be tried again
	unread  time.Time // since when the run cannot be read; zero: readable
	gone    bool      // unreadable for too long; the run is no longer waited for
}

// list is a message that shows many runs.
type list struct {
	key     string
	from    uint64 // index of its first record
	channel string
	ref     slack.Ref
	maybe   time.Time
	runs    []string
	sent    string    // the last posted version, for comparison; empty: unknown
	plain   string    // the version that Slack refused
	tries   int       // how often the plain notice was refused too
	wait    time.Time // when the plain notice may be tried again
	until   time.Time
}

// memory is the fold of the stream.
type memory struct {
	tickets map[string]*ticket // by run
	lists   map[string]*list   // by key
	asked   map[string]question
	down    map[string]outage // by channel; "" is all of Slack
	next    uint64            // index of the record after the last
}

// outage is why Slack accepts no messages.
type outage struct {
	reason string
	from   uint64 // index of its record
}

func newMemory() *memory {
	return &memory{tickets: map[string]*ticket{}, lists: map[string]*list{}, asked: map[string]question{}, down: map[string]outage{}}
}

// fold applies one record. Unknown kinds come from a newer version and are
// skipped: at worst a message is edited once more.
func (m *memory) fold(r Record) {
	m.next = r.Index + 1
	switch r.Kind {
	case KindAsking:
		m.asking(r)
	case KindPosted:
		ref := slack.Ref{Channel: r.Channel, TS: r.TS}
		if l := m.lists[r.List]; r.List != "" && l != nil {
			l.ref, l.maybe = ref, time.Time{}
		} else if t := m.tickets[r.Run]; t != nil {
			t.ref, t.maybe = ref, time.Time{}
		}
	case KindSent:
		if t := m.tickets[r.Run]; t != nil {
			t.head, t.lines = r.Head, r.Lines
		}
	case KindLeft:
		if t := m.tickets[r.Run]; t != nil {
			t.lines = r.Lines
		}
	case KindLost:
		if l := m.lists[r.List]; r.List != "" && l != nil {
			l.ref, l.maybe, l.sent = slack.Ref{}, r.At, ""
		} else if t := m.tickets[r.Run]; t != nil {
			t.ref, t.maybe, t.look, t.lost = slack.Ref{}, r.At, "", true
		}
	case KindClosed:
		m.close(r)
	case KindOutage:
		m.down[r.Channel] = outage{r.Reason, r.Index}
	case KindRecovered:
		delete(m.down, r.Channel)
	}
}

func (m *memory) asking(r Record) {
	t := m.tickets[r.Run]
	if t == nil {
		t = &ticket{run: r.Run, from: r.Index, channel: r.Channel, list: r.List, maybe: r.At, lines: r.Lines}
		m.tickets[r.Run] = t
		if r.List != "" {
			t.maybe = time.Time{}
			m.enlist(r)
		}
	} else if r.Channel != t.channel && t.ref == (slack.Ref{}) {
		m.move(t, r) // the configuration now names another channel
	}
	if r.Gate == "" {
		return // a run that acts without asking has a message but no question
	}
	t.gate, t.id = r.Gate, r.ID
	t.ids = append(t.ids, r.ID)
	m.asked[r.ID] = question{run: r.Run, gate: r.Gate, digest: r.Digest}
}

// move moves a run whose message nobody has seen to another channel, or to a
// list there.
func (m *memory) move(t *ticket, r Record) {
	switch from := m.lists[t.list]; {
	case t.list == "" && r.List == "":
		t.channel, t.maybe = r.Channel, r.At
	case from != nil && from.ref == (slack.Ref{}) && r.List != "" && r.List != t.list:
		if from.runs = slices.DeleteFunc(from.runs, func(run string) bool { return run == t.run }); len(from.runs) == 0 {
			delete(m.lists, t.list)
		}
		t.channel, t.list = r.Channel, r.List
		m.enlist(r)
	}
}

func (m *memory) enlist(r Record) {
	l := m.lists[r.List]
	if l == nil {
		l = &list{key: r.List, from: r.Index, channel: r.Channel, maybe: r.At}
		m.lists[r.List] = l
	}
	l.runs = append(l.runs, r.Run)
}

// close removes a run's message, or a list with all its runs.
func (m *memory) close(r Record) {
	runs := []string{r.Run}
	if l := m.lists[r.List]; r.Run == "" && l != nil {
		runs = l.runs
		delete(m.lists, r.List)
	}
	for _, run := range runs {
		if t := m.tickets[run]; t != nil {
			for _, id := range t.ids {
				delete(m.asked, id)
			}
			delete(m.tickets, run)
		}
	}
}

// needed returns the index of the first record that is still needed.
func (m *memory) needed() uint64 {
	from := m.next
	for _, t := range m.tickets {
		from = min(from, t.from)
	}
	for _, l := range m.lists {
		from = min(from, l.from)
	}
	for _, o := range m.down {
		from = min(from, o.from)
	}
	return from
}
