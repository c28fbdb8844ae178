package policy

import (
	"fmt"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// effect is what a rule does when its condition holds.
type effect interface {
	// judge says what the rule makes of a lever. It is pure.
	judge(in *Input) finding
	// String says the effect in a few words.
	String() string
}

// finding is what one rule makes of one lever.
type finding struct {
	deny    string             // refused, and why; empty: not refused
	depends string             // what has to hold once more is known; empty: nothing is open
	need    *approval          // people who have to say yes
	cap     *playbook.Autonomy // highest level
	merge   machine.MergeBy    // who merges its pull request; empty: it does not say
}

// says reports whether the rule makes a difference.
func (f finding) says() bool {
	return f.deny != "" || f.depends != "" || f.need != nil || f.cap != nil || f.merge != ""
}

// bounds reports whether the effect is about changes alone: how many, when, where
// and at what cost. A gate state changes nothing, so it is not asked about one;
// the lever behind the gate is.
func bounds(e effect) bool {
	switch e.(type) {
	case budget, freeze, protection, blastRadius, merging:
		return true
	default:
		return false
	}
}

// denial is deny: never.
type denial struct{ why string }

func (d denial) judge(*Input) finding { return finding{deny: d.why} }
func (d denial) String() string       { return "never, because " + d.why }

// ceiling is max_autonomy.
type ceiling struct{ level playbook.Autonomy }

func (c ceiling) judge(*Input) finding { return finding{cap: &c.level} }
func (c ceiling) String() string       { return "at most " + c.level.String() }

// merging is merge: who merges the pull request of a change that takes one.
type merging struct{ by machine.MergeBy }

func (m merging) judge(in *Input) finding {
	switch {
	case in.Plan == nil:
		return finding{depends: m.String()}
	case in.Plan.MergeWithin == 0:
		return finding{} // it is pushed
	default:
		return finding{merge: m.by}
	}
}

func (m merging) String() string { return "a pull request is merged by " + string(m.by) }

// merger adds what a rule says to who merges. People win over Responder, and
// the first rule that says so is named.
func merger(before *machine.Merger, by machine.MergeBy, rule string) *machine.Merger {
	if by == "" || before != nil && (before.By == machine.MergePeople || before.By == by) {
		return before
	}
	return &machine.Merger{By: by, Rule: rule}
}

// budget is how often within a time.
type budget struct {
	what   string // levers, runs
	limit  int
	per    string // service, playbook, all
	within span
}

func (b budget) judge(in *Input) finding {
	if in.Count == nil {
		return finding{deny: "how much was done is unknown, " + b.String(), depends: b.String()}
	}
	q := Count{What: b.what, Since: in.Now.Add(-b.within.d)}
	switch b.per {
	case "service":
		q.Service = in.Service.Name
	case "playbook":
		q.Playbook = in.Playbook.Name
	}
	n, ok := in.Count(q)
	switch {
	case !ok:
		return finding{deny: "how much was done is unknown, " + b.String()}
	case n >= b.limit:
		return finding{deny: fmt.Sprintf("%d already, %s", n, b)}
	default:
		return finding{}
	}
}

func (b budget) String() string {
	of := map[string]string{"service": " on one service", "playbook": " by one playbook", "all": " in all"}[b.per]
	return fmt.Sprintf("at most %d %s%s within %s", b.limit, b.what, of, b.within)
}
