package runview

import (
	"fmt"
	"slices"

	"github.com/inference-responder/responder/internal/executor/machine"
)

// DescribeEvent returns one line for an event, and details below it. The line is
// empty for events that matter to the machine only.
func DescribeEvent(e machine.Event) (what string, details []string) {
	switch kind := e.Kind; kind {
	case machine.RunStarted:
		if e.Start == nil {
			return "started", nil
		}
		by := "started by " + e.Start.Cause()
		if e.Start.ByHand() {
			by = startedBy(*e.Start)
		}
		text := fmt.Sprintf("%s, autonomy at most %s", by, e.Start.Autonomy)
		if o := e.Start.Override; o != nil {
			text += fmt.Sprintf("; of the playbook: %s", o)
		}
		return text, nil
	case machine.EpisodeJoined, machine.EpisodeRefired, machine.EpisodeResolved, machine.AlertsTruncated:
		return describeEpisode(kind, e), nil
	case machine.StateEntered:
		return "state " + e.State, nil
	case machine.EdgeTaken:
		return fmt.Sprintf("-> %s  (%s)", e.To, OrText(e.Message, "always")), ExaminedLines(e.Examined)
	case machine.EffectStarted:
		return describeEffect(e), nil
	case machine.CheckCompleted:
		return "evidence", append(slices.Clone(e.Facts), GatheredLines(e.Gathered)...)
	case machine.EffectFailed:
		if e.NotUntil.IsZero() {
			return fmt.Sprintf("failed (%s): %s", e.Reason, e.Message), ExaminedLines(e.Examined)
		}
		return fmt.Sprintf("failed (%s), again at %s: %s", e.Reason, Time(e.NotUntil), e.Message), nil
	case machine.Notified:
		if e.Message == machine.LoggedOnly {
			return e.Message, nil
		}
		return JoinClauses("told people", e.Message), nil
	case machine.NoticeShared:
		return JoinClauses("told nobody", e.Message), nil
	case machine.PauseSeen:
		return JoinClauses("paused", e.Message), nil
	case machine.PauseLifted:
		return JoinClauses("pause lifted", e.Message), nil
	case machine.CancelRequested:
		return "cancel requested by " + decisionLine(e.Decision), nil
	case machine.RunHeld:
		return JoinClauses("HELD, a person has to say what is true", e.Message), nil
	case machine.HoldResolved:
		return describeHoldResolved(e), nil
	case machine.RunEnded:
		if e.Ending == nil {
			return "ended", nil
		}
		return fmt.Sprintf("ended %s: %s", e.Ending.Outcome, e.Ending.Message), nil
	default:
		return describeLever(kind, e)
	}
}

func describeEpisode(kind machine.EventKind, e machine.Event) string {
	word := map[machine.EventKind]string{
		machine.EpisodeJoined: "alert joined", machine.EpisodeRefired: "alert fires again", machine.EpisodeResolved: "alert resolved",
		machine.AlertsTruncated: "there are more alerts than the run was told of or remembers, how much is affected is unknown",
	}[kind]
	if e.Alert == nil {
		return word
	}
	return word + ": " + AlertLine(*e.Alert)
}

func describeEffect(e machine.Event) string {
	again := ""
	if e.Attempt > 1 {
		again = fmt.Sprintf(", attempt %d", e.Attempt)
	}
	if e.Observe {
		again += ", reading back what became of it"
	}
	switch e.Action {
	case machine.ActionVerify, machine.ActionSettle, machine.ActionUnwind, machine.ActionGuard:
		return "" // one for each look; their outcomes are shown
	case machine.ActionCheck, machine.ActionPlan:
		if again == "" {
			return "" // the state says it
		}
		return string(e.Action) + again
	case machine.ActionNotify:
		if e.Ending != nil {
			return string(e.Action) + again // the end says it
		}
		return JoinClauses(string(e.Action)+again, e.Message)
	default:
		return string(e.Action) + again
	}
}

func describeHoldResolved(e machine.Event) string {
	word := "was not applied"
	if e.Decision != nil && e.Decision.Approve {
		word = "was applied"
	}
	return fmt.Sprintf("told by %s: it %s", decisionLine(e.Decision), word)
}

// describeLever describes the events of a lever and its gate.
func describeLever(kind machine.EventKind, e machine.Event) (string, []string) {
	switch kind {
	case machine.PlanCompleted:
		if e.Plan == nil {
			return "plan", nil
		}
		return "plan: " + e.Plan.Summary, nil
	case machine.PlanRefused:
		return fmt.Sprintf("plan refused (%s): %s", e.Reason, e.Message), nil
	case machine.GuardsPassed:
		return "guards passed", nil
	case machine.GuardsRefused:
		return "guards REFUSED", nil
	case machine.GuardsWaiting:
		return "guards wait, again at " + Time(e.NotUntil), nil
	case machine.GuardsReminded:
		return JoinClauses("people are told that it waits", e.Message), nil
	case machine.GateOpened, machine.GateVoted, machine.GateReminded, machine.GateEscalated, machine.GateDecided, machine.GateVoided,
		machine.GateExpired, machine.GateWithdrawn, machine.DecisionIgnored:
		if e.Gate != nil && kind == machine.GateOpened {
			return describeGate(kind, e), FollowLines(*e.Gate)
		}
		return describeGate(kind, e), nil
	default:
		return describeChange(kind, e)
	}
}

