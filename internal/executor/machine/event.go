package machine

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/playbook"
)

// EventKind is the kind of a fact. The names are stored and never change
// meaning.
type EventKind string

// The facts of a run, in their usual order. Comments name the fields that are
// set.
const (
	RunStarted      EventKind = "run.started"      // Start
	EpisodeJoined   EventKind = "episode.joined"   // Alert: another alert belongs to this run
	EpisodeRefired  EventKind = "episode.refired"  // Alert: resolved, then firing again under the same episode
	EpisodeResolved EventKind = "episode.resolved" // Alert
	AlertsTruncated EventKind = "alerts.truncated" // Alert: its notification was truncated, more may be affected
	StateEntered    EventKind = "state.entered"    // State, Visit; With: numbers and durations of the state that are expressions
	EffectStarted   EventKind = "effect.started"   // Effect key, Action, Attempt: the intent; always before the effect. Once, Data: it tells what no other run does
	CheckCompleted  EventKind = "check.completed"  // Data, Facts; of a gather Gathered
	EffectFailed    EventKind = "effect.failed"    // Reason, Message; a retry follows when NotUntil is set
	PlanCompleted   EventKind = "plan.completed"   // Plan, Digest; Gathered: what was kept of the pods that the change ends
	PlanRefused     EventKind = "plan.refused"     // Reason, Message
	GuardsPassed    EventKind = "guards.passed"    // Guards, Terms
	GuardsRefused   EventKind = "guards.refused"   // Guards, Terms
	GuardsWaiting   EventKind = "guards.waiting"   // Guards, Terms: a lock is held by another run; NotUntil
	GuardsReminded  EventKind = "guards.reminded"  // Message: what it has waited for so long that people are told, once in a wait
	GateOpened      EventKind = "gate.opened"      // Gate
	GateVoted       EventKind = "gate.voted"       // Decision: an approval that counts but does not complete the needs
	GateReminded    EventKind = "gate.reminded"    // nobody has completed it within Terms.Remind
	GateEscalated   EventKind = "gate.escalated"   // Tier: further channels are notified
	GateDecided     EventKind = "gate.decided"     // Decision: the approval that completed the needs, or a denial
	GateVoided      EventKind = "gate.voided"      // the question or its answer is no longer valid; Message, and Decision if a person requested a new plan
	GateExpired     EventKind = "gate.expired"
	GateWithdrawn   EventKind = "gate.withdrawn"    // alert resolved, or cancelled
	DecisionIgnored EventKind = "decision.ignored"  // Decision: late, repeated, unauthorised; Message
	WouldApply      EventKind = "lever.would-apply" // autonomy observe: Plan holds, nothing was done
	Applied         EventKind = "lever.applied"     // Data: receipt; Waits: requested, and made when it is merged
	Settled         EventKind = "lever.settled"     // Data: receipt, if more is known of the change now; it is in effect, which is the time of the fix. Facts: how it got there
	Settling        EventKind = "lever.settling"    // Message and Progress: how far it is; Facts: since the last look; Waits: the merge it waits for
	Sampled         EventKind = "verify.sampled"    // Sample
	Verified        EventKind = "lever.verified"    // last-good moves here; Loan
	VerifyEnded     EventKind = "verify.ended"      // Verdict: it was not verified; Then: what becomes of the change
	Kept            EventKind = "lever.kept"        // Verdict, Then: the unproven change stays; Loan
	Declined        EventKind = "lever.declined"    // people closed the pull request: the change is not made. Reason, Message
	Undone          EventKind = "lever.undone"      // Data: receipt; Waits: as of lever.applied
	Unwound         EventKind = "lever.unwound"     // the undo is in effect
	Notified        EventKind = "notified"
	NoticeShared    EventKind = "notice.shared" // Once, Data, Message: another run told it, so this one tells nobody
	EdgeTaken       EventKind = "edge.taken"    // State -> To, Message: which condition; Examined; Again, Further
	PauseSeen       EventKind = "run.paused"    // Message: which pause
	PauseLifted     EventKind = "run.unpaused"
	CancelRequested EventKind = "run.cancel-requested" // Decision.By, Decision.Reason
	WaitBegan       EventKind = "wait.began"           // NotUntil: the end, or the deadline
	WaitLooked      EventKind = "wait.looked"          // Data, Facts, or Reason, Message; HeldFrom; NotUntil: the next look
	WaitEnded       EventKind = "wait.ended"           // a person ended it: Decision
	RunHeld         EventKind = "run.held"             // outcome unknown: the run waits for a person
	HoldResolved    EventKind = "run.hold-resolved"    // a person resolved the hold: Decision
	RunEnded        EventKind = "run.ended"            // Ending
)

