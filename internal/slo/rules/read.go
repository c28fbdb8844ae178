package rules

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"go.yaml.in/yaml/v3"

	"github.com/inference-responder/responder/internal/engine"
	"github.com/inference-responder/responder/internal/yamldoc"
)

// Options of [Read].
type Options struct {
	Period        time.Duration // of documents that name none; 0: 30 days, as Sloth's
	KeepNames     bool          // name alerts as Sloth's documents say
	CustomBuckets bool          // the engines have other buckets than their own
}

// Document is a file of OpenSLO or Sloth documents.
type Document struct {
	Name string // for messages
	Data []byte
}

const (
	defaultPeriod = 30 * 24 * time.Hour
	maxPeriod     = 366 * 24 * time.Hour
)

// Read returns the objectives of documents, in their order. OpenSLO's documents
// may refer to each other, also from file to file. Every problem is reported at
// once, with its place; the error is a [yamldoc.Problems]. notes tells what is
// worth knowing of objectives that are good.
func Read(files []Document, o Options) (out []Objective, notes []string, err error) {
	if o.Period == 0 {
		o.Period = defaultPeriod
	}
	r := reader{Options: o, open: openSLO{slis: map[string]*yamldoc.Mapping{}, sources: map[string]string{}}}
	var documents []*yamldoc.Document
	for _, f := range files {
		before := len(r.problems)
		docs := yamldoc.Documents(f.Name, f.Data, &r.problems)
		if len(docs) == 0 && len(r.problems) == before {
			r.problems = append(r.problems, yamldoc.Problem{File: f.Name, Message: "no documents", Hint: "write an OpenSLO v1 SLO, or a Sloth prometheus/v1 document"})
		}
		documents = append(documents, docs...)
	}
	var slos []*yamldoc.Document
	for _, d := range documents {
		switch {
		case has(d.Root, "version"):
			r.sloth(d)
		case has(d.Root, "apiVersion"):
			if r.openSLO(d) {
				slos = append(slos, d)
			}
		default:
			d.Report(d.Root, "", "neither apiVersion nor version", "an OpenSLO document begins with apiVersion: openslo/v1, one of Sloth with version: prometheus/v1")
		}
	}
	for _, d := range slos {
		r.openObjectives(d)
	}
	r.unique()
	if len(r.found) == 0 && len(r.problems) == 0 {
		r.problems = append(r.problems, yamldoc.Problem{File: files[0].Name, Message: "no objectives", Hint: "a file of rules needs a document of kind SLO"})
	}
	if err := r.problems.Err(); err != nil {
		return nil, nil, err
	}
	slices.SortStableFunc(r.found, func(a, b found) int {
		return slices.IndexFunc(documents, a.in) - slices.IndexFunc(documents, b.in)
	})
	for _, f := range r.found {
		out = append(out, f.Objective)
	}
	return out, r.notes, nil
}

// has reports whether a document is a mapping with a key.
func has(n *yaml.Node, key string) bool {
	if n.Kind != yaml.MappingNode {
		return false
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return true
		}
	}
	return false
}

// reader reads documents of both kinds.
type reader struct {
	Options
	problems yamldoc.Problems
	notes    []string
	found    []found
	open     openSLO
}

// found is an objective with its place.
type found struct {
	Objective
	doc  *yamldoc.Document
	node *yaml.Node
	path string
}

func (f found) in(d *yamldoc.Document) bool { return d == f.doc }

// unique reports objectives of one identity: their series would be the same.
func (r *reader) unique() {
	first := map[string]found{}
	for _, f := range r.found {
		if other, twice := first[f.ID]; twice {
			f.doc.Report(f.node, f.path, fmt.Sprintf("a second objective %q, also at %s", f.ID, other.Source), "give one of them another name or service")
			continue
		}
		first[f.ID] = f
	}
}

