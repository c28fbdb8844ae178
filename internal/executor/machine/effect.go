package machine

import (
	"encoding/json"
	"time"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/playbook"
)

// Action is what an effect does or asks.
type Action string

// The actions. Only Apply and Undo mutate.
const (
	ActionCheck  Action = "check"  // run a check, which returns evidence
	ActionPlan   Action = "plan"   // compute the current change of a lever; server-side dry-run
	ActionGuard  Action = "guard"  // evaluate the guards on the plan (by the executor, no step)
	ActionApply  Action = "apply"  // mutate, once
	ActionSettle Action = "settle" // has the applied change taken effect in the world?
	ActionVerify Action = "verify" // take one sample of the proof
	ActionUndo   Action = "undo"   // mutate back, once
	ActionUnwind Action = "unwind" // has the undo taken effect in the world?
	ActionNotify Action = "notify" // tell people
)

// Mutates reports whether the action changes production.
func (a Action) Mutates() bool { return a == ActionApply || a == ActionUndo }

// LoggedOnly is the message of a notice that only the log has: no channel is
// configured.
const LoggedOnly = "logged only: no channel configured"

// Effect is one action that a run owes. Its opening event is journaled before
// it is issued; its outcome returns as a command.
type Effect struct {
	Key               string           `json:"key"` // idempotency key: run/state#visit/action#n; shared by all attempts
	Run               string           `json:"run"`
	Playbook          string           `json:"playbook"`
	State             string           `json:"state"`
	Action            Action           `json:"action"`
	Step              string           `json:"step,omitempty"` // kind of step, e.g. kube.scale
	Service           playbook.Service `json:"service"`
	Alert             playbook.Alert   `json:"alert"` // the first alert of the run
	With              map[string]any   `json:"with,omitempty"`
	Gather            []Asked          `json:"gather,omitempty"`   // check: the checks of a gather, which run side by side
	Plan              *Plan            `json:"plan,omitempty"`     // apply, settle, verify, undo, unwind
	Receipt           json.RawMessage  `json:"receipt,omitempty"`  // what apply or undo returned
	Proof             *Proof           `json:"proof,omitempty"`    // verify; apply: only its Spec.Traffic is read, for Outcome.Before
	MergeBy           MergeBy          `json:"mergeBy,omitempty"`  // apply, settle, undo, unwind: who merges, if the change waits for a merge
	Text              string           `json:"text,omitempty"`     // notify
	To                []string         `json:"to,omitempty"`       // notify: channels by name; empty: the default ones
	Urgent            bool             `json:"urgent,omitempty"`   // notify: a person has to take over
	Asks              bool             `json:"asks,omitempty"`     // notify: about a question that was just asked
	At                time.Time        `json:"at"`                 // when it was decided; for an observation of an apply, when that was planned
	Attempt           int              `json:"attempt"`            // 1-based
	NotUntil          time.Time        `json:"notUntil,omitzero"`  // earliest time to issue it (retry backoff, next sample)
	Timeout           time.Duration    `json:"timeout"`            // for this attempt
	Paused            string           `json:"paused,omitempty"`   // settle: why everything is paused; a stepwise change makes no step then
	OperatorConfirmed bool             `json:"said,omitempty"`     // undo, unwind of a request: the operator confirmed that nothing is requested any more; only its traces on the target are removed
	OperatorMade      Action           `json:"saidMade,omitempty"` // undo, settle, unwind: what nobody saw and a person says was made, apply or undo; empty: nothing
	Verdict           Verdict          `json:"verdict,omitempty"`  // undo: no_effect or worse, if the service's objectives were measured with the change in effect and say so; empty: it is undone for another reason
	Observe           bool             `json:"observe,omitempty"`  // the outcome of an earlier attempt is unknown: observe, do not apply
}

