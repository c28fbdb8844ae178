package playbook

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/inference-responder/responder/internal/yamldoc"
)

// APIVersion is the apiVersion of a playbook document.
const APIVersion = "responder/v1alpha1"

// Parse loads every playbook of a YAML file: it reads strictly, compiles all
// expressions against the kinds, and analyses the graph. source names the file
// in messages. The error is a [Problems] with all errors of the file. If one
// document is invalid, no playbook of the file is returned.
func Parse(source string, data []byte, kinds []Kind) ([]*Playbook, error) {
	c, err := newCompiler(kinds)
	if err != nil {
		return nil, Problems{{File: source, Message: "invalid kinds of steps: " + err.Error()}}
	}
	return c.parse(source, data)
}

// ParseRecorded is Parse for a document that a journal recorded. Rules that came
// after it do not make its runs unreadable: a lever that breaks one has
// [State].Unsafe, and is not run.
func ParseRecorded(source string, data []byte, kinds []Kind) ([]*Playbook, error) {
	c, err := newCompiler(kinds)
	if err != nil {
		return nil, Problems{{File: source, Message: "invalid kinds of steps: " + err.Error()}}
	}
	c.recorded = true
	return c.parse(source, data)
}

// parse loads the playbooks of one file.
func (c *compiler) parse(source string, data []byte) ([]*Playbook, error) {
	var problems Problems
	var out []*Playbook
	lines := map[string]int{}
	for _, doc := range yamldoc.Documents(source, data, &problems) {
		d := document{doc}
		p := c.playbook(d)
		if first, twice := lines[p.Name]; twice && p.Name != "" {
			d.Report(d.Root, "metadata.name", fmt.Sprintf("playbook %s is already defined on line %d", p.Name, first), "names are unique")
		}
		lines[p.Name] = d.Line + d.Root.Line
		out = append(out, p)
	}
	if len(out) == 0 && len(problems) == 0 {
		problems = append(problems, Problem{File: source, Message: "no playbook in the file", Hint: "add a playbook or remove the file"})
	}
	if err := problems.Err(); err != nil {
		return nil, err
	}
	return out, nil
}