// describeChange describes the events of a lever's change, from its application to its undo.
func describeChange(kind machine.EventKind, e machine.Event) (string, []string) {
	switch kind {
	case machine.WouldApply:
		return "would apply it; autonomy is observe, so nothing was changed", nil
	case machine.Applied:
		if e.Waits != "" {
			return JoinClauses("ASKED FOR, and applied when it is merged: "+e.Waits, e.Message), nil
		}
		return JoinClauses("APPLIED", e.Message), nil
	case machine.Declined:
		return JoinClauses("DECLINED, nothing was changed", e.Message), nil
	case machine.Settling:
		return JoinClauses("taking effect", e.Message), e.Facts
	case machine.WaitBegan, machine.WaitLooked, machine.WaitEnded:
		return describeWait(kind, e)
	case machine.Settled:
		return "in effect; the proof counts from here", e.Facts
	case machine.Sampled:
		if e.Sample == nil {
			return "sample", nil
		}
		return JoinClauses("sample: "+string(e.Sample.Verdict), e.Sample.Message), nil
	case machine.Verified:
		if e.Loan != nil {
			return JoinClauses("VERIFIED, and on loan until the service has recovered", e.Message), nil
		}
		return JoinClauses("VERIFIED", e.Message), nil
	case machine.VerifyEnded:
		return JoinClauses(VerdictText(e.Verdict), e.Message), nil
	case machine.Kept:
		return JoinClauses("KEPT", e.Message), nil
	case machine.Undone:
		if e.Waits != "" {
			return "UNDO ASKED FOR, and undone when it is merged: " + e.Waits, nil
		}
		if e.Then == machine.Keep {
			return JoinClauses("STOPPED, not undone", e.Message), nil
		}
		if e.Loan != nil {
			return JoinClauses("UNDONE, and on loan until another release replaces it: "+e.Loan.Summary, e.Message), nil
		}
		return JoinClauses("UNDONE", e.Message), nil
	case machine.Unwound:
		if e.Then != "" {
			return JoinClauses("stopped", e.Message), e.Facts
		}
		return "the undo is in effect", e.Facts
	default:
		return string(kind), nil
	}
}

// describeWait describes the events of a wait state.
func describeWait(kind machine.EventKind, e machine.Event) (string, []string) {
	switch {
	case kind == machine.WaitBegan:
		return "waits, at most until " + Time(e.NotUntil), nil
	case kind == machine.WaitEnded:
		return JoinClauses("WAIT ENDED", e.Message), nil
	case e.Message != "":
		return JoinClauses("does not hold", e.Message), nil
	case e.HeldFrom.IsZero():
		return "does not hold yet", e.Facts
	default:
		return "holds since " + Time(e.HeldFrom), e.Facts
	}
}

// VerdictText describes the verdict of a proof that was not verified.
func VerdictText(v machine.Verdict) string {
	switch v {
	case machine.VerdictImproved:
		return "IMPROVED, and not yet good"
	case machine.VerdictNoEffect, machine.VerdictFailed:
		return "NO EFFECT"
	case machine.VerdictWorse:
		return "WORSE than before"
	default:
		return "INCONCLUSIVE"
	}
}

func describeGate(kind machine.EventKind, e machine.Event) string {
	switch kind {
	case machine.GateOpened:
		if e.Gate == nil {
			return "asks people"
		}
		line := fmt.Sprintf("asks %s until %s, else %s", e.Gate.Who(), Time(e.Gate.Deadline), unanswered(*e.Gate))
		return JoinClauses(line, e.Gate.Text)
	case machine.GateVoted:
		return "approved by " + decisionLine(e.Decision) + "; others are still needed"
	case machine.GateReminded:
		return JoinClauses("people are reminded", e.Message)
	case machine.GateEscalated:
		return JoinClauses(fmt.Sprintf("escalated to tier %d", e.Tier), e.Message)
	case machine.GateDecided:
		return VoteLine(e.Decision)
	case machine.GateVoided:
		if e.Decision != nil {
			return JoinClauses("question void", JoinClauses(e.Message, e.Decision.Reason))
		}
		return JoinClauses("approval void", e.Message)
	case machine.GateExpired:
		text := "nobody decided in time"
		if e.Gate != nil && len(e.Gate.Votes) > 0 {
			text = e.Gate.Missed("in time")
		}
		return JoinClauses(text, e.Message)
	case machine.GateWithdrawn:
		return JoinClauses("question withdrawn", e.Message)
	default:
		return fmt.Sprintf("decision of %s ignored: %s", decisionLine(e.Decision), e.Message)
	}
}

// VoteLine is what a person decided about a question.
func VoteLine(d *machine.Decision) string { return decisionWord(d) + " by " + decisionLine(d) }

// decisionWord is loud about an approval past the needs.
func decisionWord(d *machine.Decision) string {
	switch {
	case d == nil || !d.Approve:
		return "DENIED"
	case d.BreakGlass:
		return "BREAK-GLASS: APPROVED ALONE"
	default:
		return "APPROVED"
	}
}

func decisionLine(d *machine.Decision) string {
	if d == nil {
		return "someone"
	}
	line := d.By
	if d.Channel != "" {
		line += " (" + d.Channel + ")"
	}
	return JoinClauses(line, d.Reason)
}

// JoinClauses is "a: b", or only a.
func JoinClauses(a, b string) string {
	if b == "" {
		return a
	}
	return a + ": " + b
}
