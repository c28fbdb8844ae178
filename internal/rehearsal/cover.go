package rehearsal

import (
	"strings"

	"github.com/inference-responder/responder/internal/playbook"
)

// Coverage is what the cases of a playbook came to.
type Coverage struct {
	States, Edges int      // of the playbook
	Unseen        []string // states that no case entered
	Untaken       []Taken  // edges that no case took
}

// Cover returns what the results of a playbook leave out.
func Cover(p *playbook.Playbook, results []Result) Coverage {
	var c Coverage
	seen, took := map[string]bool{}, map[Taken]bool{}
	for _, r := range results {
		for _, name := range r.Path {
			seen[name] = true
		}
		for _, t := range r.Edges {
			if s := p.State(t.From); s != nil {
				took[edgeOf(s, t)] = true
			}
		}
	}
	for _, s := range p.States {
		c.States++
		if !seen[s.Name] {
			c.Unseen = append(c.Unseen, s.Name)
		}
		for _, e := range leaving(s) {
			c.Edges++
			if !took[e] {
				c.Untaken = append(c.Untaken, e)
			}
		}
	}
	return c
}

// edgeOf returns the edge of the playbook that was taken: by its text, else the
// one without a text, which is told as the signal it was taken by.
func edgeOf(s *playbook.State, t Taken) Taken {
	for _, e := range leaving(s) {
		if e.To == t.To && e.Why != "" && (e.Why == t.Why || strings.HasPrefix(t.Why, e.Why+" (") || e.Why == onError && strings.HasPrefix(t.Why, onError)) {
			return e
		}
	}
	return Taken{From: t.From, To: t.To}
}

// leaving lists the edges that leave a state, with that of a check that cannot
// answer.
func leaving(s *playbook.State) []Taken {
	var out []Taken
	for _, e := range s.Next {
		out = append(out, Taken{From: s.Name, To: e.To, Why: e.Text()})
	}
	if s.OnError != "" {
		out = append(out, Taken{From: s.Name, To: s.OnError, Why: onError})
	}
	return out
}

// onError begins what the machine tells of the way out of a check that cannot
// answer.
const onError = "on_error"
