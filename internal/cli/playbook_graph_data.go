package cli

import "github.com/inference-responder/responder/internal/playbook"

// graphAnswer is the answer of playbook graph for programs: what is drawn, and
// the drawing.
type graphAnswer struct {
	Playbook string       `json:"playbook"`
	Digest   string       `json:"digest"`
	Start    string       `json:"start"`
	States   []graphState `json:"states"`
	Edges    []graphEdge  `json:"edges"`
	Path     []string     `json:"path,omitempty"` // of --run: the states in the order the run came to them
	Format   string       `json:"format"`
	Graph    string       `json:"graph"`
}

// graphState is a state. Step is a check's or lever's kind; Steps is set of a
// lever that changes a number in steps; Divert and End are those of states that
// lead out of the playbook.
type graphState struct {
	Name   string      `json:"name"`
	Title  string      `json:"title,omitempty"`
	Kind   string      `json:"kind"`
	Step   string      `json:"step,omitempty"`
	Steps  *graphSteps `json:"steps,omitempty"`
	Divert string      `json:"divert,omitempty"`
	End    string      `json:"end,omitempty"`
}

// graphSteps are the steps of a lever.
type graphSteps struct {
	Parameter string `json:"parameter"`
	By        string `json:"by"`            // a number or an expression
	Times     any    `json:"times"`         // a number, or an expression as text
	Via       string `json:"via,omitempty"` // the state between two steps
}

// graphEdge is a way from a state to another. OnError is the one that is taken
// when a check cannot tell.
type graphEdge struct {
	From    string `json:"from"`
	To      string `json:"to"`
	Label   string `json:"label,omitempty"` // as drawn
	OnError bool   `json:"onError,omitempty"`
}

func graphOf(pb *playbook.Playbook, path []string, format, drawn string) graphAnswer {
	a := graphAnswer{Playbook: pb.Name, Digest: pb.Digest, Start: pb.Start, Path: path, Format: format, Graph: drawn}
	for _, s := range pb.States {
		state := graphState{Name: s.Name, Title: s.Title, Kind: string(s.Kind), Step: s.Step, Divert: s.Divert, End: string(s.End)}
		if w := s.Steps; w != nil {
			state.Steps = &graphSteps{Parameter: w.Param, By: w.By.Source(), Times: w.Times.Source(), Via: w.Via}
			if times, ok := w.Times.Constant(); ok {
				state.Steps.Times = times
			}
		}
		a.States = append(a.States, state)
		for _, e := range s.Next {
			a.Edges = append(a.Edges, graphEdge{From: s.Name, To: e.To, Label: e.Text()})
		}
		if s.OnError != "" {
			a.Edges = append(a.Edges, graphEdge{From: s.Name, To: s.OnError, OnError: true})
		}
	}
	return a
}
