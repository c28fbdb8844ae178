package policy

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/inference-responder/responder/internal/executor/machine"
)

// Guard is the name of policy in the list of guards.
const Guard = "policy"

// Result is the result of all rules for a lever or a gate state.
type Result struct {
	Terms   machine.Terms
	Verdict machine.GuardVerdict // its Why names the first cause
	Causes  []Cause              // the rules that had an effect, in the file's order
}

// Cause is one rule that had an effect.
type Cause struct {
	Rule    string        `json:"rule"`  // its name
	Place   string        `json:"place"` // for people: policy prod-freeze, policy.yaml:14
	Effect  string        `json:"effect"`
	Denies  bool          `json:"denies,omitempty"`
	Depends bool          `json:"depends,omitempty"` // on facts that are unknown yet; only from Explain
	Why     string        `json:"why"`
	Need    *machine.Need `json:"need,omitempty"` // of require_approval
	Cap     *machine.Cap  `json:"cap,omitempty"`  // of max_autonomy
}

// Evaluate evaluates every rule for a lever or a gate state; for a gate state,
// only the rules that do more than limit changes. Unknown facts are denied. A
// nil Set allows everything.
func (s *Set) Evaluate(in Input) Result { return s.ask(&in, nil) }

// Explain evaluates the rules for a lever that is neither planned nor decided.
// Rules about plan, run, actor, the lever's parameters or past changes become
// causes with Depends set; they neither deny nor allow. In.Plan, In.Run,
// In.Actor, In.With and In.Count are ignored.
func (s *Set) Explain(in Input) Result {
	in.Plan, in.Run, in.Actor, in.With, in.Count = nil, Run{}, Actor{}, nil, nil
	unknown := []string{"run", "actor"}
	if !in.gate() {
		unknown = append(unknown, "plan", "lever.with") // a gate has none, which is known
	}
	return s.ask(&in, unknown)
}

// ask evaluates the rules. unknown names facts that may stay open.
func (s *Set) ask(in *Input, unknown []string) Result {
	if s == nil {
		return Result{Verdict: machine.GuardVerdict{Guard: Guard, OK: true, Why: "no policy is configured"}}
	}
	t := tally{unknown: unknown}
	if len(in.Others) > 0 {
		t.own = in.Service.Name
	}
	t.result.Terms.Policy = s.digest
	s.judge(&t, in)
	for i := range in.Others {
		t.other = &in.Others[i]
		before := t.result.Terms.Approvers
		t.result.Terms.Approvers = nil
		for _, x := range t.other.inputs(in) {
			s.judge(&t, x)
		}
		t.result.Terms.Approvers = both(before, t.result.Terms.Approvers, t.other)
	}
	t.result.Verdict = t.verdict(len(s.rules))
	return t.result
}

// judge adds what every rule finds about one input to the tally.
func (s *Set) judge(t *tally, in *Input) {
	t.in, t.values, t.routed, t.routedPins = in, &values{in: in}, nil, nil
	if r := in.routed(); r != nil {
		t.routed = &values{in: r}
		t.routedPins = s.pinned(t.routed, t.unknown)
	}
	t.pins = s.pinned(t.values, t.unknown)
	for _, r := range s.rules {
		t.ask(r)
	}
}

// tally combines the findings of rules.
type tally struct {
	in      *Input
	values  *values
	unknown []string
	pins    []pinned
	result  Result
	denials int
	open    int
	asked   bool   // there was an earlier need
	other   *Other // that the input is about; nil: the run's own service
	own     string // name of the run's service, if the lever touches others; else empty

	// The values as those of the lever that carries the change out, if that is
	// another one.
	routed     *values
	routedPins []pinned
}

// ask evaluates one rule.
func (t *tally) ask(r *rule) {
	if r.excluded(t.pins) && (t.routed == nil || r.excluded(t.routedPins)) || (t.in.gate() && bounds(r.Effect)) {
		return
	}
	holds, known, err := t.holds(r, t.values)
	if t.routed != nil && err == nil && known && !holds {
		holds, known, err = t.holds(r, t.routed)
	}
	if err != nil {
		t.deny(r, fmt.Sprintf("when cannot be evaluated: %v", err))
		return
	}
	if !known {
		t.depends(r, r.Effect.judge(t.in), "if "+r.When+": "+r.Effect.String())
		return
	}
	if !holds {
		return
	}
	f := r.Effect.judge(t.in)
	switch {
	case !f.says():
	case t.unknown != nil && f.depends != "":
		t.depends(r, f, f.depends)
	case f.deny != "":
		t.deny(r, f.deny)
	default:
		t.add(r, f)
	}
}

