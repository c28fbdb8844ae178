package runview

import (
	"slices"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// CauseOf returns what a run took for the cause: the branch of the playbook that led to
// the last change that helped, else that to the first change or end, with the evidence of
// that moment. Nil: none is known; see [causeUnknown].
func CauseOf(s machine.State, events []machine.Event) *api.IncidentCause {
	t := digester{book: s.Playbook}
	for _, e := range events {
		t.add(e)
	}
	taken, helped := t.cause()
	if taken == nil {
		return nil
	}
	c := api.IncidentCause{
		At: taken.At, State: taken.State, Branch: branchName(*taken), To: taken.To, Helped: helped,
		Values: []string{}, Evidence: []string{}, RuledOut: []string{}, Unknown: []string{},
	}
	for _, x := range taken.Examined {
		switch name := OrText(x.Edge, "otherwise"); x.Result {
		case playbook.True:
			c.Values = append([]string{}, x.Values...)
		case playbook.False:
			c.RuledOut = append(c.RuledOut, name)
		default:
			c.Unknown = append(c.Unknown, JoinClauses(name, x.Why))
		}
	}
	var known Evidence
	for _, e := range events {
		if e.Kind == machine.EdgeTaken && e.At.Equal(taken.At) && e.To == taken.To {
			break
		}
		known.checked(e)
	}
	names := DecidedBy(taken.Examined)
	for _, f := range known.found {
		if slices.Contains(names, f.name) {
			c.Evidence = append(c.Evidence, f.lines...)
		}
	}
	return &c
}

// causeUnknown returns why [CauseOf] returns nil.
func causeUnknown(s machine.State) string {
	if s.Playbook == nil {
		return "the playbook of the run cannot be read"
	}
	return "the run took no branch to a change or an end"
}

// checked adds what the checks of an event found.
func (e *Evidence) checked(ev machine.Event) {
	if ev.Kind != machine.CheckCompleted {
		return
	}
	var lines []string
	for _, fact := range ev.Facts {
		lines = append(lines, ev.State+": "+fact)
	}
	e.Add(ev.State, lines)
	for i, g := range ev.Gathered {
		e.Add(g.Name, GatheredLines(ev.Gathered[i:i+1]))
	}
}
