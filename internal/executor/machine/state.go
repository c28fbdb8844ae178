package machine

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/playbook"
)

// Phase is the phase of a run within its current state.
type Phase string

// The phases of a run.
const (
	PhaseEntering  Phase = "entering"
	PhaseChecking  Phase = "checking"
	PhasePlanning  Phase = "planning"
	PhaseGuarding  Phase = "guarding"
	PhaseWaiting   Phase = "waiting"  // for a lock
	PhaseWatching  Phase = "watching" // a wait state: until a time, or until its check holds
	PhaseDeciding  Phase = "deciding" // a gate is open
	PhaseApplying  Phase = "applying"
	PhaseSettling  Phase = "settling"
	PhaseVerifying Phase = "verifying"
	PhaseUndoing   Phase = "undoing"
	PhaseUnwinding Phase = "unwinding"
	PhaseNotifying Phase = "notifying"
	PhaseHeld      Phase = "held" // outcome unknown: a person has to resolve it
	PhaseEnded     Phase = "ended"
)

// State is the state of a run: the fold of its events. Only Evolve creates new
// ones.
type State struct {
	Start    Start              `json:"start"`
	Playbook *playbook.Playbook `json:"-"` // of Start.Digest; set by the caller of Evolve
	Began    time.Time          `json:"began"`
	Head     uint64             `json:"head"` // events folded so far

	Phase    Phase                `json:"phase"`
	Current  string               `json:"current"`         // playbook state
	Numbers  map[string]any       `json:"times,omitempty"` // numbers and durations of the current state that are expressions, by path; see [playbook.State.Numbers]
	Visits   map[string]int       `json:"visits"`
	Untried  map[string]int       `json:"untried,omitempty"` // visits that the run left to look again, before anything was done
	Refused  map[string]bool      `json:"refused,omitempty"` // levers, by state, that were refused before they changed anything, since the last verified one
	Further  string               `json:"further,omitempty"` // lever, by state, whose next step the run may make once the evidence was gathered anew
	Results  map[string]string    `json:"results,omitempty"` // what became of a lever when the run left its state, by state, the latest
	Made     []string             `json:"made,omitempty"`    // changes of the levers that the run has left, and what became of each, for people
	Path     []Visit              `json:"path"`
	Evidence map[string]*Evidence `json:"evidence"` // by playbook state, the latest
	Episodes Episodes             `json:"episodes"`

	Open     *OpenEffect `json:"open,omitempty"`    // at most one effect is due at a time
	Lever    *Lever      `json:"lever,omitempty"`   // of the current lever state
	Gate     *Gate       `json:"gate,omitempty"`    // open
	Waiting  *Waiting    `json:"waiting,omitempty"` // of the current wait state
	Held     *Hold       `json:"held,omitempty"`
	Paused   string      `json:"paused,omitempty"`  // why; empty: not paused
	PausedAt time.Time   `json:"pausedAt,omitzero"` // since when
	Cancel   *Decision   `json:"cancel,omitempty"`  // requested
	Levers   int         `json:"levers"`            // applied so far
	Kept     int         `json:"kept,omitempty"`    // of those, kept because they helped: verified or improved
	Stays    int         `json:"stays,omitempty"`   // of those, kept without a proof that they helped
	Loans    []Loan      `json:"loans,omitempty"`   // of those kept, owed back after recovery
	Asked    int         `json:"asked,omitempty"`   // questions asked so far

	// Told holds what the run was the first to tell, by the text of once, and since
	// when. A message that reached nobody is not in it.
	Told map[string]time.Time `json:"told,omitempty"`

	// Unproven is why the last change could not be measured, whether it stays or
	// was undone: the service may be unhealthy, whatever the alert shows. Empty:
	// none, or a later change was measured.
	Unproven fault.Reason `json:"unproven,omitempty"`

	GateConsent *Consent `json:"consent,omitempty"` // of the current gate state, after its guards; a lever has its own

	Ignored   int            `json:"ignored,omitempty"`   // journaled decisions that did not count
	IgnoredBy map[string]int `json:"ignoredBy,omitempty"` // of each person

	Truncated       bool             `json:"truncated,omitempty"` // one of its notifications was truncated: the blast radius is unknown
	Quarantine      *Quarantine      `json:"aside,omitempty"`     // set by views, not by events: the run cannot be processed
	ObservedOutcome *ObservedOutcome `json:"shadow,omitempty"`    // set by views, not by events: the alert's outcome after a run that only observed

	KeptFrom time.Time `json:"keptFrom,omitzero"` // since when the newest verified change is in effect
	NotMet   string    `json:"notMet,omitempty"`  // what the newest proof said of a change that helped, and not enough
	LookedAt time.Time `json:"lookedAt,omitzero"` // time of the newest evidence: of a check or a sample

	Tries   Tries     `json:"tries,omitzero"`    // effects begun on this visit
	Fails   int       `json:"fails,omitempty"`   // consecutive failures of the open effect
	Wake    time.Time `json:"wake,omitzero"`     // when a waiting run asks its guards again
	Closing *Ending   `json:"closing,omitempty"` // people are being notified; then the run ends like this

	Ending  *Ending   `json:"ending,omitempty"`
	Ended   time.Time `json:"ended,omitzero"`
	Updated time.Time `json:"updated"`
}

