package playbook

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// APIVersion is what a playbook document says in apiVersion.
const APIVersion = "responder/v1alpha1"

// Parse loads every playbook of a YAML file: it reads strictly, compiles all
// expressions against the kinds, and analyses the graph. Source names the file
// in messages. The error is a [Problems] that lists everything wrong with the
// file; a file with one bad document gives no playbooks at all.
func Parse(source string, data []byte, kinds []Kind) ([]*Playbook, error) {
	c, err := newCompiler(kinds)
	if err != nil {
		return nil, Problems{fileProblem(source, 0, 0, "the kinds of steps are declared wrongly: "+err.Error(), "")}
	}
	return c.parse(source, data)
}

// parse loads the playbooks of one file.
func (c *compiler) parse(source string, data []byte) ([]*Playbook, error) {
	var problems Problems
	var out []*Playbook
	lines := map[string]int{}
	for _, d := range documents(source, data, &problems) {
		p := c.playbook(d)
		if first, twice := lines[p.Name]; twice && p.Name != "" {
			d.report(d.root, "metadata.name", fmt.Sprintf("playbook %s is already defined on line %d", p.Name, first), "names are unique")
		}
		lines[p.Name] = d.line + d.root.Line
		out = append(out, p)
	}
	if len(out) == 0 && len(problems) == 0 {
		problems = append(problems, fileProblem(source, 0, 0, "holds no playbook", "remove the file or write one"))
	}
	if err := problems.err(); err != nil {
		return nil, err
	}
	return out, nil
}

var nameForm = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`)

const nameHint = "lower-case letters, digits and dashes, at most 63, beginning with a letter"

// playbook reads one document. What it returns is whole only when nothing was reported.
func (c *compiler) playbook(d *document) *Playbook {
	sum := sha256.Sum256(d.data)
	p := &Playbook{
		Digest: "sha256:" + hex.EncodeToString(sum[:]),
		Source: fmt.Sprintf("%s:%d", d.file, d.line+d.root.Line),
		Doc:    d.data,
		byName: map[string]*State{},
	}
	top := d.mapping(d.root, "", "apiVersion", "kind", "metadata", "spec")
	if top == nil {
		return p
	}
	d.constant(top, "apiVersion", APIVersion)
	d.constant(top, "kind", "Playbook")
	if n := top.need("metadata", ""); n != nil {
		d.metadata(n, p)
	}
	if n := top.need("spec", ""); n != nil {
		c.spec(d, n, p)
	}
	return p
}

// constant insists that a key has one value.
func (d *document) constant(m *mapping, name, want string) {
	n := m.need(name, "write "+name+": "+want)
	if n == nil {
		return
	}
	if text, ok := d.text(n, name); ok && text != want {
		d.report(n, name, fmt.Sprintf("%q is not known", clip(text)), "this version reads "+want)
	}
}

func (d *document) metadata(n *yaml.Node, p *Playbook) {
	m := d.mapping(n, "metadata", "name", "title", "description", "runbook")
	if m == nil {
		return
	}
	if name := m.need("name", ""); name != nil {
		text, ok := d.text(name, "metadata.name")
		if ok && !nameForm.MatchString(text) {
			d.report(name, "metadata.name", fmt.Sprintf("%q is not a name", clip(text)), nameHint)
		} else {
			p.Name = text
		}
	}
	p.Title = m.text("title")
	p.Description = m.text("description")
	m.need("runbook", "link or path of the runbook this playbook encodes")
	p.Runbook = m.text("runbook")
	if p.Title == "" {
		p.Title = titleOf(p.Name)
	}
}

// titleOf makes a title of a name: gpu-fault becomes Gpu fault.
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
	m     *mapping
}

// spec reads match, states and the rest, compiles and analyses.
func (c *compiler) spec(d *document, n *yaml.Node, p *Playbook) {
	m := d.mapping(n, "spec", "match", "services", "autonomy", "start", "states")
	if m == nil {
		return
	}
	if match := m.need("match", `one or more Alertmanager matchers, e.g. '{alertname="InferenceTTFTFastBurn"}'`); match != nil {
		p.match = d.matchers(match, "spec.match")
	}
	if services := m.get("services"); services != nil {
		p.services, _ = d.texts(services, "spec.services")
		if len(p.services) == 0 {
			d.report(services, "spec.services", "empty", "leave it out to allow every service")
		}
	}
	if level := m.get("autonomy"); level != nil {
		p.Autonomy = d.autonomy(level, "spec.autonomy")
	}
	start := m.need("start", "the state a run begins in")
	states := m.need("states", "")
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
	for _, sn := range nodes {
		r.state(sn)
	}
	if start != nil {
		if text, ok := d.text(start, "spec.start"); ok {
			p.Start = text
			if p.byName[text] == nil {
				d.report(start, "spec.start", fmt.Sprintf("there is no state %q", clip(text)), didYouMean(text, r.names))
			}
		}
	}
	r.analyse()
}

func (d *document) autonomy(n *yaml.Node, path string) Autonomy {
	text, ok := d.text(n, path)
	if !ok {
		return Observe
	}
	level, err := ParseAutonomy(text)
	if err != nil {
		d.report(n, path, fmt.Sprintf("unknown autonomy level %q", clip(text)), didYouMean(text, []string{"observe", "suggest", "auto"}))
	}
	return level
}

// stateNodes reads the names and kinds of all states first, because
// expressions of any state may name any other.
func (d *document) stateNodes(n *yaml.Node, p *Playbook) []stateNode {
	m := d.mapping(n, "spec.states")
	if m == nil {
		return nil
	}
	if len(m.pairs) == 0 {
		d.report(n, "spec.states", "no states", "")
	}
	var out []stateNode
	for _, pair := range m.pairs {
		path := m.at(pair.name)
		if !nameForm.MatchString(pair.name) {
			d.report(pair.key, path, fmt.Sprintf("%q is not a state's name", clip(pair.name)), nameHint)
			continue
		}
		if reservedName(variableOf(pair.name)) {
			d.report(pair.key, path, fmt.Sprintf("%q has a meaning of its own in expressions", pair.name), "choose another name")
			continue
		}
		sm := d.mapping(pair.value, path)
		if sm == nil {
			continue
		}
		s := &State{Name: pair.name, Title: titleOf(pair.name), Line: d.line + pair.key.Line, Column: pair.key.Column}
		p.States = append(p.States, s)
		p.byName[s.Name] = s
		out = append(out, stateNode{state: s, m: sm})
	}
	return out
}

// reservedName reports whether a word cannot name evidence: it is a variable,
// a function or a word of CEL.
func reservedName(word string) bool {
	switch word {
	case "alert", "service", "run", "now", "out", "since", "math", "min", "max", "has",
		"in", "true", "false", "null", "as", "break", "const", "continue", "else", "for", "function", "if",
		"import", "let", "loop", "package", "namespace", "return", "var", "void", "while",
		"int", "uint", "double", "bool", "string", "bytes", "duration", "timestamp", "list", "map", "type", "dyn", "size", "cel", "google", "optional":
		return true
	default:
		return false
	}
}
