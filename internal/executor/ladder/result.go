package ladder

import (
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/playbook"
)

// Kinds of records in the stream ladder: what is known of how far levers can be
// trusted.
const (
	KindLeverResult   = "ladder.result"   // LeverResult: a run is done with a lever
	KindLeverDemoted  = "ladder.demoted"  // Demotion
	KindLeverPromoted = "ladder.promoted" // Promotion: a person lifted a demotion
	KindObservedEnded = "ladder.shadow"   // ObservedEnd: what became of an alert that a run only observed
	KindRearmed       = "ladder.rearmed"  // Rearmed: a person lifted the pause of everything
)

// LeverID names a lever of a playbook on a service: what is learned of it there
// says little about it elsewhere. A state that is given another kind of lever
// begins anew.
type LeverID struct {
	Playbook string `json:"playbook"`
	Service  string `json:"service"`
	State    string `json:"state"`
	Lever    string `json:"lever"` // kind of step, e.g. kube.scale
}

// Result is what one visit of a lever came to.
type Result string

// The results. Only the first four are proofs; an override and a denial say
// that people know better.
const (
	ResultVerified     Result = "verified"
	ResultImproved     Result = "improved"     // it was proven to help, and not enough
	ResultIneffective  Result = "ineffective"  // it was proven not to help: no effect, or worse
	ResultInconclusive Result = "inconclusive" // whether it helped could not be proven
	ResultOverridden   Result = "overridden"   // a person changed the target, or stopped it in mid-air
	ResultRefused      Result = "refused"      // no plan, or a guard
	ResultDenied       Result = "denied"       // a person said no
	ResultWouldApply   Result = "would-apply"  // autonomy observe: nothing was done
)

// failed reports whether the lever was applied and not proven to help.
func (r Result) failed() bool { return r == ResultIneffective || r == ResultInconclusive }

// LeverResult is the record of a lever that a run is done with. It is written
// in one batch with the run's event that leaves the lever, so that neither is
// ever there without the other and nothing counts twice.
type LeverResult struct {
	LeverID

	Run     string            `json:"run"`
	Result  Result            `json:"result"`
	Level   playbook.Autonomy `json:"level"`             // the effective one, as the guards saw it
	Applied bool              `json:"applied,omitempty"` // the world was changed
	Undone  bool              `json:"undone,omitempty"`  // and changed back
	Further bool              `json:"further,omitempty"` // another step of the lever may follow in this run
	Neutral bool              `json:"neutral,omitempty"` // it returns a loan or holds a rollout, which is no evidence of whether changes help
	Cap     *machine.Cap      `json:"cap,omitempty"`     // the policy's, as the guards saw it
	Good    *Verified         `json:"good,omitempty"`    // verified: what is known to be good since
	Waiting []string          `json:"waiting,omitempty"` // would-apply: the episodes that fired when the run ended, fingerprint@start
}

// Demotion is the record of a lever that failed too often: people are asked
// before it is applied, until one of them lifts that.
type Demotion struct {
	LeverID

	Run     string            `json:"run"`    // the last that it failed in
	Failed  int               `json:"failed"` // times in a row
	Since   time.Time         `json:"since"`  // the first of them
	To      playbook.Autonomy `json:"to"`
	At      time.Time         `json:"-"`       // the record's
	Verdict string            `json:"verdict"` // "2 ineffective, 1 inconclusive"
}

// Promotion is the record of a person lifting a demotion. It raises nothing
// above what configuration, playbook and policy allow.
type Promotion struct {
	LeverID

	By     string `json:"by"` // user:ada
	Reason string `json:"reason"`
}

// Rearmed is the record of a person lifting the pause of everything.
type Rearmed struct {
	By     string `json:"by"` // user:ada
	Reason string `json:"reason"`
}

