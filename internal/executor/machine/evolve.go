package machine

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/playbook"
)

// Evolve folds one event into the state. It never changes what the given state
// points to, so that views may keep states. An event that cannot happen in the
// state's phase, or an unknown one, panics: the log then contains something
// this machine does not understand, and guessing is not allowed.
func Evolve(s State, e Event) State {
	if !allowed(s, e.Kind) {
		panic(fmt.Sprintf("machine: event %s cannot follow: run %s is %s in state %q after %d events (event names state %q)",
			e.Kind, s.Start.Run, phaseWord(s), s.Current, s.Head, e.State)) // unreachable unless another program wrote the log
	}
	s.Head++
	s.Updated = e.At
	switch e.Kind {
	case RunStarted, EpisodeJoined, EpisodeRefired, EpisodeResolved, AlertsTruncated, StateEntered, EdgeTaken:
		return evolvePath(s, e)
	case EffectStarted, EffectFailed, CheckCompleted, Notified, NoticeShared:
		return evolveEffect(s, e)
	case PlanCompleted, PlanRefused, WouldApply:
		return evolvePlan(s, e)
	case GuardsPassed, GuardsRefused, GuardsWaiting, GuardsReminded:
		return evolveGuards(s, e)
	case GateOpened, GateVoted, GateReminded, GateEscalated, GateDecided, GateVoided, GateExpired, GateWithdrawn, DecisionIgnored:
		return evolveGate(s, e)
	case Applied, Declined, Settled, Settling:
		return evolveLever(s, e)
	case Sampled, Verified, VerifyEnded, Kept:
		return evolveProof(s, e)
	case Undone, Unwound:
		return evolveUndo(s, e)
	case WaitBegan, WaitLooked, WaitEnded:
		return evolveWait(s, e)
	default:
		return evolveRun(s, e)
	}
}

func phaseWord(s State) string {
	if s.Phase == "" {
		return "not started"
	}
	return string(s.Phase)
}

// allowed is the table of permitted transitions.
func allowed(s State, k EventKind) bool {
	in := func(phases ...Phase) bool { return slices.Contains(phases, s.Phase) }
	open := func(a ...Action) bool { return s.Open != nil && slices.Contains(a, s.Open.Action) }
	if k == RunStarted || s.Phase == "" {
		return k == RunStarted && s.Phase == ""
	}
	switch k {
	case DecisionIgnored:
		return true
	case EpisodeJoined, EpisodeRefired, EpisodeResolved, AlertsTruncated, PauseSeen, PauseLifted, CancelRequested, RunEnded, EffectFailed:
		return s.Phase != PhaseEnded
	case EffectStarted:
		return s.Phase != PhaseEnded && s.Open == nil
	case StateEntered, EdgeTaken:
		return s.Open == nil && s.Gate == nil && !in(PhaseEnded, PhaseHeld, PhaseDeciding)
	case CheckCompleted:
		return open(ActionCheck)
	case PlanCompleted, PlanRefused:
		return open(ActionPlan) || (s.Open == nil && in(PhasePlanning, PhaseEntering, PhaseApplying))
	case GuardsPassed, GuardsWaiting:
		return open(ActionGuard)
	case GuardsRefused:
		return open(ActionGuard) || in(PhaseWaiting)
	case GuardsReminded:
		return in(PhaseWaiting)
	case GateOpened:
		return s.Open == nil && s.Gate == nil && in(PhaseEntering, PhaseGuarding)
	case GateVoted, GateReminded, GateEscalated, GateDecided, GateExpired, GateWithdrawn:
		return s.Gate != nil
	case GateVoided:
		return (s.Lever != nil && s.Gate != nil) || (s.Consent().Approved != nil && in(PhasePlanning, PhaseGuarding, PhaseWaiting))
	case WouldApply:
		return s.Lever != nil && in(PhaseGuarding)
	case Applied:
		return in(PhaseApplying) && s.Lever != nil
	case Settling:
		return open(ActionSettle, ActionUnwind)
	case Settled, Declined:
		return open(ActionSettle)
	case Sampled:
		return open(ActionVerify)
	case Verified:
		return in(PhaseVerifying)
	case VerifyEnded:
		return in(PhaseSettling, PhaseVerifying)
	case Kept:
		return s.Open == nil && s.Gate == nil && s.Lever != nil && (s.Lever.Judged || s.Lever.Applied && in(PhaseUndoing)) // undoing: somebody else came first
	case Undone:
		return in(PhaseUndoing)
	case WaitBegan:
		return s.Open == nil && in(PhaseEntering)
	case WaitLooked:
		return s.Waiting != nil && open(ActionCheck)
	case WaitEnded:
		return s.Waiting != nil && in(PhaseWatching)
	case Unwound:
		return open(ActionUnwind)
	case Notified:
		return open(ActionNotify)
	case NoticeShared:
		return s.Open == nil && in(PhaseEntering)
	case RunHeld:
		return in(PhaseApplying, PhaseUndoing)
	case HoldResolved:
		return in(PhaseHeld)
	default:
		return false
	}
}

