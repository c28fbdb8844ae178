package policy

import (
	"fmt"
	"strings"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// effect is what a rule does when its condition holds.
type effect interface {
	// judge returns the rule's finding about a lever. It is pure.
	judge(in *Input) finding
	// String describes the effect in a few words.
	String() string
}

// finding is the result of one rule for one lever.
type finding struct {
	deny      string             // why it is denied; empty: not denied
	depends   string             // what is checked once more is known; empty: nothing
	need      *approval          // people who must approve
	cap       *playbook.Autonomy // highest level
	approvers []string           // whom a playbook may name
	merge     machine.MergeBy    // who merges its pull request; empty: not set
}

// says reports whether the rule has an effect.
func (f finding) says() bool {
	return f.deny != "" || f.depends != "" || f.need != nil || f.cap != nil || len(f.approvers) > 0 || f.merge != ""
}

// bounds reports whether the effect limits only changes: how many, when, where
// and at what cost. A gate state changes nothing and is exempt; the lever
// behind the gate is not.
func bounds(e effect) bool {
	switch e.(type) {
	case budget, freeze, protection, blastRadius, merging:
		return true
	default:
		return false
	}
}

// denial is the effect deny.
type denial struct{ why string }

func (d denial) judge(*Input) finding { return finding{deny: d.why} }
func (d denial) String() string       { return "denied: " + d.why }

// ceiling is the effect max_autonomy.
type ceiling struct{ level playbook.Autonomy }

func (c ceiling) judge(*Input) finding { return finding{cap: &c.level} }
func (c ceiling) String() string       { return "at most " + c.level.String() }

// approvers is the effect allow_approvers: whom a playbook may name in approve,
// beside the owners.
type approvers []string

func (a approvers) judge(*Input) finding { return finding{approvers: a} }
func (a approvers) String() string {
	return "playbooks may name " + strings.Join(a, ", ") + " as approvers"
}

// merging is the effect merge: who merges the pull request of a change that
// needs one.
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

// merger combines a rule's effect merge with earlier ones. People take
// precedence over Responder. The first rule with the effective value is named.
func merger(before *machine.Merger, by machine.MergeBy, rule string) *machine.Merger {
	if by == "" || before != nil && (before.By == machine.MergePeople || before.By == by) {
		return before
	}
	return &machine.Merger{By: by, Rule: rule}
}

// budget is the effect budget: how often within a time.
type budget struct {
	what   string // levers, runs
	limit  int
	per    string // service, playbook, all
	within span
}

func (b budget) judge(in *Input) finding {
	if in.Count == nil {
		return finding{deny: "the number of past changes is unknown, " + b.String(), depends: b.String()}
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
		return finding{deny: "the number of past changes is unknown, " + b.String()}
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