// Tries counts the effects begun on one visit of a state, by action.
type Tries struct {
	Check  int16 `json:"check,omitempty"`
	Plan   int16 `json:"plan,omitempty"`
	Guard  int16 `json:"guard,omitempty"`
	Gate   int16 `json:"gate,omitempty"`
	Apply  int16 `json:"apply,omitempty"`
	Settle int16 `json:"settle,omitempty"`
	Verify int16 `json:"verify,omitempty"`
	Undo   int16 `json:"undo,omitempty"`
	Unwind int16 `json:"unwind,omitempty"`
	Notify int16 `json:"notify,omitempty"`
}

// of returns the count of an action.
func (n *Tries) of(a Action) *int16 {
	switch a {
	case ActionCheck:
		return &n.Check
	case ActionPlan:
		return &n.Plan
	case ActionGuard:
		return &n.Guard
	case actionGate:
		return &n.Gate
	case ActionApply:
		return &n.Apply
	case ActionSettle:
		return &n.Settle
	case ActionVerify:
		return &n.Verify
	case ActionUndo:
		return &n.Undo
	case ActionUnwind:
		return &n.Unwind
	case ActionNotify:
		return &n.Notify
	default:
		panic("machine: unknown action " + string(a)) // unreachable unless another program wrote the log
	}
}

// Visit is one step of the path of a run.
type Visit struct {
	State string    `json:"state"`
	Visit int       `json:"visit"`
	At    time.Time `json:"at"`
	Edge  string    `json:"edge,omitempty"` // the edge that left it: label or condition
	To    string    `json:"to,omitempty"`
}

// Evidence is the result of a check.
type Evidence struct {
	At    time.Time       `json:"at"`
	Step  string          `json:"step"`
	Data  json.RawMessage `json:"data"`
	Facts []string        `json:"facts,omitempty"`

	// Unknown is why a check inside a gather has no evidence; empty: it has.
	Unknown string `json:"unknown,omitempty"`
}

// Episode is one alert of the run.
type Episode struct {
	Alert  playbook.Alert `json:"alert"`
	Firing bool           `json:"firing"`
	Since  time.Time      `json:"since"` // when Firing last changed, as far as known
}

// OpenEffect is the due effect, with its journaled intent.
type OpenEffect struct {
	Key      string         `json:"key"`
	Action   Action         `json:"action"`
	Attempt  int            `json:"attempt"`
	At       time.Time      `json:"at"`
	Since    time.Time      `json:"since,omitzero"` // of the first attempt
	NotUntil time.Time      `json:"notUntil,omitzero"`
	With     map[string]any `json:"with,omitempty"`
	Observe  bool           `json:"observe,omitempty"`
	Once     string         `json:"once,omitempty"` // of a notice: what Told has of it
}

