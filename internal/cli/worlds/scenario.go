package worlds

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/sandbox"
	"github.com/inference-responder/responder/internal/yamldoc"
)

// Suffix is how the name of a scenario's file ends.
const Suffix = ".world.yaml"

// Scenario is one file.
type Scenario struct {
	Name  string // of the file, without the suffix
	File  string
	Title string
	Cause string // of the incident, a word; empty: nothing goes wrong
	Alert string // that has to fire; empty: any

	playbooks string // directory of playbooks that are in force beside the shipped ones; empty: none
	seed      uint64
	answers   answers
	length    time.Duration
	incident  *sandbox.Incident
	want      want
	Known     Known // what is known to be wrong; the zero value: nothing
}

// answers is what people do when they are asked.
type answers struct {
	after  time.Duration
	of     map[string]time.Duration // by the state that asks, where it is another time
	deny   bool
	nobody bool
}

// Known is something that the product is known to do wrong in a scenario. Another failure
// is one, and so is none: nobody forgets to take the entry away.
type Known struct {
	Fails string // the kinds of the failures, with spaces between them
	Why   string
}

// want is what a scenario has to come to. What is not set is not compared.
type want struct {
	told      *regexp.Regexp // what people were told has to match
	evidence  *regexp.Regexp // or the evidence of a run; both nil: there is no cause to name
	runs      []path         // of those that give nothing back, in order
	mostRuns  int            // that may be started, without those that were handed over to and those that give back
	levers    []lever        // that address the cause
	may       []string       // kinds of levers that do not, and do no harm
	harmful   []string       // kinds of levers that must never be applied
	outcome   string         // of the last run of the first service
	recovered bool           // the services meet their objectives at the end
	within    time.Duration  // after the alert they meet them for good
	bad       int            // bad minutes of all services after the alert, at most; -1: any number
	notices   int            // messages to people that name the cause; -1: any number
}

// path is a run: its playbook and the states it entered.
type path struct {
	playbook string
	states   []string
}

// lever is a kind of lever that has to be applied, and what its proof ends with.
type lever struct {
	kind    string
	verdict string // empty: any
}

// Limits and defaults of a scenario.
const (
	maxLength     = 24 * time.Hour
	defaultLength = 2 * time.Hour
	redLength     = 45 * time.Minute // of an incident that nothing repairs
	defaultAnswer = 10 * time.Second
)

// Read reads a file: one document of kind PlaybookScenario. kinds are the known steps.
// The error is a [yamldoc.Problems].
func Read(file string, data []byte, kinds []playbook.Kind) (*Scenario, error) {
	var problems yamldoc.Problems
	docs := yamldoc.Documents(file, data, &problems)
	if len(docs) != 1 && len(problems) == 0 {
		problems = append(problems, yamldoc.Problem{File: file, Message: fmt.Sprintf("%d documents, want one", len(docs))})
	}
	if err := problems.Err(); err != nil {
		return nil, err
	}
	r := &reader{d: docs[0]}
	for _, k := range kinds {
		if k.Role == playbook.RoleLever {
			r.levers = append(r.levers, k.Name)
		}
	}
	s := &Scenario{Name: strings.TrimSuffix(filepath.Base(file), Suffix), File: file}
	if m := r.d.Mapping(r.d.Root, "", "apiVersion", "kind", "title", "cause", "seed", "playbooks", "world", "faults", "alert", "answer", "length", "want", "known"); m != nil {
		r.scenario(m, s)
	}
	return s, problems.Err()
}

// reader reads one scenario.
type reader struct {
	d      *yamldoc.Document
	levers []string // kinds
}

func (r *reader) scenario(m *yamldoc.Mapping, s *Scenario) {
	m.Constant("apiVersion", playbook.APIVersion)
	m.Constant("kind", "PlaybookScenario")
	m.Need("title", "what happens, in a line")
	s.Title, s.Cause, s.Alert = m.Text("title"), m.Text("cause"), m.Text("alert")
	if dir := m.Text("playbooks"); dir != "" {
		s.playbooks = filepath.Join(filepath.Dir(s.File), dir)
	}
	s.seed = 1
	if v, ok := m.Integer("seed", 0, 1<<31); ok {
		s.seed = uint64(v)
	}
	s.incident = sandbox.ReadIncident(m)
	s.answers = r.answers(m)
	s.want = want{recovered: true, mostRuns: 1, bad: -1, notices: -1}
	if n := m.Need("want", "what it has to come to, e.g. {levers: [kube.scale], outcome: resolved}"); n != nil {
		if w := r.d.Mapping(n, "want", "told", "evidence", "runs", "most_runs", "levers", "may", "harmful", "outcome", "recovered", "within", "bad_minutes", "notices"); w != nil {
			r.want(w, &s.want)
		}
	}
	if n := m.Get("known"); n != nil {
		if k := r.d.Mapping(n, "known", "fails", "why"); k != nil {
			k.Need("fails", "what fails, in the words of failures with spaces between them, e.g. runs")
			k.Need("why", "why that is accepted")
			s.Known = Known{Fails: k.Text("fails"), Why: k.Text("why")}
		}
	}
	if s.Cause != "" && !s.want.named() {
		r.d.Report(m.Get("cause"), "cause", "the cause has to be named", "write want.told: a regular expression that a message, a branch or a proposal has to match; or want.evidence, for what a check found")
	}
	s.length = defaultLength
	if !s.want.recovered {
		s.length = redLength
	}
	if m.Has("length") {
		s.length = m.Duration("length", maxLength)
	}
}