func evolvePath(s State, e Event) State {
	switch e.Kind {
	case RunStarted:
		s.Start, s.Truncated = *e.Start, e.Start.Truncated
		s.Began = e.At
		s.Phase = PhaseEntering
		s.Visits = map[string]int{}
		s.Evidence = map[string]*Evidence{}
		s.Episodes = Episodes{}
		if !e.Start.ByHand() {
			s.Episodes = s.Episodes.With(e.Start.Alert.Episode(), episode(e.Start.Alert, e.At))
		}
	case EpisodeJoined, EpisodeRefired, EpisodeResolved:
		if id, ok := s.spare(); ok && e.Kind == EpisodeJoined && s.Episodes.Len() >= MostEpisodes {
			s.Episodes = s.Episodes.Without(id)
		}
		s.Episodes = s.Episodes.With(e.Alert.Episode(), episode(*e.Alert, e.At))
	case AlertsTruncated:
		s.Truncated = true
	case StateEntered:
		s.Current = e.State
		s.Phase = PhaseEntering
		s.Visits = maps.Clone(s.Visits)
		s.Visits[e.State] = e.Visit
		s.Path = append(slices.Clip(s.Path), Visit{State: e.State, Visit: e.Visit, At: e.At})
		s.Lever, s.GateConsent, s.Waiting, s.Tries, s.Fails, s.Wake = nil, nil, nil, Tries{}, 0, time.Time{}
		s.Numbers = e.With
		if s.Further == e.State {
			s.Further = ""
		}
	case EdgeTaken:
		return evolveEdge(s, e)
	}
	return s
}

// evolveEdge folds that the run leaves a state.
func evolveEdge(s State, e Event) State {
	if e.Further {
		s.Further = e.State
	}
	if e.Again {
		s.Untried = maps.Clone(s.Untried)
		if s.Untried == nil {
			s.Untried = map[string]int{}
		}
		s.Untried[e.State]++
		if s.stepDue(e.State) {
			s.Further = e.State
		}
		if s.Waiting != nil { // it was broken off, so the state has not been waited in
			s.Evidence = maps.Clone(s.Evidence)
			delete(s.Evidence, e.State)
		}
	} else if s.Lever != nil && s.Lever.Signal != "" {
		s.Results = maps.Clone(s.Results)
		if s.Results == nil {
			s.Results = map[string]string{}
		}
		s.Results[e.State] = firstLine(signalText(s.Lever.Signal) + s.because())
		s.Refused = maps.Clone(s.Refused)
		if s.Refused == nil {
			s.Refused = map[string]bool{}
		}
		first := s.Visits[e.State]-s.Untried[e.State] == 1 // no step of it was made before
		s.Refused[e.State] = first && s.Lever.Signal == playbook.OnRefused
		if s.Lever.Signal == playbook.OnVerified {
			s = s.askAgain()
		}
	}
	if made := s.made(); made != "" {
		s.Made = append(slices.Clip(s.Made), made)
	}
	s.Path = slices.Clone(s.Path)
	last := &s.Path[len(s.Path)-1]
	last.Edge, last.To = e.Message, e.To
	return s
}

