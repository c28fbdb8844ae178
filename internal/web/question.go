package web

import (
	"fmt"
	"strings"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/runview"
)

// question is the open question, as one visitor sees it.
type question struct {
	machine.Gate
	NeedList  []need
	Silence   string // what happens without a decision
	NoApprove string // why this visitor's approval does not count; empty: it does
	NoDeny    string
	Glass     bool // the visitor may approve alone
}

// yes is what an approval does, on a button.
func (q *question) yes() string {
	if q.Undo {
		return "Take it back"
	}
	return "Approve"
}

// no is what a denial does, on a button.
func (q *question) no() string {
	if q.Undo {
		return "Keep it"
	}
	return "Deny"
}

// need is one demand for approval and the votes it has.
type need struct {
	Who, Rule string
	Given     []string
	Quorum    int
	Met       bool
}

func ask(run machine.State, v Visitor) *question {
	g := *run.Gate
	yes, no := v.decision(true), v.decision(false)
	yes.Lacks, _ = v.lacking(run)
	no.Lacks = yes.Lacks
	q := &question{Gate: g, Silence: runview.ExpiryLine(g)}
	for _, n := range g.Needs {
		q.NeedList = append(q.NeedList, need{Who: n.Who(), Rule: n.Rule, Given: n.Given(g.Votes), Quorum: max(1, n.Quorum), Met: n.Met(g.Votes)})
	}
	if err := g.Refuse(yes); err != nil {
		q.NoApprove = err.Error()
	}
	if err := g.Refuse(no); err != nil {
		q.NoDeny = err.Error()
	}
	alone := yes
	alone.BreakGlass, alone.Reason = true, "asked by the page"
	q.Glass = g.Refuse(alone) == nil
	return q
}

// banner describes the result of the visitor's own decision.
type banner struct {
	Good         bool
	Text, Detail string
}

// bannerOf renders the result code of the redirect after a decision. Anybody can
// write an address, so success is shown only if the run's events confirm it.
func bannerOf(word string, v Visitor, events []machine.Event) *banner {
	counted := own(latest(events, v.by(), true))
	switch word {
	case "approve", "deny", "replan", "cancel", "resolve":
		if counted != "" {
			return &banner{Good: true, Text: "Your decision is recorded.", Detail: counted}
		}
		return nil // the end of the run shows a release
	}
	text := refusals()[word]
	if text == "" {
		return nil
	}
	b := &banner{Text: text, Detail: own(latest(events, v.by(), false))}
	if counted != "" && word != "reason" && word != "stale" {
		b.Detail = strings.TrimSpace(b.Detail + " Your earlier decision: " + counted)
	}
	return b
}

// own describes the visitor's decision.
func own(e *machine.Event) string {
	if e == nil {
		return ""
	}
	what, _ := runview.DescribeEvent(*e)
	return fmt.Sprintf("%s (%s).", what, stamp(e.At))
}

// refusals are the run's answers to decisions that do not count, by the
// receiver's result code.
func refusals() map[string]string {
	return map[string]string{
		"reason":    "Not accepted: a denial needs a reason. Enter it below, then deny again.",
		"stale":     "Not accepted: the plan you saw is no longer the current one. Check the plan below and decide again.",
		"again":     "Not counted again: your approval already counts, and others are needed.",
		"ended":     "Too late: the run has ended. Your decision changed nothing.",
		"late":      "Too late: that question is no longer open. It was decided, withdrawn, or has expired.",
		"many":      "Not accepted: this was requested too often in this run.",
		"forbidden": "Not accepted: you may not decide this. The people who may are listed below.",
		"conflict":  "Not accepted: this is not possible in the current state of the run, which is shown below.",
	}
}
