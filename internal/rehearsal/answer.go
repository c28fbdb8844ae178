package rehearsal

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/playbook"
)

// outcome returns what becomes of an effect: of checks and levers what the case
// says, and all else succeeds at once.
func (r *runner) outcome(e machine.Effect) (machine.Outcome, error) {
	ok := machine.Outcome{Status: machine.StatusOK}
	switch e.Action {
	case machine.ActionCheck:
		return r.checked(e)
	case machine.ActionPlan:
		return r.planned(e)
	case machine.ActionGuard:
		ok.Guards = []machine.GuardVerdict{{Guard: "firing", OK: true, Why: "cases do not ask guards"}}
	case machine.ActionApply:
		before := 1.0
		ok.Before, ok.Data = &before, json.RawMessage(`{}`)
	case machine.ActionVerify:
		return r.sampled(e)
	}
	return ok, nil
}

// checked answers a check, or the checks of a gather.
func (r *runner) checked(e machine.Effect) (machine.Outcome, error) {
	a, ok := r.peek(e.State)
	if !ok {
		return machine.Outcome{}, fmt.Errorf("the run comes to state %s, for which the case has no results", e.State)
	}
	r.asked[e.State]++
	out := machine.Outcome{Status: machine.StatusOK}
	if len(e.Gather) == 0 {
		f := a.found[e.State]
		if f.why != "" {
			return machine.Outcome{Status: machine.StatusFailed, Reason: fault.NoData, Message: f.why}, nil
		}
		out.Data = json.RawMessage(asJSON(at(f.value, r.now)))
		return out, nil
	}
	for _, g := range e.Gather {
		f, given := a.found[g.Name]
		found := machine.Gathered{Name: g.Name, Step: g.Step}
		switch {
		case g.Why != "":
			found.Reason, found.Why = fault.Expression, g.Why
		case !given:
			found.Reason, found.Why = fault.NoData, "the case has no result for it"
		case f.why != "":
			found.Reason, found.Why = fault.NoData, f.why
		default:
			found.Data = json.RawMessage(asJSON(at(f.value, r.now)))
		}
		out.Gathered = append(out.Gathered, found)
	}
	return out, nil
}

// result returns what becomes of the lever or gate on this visit.
func (r *runner) result(state string) (playbook.Signal, error) {
	all := r.c.answers[state]
	if len(all) == 0 {
		return "", fmt.Errorf("the run comes to state %s, for which the case has no results", state)
	}
	return all[min(r.s.Visits[state], len(all))-1].signal, nil
}

// planned plans a lever.
func (r *runner) planned(e machine.Effect) (machine.Outcome, error) {
	sig, err := r.result(e.State)
	if err != nil || sig == playbook.OnRefused {
		return machine.Outcome{Status: machine.StatusRefused, Reason: fault.NotMet, Message: "the case refuses it"}, err
	}
	l := Lever{State: e.Step, With: e.With}
	return machine.Outcome{Status: machine.StatusOK, Plan: &machine.Plan{
		Step: e.Step, Target: machine.Target{APIVersion: "test", Kind: "Test", Name: e.State}, Summary: l.String(),
		Diff: []machine.FieldChange{{Path: e.State, To: l.String()}}, Undo: "as before", Risk: machine.RiskLow, Locks: []string{"service:" + e.Service.Name},
	}}, nil
}

// sampled takes a sample of a proof: the verdict of the case is known when it has
// held, one that is no proof at the deadline.
func (r *runner) sampled(e machine.Effect) (machine.Outcome, error) {
	sig, err := r.result(e.State)
	if err != nil {
		return machine.Outcome{}, err
	}
	verdict := machine.Verdict(sig)
	s := &machine.Sample{At: r.now, Verdict: machine.VerdictWatching, Message: "not yet"}
	switch held := !r.now.Before(e.Proof.FixedAt.Add(e.Proof.Spec.Hold)); {
	case !held:
	case verdict == machine.VerdictVerified, verdict == machine.VerdictWorse:
		s.Verdict, s.Message = verdict, "as the case has it"
	default:
		s.Ends, s.Message = verdict, "as the case has it"
	}
	return machine.Outcome{Status: machine.StatusOK, Sample: s}, nil
}

// decide answers the open question: people approve, unless the case says
// otherwise, and keep what was changed.
func (r *runner) decide() error {
	g := r.s.Gate
	sig := playbook.OnApproved
	if !g.Undo {
		var err error
		if sig, err = r.result(r.s.Current); err != nil {
			return err
		}
	}
	if sig == playbook.OnExpired {
		r.until(g.Deadline)
		return r.do(machine.Command{Kind: machine.CmdTick})
	}
	d := machine.Decision{Gate: g.ID, Digest: g.Digest, By: r.voter(g), Groups: groupsOf(g), Channel: "test", Person: true, Strong: true, Approve: sig != playbook.OnDenied && !g.Undo, Reason: "the case says so"}
	if r.votes++; r.votes > maxVotes {
		return fmt.Errorf("nobody can decide about state %s: it needs %s", r.s.Current, g.Who())
	}
	if err := r.do(machine.Command{Kind: machine.CmdDecide, Decision: &d}); err != nil && r.votes >= maxVotes {
		return err
	}
	return nil
}

// maxVotes bounds the people who are asked about one change.
const maxVotes = 128

// voter returns somebody who has not voted yet: those who are named, then members
// of the groups.
func (r *runner) voter(g *machine.Gate) string {
	var people []string
	for _, n := range g.Needs {
		for _, who := range n.From {
			if strings.HasPrefix(who, "user:") && !slices.Contains(people, who) {
				people = append(people, who)
			}
		}
	}
	if r.votes < len(people) {
		return people[r.votes]
	}
	return fmt.Sprintf("user:test-%d", r.votes+1)
}

func groupsOf(g *machine.Gate) []string {
	var out []string
	for _, n := range g.Needs {
		for _, who := range slices.Concat(n.From, n.Among) {
			if strings.HasPrefix(who, "group:") {
				out = append(out, who)
			}
		}
	}
	return out
}