// episode keeps the identifying fields of an alert. Annotations stay in the
// log, because ten thousand alerts may join one run.
func episode(a playbook.Alert, at time.Time) *Episode {
	a.Annotations, a.GeneratorURL = nil, ""
	return &Episode{Alert: a, Firing: a.Status == playbook.Firing, Since: at}
}

func evolveEffect(s State, e Event) State {
	switch e.Kind {
	case EffectStarted:
		return evolveStarted(s, e)
	case EffectFailed:
		return evolveFailed(s, e)
	case CheckCompleted:
		s.Open, s.Fails = nil, 0
		if len(e.Gathered) > 0 {
			s.Evidence = maps.Clone(s.Evidence)
			return evolveGathered(s, e)
		}
		s = s.found(e)
	case Notified:
		s.Open, s.Fails = nil, 0
	case NoticeShared:
		s = s.toldBy(e)
	}
	return s
}

// found records the evidence of the current state.
func (s State) found(e Event) State {
	s.Evidence = maps.Clone(s.Evidence)
	s.Evidence[s.Current] = &Evidence{At: e.At, Step: s.step(), Data: e.Data, Facts: e.Facts}
	s.LookedAt = e.At
	return s
}

// step returns the kind of step of the current state.
func (s State) step() string {
	if st := s.current(); st != nil {
		return st.Step
	}
	return ""
}

// current returns the playbook's state the run is in; nil before the first.
func (s State) current() *playbook.State {
	if s.Playbook == nil || s.Current == "" {
		return nil
	}
	return s.Playbook.State(s.Current)
}

func evolveStarted(s State, e Event) State {
	s.Open = &OpenEffect{
		Key: e.Effect, Action: e.Action, Attempt: e.Attempt, At: e.At, Since: e.At, NotUntil: e.NotUntil, With: e.With, Observe: e.Observe, Once: e.Once,
	}
	s.Fails = 0
	if e.Attempt == 1 {
		*s.Tries.of(e.Action)++
	}
	if e.Once != "" {
		s = s.toldBy(e)
	}
	switch e.Action {
	case ActionCheck:
		if s.Waiting == nil {
			s.Phase = PhaseChecking
		}
	case ActionPlan:
		s.Phase = PhasePlanning
		l := s.lever()
		l.Step, l.With, l.PlannedAt = s.step(), e.With, e.At
		s.Lever = l
	case ActionGuard:
		s.Phase, s.Wake = PhaseGuarding, time.Time{}
	case ActionApply:
		s.Phase = PhaseApplying
		if e.Verify != nil {
			l := s.lever()
			l.Verify = e.Verify
			s.Lever = l
		}
	case ActionSettle:
		s.Phase = PhaseSettling
	case ActionVerify:
		s.Phase = PhaseVerifying
	case ActionUndo:
		s.Phase = PhaseUndoing
		if s.Lever != nil && s.Lever.Judged {
			l := s.lever()
			l.Judged = false
			s.Lever = l
		}
	case ActionUnwind:
		s.Phase = PhaseUnwinding
	case ActionNotify:
		if e.Ending != nil {
			s.Closing = e.Ending
		}
		if s.Phase != PhaseHeld {
			s.Phase = PhaseNotifying
		}
	}
	return s
}

// actionGate counts gates among the effects of a visit.
const actionGate Action = "gate"

// lever returns a copy of the current lever to change, or a new one.
func (s State) lever() *Lever {
	if s.Lever == nil {
		return &Lever{State: s.Current, Before: -1}
	}
	l := *s.Lever
	return &l
}

func evolveFailed(s State, e Event) State {
	if s.Open == nil {
		return s
	}
	s.Fails++
	if e.Reason == fault.Panic && e.Action.Mutates() {
		l := s.lever()
		l.Panicked = true
		s.Lever = l
	}
	if e.NotUntil.IsZero() {
		s = s.untold()
		s.Open = nil
		return s
	}
	s.Open = s.Open.again(e)
	return s
}

