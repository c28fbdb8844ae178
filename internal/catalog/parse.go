package catalog

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	"github.com/prometheus/alertmanager/matcher/compat"
	"github.com/prometheus/alertmanager/pkg/labels"
	"go.yaml.in/yaml/v3"

	"github.com/inference-responder/responder/internal/playbook"
)

// Bounds of a configured catalog.
const (
	maxEntries = 20_000
	maxBytes   = 16 << 20
)

// Parse reads a catalog file: one YAML document that is a list of services.
// The error is [playbook.Problems], everything that is wrong with its place.
func Parse(source string, data []byte) ([]Entry, error) {
	if len(data) > maxBytes {
		return nil, playbook.Problems{{File: source, Message: fmt.Sprintf("%d bytes; a catalog has at most %d", len(data), maxBytes)}}
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	err := dec.Decode(&doc)
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	if err != nil {
		return nil, playbook.Problems{{File: source, Message: strings.TrimPrefix(err.Error(), "yaml: ")}}
	}
	if err := dec.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, playbook.Problems{{File: source, Message: "more than one document", Hint: "a catalog is one list"}}
	}
	return ParseNode(source, doc.Content[0])
}

// ParseNode reads the list of services at a node of a larger file.
func ParseNode(source string, node *yaml.Node) ([]Entry, error) {
	r := &reader{source: source}
	if node.Kind == 0 || node.Tag == "!!null" {
		return nil, nil
	}
	if node.Kind != yaml.SequenceNode {
		r.add(node, "services", "is not a list", "write one service per `-`")
		return nil, r.problems
	}
	if len(node.Content) > maxEntries {
		r.add(node, "services", fmt.Sprintf("has %d entries, at most %d are allowed", len(node.Content), maxEntries), "")
		return nil, r.problems
	}
	var entries []Entry
	seen := map[string]string{}
	for i, n := range node.Content {
		path := fmt.Sprintf("services[%d]", i)
		e := r.entry(n, path)
		if where, dup := seen[e.Service.Name]; dup && e.Service.Name != "" {
			r.add(n, path+".name", fmt.Sprintf("%q is also the name at %s", e.Service.Name, where), "give each service a name of its own")
		}
		seen[e.Service.Name] = e.Source
		workload := "\x00" + e.Service.Namespace + "/" + e.Service.Workload.Kind + "/" + e.Service.Workload.Name
		if where, dup := seen[workload]; dup && e.Service.Workload.Name != "" {
			r.add(n, path+".workload", "is also the workload at "+where, "two services on one workload would be locked and changed apart from each other")
		}
		seen[workload] = e.Source
		entries = append(entries, e)
	}
	if len(r.problems) > 0 {
		slices.SortStableFunc(r.problems, func(a, b playbook.Problem) int {
			return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
		})
		return nil, r.problems
	}
	return entries, nil
}

// reader collects problems while it reads nodes.
type reader struct {
	source   string
	problems playbook.Problems
}

func (r *reader) add(n *yaml.Node, path, message, hint string) {
	r.problems = append(r.problems, playbook.Problem{File: r.source, Line: n.Line, Column: n.Column, Path: path, Message: message, Hint: hint})
}

