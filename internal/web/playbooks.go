package web

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/rights"
)

// Tested is what the tests of a playbook cover, which held when the program was built.
type Tested struct {
	Cases                      int
	States, Seen, Edges, Taken int // of the playbook, and those that a case enters or takes
	Worlds                     int // simulated fleets that are played with all shipped playbooks
}

// playbookData is one playbook.
type playbookData struct {
	*playbook.Playbook
	Level    string // of its levers
	Override string // by the configuration; empty: none
	Levers   []string
	Diagram  diagram
	Tests    *Tested // nil: none are known
	Pauses   []Pause
	Lacks    string // why the visitor may not pause it; empty: they may
}

func (s *Site) playbooks(w http.ResponseWriter, r *http.Request, v Visitor) error {
	set := s.o.Playbooks()
	if r.URL.Query().Has("playbook") {
		return s.onePlaybook(w, r, v, set, r.URL.Query().Get("playbook"))
	}
	p := s.frame(r, v, "Playbooks", "playbooks")
	p.Tag, p.Live = tagOf(append(lines(p.Pauses), set.Digest())...), true
	if r.Method != http.MethodHead {
		var all []playbookData
		for _, x := range set.All() {
			all = append(all, s.playbookOf(set, x))
		}
		p.Main = playbooksView(p, all, set)
	}
	return s.write(w, r, http.StatusOK, p)
}

func (s *Site) onePlaybook(w http.ResponseWriter, r *http.Request, v Visitor, set *playbook.Set, name string) error {
	book := set.ByName(name)
	if book == nil {
		return fmt.Errorf("%w: no playbook %.64q is loaded: Playbooks lists those that are", ErrNotFound, name)
	}
	p := s.frame(r, v, name, "playbooks")
	p.Here = playbookAddress(p, name)
	p.Tag, p.Live = tagOf(append(lines(p.Pauses), book.Digest)...), true
	if r.Method != http.MethodHead {
		d := s.playbookOf(set, book)
		d.Diagram, d.Lacks = layout(playbook.DiagramOf(book, nil)), v.lacksOf(rights.Pause, playbook.Service{})
		for _, x := range s.o.Pauses() {
			if x.Playbook == name {
				d.Pauses = append(d.Pauses, x)
			}
		}
		p.Main = playbookView(p, &d)
	}
	return s.write(w, r, http.StatusOK, p)
}

func (s *Site) playbookOf(set *playbook.Set, book *playbook.Playbook) playbookData {
	o := set.Override(book.Name, "")
	d := playbookData{Playbook: book, Level: book.Level(o).String()}
	if o != nil {
		d.Override = o.String()
	}
	if tests, ok := s.o.Tests(book.Digest); ok {
		d.Tests = &tests
	}
	for _, st := range book.States {
		if st.Kind == playbook.StateLever && !slices.Contains(d.Levers, st.Step) {
			d.Levers = append(d.Levers, st.Step)
		}
	}
	return d
}

// fate is what becomes of a lever's change by one verdict.
type fate struct{ Verdict, Then string }

// fatesOf returns what becomes of the change of a lever, by verdict.
func fatesOf(book *playbook.Playbook, st *playbook.State) (out []fate) {
	class, restarts := book.ClassOf(st)
	for _, sig := range playbook.Verdicts() {
		f := machine.FateOf(class, restarts, machine.Verdict(sig))
		if slices.Contains(st.Undo, sig) {
			f = machine.Fate{Then: machine.Undo, Tell: f.Tell}
		}
		out = append(out, fate{strings.ReplaceAll(string(sig), "_", " "), f.Text()})
	}
	return out
}

// approval describes who has to agree to a lever or answers a gate; empty: nobody is asked.
func approval(a *playbook.Approve) string {
	if a == nil {
		return ""
	}
	out := strings.Join(a.By, ", ")
	if a.Quorum != nil {
		out = a.Quorum.Source() + " of " + out
	}
	if a.Within != nil {
		out += " within " + a.Within.Source()
	}
	if a.OnExpiry != "" {
		out += ", else " + string(a.OnExpiry)
	}
	if a.Always {
		out += ", at level auto too"
	}
	return out
}
