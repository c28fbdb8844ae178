package rehearsal

import (
	"fmt"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/yamldoc"
)

// Suite is a file of cases for one playbook.
type Suite struct {
	Playbook string // the playbook's file, relative to the suite
	Cases    []*Case

	document *yamldoc.Document
	problems yamldoc.Problems
	root     *yamldoc.Mapping
}

// Case is one run of the playbook on canned results.
type Case struct {
	Name string
	Line int

	alert   map[string]string
	joined  []map[string]string // labels of alerts that join as the run starts
	age     time.Duration       // of the alert when the run starts
	service playbook.Service
	answers map[string][]answer // by state, one for each time it is asked; the last one stays
	want    Want
}

// Want is what a case expects. What is not set is not compared.
type Want struct {
	Path    []string // states, in the order of the run
	Levers  []Lever  // applied, in order; nil: not compared
	Outcome machine.RunOutcome
	Within  time.Duration
}

// Lever is a lever that was applied, or is expected to be.
type Lever struct {
	State string
	With  map[string]any // parameters; of an expected lever those that are compared
}

// Limits and defaults of a suite.
const (
	maxCases   = 1000
	maxJoined  = 20
	maxAge     = 24 * time.Hour
	defaultAge = 5 * time.Minute
	maxWithin  = 90 * 24 * time.Hour
)

// Read reads a suite: one document of kind PlaybookTest. The cases are read by
// [Suite.Compile], which needs the playbook. The error is a [yamldoc.Problems].
func Read(file string, data []byte) (*Suite, error) {
	s := &Suite{}
	docs := yamldoc.Documents(file, data, &s.problems)
	if len(docs) != 1 && len(s.problems) == 0 {
		s.problems = append(s.problems, yamldoc.Problem{File: file, Message: fmt.Sprintf("%d documents, want one", len(docs))})
	}
	if err := s.problems.Err(); err != nil {
		return nil, err
	}
	s.document = docs[0]
	s.root = s.document.Mapping(s.document.Root, "", "apiVersion", "kind", "playbook", "alert", "age", "service", "results", "cases")
	if s.root != nil {
		s.root.Constant("apiVersion", playbook.APIVersion)
		s.root.Constant("kind", "PlaybookTest")
		s.root.Need("playbook", "path of the playbook, relative to this file")
		s.Playbook = s.root.Text("playbook")
	}
	return s, s.problems.Err()
}

// reader reads the cases of a suite for a playbook.
type reader struct {
	d     *yamldoc.Document
	p     *playbook.Playbook
	kinds map[string]playbook.Kind
}

// Compile reads the cases. kinds are the known steps. The error is a
// [yamldoc.Problems].
func (s *Suite) Compile(p *playbook.Playbook, kinds []playbook.Kind) error {
	r := &reader{d: s.document, p: p, kinds: map[string]playbook.Kind{}}
	for _, k := range kinds {
		r.kinds[k.Name] = k
	}
	common := r.given(s.root, Case{age: defaultAge, service: usualService(), answers: map[string][]answer{}})
	cases := s.root.Need("cases", "a list of cases")
	switch {
	case cases == nil:
	case cases.Kind != yaml.SequenceNode || len(cases.Content) == 0 || len(cases.Content) > maxCases:
		s.document.Report(cases, "cases", fmt.Sprintf("want a list of 1 to %d cases", maxCases), "")
	default:
		for i, n := range cases.Content {
			if m := s.document.Mapping(n, fmt.Sprintf("cases[%d]", i), "name", "alert", "joined", "age", "service", "results", "want"); m != nil {
				s.Cases = append(s.Cases, r.one(m, common, s.Cases))
			}
		}
	}
	return s.problems.Sorted().Err()
}

// one reads a case.
func (r *reader) one(m *yamldoc.Mapping, common Case, before []*Case) *Case {
	c := r.given(m, common)
	m.Need("name", "what the case shows")
	c.Name, c.Line = m.Text("name"), r.d.Line+m.Node.Line
	if slices.ContainsFunc(before, func(o *Case) bool { return o.Name == c.Name && c.Name != "" }) {
		r.d.Report(m.Get("name"), m.At("name"), fmt.Sprintf("duplicate case %q", yamldoc.Clip(c.Name)), "")
	}
	if n := m.Get("joined"); n != nil {
		if n.Kind != yaml.SequenceNode || len(n.Content) == 0 || len(n.Content) > maxJoined {
			r.d.Report(n, m.At("joined"), fmt.Sprintf("want a list of 1 to %d alerts, each with its labels", maxJoined), "")
		}
		for i, a := range n.Content[:min(len(n.Content), maxJoined)] {
			c.joined = append(c.joined, r.labels(a, fmt.Sprintf("%s[%d]", m.At("joined"), i)))
		}
	}
	if n := m.Need("want", "what the run has to come to, e.g. {path: [triage, escalated], outcome: escalated}"); n != nil {
		if wm := r.d.Mapping(n, m.At("want"), "path", "levers", "outcome", "within"); wm != nil {
			c.want = r.want(wm)
		}
	}
	return &c
}