// add completes an objective: the labels by which its service is found, and the
// names of its alerts. own is the name that the document gives them.
func (r *reader) add(f found, service, own string, keep bool) {
	line, column := f.doc.Place(f.node, 0)
	f.Source = fmt.Sprintf("%s:%d:%d", f.doc.File, line, column)
	outcome, err := resultLabels(f.Ratio)
	if err != nil {
		f.doc.Report(f.node, f.path, "the queries make no expression together: "+err.Error(), "try "+over(f.Ratio, time.Hour))
		return
	}
	if !outcome.may("service") && f.Labels["service"] == "" {
		f.Labels["service"] = service
	}
	if !outcome.may("namespace") && f.Labels["namespace"] == "" {
		r.notes = append(r.notes, f.ID+": no label namespace: add it to the document's labels, unless all services have different names")
	}
	switch i := r.indicator(f); {
	case keep && own != "":
		f.Alert, f.Named = own, true
	case i != "":
		f.Alert = alertPrefix(i)
		if f.Bad == "" {
			f.Bad = titles[i].bad
		}
	default:
		f.Alert = own
		f.Named = own != ""
		if own == "" {
			f.Alert = camel(f.Name)
		}
		r.notes = append(r.notes, fmt.Sprintf("%s: what it measures is not known, so that no shipped playbook matches its alerts %s: label it indicator: %s",
			f.ID, f.Alert, strings.Join(engine.Indicators(), ", ")))
	}
	if f.Bad == "" {
		f.Bad = "events are bad"
	}
	r.found = append(r.found, f)
}

// indicator returns what an objective measures: by its label indicator, the
// series of its queries, or its name; empty: something else.
func (r *reader) indicator(f found) string {
	if i := f.Labels["indicator"]; i != "" {
		return i
	}
	if i := indicatorOf(over(f.Ratio, time.Hour)); i != "" {
		return i
	}
	if slices.Contains(engine.Indicators(), f.Name) {
		return f.Name
	}
	return ""
}

// camel makes an alert's name of an objective's.
func camel(name string) string {
	var b strings.Builder
	for _, word := range regexp.MustCompile(`[^a-zA-Z0-9]+`).Split(name, -1) {
		if word != "" {
			b.WriteString(strings.ToUpper(word[:1]) + word[1:])
		}
	}
	return b.String()
}

// readLabels reads a mapping of labels, which end up at series and alerts.
func readLabels(m *yamldoc.Mapping) map[string]string {
	const field = "labels"
	out := texts(m, field)
	n := m.Get(field)
	for name, value := range out {
		switch at := m.At(field) + "." + name; {
		case !model.LegacyValidation.IsValidLabelName(name) || strings.HasPrefix(name, "__"):
			m.Doc.Report(key(n, name), at, "not the name of a Prometheus label", "letters, digits and _")
		case slices.Contains([]string{"alertname", "slo_id", "short", "long"}, name):
			m.Doc.Report(key(n, name), at, "the rules set this label themselves", "remove it")
		case name == "indicator" && !slices.Contains(engine.Indicators(), value):
			m.Doc.Report(key(n, name), at, fmt.Sprintf("unknown indicator %q", yamldoc.Clip(value)), yamldoc.DidYouMean(value, engine.Indicators()))
		}
	}
	return out
}

// texts reads a mapping of names to texts.
func texts(m *yamldoc.Mapping, field string) map[string]string {
	out := map[string]string{}
	n := m.Get(field)
	if n == nil {
		return out
	}
	sub := m.Doc.Mapping(n, m.At(field))
	if sub == nil {
		return out
	}
	for _, p := range sub.Pairs {
		if p.Value.Kind == yaml.SequenceNode {
			m.Doc.Report(p.Value, sub.At(p.Name), "a list: a label of Prometheus has one value", "write one text, or several labels")
			continue
		}
		if text, ok := m.Doc.Text(p.Value, sub.At(p.Name)); ok {
			out[p.Name] = text
		}
	}
	return out
}

// key returns the node of a key, for its place.
func key(n *yaml.Node, name string) *yaml.Node {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i]
		}
	}
	return n
}

// list reads a list of at least one item.
func list(m *yamldoc.Mapping, field, hint string) []*yaml.Node {
	n := m.Need(field, hint)
	switch {
	case n == nil:
		return nil
	case n.Kind != yaml.SequenceNode:
		m.Doc.Report(n, m.At(field), "want a list, got "+yamldoc.Describe(n), hint)
		return nil
	case len(n.Content) == 0:
		m.Doc.Report(n, m.At(field), "empty", hint)
	}
	return n.Content
}

// merged returns the union of labels; later ones win.
func merged(all ...map[string]string) map[string]string {
	out := map[string]string{}
	for _, m := range all {
		for k, v := range m {
			out[k] = v
		}
	}
	return out
}