// Lever is the lever in progress.
type Lever struct {
	State             string          `json:"state"`
	Step              string          `json:"step"`
	With              map[string]any  `json:"with"`
	Plan              *Plan           `json:"plan,omitempty"`
	PlannedAt         time.Time       `json:"plannedAt,omitzero"` // when its parameters were evaluated
	Replans           int             `json:"replans,omitempty"`  // new plans that people requested on this visit
	Would             bool            `json:"would,omitempty"`    // autonomy observe: it would have been applied
	Applied           bool            `json:"applied"`            // the change is in place
	Receipt           json.RawMessage `json:"receipt,omitempty"`
	AppliedAt         time.Time       `json:"appliedAt,omitzero"` // zero again once it is known that it was never merged
	FixedAt           time.Time       `json:"fixedAt,omitzero"`   // settled
	Before            float64         `json:"before"`             // requests per second; -1: unknown
	Verify            *VerifySpec     `json:"verify,omitempty"`
	Samples           []Sample        `json:"samples,omitempty"`
	Deadline          time.Time       `json:"deadline,omitzero"`  // of settling or verification
	Since             time.Time       `json:"since,omitzero"`     // since when it, or its undo, or the merge of either, is waited for
	Progress          *Progress       `json:"progress,omitempty"` // the furthest that its rollout, or that of its undo, has come; nil: not known
	MovedAt           time.Time       `json:"movedAt,omitzero"`   // when that rollout last came further; zero: it has not since the first look
	Waits             string          `json:"waits,omitempty"`    // pull request whose merge it waits for; empty: none
	OperatorConfirmed bool            `json:"said,omitempty"`     // of a request: the operator confirmed that it is not made, or withdrawn; only its traces remain
	OperatorMade      Action          `json:"saidMade,omitempty"` // apply or undo, if nobody saw it and a person says that it was made
	Stopped           string          `json:"stopped,omitempty"`  // its undo only stopped it: what is known of it; empty: it was not stopped, or is undone
	Panicked          bool            `json:"panicked,omitempty"` // a step panicked in apply or undo: it is not retried automatically
	Judged            bool            `json:"judged,omitempty"`   // its proof has ended, and what becomes of it is not carried out yet
	Signal            playbook.Signal `json:"signal,omitempty"`   // result, once known
	Reason            fault.Reason    `json:"reason,omitempty"`
	Message           string          `json:"message,omitempty"`

	Consent // to apply it
}

// Hold is why a run waits for a person to resolve it.
type Hold struct {
	Action  Action    `json:"action"`
	Effect  string    `json:"effect"`
	Message string    `json:"message"`
	At      time.Time `json:"at"`
}

// Quarantine is why a run is quarantined: it cannot be processed. Nothing is decided
// about it, and it keeps its locks, until a person releases it.
type Quarantine struct {
	Message string    `json:"message"`
	At      time.Time `json:"at"`
}

// ObservedOutcome is whether the alerts of a run that only observed recovered
// without the change that it would have made.
type ObservedOutcome struct {
	Known     bool          `json:"known"`           // false: they still fire, as far as known, and are waited for
	Until     time.Time     `json:"until,omitzero"`  // how long they are waited for
	Recovered bool          `json:"recovered"`       // all of them resolved in that time
	After     time.Duration `json:"after,omitempty"` // from the run's end
	Acted     string        `json:"acted,omitempty"` // another run that changed the service meanwhile, so it was not a recovery without change
}

// MostEpisodes bounds the alerts that a run remembers. Those that resolved make room. One
// alert of each kind for each pod of a service is less, as a rule; more come from whoever
// makes labels up.
const MostEpisodes = 256

// Full reports whether the run remembers no further alert: so many fire. The one that
// started the run stays.
func (s State) Full() bool {
	if s.Episodes.Len() < MostEpisodes {
		return false
	}
	_, ok := s.spare()
	return !ok
}