// answers reads what people do: after how long they approve, for all states that ask or by
// their names, or that they deny, or that nobody answers.
func (r *reader) answers(m *yamldoc.Mapping) answers {
	n := m.Get("answer")
	if n != nil && n.Kind == yaml.MappingNode {
		a := answers{after: defaultAnswer, of: map[string]time.Duration{}}
		for _, pair := range r.d.Mapping(n, "answer").Pairs {
			d, message, hint := yamldoc.Duration(pair.Value, maxLength)
			if message != "" {
				r.d.Report(pair.Value, "answer."+pair.Name, message, hint)
			}
			a.of[pair.Name] = d
		}
		return a
	}
	switch {
	case n == nil:
		return answers{after: defaultAnswer}
	case n.Value == "denied":
		return answers{after: defaultAnswer, deny: true}
	case n.Value == "nobody":
		return answers{nobody: true}
	default:
		d, message, hint := yamldoc.Duration(n, maxLength)
		if message != "" {
			r.d.Report(n, m.At("answer"), message, hint+"; or denied, or nobody")
		}
		return answers{after: d}
	}
}

func (r *reader) want(m *yamldoc.Mapping, w *want) {
	for field, to := range map[string]**regexp.Regexp{"told": &w.told, "evidence": &w.evidence} {
		n := m.Get(field)
		if n == nil {
			continue
		}
		text, _ := r.d.Text(n, m.At(field))
		pattern, err := regexp.Compile("(?is)" + text)
		if err != nil {
			r.d.Report(n, m.At(field), err.Error(), "a regular expression of Go")
		}
		*to = pattern
	}
	if n := m.Get("runs"); n != nil {
		w.runs = r.runs(n, m.At("runs"))
		w.mostRuns = len(w.runs)
	}
	for field, to := range map[string]*int{"most_runs": &w.mostRuns, "bad_minutes": &w.bad, "notices": &w.notices} {
		if v, ok := m.Integer(field, 0, 100_000); ok {
			*to = v
		}
	}
	w.levers = r.wanted(m)
	w.may, w.harmful = r.kinds(m, "may"), r.kinds(m, "harmful")
	outcomes := []string{
		string(machine.OutcomeResolved), string(machine.OutcomeNoAction), string(machine.OutcomeEscalated), string(machine.OutcomeDiverted),
		string(machine.OutcomeHandedOver), string(machine.OutcomeUndoFailed), string(machine.OutcomeCleared), string(machine.OutcomeObserved), noRun,
		string(machine.PhaseWatching), string(machine.PhaseDeciding), // the run is not over
	}
	if n := m.Need("outcome", "of the last run, e.g. resolved"); n != nil {
		if w.outcome = m.Text("outcome"); w.outcome != "" && !slices.Contains(outcomes, w.outcome) {
			r.d.Report(n, m.At("outcome"), fmt.Sprintf("unknown outcome %q", yamldoc.Clip(w.outcome)), yamldoc.DidYouMean(w.outcome, outcomes))
		}
	}
	if m.Has("recovered") {
		w.recovered = m.Boolean("recovered")
	}
	w.within = m.Duration("within", maxLength)
}

// wanted reads the levers that have to be applied: kinds, or kinds with a verdict.
func (r *reader) wanted(m *yamldoc.Mapping) []lever {
	n := m.Get("levers")
	if n == nil {
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		r.d.Report(n, m.At("levers"), "want a list, got "+yamldoc.Describe(n), "e.g. [kube.scale, {node.drain: verified}]")
		return nil
	}
	var out []lever
	for _, item := range n.Content {
		l := lever{}
		if item.Kind == yaml.MappingNode && len(item.Content) == 2 {
			l.kind, l.verdict = item.Content[0].Value, item.Content[1].Value
			verdicts := []string{string(machine.VerdictVerified), string(machine.VerdictImproved), string(machine.VerdictNoEffect), string(machine.VerdictWorse), string(machine.VerdictInconclusive)}
			if !slices.Contains(verdicts, l.verdict) {
				r.d.Report(item.Content[1], m.At("levers"), fmt.Sprintf("unknown verdict %q", yamldoc.Clip(l.verdict)), yamldoc.DidYouMean(l.verdict, verdicts))
			}
		} else {
			l.kind, _ = r.d.Text(item, m.At("levers"))
		}
		r.known(item, m.At("levers"), l.kind)
		out = append(out, l)
	}
	return out
}

// kinds reads a list of kinds of levers.
func (r *reader) kinds(m *yamldoc.Mapping, field string) []string {
	n := m.Get(field)
	if n == nil {
		return nil
	}
	names, nodes := r.d.Texts(n, m.At(field))
	for i, name := range names {
		r.known(nodes[i], m.At(field), name)
	}
	return names
}

func (r *reader) known(n *yaml.Node, path, kind string) {
	if !slices.Contains(r.levers, kind) {
		r.d.Report(n, path, fmt.Sprintf("unknown lever %q", yamldoc.Clip(kind)), yamldoc.DidYouMean(kind, r.levers))
	}
}

// runs reads the runs that are expected: of each the playbook and its states.
func (r *reader) runs(n *yaml.Node, at string) []path {
	if n.Kind != yaml.SequenceNode {
		r.d.Report(n, at, "want a list, got "+yamldoc.Describe(n), "e.g. [{inference-slo-breach: [triage, levers, resolved]}]")
		return nil
	}
	var out []path
	for _, item := range n.Content {
		m := r.d.Mapping(item, at)
		if m == nil {
			continue
		}
		for _, pair := range m.Pairs {
			states, _ := r.d.Texts(pair.Value, m.At(pair.Name))
			out = append(out, path{pair.Name, states})
		}
	}
	return out
}

// named reports whether there is a cause to name.
func (w want) named() bool { return w.told != nil || w.evidence != nil }
