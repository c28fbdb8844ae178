package playbook

import (
	"slices"
	"time"
)

// Playbook is a loaded, compiled and analysed playbook. It is immutable and
// safe for concurrent use.
type Playbook struct {
	Name        string
	Title       string
	Description string
	Runbook     string // link or path of the runbook it encodes
	Digest      string // sha256:..., over the document's bytes
	Source      string // file and line, for messages
	Autonomy    Autonomy
	Start       string
	States      []*State // in document order
	Doc         []byte   // the document as read; what the digest is over and what a run keeps

	match    []matcherSet
	services []string // when not empty, only these
	byName   map[string]*State
}

// StateKind is what a state does.
type StateKind string

// The six kinds of state.
const (
	StateCheck  StateKind = "check"
	StateLever  StateKind = "lever"
	StateGate   StateKind = "gate"
	StateDivert StateKind = "divert"
	StateNotify StateKind = "notify"
	StateEnd    StateKind = "end"
)

// State is one node of a playbook's graph.
type State struct {
	Name    string
	Title   string
	Kind    StateKind
	Step    string // kind of step for check and lever, e.g. kube.scale
	Request bool   // lever of a kind that only asks somebody else

	With     map[string]*Value // parameters of the step, possibly with ${CEL}
	Next     []Edge            // in order; the first that holds is taken
	OnError  string            // state entered when a check cannot answer; empty: the run ends escalated
	Timeout  time.Duration     // for one attempt of the step; 0: the default of the executor
	Retry    Retry             // checks, and levers only where the kind is idempotent
	Autonomy *Autonomy         // nil: the playbook's

	Approve *Approve // levers and gates
	Verify  *Verify  // levers
	Guards  *Guards  // levers; nil: the defaults

	Divert  string   // playbook handed over to
	Message *Value   // notify and gate: the text
	To      []string // notify: channels by their configured names; empty: the default ones
	End     Outcome  // end

	Line, Column int // of the state's name in the document
}

// Outcome is how a playbook's end state says a run ended.
type Outcome string

// The outcomes an end state may name.
const (
	EndResolved  Outcome = "resolved"  // the SLO holds again
	EndEscalated Outcome = "escalated" // a person has to take over
	EndNoAction  Outcome = "no-action" // the alert was not confirmed or nothing was to do
)

// Edge leads from one state to another. Exactly one of When and On is set,
// or neither: then it is always taken.
type Edge struct {
	Label string // what a diagram shows; empty: the condition
	When  *Condition
	On    Signal
	To    string

	Line, Column int
}

// Signal is a result of a lever or gate that an edge can name instead of a condition.
type Signal string

// Signals of levers: verified, ineffective (verification failed; the change was
// undone), inconclusive (could not be proven; undone), refused (plan or guard
// said no; nothing changed), denied, expired. Signals of gates: approved,
// denied, expired.
const (
	OnVerified     Signal = "verified"
	OnIneffective  Signal = "ineffective"
	OnInconclusive Signal = "inconclusive"
	OnRefused      Signal = "refused"
	OnApproved     Signal = "approved"
	OnDenied       Signal = "denied"
	OnExpired      Signal = "expired"
)

// Retry is how often a step that may be repeated is tried again.
type Retry struct {
	Attempts int           // total attempts, >= 1; 0 means 1 for levers, 3 for checks
	Backoff  time.Duration // before the second attempt, doubled after; 0: 1 s
}

// Approve is who decides and by when.
type Approve struct {
	By       []string      // user:..., group:..., service.owners
	Quorum   int           // distinct people of By whose approval it takes; at least 1
	Within   time.Duration // > 0
	OnExpiry Expiry        // what happens when nobody decided
	Always   bool          // ask even when the level is auto
}

// Expiry is the safe outcome of a gate nobody decided. There is no "go ahead".
type Expiry string

// The outcomes of an expired gate. Both take the edge named expired when
// there is one; otherwise escalate ends the run escalated, deny takes denied.
const (
	ExpiryEscalate Expiry = "escalate"
	ExpiryDeny     Expiry = "deny"
)

// Verify is the proof that a lever helped, in PromQL. All times count from
// the moment the change took effect.
type Verify struct {
	Within   time.Duration // deadline for the proof, >= Hold
	Hold     time.Duration // how long Until must hold without a break
	Interval time.Duration // between samples; default 15 s
	Until    []Expectation // all must hold
	Burn     *Burn         // long-window burn since the fix
	Traffic  *Value        // PromQL: requests per second now; nil only with AllowNoTraffic
	MinRate  float64       // requests per second that count as traffic, > 0
	// MinTraffic is the least share of the traffic before the fix that must
	// still be there; less is inconclusive ("did traffic leave?"). Default 0.5.
	MinTraffic float64
}

// Expectation is one PromQL expression that must satisfy one comparison.
type Expectation struct {
	Name  string // what it measures, in words; empty: the expression says it
	Unit  string // of the number, see [Quantity]
	Query *Value
	Op    string  // <, <=, >, >=, ==
	Value float64 // compared with; NaN, missing or stale never satisfies
}

// Burn asks that the error budget burns at less than Max since the fix.
// ErrorRatio is PromQL with ${since}, the window from the fix to now.
type Burn struct {
	ErrorRatio *Value
	Objective  float64 // e.g. 0.99
	Max        float64 // default 1
}

// Guards are a state's own settings of the executor's guards; a zero field
// leaves the configured default, and a state can only tighten it.
type Guards struct {
	Cooldown    time.Duration // since the last lever on this service
	EvidenceAge time.Duration // oldest evidence a lever may act on
	MinReady    *int          // replicas that must stay ready while it applies
}

// signals lists every signal.
func signals() []Signal {
	return []Signal{OnVerified, OnIneffective, OnInconclusive, OnRefused, OnApproved, OnDenied, OnExpired}
}

// signalOf gives the signal of that word, empty when it is none.
func signalOf(word string) Signal {
	if slices.Contains(signals(), Signal(word)) {
		return Signal(word)
	}
	return ""
}

// State gives the state of that name, nil when there is none.
func (p *Playbook) State(name string) *State { return p.byName[name] }

// Serves reports whether the playbook may run for the service: it lists none,
// or it lists this one.
func (p *Playbook) Serves(service string) bool {
	return len(p.services) == 0 || slices.Contains(p.services, service)
}

// Services lists the services the playbook is limited to; empty: all.
func (p *Playbook) Services() []string { return slices.Clone(p.services) }