// Event is one journaled fact of a run. Only the fields of its kind are set.
type Event struct {
	Kind    EventKind `json:"-"` // stored apart from the body
	At      time.Time `json:"at"`
	State   string    `json:"state,omitempty"`
	Visit   int       `json:"visit,omitempty"` // 1-based
	Effect  string    `json:"effect,omitempty"`
	Action  Action    `json:"action,omitempty"`
	Attempt int       `json:"attempt,omitempty"`
	Observe bool      `json:"observe,omitempty"` // the effect observes and does not apply

	Start    *Start          `json:"start,omitempty"`
	Alert    *playbook.Alert `json:"alert,omitempty"`
	With     map[string]any  `json:"with,omitempty"`
	Data     json.RawMessage `json:"data,omitempty"`
	Facts    []string        `json:"facts,omitempty"`
	Gathered []Gathered      `json:"gathered,omitempty"` // of a gather, in the playbook's order; of a plan, what was kept of the pods that it ends
	Examined []Examined      `json:"examined,omitempty"` // the edges that were looked at, in order
	Plan     *Plan           `json:"plan,omitempty"`
	Digest   string          `json:"digest,omitempty"`
	Guards   []GuardVerdict  `json:"guards,omitempty"`
	Terms    *Terms          `json:"terms,omitempty"`
	Gate     *Gate           `json:"gate,omitempty"`
	Tier     int             `json:"tier,omitempty"` // 1-based, of Gate.Tiers
	Decision *Decision       `json:"decision,omitempty"`
	Verify   *VerifySpec     `json:"verify,omitempty"`
	Sample   *Sample         `json:"sample,omitempty"`
	Before   *float64        `json:"before,omitempty"`
	Verdict  Verdict         `json:"verdict,omitempty"`
	Then     Consequence     `json:"then,omitempty"`
	Loan     *Loan           `json:"loan,omitempty"`
	To       string          `json:"to,omitempty"`
	Again    bool            `json:"again,omitempty"`   // of edge.taken: the run looks again, and has not tried the state that it leaves
	Further  bool            `json:"further,omitempty"` // of edge.taken: the lever's next step may follow, if the evidence still calls for it
	NotUntil time.Time       `json:"notUntil,omitzero"`
	HeldFrom time.Time       `json:"heldFrom,omitzero"`
	Waits    string          `json:"waits,omitempty"`
	Progress *Progress       `json:"progress,omitempty"` // of lever.settling: how far the rollout has come
	Once     string          `json:"once,omitempty"`     // of a notify state: the text that is told by one run only
	Ending   *Ending         `json:"ending,omitempty"`
	Reason   fault.Reason    `json:"reason,omitempty"`
	Message  string          `json:"message,omitempty"`
}

// Start holds the constant facts of a run.
type Start struct {
	Run          string                     `json:"run"` // r-<ULID>
	Playbook     string                     `json:"playbook"`
	Digest       string                     `json:"digest"` // of the playbook's document
	Service      playbook.Service           `json:"service"`
	Alert        playbook.Alert             `json:"alert"`                  // of a manual run: labels that a person set, without fingerprint
	Autonomy     playbook.Autonomy          `json:"autonomy"`               // ceiling from configuration; the playbook's and state's own may lower it
	Truncated    bool                       `json:"truncated,omitempty"`    // the notification was truncated: blast radius unknown
	Notification uint64                     `json:"notification"`           // its position in the log
	DivertedFrom string                     `json:"divertedFrom,omitempty"` // run that handed over
	Line         []Handed                   `json:"line,omitempty"`         // the runs that handed over, one to the next, oldest first
	Unanswered   *Unanswered                `json:"unanswered,omitempty"`   // of the run before it about the service; nil: that asked nothing, or was answered
	By           string                     `json:"by,omitempty"`           // user:... who started the run; empty: an alert. Their own approval never counts
	Reason       string                     `json:"reason,omitempty"`       // why they started it
	Loan         string                     `json:"loan,omitempty"`         // the loan that this run gives back
	Evidence     map[string]json.RawMessage `json:"evidence,omitempty"`     // handed over, by state
	Changed      []string                   `json:"changed,omitempty"`      // what the runs that handed over changed, and what became of each, for people
	Override     *playbook.Override         `json:"override,omitempty"`     // of the playbook's autonomy, by the configuration when the run began; nil: none
}