// holds evaluates the rule's condition.
func (t *tally) holds(r *rule, of *values) (holds, known bool, err error) {
	if r.when == nil {
		return true, true, nil
	}
	var v any
	known = true
	if t.unknown == nil {
		v, err = r.when.Eval(of)
	} else {
		v, known, err = r.when.EvalPartly(of, t.unknown...)
	}
	if err != nil || !known {
		return false, known, err
	}
	holds, ok := v.(bool)
	if !ok {
		return false, true, fmt.Errorf("result is a %T", v) // unreachable: conditions are checked to be bools
	}
	return holds, true, nil
}

func (t *tally) cause(r *rule, why string) Cause {
	if t.other != nil {
		why = t.other.Name + ": " + why
	}
	return Cause{Rule: r.Name, Place: r.Place, Effect: r.Kind, Why: why}
}

// owned replaces service.owners in a need by the owners of the other service that
// the input is about, and node.owners where the node is in no pool. For pods of no
// service those of the run's service are asked.
func (t *tally) owned(n *machine.Need) {
	if n == nil || t.other == nil || t.in.Service.Name == "" {
		return
	}
	pool := t.in.Plan != nil && t.in.Plan.NodeOwners != nil && t.in.Plan.NodeOwners.Pool != ""
	var from []string
	for _, who := range n.From {
		names := []string{who}
		if who == "service.owners" || who == "node.owners" && !pool {
			names, n.As = t.in.Service.Owners, "owners of "+t.other.Name
		}
		from = append(from, names...)
	}
	n.From = from
}

func (t *tally) deny(r *rule, why string) {
	c := t.cause(r, why)
	c.Denies = true
	t.denials++
	t.result.Causes = append(t.result.Causes, c)
}

func (t *tally) depends(r *rule, f finding, on string) {
	c := t.cause(r, on)
	c.Depends = true
	c.Need, c.Cap = f.needOf(r), f.capOf(r)
	t.open++
	t.result.Causes = append(t.result.Causes, c)
}

// add adds a rule's demands to the terms.
func (t *tally) add(r *rule, f finding) {
	c := t.cause(r, r.Effect.String())
	c.Need, c.Cap = f.needOf(r), f.capOf(r)
	t.owned(c.Need)
	if c.Need != nil && t.own != "" {
		c.Need.For = []string{cmp.Or(t.in.Service.Name, t.own)} // of pods of no service the run's
	}
	terms := &t.result.Terms
	if f.need != nil {
		f.need.require(terms, *c.Need, !t.asked)
		t.asked = true
	}
	if c.Cap != nil && t.other != nil {
		c.Cap.Rule, c.Cap.Touched = c.Cap.Rule+", for "+t.other.Name, true
	}
	if c.Cap != nil && (terms.Cap == nil || c.Cap.Level < terms.Cap.Level) {
		terms.Cap = c.Cap
	}
	for _, who := range f.approvers {
		if !slices.Contains(terms.Approvers, who) {
			terms.Approvers = append(terms.Approvers, who)
		}
	}
	terms.Merge = merger(terms.Merge, f.merge, r.Place)
	t.result.Causes = append(t.result.Causes, c)
}

// both returns whom a playbook may name for the services before and for another one
// too. Nobody is asked for pods of no service.
func both(before, now []string, other *Other) []string {
	if other.Service.Name == "" {
		return before
	}
	return slices.DeleteFunc(slices.Clone(before), func(who string) bool { return !slices.Contains(now, who) })
}

func (f finding) needOf(r *rule) *machine.Need {
	if f.need == nil {
		return nil
	}
	return &machine.Need{Rule: r.Place, From: slices.Clone(f.need.from), Quorum: f.need.quorum, Strong: f.need.strong}
}

func (f finding) capOf(r *rule) *machine.Cap {
	if f.cap == nil {
		return nil
	}
	return &machine.Cap{Level: *f.cap, Rule: r.Place}
}

// verdict summarizes the result for the list of guards.
func (t *tally) verdict(rules int) machine.GuardVerdict {
	v := machine.GuardVerdict{Guard: Guard, OK: t.denials == 0}
	for _, c := range t.result.Causes {
		if !c.Denies {
			continue
		}
		v.Why = c.Place + ": " + c.Why
		if t.denials > 1 {
			v.Why += fmt.Sprintf(" (and %d more)", t.denials-1)
		}
		return v
	}
	v.Why = fmt.Sprintf("none of %d rules denies", rules)
	if n := len(t.result.Terms.Needs); n > 0 {
		v.Why += fmt.Sprintf(", %d ask for approval: %s", n, t.result.Terms.Needs[0].Rule)
	}
	if c := t.result.Terms.Cap; c != nil {
		v.Why += fmt.Sprintf(", at most %s: %s", c.Level, c.Rule)
	}
	if m := t.result.Terms.Merge; m != nil {
		v.Why += fmt.Sprintf(", merged by %s: %s", m.By, m.Rule)
	}
	if t.open > 0 {
		v.Why += fmt.Sprintf(", %d depend on the plan", t.open)
	}
	return v
}
