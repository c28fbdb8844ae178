package playbook

import (
	"slices"
	"strings"
)

// Playbook is a loaded, compiled and analysed playbook. It is immutable and
// safe for concurrent use.
type Playbook struct {
	Name         string
	Title        string
	Description  string
	Runbook      string // link or path of the runbook it encodes
	Digest       string // sha256:..., of the document's bytes
	Source       string // file and line, for messages
	Autonomy     Autonomy
	SetsAutonomy bool // the document sets it; else it is the default
	Start        string
	States       []*State // in document order
	Doc          []byte   // the document as read; Digest covers it and a run keeps it
	Shipped      bool     // part of the program, and not replaced; set by [Library.Load]

	match    []matcherSet
	services []string // if not empty, only these
	byName   map[string]*State

	selectors []Selector
}

// Preamble returns the comment that the document begins with: why the playbook is as it is.
// What is for editors and licence scanners is left out.
func (p *Playbook) Preamble() string {
	var out []string
	for line := range strings.Lines(string(p.Doc)) {
		text, ok := strings.CutPrefix(strings.TrimRight(line, "\r\n"), "#")
		if !ok {
			break
		}
		text = strings.TrimPrefix(text, " ")
		if strings.HasPrefix(text, "yaml-language-server:") || strings.HasPrefix(text, "SPDX-") {
			continue // for editors and licence scanners
		}
		out = append(out, text)
	}
	return strings.TrimSpace(strings.Join(out, "\n"))
}

// Hardware reports whether the playbook has a lever that stands on evidence about GPUs.
func (p *Playbook) Hardware() bool {
	return slices.ContainsFunc(p.States, func(s *State) bool {
		return s.Kind == StateLever && (strings.HasPrefix(s.Step, "node.") || strings.HasPrefix(s.Step, "gpu."))
	})
}

// StateKind is what a state does.
type StateKind string

// The kinds of state.
const (
	StateCheck  StateKind = "check"
	StateGather StateKind = "gather"
	StateLever  StateKind = "lever"
	StateGate   StateKind = "gate"
	StateDivert StateKind = "divert"
	StateWait   StateKind = "wait"
	StateNotify StateKind = "notify"
	StateEnd    StateKind = "end"
)

// State is one node of a playbook's graph.
type State struct {
	Name     string
	Title    string
	Kind     StateKind
	Step     string // kind of step for check and lever, e.g. kube.scale; of a wait: the check it asks again and again, or empty
	Request  bool   // the lever's kind only asks somebody else
	Unsafe   string // of a recorded document: the rule of today that the lever breaks, so that it is not run; empty: none
	Class    Class  // of the lever's kind
	Restarts bool   // taking the lever's change back restarts what serves

	Gather   []Gathering       // checks of a gather state, in document order
	With     map[string]*Value // parameters of the step, possibly with ${CEL}
	Next     []Edge            // in order; the first that holds is taken
	OnError  string            // state entered if a check cannot answer; empty: the run ends escalated
	Timeout  *Value            // duration of one attempt of the step; nil: the executor's default
	Retry    Retry             // checks, and levers of an idempotent kind only
	Autonomy *Autonomy         // nil: that of the playbook

	Approve *Approve  // levers and gates
	Wait    *Wait     // waits
	Verify  *Verify   // levers; nil: the service's SLO alone, with the default times
	Guards  *Guards   // levers; nil: the defaults
	Steps   *Stepwise // levers: repeated in steps until one is verified; nil: one change
	Undo    []Signal  // levers: verdicts after which the change is taken back at once, whatever its class says

	Divert  string   // playbook to hand over to
	Message *Value   // notify and gate: the text
	To      []string // notify: configured names of channels; empty: the default ones
	Once    *Value   // notify: the text that one run tells for all; nil: every run tells it
	End     Outcome  // end

	Line, Column int // of the state's name in the document
}

// Gathering is one of the checks that a gather state runs side by side.
type Gathering struct {
	Name string // of its evidence
	Step string // kind of check
	With map[string]*Value
}

// Outcome is the outcome of a run, as an end state names it.
type Outcome string

// The outcomes of end states.
const (
	EndResolved  Outcome = "resolved"  // the SLO holds again
	EndEscalated Outcome = "escalated" // a person has to take over
	EndNoAction  Outcome = "no-action" // the alert was not confirmed or there was nothing to do
)

// Edge leads from one state to another. At most one of When and On is set; an
// edge with neither is always taken.
type Edge struct {
	Label string // text in a diagram; empty: the condition
	When  *Condition
	On    Signal
	To    string

	Line, Column int
}

// Signal is a result of a lever or gate that an edge can name in place of a
// condition.
type Signal string