// fields calls one function per field of a mapping and reports unknown and
// repeated ones, with what is allowed.
func (r *reader) fields(n *yaml.Node, path string, known map[string]func(*yaml.Node, string)) map[string]*yaml.Node {
	at := map[string]*yaml.Node{}
	if n.Kind != yaml.MappingNode {
		r.add(n, path, "is not a mapping", "")
		return at
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		sub := path + "." + k.Value
		read, ok := known[k.Value]
		switch {
		case !ok:
			r.add(k, sub, "is not a field", "allowed: "+strings.Join(sortedKeys(known), ", "))
		case at[k.Value] != nil:
			r.add(k, sub, "stands twice", "")
		case v.Kind == yaml.AliasNode:
			r.add(v, sub, "is an alias", "write the value out")
		default:
			at[k.Value] = v
			read(v, sub)
		}
	}
	return at
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// entry reads one service. What is missing or out of range is found by
// validate, and is placed at the field or, without one, at the entry.
func (r *reader) entry(n *yaml.Node, path string) Entry {
	e := Entry{Source: fmt.Sprintf("%s:%d", r.source, n.Line)}
	s := &e.Service
	s.Workload.Kind = "Deployment"
	places := map[string]*yaml.Node{}
	note := func(prefix string, at map[string]*yaml.Node) {
		for k, v := range at {
			places[prefix+k] = v
		}
	}
	before := len(r.problems)
	note("", r.fields(n, path, map[string]func(*yaml.Node, string){
		"name":      r.text(&s.Name),
		"namespace": r.text(&s.Namespace),
		"workload": func(n *yaml.Node, path string) {
			note("workload.", r.fields(n, path, map[string]func(*yaml.Node, string){"kind": r.text(&s.Workload.Kind), "name": r.text(&s.Workload.Name)}))
		},
		"container": r.text(&s.Container),
		"engine":    r.text(&s.Engine),
		"model":     r.text(&s.Model),
		"endpoint":  r.text(&s.Endpoint),
		"slos":      r.slos(&s.SLOs, note),
		"gitops": func(n *yaml.Node, path string) {
			note("gitops.", r.fields(n, path, r.gitops(&s.GitOps)))
		},
		"owners":    r.list(func(n *yaml.Node, path string) { var o string; r.text(&o)(n, path); s.Owners = append(s.Owners, o) }),
		"autonomy":  r.autonomy(&s.Autonomy),
		"min_ready": r.decode(&s.MinReady, "a whole number"),
		"max_scale": r.decode(&s.MaxScale, "a whole number"),
		"selector":  r.text(&s.Selector),
		"match":     r.match(&e),
	}))
	finish(s)
	if len(r.problems) > before {
		return e // what follows would only repeat it in other words
	}
	for _, p := range validate(*s) {
		at := places[p.field]
		if at == nil {
			at = n
		}
		r.add(at, path+"."+p.field, p.message, p.hint)
	}
	return e
}

func (r *reader) gitops(g *playbook.GitOps) map[string]func(*yaml.Node, string) {
	return map[string]func(*yaml.Node, string){
		"application": r.text(&g.Application), "repository": r.text(&g.Repository), "branch": r.text(&g.Branch), "path": r.text(&g.Path),
		"object": func(n *yaml.Node, path string) {
			r.fields(n, path, map[string]func(*yaml.Node, string){"kind": r.text(&g.Object.Kind), "name": r.text(&g.Object.Name)})
		},
	}
}

func (r *reader) slos(into *[]playbook.SLO, note func(string, map[string]*yaml.Node)) func(*yaml.Node, string) {
	return r.list(func(n *yaml.Node, path string) {
		var s playbook.SLO
		note(fmt.Sprintf("slos[%d].", len(*into)), r.fields(n, path, map[string]func(*yaml.Node, string){
			"name":      r.text(&s.Name),
			"objective": r.decode(&s.Objective, "a number"),
			"threshold": r.decode(&s.Threshold, "a number of seconds"),
			"window": func(n *yaml.Node, path string) {
				d, err := playbook.ParseDuration(n.Value)
				if err != nil {
					r.add(n, path, err.Error(), "")
				}
				s.Window = d
			},
		}))
		*into = append(*into, s)
	})
}

func (r *reader) text(into *string) func(*yaml.Node, string) { return r.decode(into, "a text") }

// decode reads a scalar. A text must be one: YAML's numbers and truths are
// refused where a name is wanted, because 1e3 is not the name somebody meant.
func (r *reader) decode(into any, want string) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		_, isText := into.(*string)
		if n.Kind != yaml.ScalarNode || isText && n.Tag != "!!str" || n.Decode(into) != nil {
			r.add(n, path, "is not "+want, "quote it if it is meant as text")
		}
	}
}

func (r *reader) list(item func(*yaml.Node, string)) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		if n.Kind != yaml.SequenceNode {
			r.add(n, path, "is not a list", "")
			return
		}
		for i, c := range n.Content {
			item(c, fmt.Sprintf("%s[%d]", path, i))
		}
	}
}

func (r *reader) autonomy(into *playbook.Autonomy) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		a, err := playbook.ParseAutonomy(n.Value)
		if err != nil {
			r.add(n, path, err.Error(), "")
		}
		*into = a
	}
}

// match reads a list of matcher sets, or a mapping of labels that all must be so.
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
				r.add(n.Content[i], path+"."+name, "is no label with a value", "")
				continue
			}
			set = append(set, m)
		}
		if len(n.Content) == 0 {
			r.add(n, path, "is empty", "name at least one label, or leave it out")
			return
		}
		e.Match = append(e.Match, set)
	}
}

func (r *reader) matchers(e *Entry, n *yaml.Node, path string) {
	ms, err := compat.FallbackMatchersParser(slog.New(slog.DiscardHandler))(n.Value, "catalog")
	if err != nil {
		r.add(n, path, err.Error(), `Alertmanager's syntax, like {namespace="serving", service="chat"}`)
		return
	}
	for _, m := range ms {
		if !m.Matches("") {
			e.Match = append(e.Match, ms)
			return
		}
	}
	r.add(n, path, "matches alerts without any label", "name at least one label that must be there")
}
