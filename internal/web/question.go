package web

import (
	"fmt"
	"strings"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// question is what people are asked now, as one visitor sees it.
type question struct {
	machine.Gate
	NeedList  []need
	Silence   string // what happens when nobody decides
	Tell      []string
	NoApprove string // why this visitor's yes does not count; empty: it does
	NoDeny    string
	Glass     bool // the visitor may approve alone
}

// need is one demand and how far it is met.
type need struct {
	Who, Rule string
	Given     []string
	Quorum    int
	Met       bool
}

func ask(g machine.Gate, v Visitor) *question {
	q := &question{Gate: g, Silence: "the run is handed to people and nothing is changed"}
	if g.OnExpiry == playbook.ExpiryDeny {
		q.Silence = "it counts as denied and nothing is changed"
	}
	for _, n := range g.Needs {
		q.NeedList = append(q.NeedList, need{Who: n.Who(), Rule: n.Rule, Given: n.Given(g.Votes), Quorum: max(1, n.Quorum), Met: n.Met(g.Votes)})
	}
	for i, t := range g.Tiers {
		word := "is told at " + stamp(g.Opened.Add(t.After))
		if i < g.Told {
			word = "was told after " + playbook.FormatDuration(t.After)
		}
		q.Tell = append(q.Tell, strings.Join(t.To, ", ")+" "+word)
	}
	if err := g.Refuse(v.decision(true)); err != nil {
		q.NoApprove = err.Error()
	}
	if err := g.Refuse(v.decision(false)); err != nil {
		q.NoDeny = err.Error()
	}
	alone := v.decision(true)
	alone.BreakGlass, alone.Reason = true, "asked by the page"
	q.Glass = g.Refuse(alone) == nil
	return q
}

// banner says what became of the visitor's own decision.
type banner struct {
	Good         bool
	Text, Detail string
}

// banner takes the word that the receiver sent the browser back with. A word
// of success is not believed, since anybody can write an address: the run's
// events have to say it too.
func (s *Site) banner(word string, v Visitor, events []machine.Event) *banner {
	counted := s.own(latest(events, v.by(), true))
	switch word {
	case "approve", "deny", "replan", "cancel", "resolve":
		if counted != "" {
			return &banner{Good: true, Text: "Your decision is recorded.", Detail: counted}
		}
		return nil // of a release, the run's end says it
	}
	text := refusals()[word]
	if text == "" {
		return nil
	}
	b := &banner{Text: text, Detail: s.own(latest(events, v.by(), false))}
	if counted != "" && word != "reason" && word != "stale" {
		b.Detail = strings.TrimSpace(b.Detail + " What you decided before: " + counted)
	}
	return b
}

// own says the visitor's decision.
func (s *Site) own(e *machine.Event) string {
	if e == nil {
		return ""
	}
	what, _ := s.o.Words.Event(*e)
	return fmt.Sprintf("%s (%s).", what, stamp(e.At))
}

// refusals are the run's answers to decisions that do not count, by the word
// the receiver has for them.
func refusals() map[string]string {
	return map[string]string{
		"reason":    "Not taken: a denial needs a reason. Say why below, then deny again.",
		"stale":     "Not taken: the plan you saw is not the one that is asked about any more. Look at the plan below and decide again.",
		"again":     "Not taken again: your approval counts already, and others are needed.",
		"ended":     "Too late: the run has ended. Nothing was changed by your decision.",
		"late":      "Too late: that question is not open any more. It was decided, withdrawn, or its time ran out.",
		"many":      "Not taken: that was asked for too often in this run.",
		"forbidden": "Not taken: you may not decide this. Who may stands below.",
		"conflict":  "Not taken: the run is not in a state in which that is possible. Where it stands is below.",
	}
}
