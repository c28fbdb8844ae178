package machine

import (
	"cmp"
	"slices"
	"time"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/playbook"
)

// evolveLever folds how a change was made and took effect.
func evolveLever(s State, e Event) State {
	l := s.lever()
	s.Lever = l
	switch e.Kind {
	case Applied:
		l.Applied, l.Receipt, l.AppliedAt = true, e.Data, e.At
		l.Waits, l.Since = e.Waits, e.At
		l.Deadline = e.At.Add(s.settleWithin())
		if e.Before != nil {
			l.Before = *e.Before
		}
		s.Levers++
		s.Open, s.Fails, s.Phase = nil, 0, PhaseSettling
	case Declined:
		l.Applied, l.Waits, l.AppliedAt = false, "", time.Time{}
		l.Signal, l.Reason, l.Message = playbook.OnRefused, e.Reason, e.Message
		s.Open, s.Fails, s.Phase = nil, 0, PhaseEntering
	case Settling:
		if l.Signal == "" { // how far its undo has come is not what became of it
			l.Message = e.Message
		}
		if e.Then == Undo { // one part of the undo is in effect, and the next one is to be made
			s.Open, s.Fails, s.Phase = nil, 0, PhaseUndoing
			return s
		}
		if l.Waits != "" && e.Waits == "" {
			l.Since, l.Deadline = e.At, e.At.Add(s.rolloutWithin()) // it was merged, and the rollout starts
		}
		l.Waits = e.Waits
		s.Lever = s.progressed(e.Progress, e.At)
		s.Fails, s.Open = 0, s.Open.again(e)
	case Settled:
		l.FixedAt, l.Message, l.Waits = e.At, e.Message, ""
		if len(e.Data) > 0 {
			l.Receipt = e.Data
		}
		l.Deadline = e.At.Add(l.Verify.Within)
		s.Open, s.Fails, s.Phase = nil, 0, PhaseVerifying
	}
	return s
}

// evolveProof folds whether a change helped.
func evolveProof(s State, e Event) State {
	l := s.lever()
	s.Lever = l
	switch e.Kind {
	case Sampled:
		l.Samples = append(slices.Clip(l.Samples), *e.Sample)
		l.Message = e.Sample.Message
		s.Fails = 0
		if e.Sample.Verdict != VerdictInconclusive {
			s.LookedAt = e.At
			s.Unproven = "" // it is measured again
		}
		if e.NotUntil.IsZero() {
			s.Open = nil
		} else {
			s.Open = s.Open.again(e)
		}
	case Verified:
		l.Signal, l.Message = playbook.OnVerified, e.Message
		s.Kept++
		s.KeptFrom = l.FixedAt
		s.Open, s.Phase = nil, PhaseEntering
		s = s.settled(e).lend(e.Loan)
	case VerifyEnded:
		if l.Waits != "" {
			l.AppliedAt = time.Time{} // it was requested and never merged, so it counts for no track record
		}
		l.Signal, l.Reason, l.Message = signalOf(e.Verdict), e.Reason, e.Message
		s.Open, s.Fails, s.Phase = nil, 0, PhaseUndoing
		if e.Then != Undo && e.Then != "" {
			l.Judged, s.Phase = true, PhaseEntering
		}
	case Kept:
		l.Judged = false
		s.Open, s.Phase = nil, PhaseEntering
		switch e.Verdict {
		case VerdictImproved:
			s.Kept++
			s.NotMet = l.Message
		case VerdictInconclusive:
			s.Stays++
			s.Unproven = cmp.Or(l.Reason, fault.NoData)
		default:
			s.Stays++
		}
		s = s.settled(e).lend(e.Loan)
	}
	return s
}

// lend records a loan, in the place of that of the step before.
func (s State) lend(l *Loan) State {
	if l != nil {
		s.Loans = slices.DeleteFunc(slices.Clone(s.Loans), func(o Loan) bool { return o.ID == l.ID })
		s.Loans = append(s.Loans, *l)
	}
	return s
}

// signalOf returns the signal of a verdict that ends a proof unverified.
func signalOf(v Verdict) playbook.Signal {
	switch v {
	case VerdictImproved, VerdictNoEffect, VerdictWorse, VerdictInconclusive:
		return playbook.Signal(v)
	default:
		return playbook.OnNoEffect
	}
}

// evolveUndo folds how a change was undone.
func evolveUndo(s State, e Event) State {
	l := s.lever()
	s.Lever = l
	s.Open, s.Fails = nil, 0
	switch e.Kind {
	case Undone:
		l.Applied = false
		if len(e.Data) > 0 {
			l.Receipt = e.Data
		}
		l.Waits, l.Since, l.Progress, l.MovedAt = e.Waits, e.At, nil, time.Time{}
		l.Deadline = e.At.Add(s.unwindWithin())
		s = s.lend(e.Loan)
		s.Phase = PhaseUnwinding
	case Unwound:
		if l.unproven() {
			s.Unproven = cmp.Or(l.Reason, fault.NoData)
		}
		if e.Then != "" {
			l.Stopped = e.Message
		}
		if e.Then == Keep {
			l.Applied = true // what it did until then stays
			s.Stays++
		}
		s.Phase = PhaseEntering
	}
	return s
}