// spare returns the alert that resolved longest ago; false: none but the first did.
func (s State) spare() (id string, ok bool) {
	first := s.Start.Alert.Episode()
	var at time.Time
	for k, ep := range s.Episodes.All() {
		if ep.Firing || k == first {
			continue
		}
		if c := ep.Since.Compare(at); !ok || c < 0 || c == 0 && k < id {
			id, at, ok = k, ep.Since, true
		}
	}
	return id, ok
}

// Firing reports whether there is still a cause for the run: one of its alerts
// fires or, if a person started it and no alert joined since, that request.
// Once alerts have joined, they decide: when all have resolved, the request is
// obsolete.
func (s State) Firing() bool {
	if s.Episodes.Len() == 0 {
		return s.Start.ByHand()
	}
	for _, e := range s.Episodes.All() {
		if e.Firing {
			return true
		}
	}
	return false
}

// FiringEpisodes returns the run's episodes that fire, sorted.
func (s State) FiringEpisodes() []string {
	var out []string
	for id, ep := range s.Episodes.All() {
		if ep.Firing {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out
}

// Wanted reports whether there is a cause for the state: that of the run or, if
// the state only asks somebody else for a repair, a change that the run has
// verified. What was taken out of service stays broken when the alert has
// resolved.
func (s State) Wanted(state *playbook.State) bool {
	return s.Firing() || state != nil && state.Request && s.Kept > 0
}

// Locks returns the names that the run holds now: those of a lever from its
// guards until it is kept or undone.
func (s State) Locks() []string {
	if !s.InAir() {
		return nil
	}
	return s.LocksWanted()
}

// LocksWanted returns the names that the current lever needs: those of its
// plan, and always its service.
func (s State) LocksWanted() []string {
	if s.Lever == nil || s.Lever.Plan == nil {
		return nil
	}
	service := "service:" + s.Start.Service.Name
	if s.Lever.Plan.Ends != "" {
		return nil
	}
	if slices.Contains(s.Lever.Plan.Locks, service) {
		return s.Lever.Plan.Locks
	}
	return append(slices.Clone(s.Lever.Plan.Locks), service)
}

// InAir reports whether the run changed something, or may have, that is neither
// kept nor undone.
func (s State) InAir() bool {
	switch s.Phase {
	case PhaseApplying, PhaseSettling, PhaseVerifying, PhaseUndoing, PhaseUnwinding, PhaseHeld:
		return true
	default:
		return s.Lever != nil && s.Lever.Judged && s.Phase != PhaseEnded
	}
}

// Asks reports whether people still have to approve before the lever of the
// state is applied, or the gate is left with an approval.
func (s State) Asks(state *playbook.State) bool {
	if len(s.Needs(state)) == 0 {
		return false
	}
	return s.Consent().Approved == nil || s.lacking(state) != ""
}

// Steps reports whether the run's lever makes its change step by step now.
func (s State) Steps() bool {
	return s.Phase == PhaseSettling && s.Lever != nil && s.Lever.Plan != nil && s.Lever.Plan.Stepwise
}

// Autonomy returns the effective level of a playbook state: the lowest of
// configuration, service, playbook, the state itself and the policy's cap.
func (s State) Autonomy(state *playbook.State) playbook.Autonomy {
	level := s.uncapped(state)
	if c := s.terms().Cap; c != nil {
		level = min(level, c.Level)
	}
	return level
}

// AutonomyBy returns the setting of the configuration in place of the playbook's
// or the service's own level, where the effective level of a state is what it says; else "".
func (s State) AutonomyBy(state *playbook.State) string {
	level := s.Autonomy(state)
	for _, part := range s.Playbook.Parts(state, s.Start.Service.Autonomy, s.Start.Override) {
		if part.Setting != "" && part.Level == level {
			return part.Setting
		}
	}
	return ""
}

// uncapped returns the level without the policy's cap.
func (s State) uncapped(state *playbook.State) playbook.Autonomy {
	level := min(s.Start.Autonomy, s.Playbook.Allowed(state, s.Start.Service.Autonomy, s.Start.Override))
	if s.Start.ByHand() && s.Start.Loan == "" { // the return of a loan is no start by hand
		level = min(level, playbook.Suggest) // also of a run that an older version began at auto
	}
	return level
}