var nameForm = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`)

const nameHint = "lower-case letters, digits and dashes, at most 63, starting with a letter"

// NameRule returns what a name of a playbook must look like, if this one does
// not; else it is empty.
func NameRule(name string) string {
	if nameForm.MatchString(name) {
		return ""
	}
	return nameHint
}

// playbook reads one document. The result is complete only if nothing was
// reported.
func (c *compiler) playbook(d document) *Playbook {
	sum := sha256.Sum256(d.Data)
	p := &Playbook{
		Digest: "sha256:" + hex.EncodeToString(sum[:]),
		Source: fmt.Sprintf("%s:%d", d.File, d.Line+d.Root.Line),
		Doc:    d.Data,
		byName: map[string]*State{},
	}
	top := d.Mapping(d.Root, "", "apiVersion", "kind", "metadata", "spec")
	if top == nil {
		return p
	}
	top.Constant("apiVersion", APIVersion)
	top.Constant("kind", "Playbook")
	if n := top.Need("metadata", ""); n != nil {
		d.metadata(n, p)
	}
	if n := top.Need("spec", ""); n != nil {
		c.spec(d, n, p)
	}
	return p
}

func (d document) metadata(n *yaml.Node, p *Playbook) {
	m := d.Mapping(n, "metadata", "name", "title", "description", "runbook")
	if m == nil {
		return
	}
	if name := m.Need("name", ""); name != nil {
		text, ok := d.Text(name, "metadata.name")
		if ok && !nameForm.MatchString(text) {
			d.Report(name, "metadata.name", fmt.Sprintf("invalid name %q", yamldoc.Clip(text)), nameHint)
		} else {
			p.Name = text
		}
	}
	p.Title = m.Text("title")
	p.Description = m.Text("description")
	m.Need("runbook", "link or path of the runbook this playbook encodes")
	p.Runbook = m.Text("runbook")
	if p.Title == "" {
		p.Title = titleOf(p.Name)
	}
}

// titleOf derives a title from a name: gpu-fault becomes Gpu fault.
func titleOf(name string) string {
	if name == "" {
		return ""
	}
	words := strings.ReplaceAll(name, "-", " ")
	return strings.ToUpper(words[:1]) + words[1:]
}

// stateNode is a state with the YAML it was read from.
type stateNode struct {
	state *State
	m     *yamldoc.Mapping
}

// spec reads match, states and the rest, compiles and analyses.
func (c *compiler) spec(d document, n *yaml.Node, p *Playbook) {
	m := d.Mapping(n, "spec", "match", "services", "autonomy", "let", "start", "states")
	if m == nil {
		return
	}
	if match := m.Need("match", `one or more Alertmanager matchers, e.g. '{alertname="InferenceTTFTFastBurn"}'`); match != nil {
		p.match = d.matchers(match, "spec.match")
	}
	if services := m.Get("services"); services != nil {
		p.services, _ = d.Texts(services, "spec.services")
		if len(p.services) == 0 {
			d.Report(services, "spec.services", "empty", "remove the field to allow every service")
		}
	}
	if level := m.Get("autonomy"); level != nil {
		p.Autonomy, p.SetsAutonomy = d.autonomy(level, "spec.autonomy"), true
	}
	start := m.Need("start", "the first state of a run")
	states := m.Need("states", "")
	if states == nil {
		return
	}
	nodes := d.stateNodes(states, p)
	if len(nodes) == 0 {
		return
	}
	r := c.reader(d, p, nodes)
	if r == nil {
		return
	}
	if let := m.Get("let"); let != nil {
		r.lets(let)
	}
	for _, sn := range nodes {
		r.state(sn)
	}
	if start != nil {
		if text, ok := d.Text(start, "spec.start"); ok {
			p.Start = text
			if p.byName[text] == nil {
				d.Report(start, "spec.start", fmt.Sprintf("unknown state %q", yamldoc.Clip(text)), yamldoc.DidYouMean(text, r.names))
			}
		}
	}
	r.unused()
	r.analyse()
}

func (d document) autonomy(n *yaml.Node, path string) Autonomy {
	text, ok := d.Text(n, path)
	if !ok {
		return Observe
	}
	level, err := ParseAutonomy(text)
	if err != nil {
		d.Report(n, path, fmt.Sprintf("unknown autonomy level %q", yamldoc.Clip(text)), yamldoc.DidYouMean(text, []string{"observe", "suggest", "auto"}))
	}
	return level
}

// stateNodes reads the names and kinds of all states first, because expressions
// of any state may name any other.
func (d document) stateNodes(n *yaml.Node, p *Playbook) []stateNode {
	m := d.Mapping(n, "spec.states")
	if m == nil {
		return nil
	}
	if len(m.Pairs) == 0 {
		d.Report(n, "spec.states", "no states", "")
	}
	var out []stateNode
	for _, pair := range m.Pairs {
		path := m.At(pair.Name)
		if !nameForm.MatchString(pair.Name) {
			d.Report(pair.Key, path, fmt.Sprintf("invalid state name %q", yamldoc.Clip(pair.Name)), nameHint)
			continue
		}
		if reservedName(variableOf(pair.Name)) {
			d.Report(pair.Key, path, fmt.Sprintf("%q is reserved in expressions", pair.Name), "choose another name")
			continue
		}
		sm := d.Mapping(pair.Value, path)
		if sm == nil {
			continue
		}
		s := &State{Name: pair.Name, Title: titleOf(pair.Name), Line: d.Line + pair.Key.Line, Column: pair.Key.Column}
		p.States = append(p.States, s)
		p.byName[s.Name] = s
		out = append(out, stateNode{state: s, m: sm})
	}
	return out
}

// reservedName reports whether a word cannot name evidence, because it is a
// variable, a function or a word of CEL.
func reservedName(word string) bool {
	switch word {
	case "alert", "alerts", "service", "run", "now", "out", "since", "math", "min", "max", "has",
		"in", "true", "false", "null", "as", "break", "const", "continue", "else", "for", "function", "if",
		"import", "let", "loop", "package", "namespace", "return", "var", "void", "while",
		"int", "uint", "double", "bool", "string", "bytes", "duration", "timestamp", "list", "map", "type", "dyn", "size", "cel", "google", "optional":
		return true
	default:
		return false
	}
}