// ObservedEnd is the record of what became of the alerts of a run that only
// observed.
type ObservedEnd struct {
	LeverID

	Run       string        `json:"run"`
	Recovered bool          `json:"recovered"`       // all of them resolved within a day
	After     time.Duration `json:"after"`           // from the run's end
	Acted     string        `json:"acted,omitempty"` // another run that changed the service meanwhile: not by itself
}

// resultOf is what an event leaves a run's lever with; false when it does not
// leave one, or nothing can be learned of it: nobody decided or merged it in
// time, the alert resolved first, a person cancelled before anything was changed.
func resultOf(s machine.State, ev machine.Event) (LeverResult, bool) {
	l := s.Lever
	if l == nil || l.State == "" || (ev.Kind != machine.EdgeTaken && ev.Kind != machine.RunEnded) {
		return LeverResult{}, false
	}
	r := LeverResult{
		LeverID: LeverID{Playbook: s.Start.Playbook, Service: s.Start.Service.Name, State: l.State, Lever: l.Step},
		Run:     s.Start.Run, Applied: !l.AppliedAt.IsZero(), Further: ev.Further || ev.To == l.State,
	}
	if r.Lever == "" && l.Plan != nil {
		r.Lever = l.Plan.Step
	}
	r.Undone = r.Applied && !l.Applied
	r.Neutral = s.Start.Loan != "" || l.Plan != nil && l.Plan.Class == playbook.ClassHold
	if s.Playbook != nil {
		if st := s.Playbook.State(l.State); st != nil {
			r.Level, r.Lever = s.Autonomy(st), st.Step
		}
	}
	if t := l.Terms; t != nil && t.Cap != nil && !t.Cap.Touched && !ladderSays(*t.Cap) {
		r.Cap = t.Cap
	}
	if r.Result = verdictOn(s, ev); r.Result == ResultVerified {
		r.Good = verifiedBy(l)
	}
	if r.Result == ResultWouldApply && ev.Ending.Outcome == machine.OutcomeObserved {
		r.Waiting = firingEpisodes(s)
	}
	return r, r.Result != ""
}

// verdictOn is the result alone; empty when there is none.
func verdictOn(s machine.State, ev machine.Event) Result {
	l, applied := s.Lever, !s.Lever.AppliedAt.IsZero()
	outcome := machine.RunOutcome("")
	if ev.Ending != nil {
		outcome = ev.Ending.Outcome
	}
	switch {
	case l.Would && outcome != "":
		return ResultWouldApply
	case l.Signal == playbook.OnVerified:
		return ResultVerified
	case applied && l.Reason == fault.Canceled:
		return ResultOverridden
	case applied && l.Signal == playbook.OnImproved:
		return ResultImproved
	case applied && (l.Signal == playbook.OnNoEffect || l.Signal == playbook.OnWorse):
		return ResultIneffective
	case applied && l.Signal == playbook.OnInconclusive:
		return ResultInconclusive
	case outcome == machine.OutcomeHandedOver, outcome == machine.OutcomeReleased && s.InAir():
		return ResultOverridden
	case applied:
		return ResultInconclusive // unreachable unless the machine learns to end in mid-air: what is not proven did not help
	case l.Signal == playbook.OnDenied, l.Signal == playbook.OnRefused && l.Reason == fault.Denied:
		return ResultDenied
	case l.Signal == playbook.OnRefused && l.Reason != fault.Canceled && l.Reason != fault.Cleared:
		return ResultRefused
	default:
		return ""
	}
}

// Results finds the levers that a run is done with by these events. Few batches
// have one, and folding is not free.
func Results(s machine.State, events []machine.Event) []LeverResult {
	leaves, plans := false, s.Lever != nil
	for i := range events {
		leaves = leaves || events[i].Kind == machine.EdgeTaken || events[i].Kind == machine.RunEnded
		plans = plans || events[i].Kind == machine.PlanRefused
	}
	if !leaves || !plans {
		return nil
	}
	var out []LeverResult
	for i := range events {
		if r, ok := resultOf(s, events[i]); ok {
			out = append(out, r)
		}
		s = machine.Evolve(s, events[i])
	}
	return out
}
