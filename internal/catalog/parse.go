package catalog

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/prometheus/alertmanager/matcher/compat"
	"github.com/prometheus/alertmanager/pkg/labels"
	"go.yaml.in/yaml/v3"

	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/yamldoc"
)

// maxEntries limits a configured catalog.
const maxEntries = 20_000

// ParseNode reads the list of services at a node of a file. The error is a
// [playbook.Problems] that lists every error with its place.
func ParseNode(source string, node *yaml.Node) ([]Entry, error) {
	if node.Kind == 0 || node.Tag == "!!null" {
		return nil, nil
	}
	var problems yamldoc.Problems
	doc, ok := yamldoc.Part(source, node, &problems)
	if !ok {
		return nil, problems.Err()
	}
	r := &reader{source: source, doc: doc}
	if node.Kind != yaml.SequenceNode {
		doc.Report(node, "services", "want a list, got "+yamldoc.Describe(node), "write one service per `-`")
		return nil, problems.Err()
	}
	if len(node.Content) > maxEntries {
		doc.Report(node, "services", fmt.Sprintf("has %d entries, at most %d are allowed", len(node.Content), maxEntries), "")
		return nil, problems.Err()
	}
	var entries []Entry
	seen := map[string]string{}
	for i, n := range node.Content {
		path := fmt.Sprintf("services[%d]", i)
		e := r.entry(n, path)
		if where, dup := seen[e.Service.Name]; dup && e.Service.Name != "" {
			doc.Report(n, path+".name", fmt.Sprintf("duplicate name %q, also at %s", e.Service.Name, where), "names are unique")
		}
		seen[e.Service.Name] = e.Source
		workload := "\x00" + e.Service.Namespace + "/" + e.Service.Workload.Kind + "/" + e.Service.Workload.Name
		if where, dup := seen[workload]; dup && e.Service.Workload.Name != "" {
			doc.Report(n, path+".workload", "duplicate workload, also at "+where, "two services of one workload would be locked and changed independently")
		}
		seen[workload] = e.Source
		entries = append(entries, e)
	}
	if err := problems.Err(); err != nil {
		return nil, err
	}
	return entries, nil
}

// reader reads the services of one list.
type reader struct {
	source string
	doc    *yamldoc.Document
	places map[string]*yaml.Node // of the fields of the current entry, by path
	bad    bool                  // a field of the entry cannot be read
}

func (r *reader) report(n *yaml.Node, path, message, hint string) {
	r.doc.Report(n, path, message, hint)
	r.bad = true
}

// fields calls one function for each field of a mapping.
func (r *reader) fields(n *yaml.Node, path string, known map[string]func(*yaml.Node, string)) {
	m := r.doc.Mapping(n, path, slices.Sorted(maps.Keys(known))...)
	if m == nil {
		r.bad = true
		return
	}
	r.bad = r.bad || len(m.Pairs) < len(n.Content)/2
	for _, p := range m.Pairs {
		r.places[m.At(p.Name)] = p.Value
		known[p.Name](p.Value, m.At(p.Name))
	}
}

// entry reads one service. validate finds missing and invalid values, which are
// reported at the field or, if it is missing, at the entry.
func (r *reader) entry(n *yaml.Node, path string) Entry {
	e := Entry{Source: fmt.Sprintf("%s:%d", r.source, n.Line)}
	s := &e.Service
	s.Workload.Kind = "Deployment"
	r.places, r.bad = map[string]*yaml.Node{}, false
	r.fields(n, path, map[string]func(*yaml.Node, string){
		"name":      r.text(&s.Name),
		"namespace": r.text(&s.Namespace),
		"workload": func(n *yaml.Node, path string) {
			r.fields(n, path, map[string]func(*yaml.Node, string){"kind": r.text(&s.Workload.Kind), "name": r.text(&s.Workload.Name)})
		},
		"container": r.text(&s.Container),
		"engine":    r.text(&s.Engine),
		"model":     r.text(&s.Model),
		"endpoint":  r.text(&s.Endpoint),
		"slos":      r.slos(&s.SLOs),
		"gitops":    func(n *yaml.Node, path string) { r.fields(n, path, r.gitops(&s.GitOps)) },
		"owners":    r.list(func(n *yaml.Node, path string) { var o string; r.text(&o)(n, path); s.Owners = append(s.Owners, o) }),
		"autonomy":  r.autonomy(&s.Autonomy),
		"min_ready": r.whole(&s.MinReady),
		"max_scale": r.whole(&s.MaxScale),
		"selector":  r.text(&s.Selector),
		"match":     r.match(&e),
	})
	finish(s)
	if r.bad {
		return e // further errors would repeat these
	}
	for _, p := range validate(*s) {
		at := r.places[path+"."+p.field]
		if at == nil {
			at = n
		}
		r.doc.Report(at, path+"."+p.field, p.message, p.hint)
	}
	return e
}

