package machine

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/playbook"
)

// Asked is one check of a gather.
type Asked struct {
	Name string         `json:"name"` // of the evidence
	Step string         `json:"step"`
	With map[string]any `json:"with,omitempty"`
	Why  string         `json:"why,omitempty"` // its parameters cannot be evaluated, so it is not run
}

// Gathered is what one check of a gather found. Reason and Why are set, and
// Data is not, if it did not answer.
type Gathered struct {
	Name   string          `json:"name"` // of the evidence
	Step   string          `json:"step"`
	Data   json.RawMessage `json:"data,omitempty"`
	Facts  []string        `json:"facts,omitempty"`
	Reason fault.Reason    `json:"reason,omitempty"`
	Why    string          `json:"why,omitempty"`
}

// Unknown reports whether the check did not answer.
func (g Gathered) Unknown() bool { return g.Why != "" }

// Examined is an edge that a run looked at, with what its condition read.
type Examined = playbook.Examined

// asked returns the checks of the current gather state with their parameters.
func (s State) asked(now time.Time) []Asked {
	st, sc := s.current(), s.scope(now)
	var out []Asked
	for _, g := range st.Gather {
		a := Asked{Name: g.Name, Step: g.Step}
		with, err := evalAll(g.With, sc)
		if err != nil {
			a.Why = s.lacksAlert(err).Error()
		}
		a.With = with
		out = append(out, a)
	}
	return out
}

// askedWith returns the parameters of the checks for the journal.
func askedWith(asked []Asked) map[string]any {
	out := map[string]any{}
	for _, a := range asked {
		if len(a.With) > 0 {
			out[a.Name] = plainMap(a.With)
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// complete returns the findings of all checks of a gather, in the playbook's
// order. What is missing, too large or not JSON is unknown.
func (s State) complete(out Outcome) []Gathered {
	found := map[string]Gathered{}
	for _, g := range out.Gathered {
		found[g.Name] = g
	}
	var all []Gathered
	for _, want := range s.current().Gather {
		g, ok := found[want.Name]
		g.Name, g.Step = want.Name, want.Step
		switch {
		case !ok && out.Status != StatusOK:
			g.Reason, g.Why = out.Reason, out.Message
		case !ok:
			g.Reason, g.Why = fault.Invalid, "the check returned nothing"
		case g.Why != "":
			g.Data, g.Facts = nil, nil
		case len(g.Data) == 0, len(g.Data) > MaxEvidence, !json.Valid(g.Data):
			g = Gathered{Name: g.Name, Step: g.Step, Reason: fault.Invalid, Why: fmt.Sprintf("its evidence is not JSON or exceeds %d bytes", MaxEvidence)}
		}
		if g.Why == "" && !ok {
			g.Why = "the check failed without a reason"
		}
		all = append(all, g)
	}
	return all
}

// gathered journals what the checks of a gather found, and goes on.
func (t *turn) gathered(o OpenEffect, out Outcome) {
	t.emit(Event{Kind: CheckCompleted, State: t.s.Current, Effect: o.Key, Attempt: o.Attempt, Gathered: t.s.complete(out)})
	t.next()
}

// evolveGathered folds the findings of a gather. Each evidence replaces the one
// that was gathered before.
func evolveGathered(s State, e Event) State {
	for _, g := range e.Gathered {
		s.Evidence[g.Name] = &Evidence{At: e.At, Step: g.Step, Data: g.Data, Facts: g.Facts, Unknown: g.Why}
		if !g.Unknown() {
			s.LookedAt = e.At
		}
	}
	return s
}

// choice is the edge that leaves a state, and all that were looked at for it.
type choice struct {
	edge     *playbook.Edge
	examined []Examined
}

// untold describes the edges that could not be told or were passed over, for
// people, each cause once; empty: all were told.
func (c choice) untold() string {
	var whys []string
	edges := map[string]string{}
	for _, x := range c.examined {
		switch {
		case x.Why == "":
		case edges[x.Why] == "":
			whys = append(whys, x.Why)
			edges[x.Why] = edgeWord(x)
		default:
			edges[x.Why] += ", " + edgeWord(x)
		}
	}
	for i, why := range whys {
		whys[i] = edges[why] + ": " + why
	}
	return strings.Join(whys, "; ")
}

func edgeWord(x Examined) string {
	if x.Edge == "" {
		return "otherwise"
	}
	return x.Edge
}

// choose examines the edges in order and returns the first that is true, by its
// signal, its condition, or unconditionally. An edge that depends on unknown
// evidence cannot be told; one that leads to a lever that the run has tried is
// passed over. After either, see [playbook.Playbook.HeldBack]. Another condition
// that cannot be evaluated is an error, never false.
func choose(s State, edges []playbook.Edge, sig playbook.Signal, now time.Time) (choice, error) {
	sc := s.scope(now)
	var c choice
	doubt, passed := false, false
	for i := range edges {
		e := &edges[i]
		x := Examined{Edge: e.Text(), To: e.To, Result: playbook.True}
		switch {
		case e.On != "" && (e.On != sig || sig == ""):
			continue // another result; there is nothing to examine
		case e.When != nil:
			var err error
			if x.Result, x.Why, err = e.When.Judge(sc); err != nil {
				return c, s.lacksAlert(err)
			}
			x.Values = e.When.Values(sc)
		}
		doubt = doubt || x.Result == playbook.Unknown
		if x.Result == playbook.True {
			if x.Why = s.Playbook.HeldBack(*e, doubt, passed); x.Why == "" {
				x.Why = s.tried(e.To)
				passed = passed || x.Why != ""
			}
		}
		c.examined = append(c.examined, x)
		if x.Result == playbook.True && x.Why == "" {
			c.edge = e
			return c, nil
		}
	}
	return c, nil
}

// tried reports why a lever is not tried again; empty: the state is no lever, or
// was not entered yet, or left before anything was done, or its next step is due.
func (s State) tried(name string) string {
	st := s.Playbook.State(name)
	if st == nil || st.Kind != playbook.StateLever || s.Visits[name] == s.Untried[name] || s.Further == name || s.Start.Loan != "" {
		return ""
	}
	why := "not taken: " + st.Title + " was tried in this run"
	if result := s.Results[name]; result != "" {
		why += " (" + result + ")"
	}
	return why
}

// longestFound bounds a line about evidence in what people are told, in bytes.
const longestFound = 300

// lastFound returns what the last gather found, a line for each check, for people
// who take over; empty: the run gathered nothing.
func (s State) lastFound() string {
	for i := len(s.Path) - 1; i >= 0 && s.Playbook != nil; i-- {
		st := s.Playbook.State(s.Path[i].State)
		if st == nil || st.Kind != playbook.StateGather {
			continue
		}
		var out strings.Builder
		for _, name := range st.Gathers() {
			e := s.Evidence[name]
			switch {
			case e == nil:
			case e.Unknown != "":
				fmt.Fprintf(&out, "\n%s: not known: %s", name, firstLine(e.Unknown))
			case len(e.Facts) > 0:
				fmt.Fprintf(&out, "\n%s: %s", name, firstLine(e.Facts[0]))
			}
		}
		return out.String()
	}
	return ""
}

// firstLine returns the first line of a text, cut where it is too long.
func firstLine(text string) string {
	text, _, _ = strings.Cut(text, "\n")
	if len(text) > longestFound {
		text = strings.ToValidUTF8(text[:longestFound], "") + "..."
	}
	return text
}
