package dryrun

import (
	"fmt"
	"slices"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/runview"
)

// branchesOf walks the edges of a lever or gate: what each result leads to.
func branchesOf(pb *playbook.Playbook, st *playbook.State) []api.Branch {
	var out []api.Branch
	class, restarts := pb.ClassOf(st)
	results := append([]playbook.Signal{playbook.OnApproved}, playbook.Verdicts()...)
	for _, result := range append(results, playbook.OnDenied, playbook.OnExpired) {
		if !slices.Contains(playbook.SignalsOf(st.Kind), result) {
			continue
		}
		b := api.Branch{Result: string(result)}
		if slices.Contains(playbook.Verdicts(), result) {
			fate := machine.FateOf(class, restarts, machine.Verdict(result))
			b.First = fate.Text()
			if st.Steps != nil && machine.Continues(result, fate, st.Steps.Via != "") {
				b.First += "; " + further(pb, st.Steps) + ", then"
			}
		}
		b.To, b.What = follows(pb, st, result)
		b.Reaches = reaches(pb, b.To, st)
		out = append(out, b)
	}
	return out
}

// further describes how many steps follow the first one.
func further(pb *playbook.Playbook, w *playbook.Stepwise) string {
	out := "more steps follow, up to " + w.Times.Source() + " in all"
	if times, ok := w.Times.Constant(); ok {
		out = fmt.Sprintf("up to %v steps follow", times-1)
	}
	if w.Via != "" {
		out += ", each after " + runview.StateWhat(pb.State(w.Via))
	}
	return out
}

// alone reports whether only an edge of its own handles a result.
func alone(pb *playbook.Playbook, st *playbook.State, result playbook.Signal) bool {
	if st.Kind != playbook.StateLever {
		return false
	}
	class, restarts := pb.ClassOf(st)
	return result.NeedsPeople() || slices.Contains(playbook.Verdicts(), result) && machine.FateOf(class, restarts, machine.Verdict(result)).Tell
}

// follows finds the first edge that a result takes, or says how the run ends
// without one. An edge with a condition may be taken: what it depends on will
// be known only then.
func follows(pb *playbook.Playbook, st *playbook.State, result playbook.Signal) (to, what string) {
	for _, e := range st.Next {
		if e.On != "" && e.On != result || e.On == "" && alone(pb, st, result) {
			continue
		}
		next := pb.State(e.To)
		what := runview.StateWhat(next)
		if e.When != nil {
			what += ", if " + e.When.Source()
		}
		return e.To, what
	}
	return "end", "the run ends escalated: a person has to take over"
}

// goesOn reports whether a run leaves the state by itself.
func goesOn(s *playbook.State) bool {
	return s.Kind == playbook.StateCheck || s.Kind == playbook.StateGather || s.Kind == playbook.StateNotify || s.Kind == playbook.StateWait
}

// reaches walks the edges from a state that a run leaves by itself to what ends the walk. The
// lever that was tried is none of it: a run tries each once.
func reaches(pb *playbook.Playbook, from string, tried *playbook.State) []string {
	start := pb.State(from)
	if start == nil || !goesOn(start) {
		return nil
	}
	var found []string
	seen := map[string]bool{}
	var visit func(name string)
	visit = func(name string) {
		s := pb.State(name)
		if s == nil || seen[name] || s == tried && s.Kind == playbook.StateLever {
			return
		}
		seen[name] = true
		if !goesOn(s) {
			found = append(found, runview.StateWhat(s))
			return
		}
		for _, e := range s.Next {
			visit(e.To)
		}
		visit(s.OnError)
	}
	visit(from)
	return found
}