// Signals of levers: the five verdicts of a proof, refused (by plan or guard;
// nothing changed), denied, expired. Signals of gates: approved, denied,
// expired. Signals of waits for a check: held, expired.
const (
	OnVerified     Signal = "verified"     // the service meets its objective again
	OnImproved     Signal = "improved"     // it is better than before the change, and not yet good
	OnNoEffect     Signal = "no_effect"    // it is as bad as before
	OnWorse        Signal = "worse"        // it is worse than before
	OnInconclusive Signal = "inconclusive" // nothing could be proven: missing data, too few requests
	OnRefused      Signal = "refused"
	OnApproved     Signal = "approved"
	OnHeld         Signal = "held" // of a wait: what it waited for is true
	OnDenied       Signal = "denied"
	OnExpired      Signal = "expired"
)

// Retry is how often a repeatable step is attempted.
type Retry struct {
	Attempts *Value // total attempts, a whole number; nil: 1 for levers, 3 for checks
	Backoff  *Value // duration before the second attempt, doubled after; nil: 1 s
}

// Approve configures who decides and by when.
type Approve struct {
	By       []string // user:..., group:..., service.owners, node.owners
	Quorum   *Value   // distinct people of By who must approve, a whole number; nil: 1
	Within   *Value   // duration
	OnExpiry Expiry   // outcome without a decision
	Always   bool     // ask even at level auto
}

// Expiry is the safe outcome of an undecided gate. No outcome approves.
type Expiry string

// The outcomes of an expired gate. Both take the edge named expired if there is
// one. Otherwise escalate ends the run escalated and deny takes denied.
const (
	ExpiryEscalate Expiry = "escalate"
	ExpiryDeny     Expiry = "deny"
)

// Verify is the proof that a lever helped, in PromQL. All times count from when
// the change took effect.
type Verify struct {
	Within   *Value        // duration: deadline of the proof, >= Hold
	Hold     *Value        // duration for which Until must hold without interruption
	Interval *Value        // duration between samples; default 15 s
	SLO      bool          // the service's objectives must be met; Until is asked besides
	Itself   bool          // the lever looks whether its change stands; nothing else is asked
	Until    []Expectation // all must hold
	Burn     *Burn         // burn rate over the window since the fix
	Traffic  *Value        // PromQL: requests per second now; nil only with AllowNoTraffic
	MinRate  *Value        // requests per second that count as traffic, > 0; nil only with AllowNoTraffic
	// MinTraffic is the smallest share of the traffic before the fix that must
	// still arrive; less is inconclusive, because traffic may have left.
	// Default 0.5.
	MinTraffic *Value
}

// Expectation is a PromQL expression that must satisfy a comparison.
type Expectation struct {
	Name  string // what it measures, in words; may be empty
	Unit  string // of the number, see [Quantity]
	Query *Value
	Op    string // <, <=, >, >=, ==
	Value *Value // right-hand side, a number; NaN, missing or stale never satisfies
}

// Burn requires that the error budget burns slower than Max since the fix.
// ErrorRatio is PromQL with ${since}, the window from the fix to now.
type Burn struct {
	ErrorRatio *Value
	Objective  *Value // a number between 0 and 1, e.g. 0.99
	Max        *Value // a number; default 1
}

// Guards are a state's own settings of the executor's guards. A nil field
// keeps the configured default. A state can only tighten it.
type Guards struct {
	Cooldown    *Value // duration since the last lever on this service
	EvidenceAge *Value // duration: maximum age of the evidence that a lever acts on
	MinReady    *Value // replicas that must stay ready while it applies
}

// signals lists every signal.
func signals() []Signal {
	return append(Verdicts(), OnRefused, OnApproved, OnDenied, OnExpired, OnHeld)
}

// signalOf returns the signal of a word; empty if it is none.
func signalOf(word string) Signal {
	if slices.Contains(signals(), Signal(word)) {
		return Signal(word)
	}
	return ""
}

// Gathers returns the names of the evidence that a gather state collects.
func (s *State) Gathers() []string {
	names := make([]string, len(s.Gather))
	for i, g := range s.Gather {
		names[i] = g.Name
	}
	return names
}

// State returns the state of a name; nil if there is none.
func (p *Playbook) State(name string) *State { return p.byName[name] }

// Serves reports whether the playbook may run for a service: it lists none, or
// this one.
func (p *Playbook) Serves(service string) bool {
	return len(p.services) == 0 || slices.Contains(p.services, service)
}

// Matches reports whether the playbook is meant for an alert with these labels,
// whatever its service.
func (p *Playbook) Matches(a Alert) bool {
	return slices.ContainsFunc(p.match, func(m matcherSet) bool { return m.matches(a.Labels) })
}

// Services returns the services the playbook is limited to; empty: all.
func (p *Playbook) Services() []string { return slices.Clone(p.services) }