// Handed is a run that handed over by a divert.
type Handed struct {
	Run      string `json:"run"`
	Playbook string `json:"playbook"`
}

// Unanswered describes that nobody answered the question of a run.
type Unanswered struct {
	Times int       `json:"times"` // runs about the service in a row that nobody answered
	Since time.Time `json:"since"` // when the first of them ended

	// Line are the runs that the run's alerts leave with it, and their playbooks: those
	// that handed over, and itself.
	Line []Handed `json:"line,omitempty"`
}

// String is the fact for people.
func (u Unanswered) String() string {
	if u.Times == 1 {
		return "nobody answered the run before"
	}
	return fmt.Sprintf("nobody answered the %d runs before, the first by %s", u.Times, u.Since.UTC().Format(time.RFC3339))
}

// ByHand reports whether a person started the run, not an alert.
func (s Start) ByHand() bool { return s.By != "" && s.Alert.Fingerprint == "" }

// Cause returns what started the run: the name of an alert, or the person.
func (s Start) Cause() string {
	if s.ByHand() {
		return "started by " + s.By
	}
	return s.Alert.Labels["alertname"]
}

// RunOutcome is how a run ended.
type RunOutcome string

// The outcomes of runs.
const (
	OutcomeResolved   RunOutcome = "resolved"    // a lever was verified, or an end state after verification
	OutcomeCleared    RunOutcome = "cleared"     // the alert resolved; nothing was changed, or nothing that is known to have helped
	OutcomeNoAction   RunOutcome = "no-action"   // not confirmed, nothing to do
	OutcomeObserved   RunOutcome = "observed"    // autonomy observe: would have acted
	OutcomeEscalated  RunOutcome = "escalated"   // a person has to take over; no change is half done
	OutcomeDiverted   RunOutcome = "diverted"    // handed to another playbook
	OutcomeCanceled   RunOutcome = "canceled"    // a person stopped it; no change is half done
	OutcomeHandedOver RunOutcome = "handed-over" // someone else changed the target
	OutcomeUndoFailed RunOutcome = "undo-failed" // a change is still in place and could not be undone: page somebody
	OutcomeReleased   RunOutcome = "released"    // it could not be processed; a person checked the target and released it
)

// Outcomes lists every outcome.
func Outcomes() []RunOutcome {
	return []RunOutcome{
		OutcomeResolved, OutcomeCleared, OutcomeNoAction, OutcomeObserved, OutcomeEscalated,
		OutcomeDiverted, OutcomeCanceled, OutcomeHandedOver, OutcomeUndoFailed, OutcomeReleased,
	}
}

// WithPeople reports whether people have to take over.
func (o RunOutcome) WithPeople() bool {
	return o == OutcomeEscalated || o == OutcomeHandedOver || o == OutcomeUndoFailed
}

// Ending is how and why a run ended.
type Ending struct {
	Outcome RunOutcome   `json:"outcome"`
	Reason  fault.Reason `json:"reason,omitempty"`
	Message string       `json:"message"`
	Divert  string       `json:"divert,omitempty"` // playbook
	Into    string       `json:"into,omitempty"`   // diverted: the run that took over

	// Released are episodes that still fire and may start a run of their own: they
	// began after the fix was in effect, so that what was verified did not look at
	// them, or they joined and another playbook than the run's matches them, or the run
	// is Unanswered.
	Released []string `json:"released,omitempty"`

	// Unanswered is set if nobody answered the run's question and its alerts still
	// fire: another run asks after a while.
	Unanswered *Unanswered `json:"unanswered,omitempty"`
}