// Proof is the input of one verification sample.
type Proof struct {
	Spec     VerifySpec `json:"spec"`
	FixedAt  time.Time  `json:"fixedAt"`           // when the change took effect
	Before   float64    `json:"before"`            // requests per second before the change; NaN is written as -1
	Planned  time.Time  `json:"planned,omitzero"`  // when the change was planned: Before is from about then, and can be measured again
	HeldFrom time.Time  `json:"heldFrom,omitzero"` // start of the samples that satisfy the spec without interruption; zero: the last one did not
	LastAt   time.Time  `json:"lastAt,omitzero"`   // time of the previous sample; a gap much longer than the interval breaks the hold
	Deadline time.Time  `json:"deadline"`
	Anew     bool       `json:"anew,omitempty"`    // the change started everything that serves anew
	Release  bool       `json:"release,omitempty"` // the change took a release back
	Added    bool       `json:"added,omitempty"`   // the change only added capacity
}

// VerifySpec is a playbook's verify block with its expressions filled in.
type VerifySpec struct {
	Within     time.Duration `json:"within"`
	Hold       time.Duration `json:"hold"`
	Interval   time.Duration `json:"interval"`
	Until      []Expectation `json:"until"`
	ErrorRatio string        `json:"errorRatio,omitempty"` // PromQL containing ${since}
	Objective  float64       `json:"objective,omitempty"`
	MaxBurn    float64       `json:"maxBurn,omitempty"`
	Traffic    string        `json:"traffic"`
	SLO        bool          `json:"slo,omitempty"`        // the service's objectives must be met; Until is asked besides
	Objectives []string      `json:"objectives,omitempty"` // those objectives, in words
	Itself     bool          `json:"itself,omitempty"`     // the lever looks whether its change stands; nothing else is asked
	MinRate    float64       `json:"minRate"`
	MinTraffic float64       `json:"minTraffic"` // share of Before
}

// Expectation is a filled-in PromQL expression and the comparison it must satisfy.
type Expectation struct {
	Name  string  `json:"name,omitempty"` // what it measures, in words
	Unit  string  `json:"unit,omitempty"`
	Query string  `json:"query"`
	Op    string  `json:"op"`
	Value float64 `json:"value"`
}

// Outcome is the outcome of an effect.
type Outcome struct {
	Status  Status          `json:"status"`
	Reason  fault.Reason    `json:"reason,omitempty"`
	Message string          `json:"message,omitempty"` // one line for people: what, where, why, what to do
	Data    json.RawMessage `json:"data,omitempty"`    // evidence of a check, receipt of apply and undo; settle: the receipt, if it has more than apply's
	Facts   []string        `json:"facts,omitempty"`   // the evidence in words, one line each
	Plan    *Plan           `json:"plan,omitempty"`    // plan
	Guards  []GuardVerdict  `json:"guards,omitempty"`  // guard

	// Gathered has what the checks of a gather found, and with a plan, what was kept
	// of the pods that it ends. A check that failed is in it with a reason; the
	// effect itself succeeds.
	Gathered []Gathered `json:"gathered,omitempty"`

	Terms  *Terms   `json:"terms,omitempty"`  // guard: the policy's demands; nil: there is no policy
	Sample *Sample  `json:"sample,omitempty"` // verify
	Before *float64 `json:"before,omitempty"` // apply: requests per second just before it, for the proof
	Waits  string   `json:"waits,omitempty"`  // apply, settle, undo, unwind: the pull request whose merge it waits for; empty: none

	// Slow tells of a change with [fault.Degraded] that its rollout only makes no
	// progress: its pods may load a model.
	Slow bool `json:"slow,omitempty"`

	// Progress tells of settle and unwind how far the rollout of the change has come;
	// nil: it rolls nothing out, or that cannot be told.
	Progress *Progress `json:"progress,omitempty"`

	// Next tells of an unwind that the undo has one more part, for which Undo is called
	// again: what was under way is stopped, and what takes it back is to be started.
	Next bool `json:"next,omitempty"`

	// Stays tells of an unwind that the change was only stopped: what it did until then
	// is not taken back.
	Stays bool `json:"stays,omitempty"`

	// Again is when the next step of a stepwise change may be made, at least a
	// second; 0: at the usual pace.
	Again time.Duration `json:"again,omitempty"`
}