// again returns the effect's next attempt.
func (o OpenEffect) again(e Event) *OpenEffect {
	o.Attempt++
	o.At, o.NotUntil = e.At, e.NotUntil
	return &o
}

func evolvePlan(s State, e Event) State {
	l := s.lever()
	s.Lever = l
	s.Open, s.Fails = nil, 0
	switch e.Kind {
	case PlanCompleted:
		l.Plan = e.Plan
		if len(e.Data) > 0 {
			s.Evidence = maps.Clone(s.Evidence)
			s.Evidence[s.Current] = &Evidence{At: e.At, Step: s.step(), Data: e.Data, Facts: e.Facts}
		}
	case PlanRefused:
		l.Signal, l.Reason, l.Message = playbook.OnRefused, e.Reason, e.Message
		s.Phase = PhaseEntering // no change is in progress
	case WouldApply:
		l.Would, l.Message = true, e.Message
	}
	return s
}

// evolveGuards folds the guards' verdicts on a lever or a gate state.
func evolveGuards(s State, e Event) State {
	if e.Kind == GuardsReminded {
		return s.consent(func(c *Consent) { c.WaitTold = true })
	}
	s.Open, s.Fails = nil, 0
	s = s.consent(func(c *Consent) {
		c.Guards, c.Terms = e.Guards, e.Terms
		switch e.Kind {
		case GuardsPassed:
			c.WaitFrom, c.WaitUntil, c.WaitTold = time.Time{}, time.Time{}, false
		case GuardsWaiting:
			if c.WaitFrom.IsZero() {
				c.WaitFrom = e.At
			}
			c.WaitUntil = s.waitsUntil(c.WaitFrom, e.Guards)
		}
	})
	switch e.Kind {
	case GuardsRefused:
		if s.Lever != nil {
			l := s.lever()
			l.Signal, l.Reason, l.Message = playbook.OnRefused, e.Reason, e.Message
			s.Lever = l
		}
		s.Phase, s.Wake = PhaseGuarding, time.Time{}
	case GuardsWaiting:
		s.Phase, s.Wake = PhaseWaiting, e.NotUntil
	}
	return s
}

func evolveRun(s State, e Event) State {
	switch e.Kind {
	case PauseSeen:
		if s.Paused == "" {
			s.PausedAt = e.At
		}
		s.Paused = e.Message
	case PauseLifted:
		if stood := s.stood(e.At); stood > 0 {
			l := s.lever()
			l.Deadline = l.Deadline.Add(stood)
			s.Lever = l
		}
		s.Paused, s.PausedAt = "", time.Time{}
	case CancelRequested:
		s.Cancel = e.Decision
	case RunHeld:
		s.Held = &Hold{Action: e.Action, Effect: e.Effect, Message: e.Message, At: e.At}
		s.Open, s.Fails, s.Phase = nil, 0, PhaseHeld
	case HoldResolved:
		s.Phase = PhaseApplying
		if s.Held.Action == ActionUndo {
			s.Phase = PhaseUndoing
		}
		if st := s.current(); st != nil && st.Request && s.Lever != nil && e.Decision != nil && (s.Held.Action == ActionApply) != e.Decision.Approve {
			l := s.lever()
			l.OperatorConfirmed = true
			s.Lever = l
		}
		if s.Lever != nil && e.Decision != nil && e.Decision.Approve {
			l := s.lever()
			l.OperatorMade = s.Held.Action
			s.Lever = l
		}
		s.Held, s.Open = nil, nil
	case RunEnded:
		s = s.untold()
		s.Ending, s.Ended, s.Phase = e.Ending, e.At, PhaseEnded
		s.Open, s.Gate, s.Held, s.Closing, s.Wake = nil, nil, nil, nil, time.Time{}
	default:
		panic(fmt.Sprintf("machine: unknown event %q after %d events of run %s", e.Kind, s.Head, s.Start.Run)) // unreachable unless another program wrote the log
	}
	return s
}