// given reads what a case starts with, over what all cases have.
func (r *reader) given(m *yamldoc.Mapping, c Case) Case {
	if n := m.Get("alert"); n != nil {
		c.alert = r.labels(n, m.At("alert"))
	}
	if m.Has("age") {
		c.age = m.Duration("age", maxAge)
	}
	if n := m.Get("service"); n != nil {
		r.service(n, m.At("service"), &c.service)
	}
	if n := m.Get("results"); n != nil {
		c.answers = r.results(n, m.At("results"), c.answers)
	}
	return c
}

func (r *reader) labels(n *yaml.Node, path string) map[string]string {
	m := r.d.Mapping(n, path)
	if m == nil {
		return nil
	}
	out := map[string]string{}
	for _, pair := range m.Pairs {
		out[pair.Name], _ = r.d.Text(pair.Value, m.At(pair.Name))
	}
	return out
}

// usualService is the service of cases that do not describe it.
func usualService() playbook.Service {
	return playbook.Service{
		Name: "serving/chat", Namespace: "serving", Workload: playbook.Workload{Kind: "Deployment", Name: "chat"}, Engine: "vllm", Model: "chat",
		Selector: `namespace="serving",model_name="chat"`, Owners: []string{"group:owners"}, Autonomy: playbook.Auto, MaxScale: 100, Recovery: playbook.DefaultRecovery,
		SLOs: []playbook.SLO{{Name: "ttft", Objective: 0.99, Window: 28 * 24 * time.Hour, Threshold: 0.5}},
	}
}

// service reads what conditions and templates read most of a service.
func (r *reader) service(n *yaml.Node, path string, s *playbook.Service) {
	m := r.d.Mapping(n, path, "name", "namespace", "engine", "model", "gateway", "selector", "owners", "load_time", "recovery", "min_ready", "max_scale", "application", "repository")
	if m == nil {
		return
	}
	for field, to := range map[string]*string{
		"name": &s.Name, "namespace": &s.Namespace, "engine": &s.Engine, "model": &s.Model, "gateway": &s.Gateway, "selector": &s.Selector,
		"application": &s.GitOps.Application, "repository": &s.GitOps.Repository,
	} {
		if m.Has(field) {
			*to = m.Text(field)
		}
	}
	if o := m.Get("owners"); o != nil {
		s.Owners, _ = r.d.Texts(o, m.At("owners"))
	}
	for field, to := range map[string]*time.Duration{"load_time": &s.LoadTime, "recovery": &s.Recovery} {
		if m.Has(field) {
			*to = m.Duration(field, maxAge)
		}
	}
	for field, to := range map[string]*int{"min_ready": &s.MinReady, "max_scale": &s.MaxScale} {
		if m.Has(field) {
			*to, _ = m.Integer(field, 0, 100_000)
		}
	}
}

// want reads the expectation of a case.
func (r *reader) want(m *yamldoc.Mapping) Want {
	w := Want{Outcome: machine.RunOutcome(m.Text("outcome")), Within: m.Duration("within", maxWithin)}
	if len(m.Pairs) == 0 {
		r.d.Report(m.Node, m.Path, "nothing is expected", "name path, levers, outcome or within")
	}
	outcomes := []string{"resolved", "no-action", "escalated", "diverted", "handed-over", "undo-failed", "cleared"}
	if m.Has("outcome") && !slices.Contains(outcomes, string(w.Outcome)) {
		r.d.Report(m.Get("outcome"), m.At("outcome"), fmt.Sprintf("unknown outcome %q", yamldoc.Clip(string(w.Outcome))), yamldoc.DidYouMean(string(w.Outcome), outcomes))
	}
	if n := m.Get("path"); n != nil {
		names, nodes := r.d.Texts(n, m.At("path"))
		for i, name := range names {
			r.stateNamed(nodes[i], m.At("path"), name)
		}
		w.Path = names
	}
	if n := m.Get("levers"); n != nil {
		w.Levers = r.levers(n, m.At("levers"))
	}
	return w
}

// levers reads the levers that are expected: names of states, or states with
// parameters.
func (r *reader) levers(n *yaml.Node, path string) []Lever {
	out := []Lever{}
	if n.Kind != yaml.SequenceNode {
		r.d.Report(n, path, "want a list, got "+yamldoc.Describe(n), "e.g. [add, {add: {by: 1}}]")
		return out
	}
	for _, item := range n.Content {
		l := Lever{}
		if item.Kind == yaml.MappingNode && len(item.Content) == 2 {
			l.State = item.Content[0].Value
			if err := item.Content[1].Decode(&l.With); err != nil {
				r.d.Report(item.Content[1], path, "want parameters, got "+yamldoc.Describe(item.Content[1]), "")
			}
		} else {
			l.State, _ = r.d.Text(item, path)
		}
		if s := r.stateNamed(item, path, l.State); s != nil && s.Kind != playbook.StateLever {
			r.d.Report(item, path, fmt.Sprintf("state %s is a %s, not a lever", s.Name, s.Kind), "")
		}
		out = append(out, l)
	}
	return out
}

// stateNamed returns a state of the playbook, and reports an unknown one.
func (r *reader) stateNamed(n *yaml.Node, path, name string) *playbook.State {
	s := r.p.State(name)
	if s == nil {
		names := make([]string, len(r.p.States))
		for i, st := range r.p.States {
			names[i] = st.Name
		}
		r.d.Report(n, path, fmt.Sprintf("playbook %s has no state %q", r.p.Name, yamldoc.Clip(name)), yamldoc.DidYouMean(name, names))
	}
	return s
}