func (r *reader) gitops(g *playbook.GitOps) map[string]func(*yaml.Node, string) {
	return map[string]func(*yaml.Node, string){
		"application": r.text(&g.Application), "repository": r.text(&g.Repository), "branch": r.text(&g.Branch), "path": r.text(&g.Path),
		"component": r.text(&g.Component),
		"object": func(n *yaml.Node, path string) {
			r.fields(n, path, map[string]func(*yaml.Node, string){"kind": r.text(&g.Object.Kind), "name": r.text(&g.Object.Name)})
		},
	}
}

func (r *reader) slos(into *[]playbook.SLO) func(*yaml.Node, string) {
	return r.list(func(n *yaml.Node, path string) {
		var s playbook.SLO
		r.fields(n, path, map[string]func(*yaml.Node, string){
			"name":      r.text(&s.Name),
			"objective": r.number(&s.Objective, ""),
			"threshold": r.number(&s.Threshold, "in seconds"),
			"window": func(n *yaml.Node, path string) {
				d, err := playbook.ParseDuration(n.Value)
				if err != nil {
					r.report(n, path, err.Error(), "")
				}
				s.Window = d
			},
		})
		*into = append(*into, s)
	})
}

func (r *reader) text(into *string) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		text, ok := r.doc.Text(n, path)
		*into, r.bad = text, r.bad || !ok
	}
}

func (r *reader) whole(into *int) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		if n.Tag == "!!null" {
			return
		}
		i, ok := yamldoc.Int(n)
		if *into = int(i); !ok || int64(*into) != i {
			r.report(n, path, "want a whole number, got "+yamldoc.Describe(n), "")
		}
	}
}

func (r *reader) number(into *float64, hint string) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		if n.Tag == "!!null" {
			return
		}
		f, ok := yamldoc.Float(n)
		if *into = f; !ok {
			r.report(n, path, "want a number, got "+yamldoc.Describe(n), hint)
		}
	}
}

func (r *reader) list(item func(*yaml.Node, string)) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		if n.Kind != yaml.SequenceNode {
			r.report(n, path, "want a list, got "+yamldoc.Describe(n), "")
			return
		}
		for i, c := range n.Content {
			at := fmt.Sprintf("%s[%d]", path, i)
			r.places[at] = c
			item(c, at)
		}
	}
}

func (r *reader) autonomy(into *playbook.Autonomy) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		a, err := playbook.ParseAutonomy(n.Value)
		if err != nil {
			r.report(n, path, err.Error(), "")
		}
		*into = a
	}
}

// match reads a list of matcher sets, or a mapping of labels that must all
// match.
func (r *reader) match(e *Entry) func(*yaml.Node, string) {
	sets := r.list(func(n *yaml.Node, path string) { r.matchers(e, n, path) })
	return func(n *yaml.Node, path string) {
		if n.Kind != yaml.MappingNode {
			sets(n, path)
			return
		}
		var set labels.Matchers
		for i := 0; i+1 < len(n.Content); i += 2 {
			var value string
			name := n.Content[i].Value
			r.text(&value)(n.Content[i+1], path+"."+name)
			m, err := labels.NewMatcher(labels.MatchEqual, name, value)
			if err != nil || value == "" {
				r.report(n.Content[i], path+"."+name, "is not a label with a value", "")
				continue
			}
			set = append(set, m)
		}
		if len(n.Content) == 0 {
			r.report(n, path, "is empty", "name at least one label, or remove the field")
			return
		}
		e.Match = append(e.Match, set)
	}
}

func (r *reader) matchers(e *Entry, n *yaml.Node, path string) {
	ms, err := compat.FallbackMatchersParser(slog.New(slog.DiscardHandler))(n.Value, "catalog")
	if err != nil {
		r.report(n, path, err.Error(), `Alertmanager's syntax, like {namespace="serving", service="chat"}`)
		return
	}
	for _, m := range ms {
		if !m.Matches("") {
			e.Match = append(e.Match, ms)
			return
		}
	}
	r.report(n, path, "matches alerts without any label", "require at least one label")
}