// Progress is how far a rollout has come.
type Progress struct {
	Revision int64 `json:"revision"` // number of the revision that is rolled out; 0: not known
	Done     int   `json:"done"`     // pods of it, plus those of them that are ready; with the same revision, more is further
}

// beyond reports whether the rollout has come further than at an earlier look.
func (p Progress) beyond(earlier Progress) bool {
	return p.Revision != earlier.Revision || p.Done > earlier.Done
}

// Status classifies an outcome.
type Status string

// The statuses. StatusUnknown means that a mutation may or may not have
// happened. StatusPending is for settle and unwind: applied, not yet in effect.
const (
	StatusOK      Status = "ok"
	StatusPending Status = "pending"
	StatusFailed  Status = "failed"  // did not happen; nothing was changed
	StatusRefused Status = "refused" // refused by plan or guard; apply and settle: people closed its pull request, and nothing was changed; unwind: they keep the change
	StatusUnknown Status = "unknown"
	StatusForeign Status = "foreign" // someone else changed the target
)

// Sample is one measurement of the proof.
type Sample struct {
	At       time.Time    `json:"at"`
	Verdict  Verdict      `json:"verdict"`
	Reason   fault.Reason `json:"reason,omitempty"`
	Message  string       `json:"message,omitempty"`
	HeldFrom time.Time    `json:"heldFrom,omitzero"`
	Values   []Reading    `json:"values,omitempty"` // one per expectation, then burn and traffic

	// Ends is the verdict if the proof ends with this sample unverified:
	// improved, no_effect, worse or inconclusive. Empty: it was not compared with
	// the time before the change, which counts as no_effect, or as inconclusive
	// if the sample is.
	Ends Verdict `json:"ends,omitempty"`
}

// Reading is one number of a sample.
type Reading struct {
	Name  string       `json:"name"`            // what it measures in words, else the expression; or burn, traffic
	Unit  string       `json:"unit,omitempty"`  // see [playbook.Quantity]
	Value *float64     `json:"value,omitempty"` // nil: missing, stale or NaN
	Limit float64      `json:"limit"`
	Op    string       `json:"op"`
	OK    bool         `json:"ok"`
	Why   fault.Reason `json:"why,omitempty"`
}

// Verdict is what the samples prove so far.
type Verdict string

// The verdicts of samples. Sampling continues until the deadline unless the
// verdict is VerdictVerified, VerdictWorse or VerdictFailed. A proof that ends
// without one of the first two ends with Sample.Ends.
const (
	VerdictWatching     Verdict = "watching"     // not satisfied yet, or not held long enough
	VerdictRecovering   Verdict = "recovering"   // everything is satisfied; the hold time has not passed
	VerdictVerified     Verdict = "verified"     // held for the hold time, with data and traffic
	VerdictInconclusive Verdict = "inconclusive" // missing data, NaN, stale, no traffic, too few requests
	VerdictFailed       Verdict = "failed"       // it can no longer be verified
	VerdictWorse        Verdict = "worse"        // it is worse than before the change
)

// The further verdicts that a proof can end with.
const (
	VerdictImproved Verdict = "improved"  // better than before the change, and not yet good
	VerdictNoEffect Verdict = "no_effect" // as bad as before
)

// ends returns the verdict of a proof that ends unverified with this sample.
func (s Sample) ends() Verdict {
	switch {
	case s.Verdict == VerdictWorse, s.Verdict == VerdictImproved:
		return s.Verdict
	case s.Ends != "":
		return s.Ends
	case s.Verdict == VerdictInconclusive:
		return VerdictInconclusive
	default:
		return VerdictNoEffect
	}
}
