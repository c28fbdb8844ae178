package policy

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"cel.dev/cel-go/cel"
	"go.yaml.in/yaml/v3"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/expression"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/yamldoc"
)

// Limits of a policy.
const (
	maxRules    = 2000
	maxQuorum   = 20
	maxDecision = 7 * 24 * time.Hour
	maxBudget   = 31 * 24 * time.Hour
	maxCount    = 100_000
)

var (
	nameForm      = regexp.MustCompile(`^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`)
	principalForm = regexp.MustCompile(`^(user|group):[^\s:]+$`)
)

const nameHint = "lower-case letters, digits and dashes, at most 63, starting with a letter"

// reader reads the documents of one file.
type reader struct {
	scope     expression.Scope
	base      string // base name of the file
	set       *Set
	lines     map[string]int // line of each rule, by name
	documents int
}

// document reads one document.
func (r *reader) document(d *yamldoc.Document) {
	r.documents++
	top := d.Mapping(d.Root, "", "apiVersion", "kind", "metadata", "spec")
	if top == nil {
		return
	}
	top.Constant("apiVersion", playbook.APIVersion)
	top.Constant("kind", "Policy")
	if n := top.Need("metadata", ""); n != nil {
		if m := d.Mapping(n, "metadata", "name", "description"); m != nil {
			r.name(m)
			m.Text("description")
		}
	}
	n := top.Need("spec", "")
	if n == nil {
		return
	}
	spec := d.Mapping(n, "spec", "rules")
	if spec == nil {
		return
	}
	rules := spec.Need("rules", "a list of rules")
	switch {
	case rules == nil:
	case rules.Kind != yaml.SequenceNode:
		d.Report(rules, "spec.rules", "want a list, got "+yamldoc.Describe(rules), "")
	case len(r.set.rules)+len(rules.Content) > maxRules:
		d.Report(rules, "spec.rules", fmt.Sprintf("more than %d rules", maxRules), "")
	default:
		for i, item := range rules.Content {
			r.rule(d, item, fmt.Sprintf("spec.rules[%d]", i))
		}
	}
}

// name reads a required name.
func (r *reader) name(m *yamldoc.Mapping) string {
	n := m.Need("name", nameHint)
	if n == nil {
		return ""
	}
	name, ok := m.Doc.Text(n, m.At("name"))
	if ok && !nameForm.MatchString(name) {
		m.Doc.Report(n, m.At("name"), fmt.Sprintf("invalid name %q", yamldoc.Clip(name)), nameHint)
	}
	return name
}

// rule reads one rule.
func (r *reader) rule(d *yamldoc.Document, n *yaml.Node, at string) {
	m := d.Mapping(n, at, append([]string{"name", "when"}, effects()...)...)
	if m == nil {
		return
	}
	out := &rule{Name: r.name(m), Line: d.Line + n.Line}
	if first, twice := r.lines[out.Name]; twice && out.Name != "" {
		d.Report(m.Get("name"), m.At("name"), fmt.Sprintf("duplicate rule %s, first on line %d", out.Name, first), "names are unique")
	}
	r.lines[out.Name] = out.Line
	out.Place = place(out.Name, r.base, out.Line)
	if w := m.Get("when"); w != nil {
		r.when(d, w, m.At("when"), out)
	}
	var given []string
	for _, key := range effects() {
		if m.Has(key) {
			given = append(given, key)
		}
	}
	if len(given) != 1 {
		message := "missing effect: want one of " + strings.Join(effects(), ", ")
		if len(given) > 1 {
			message = strings.Join(given, " and ") + " in one rule"
		}
		d.Report(n, at, message, "a rule has exactly one effect")
		return
	}
	out.Kind = given[0]
	out.Effect = r.effect(m, out.Kind)
	r.set.add(out)
}

func (r *reader) when(d *yamldoc.Document, n *yaml.Node, at string, out *rule) {
	text, ok := d.Text(n, at)
	if !ok {
		return
	}
	x, errs := expression.Compile(text, r.scope)
	if len(errs) == 0 && !x.Type.IsExactType(cel.BoolType) {
		errs = []expression.Error{{Message: "a condition must be true or false, this is " + x.Type.String(), Hint: "compare it with something"}}
	}
	for _, e := range errs {
		d.ReportAt(n, at, e.Offset, e.Message, e.Hint)
	}
	if len(errs) == 0 {
		out.When, out.when = text, x
	}
}

// effect reads the one effect of a rule. The result is complete only if nothing
// was reported.
func (r *reader) effect(m *yamldoc.Mapping, key string) effect {
	if key == "deny" {
		return denial{why: m.Text(key)}
	}
	if key == "max_autonomy" {
		return r.ceiling(m, key)
	}
	if key == "allow_approvers" {
		return approvers(r.principals(m, key, false))
	}
	if key == "merge" {
		return r.merging(m, key)
	}
	em := m.Doc.Mapping(m.Get(key), m.At(key), fieldsOf(key)...)
	if em == nil {
		return denial{}
	}
	switch key {
	case "require_approval":
		return r.approval(em)
	case "budget":
		return r.budget(em)
	case "freeze":
		return r.freeze(em)
	case "protect":
		return r.protect(em)
	default:
		return r.blastRadius(em)
	}
}

func (r *reader) ceiling(m *yamldoc.Mapping, key string) effect {
	text, ok := m.Doc.Text(m.Get(key), m.At(key))
	level, err := playbook.ParseAutonomy(text)
	if ok && (err != nil || level == playbook.Auto) {
		m.Doc.Report(m.Get(key), m.At(key), fmt.Sprintf("unknown autonomy level %q", yamldoc.Clip(text)), yamldoc.DidYouMean(text, []string{"observe", "suggest"}))
	}
	return ceiling{level: level}
}

func (r *reader) merging(m *yamldoc.Mapping, key string) effect {
	text, ok := m.Doc.Text(m.Get(key), m.At(key))
	words := []string{string(machine.MergePeople), string(machine.MergeResponder)}
	if ok && !slices.Contains(words, text) {
		m.Doc.Report(m.Get(key), m.At(key), fmt.Sprintf("unknown merger %q", yamldoc.Clip(text)), yamldoc.DidYouMean(text, words))
	}
	return merging{by: machine.MergeBy(text)}
}

// ownersOf lists the words for the owners of the service, and of the pool of the
// node that a lever changes. Where it changes none, they are the service's.
func ownersOf() []string { return []string{"service.owners", "node.owners"} }

// principals reads users and groups, and the owners if they are allowed.
func (r *reader) principals(m *yamldoc.Mapping, key string, owners bool) []string {
	n := m.Get(key)
	if n == nil {
		return nil
	}
	hint := "user:NAME or group:NAME"
	if owners {
		hint = strings.Join(ownersOf(), ", ") + ", " + hint
	}
	words, nodes := m.Doc.Texts(n, m.At(key))
	if n.Kind == yaml.SequenceNode && len(n.Content) == 0 {
		m.Doc.Report(n, m.At(key), "no deciders", hint)
	}
	var out []string
	for i, who := range words {
		switch {
		case !principalForm.MatchString(who) && (!owners || !slices.Contains(ownersOf(), who)):
			m.Doc.Report(nodes[i], m.At(key), fmt.Sprintf("%q is not a decider", yamldoc.Clip(who)), hint)
		case slices.Contains(out, who):
			m.Doc.Report(nodes[i], m.At(key), "duplicate "+who, "keep one")
		default:
			out = append(out, who)
		}
	}
	return out
}

func (r *reader) approval(m *yamldoc.Mapping) effect {
	a := &approval{quorum: 1, strong: m.Boolean("strong")}
	m.Need("from", "who: service.owners, node.owners, user:NAME or group:NAME")
	a.from = r.principals(m, "from", true)
	a.breakGlass = r.principals(m, "break_glass", false)
	if a.glassOwn = m.Boolean("break_glass_own"); a.glassOwn && len(a.breakGlass) == 0 {
		m.Doc.Report(m.Get("break_glass_own"), m.At("break_glass_own"), "missing break_glass", "name the people in break_glass")
	}
	if q, ok := m.Integer("quorum", 1, maxQuorum); ok {
		a.quorum = q
		everybody := !slices.ContainsFunc(a.from, func(who string) bool { return !strings.HasPrefix(who, "user:") })
		if everybody && len(a.from) > 0 && q > len(a.from) {
			m.Doc.Report(m.Get("quorum"), m.At("quorum"), fmt.Sprintf("quorum is %d, but from names %d people", q, len(a.from)), "")
		}
	}
	a.within = m.Duration("within", maxDecision)
	a.remind = m.Duration("remind", maxDecision)
	if a.within > 0 && a.remind >= a.within {
		m.Doc.Report(m.Get("remind"), m.At("remind"), "not before the deadline (within)", "")
	}
	if n := m.Get("escalate"); n != nil {
		a.tiers = r.tiers(m, n, a.within)
	}
	return a
}

// tiers reads the further channels to notify, and when.
func (r *reader) tiers(m *yamldoc.Mapping, n *yaml.Node, within time.Duration) []machine.Tier {
	d := m.Doc
	if n.Kind != yaml.SequenceNode {
		d.Report(n, m.At("escalate"), "want a list, got "+yamldoc.Describe(n), "e.g. [{after: 10m, to: [oncall]}]")
		return nil
	}
	var out []machine.Tier
	for i, item := range n.Content {
		tm := d.Mapping(item, fmt.Sprintf("%s[%d]", m.At("escalate"), i), "after", "to")
		if tm == nil {
			continue
		}
		tm.Need("after", "how long after the question, e.g. 10m")
		tm.Need("to", "channels, by their configured names")
		t := machine.Tier{After: tm.Duration("after", maxDecision)}
		if within > 0 && t.After >= within {
			d.Report(tm.Get("after"), tm.At("after"), "not before the deadline (within)", "")
		}
		if i > 0 && len(out) > 0 && t.After > 0 && t.After <= out[len(out)-1].After {
			d.Report(tm.Get("after"), tm.At("after"), "not later than the previous tier", "")
		}
		if to := tm.Get("to"); to != nil {
			names, nodes := d.Texts(to, tm.At("to"))
			if to.Kind == yaml.SequenceNode && len(to.Content) == 0 {
				d.Report(to, tm.At("to"), "no channels", "channels, by their configured names")
			}
			for j, name := range names {
				if !nameForm.MatchString(name) {
					d.Report(nodes[j], tm.At("to"), fmt.Sprintf("invalid channel name %q", yamldoc.Clip(name)), "use a name of channels in the configuration: "+nameHint)
				}
				r.set.channels = append(r.set.channels, Channel{Name: name, Line: d.Line + nodes[j].Line, Column: nodes[j].Column, Path: tm.At("to")})
			}
			t.To = names
		}
		out = append(out, t)
	}
	return out
}

func (r *reader) budget(m *yamldoc.Mapping) effect {
	b := budget{per: "service"}
	levers, hasLevers := m.Integer("levers", 1, maxCount)
	runs, hasRuns := m.Integer("runs", 1, maxCount)
	switch {
	case m.Has("levers") == m.Has("runs"):
		m.Doc.Report(m.Node, m.Path, "want exactly one of levers, runs", "")
	case hasLevers:
		b.what, b.limit = "levers", levers
	case hasRuns:
		b.what, b.limit = "runs", runs
	}
	if n := m.Get("per"); n != nil {
		words := []string{"service", "playbook", "all"}
		text, ok := m.Doc.Text(n, m.At("per"))
		if ok && !slices.Contains(words, text) {
			m.Doc.Report(n, m.At("per"), fmt.Sprintf("unknown word %q", yamldoc.Clip(text)), yamldoc.DidYouMean(text, words))
		}
		b.per = text
	}
	m.Need("within", "the window of the count, e.g. 24h")
	b.within = span{m.Duration("within", maxBudget)}
	return b
}

func (r *reader) protect(m *yamldoc.Mapping) effect {
	n := m.Need("namespaces", `names or globs, e.g. ["kube-*"]`)
	if n == nil {
		return denial{}
	}
	globs, nodes := m.Doc.Texts(n, m.At("namespaces"))
	if n.Kind == yaml.SequenceNode && len(n.Content) == 0 {
		m.Doc.Report(n, m.At("namespaces"), "no namespaces", "name at least one")
	}
	for i, g := range globs {
		if _, err := path.Match(g, ""); err != nil || g == "" {
			m.Doc.Report(nodes[i], m.At("namespaces"), fmt.Sprintf("invalid glob %q", yamldoc.Clip(g)), "* is any text, ? one character, [ab] one of some")
		}
	}
	return protection{namespaces: globs}
}

func (r *reader) blastRadius(m *yamldoc.Mapping) effect {
	var b blastRadius
	if len(m.Pairs) == 0 {
		m.Doc.Report(m.Node, m.Path, "no limits", "set min_ready, max_lost_ready, max_lost_percent, max_lost_tokens_per_second, max_out_percent_of_namespace or max_out_percent_of_cluster")
	}
	if n, ok := m.Integer("min_ready", 1, maxCount); ok {
		b.minReady = &n
	}
	if n, ok := m.Integer("max_lost_ready", 0, maxCount); ok {
		b.lostReady = &n
	}
	number := func(key string, most float64) *float64 {
		f, ok := m.Number(key)
		if ok && (f < 0 || f > most) {
			m.Doc.Report(m.Get(key), m.At(key), fmt.Sprintf("%v is out of range: want 0 to %v", f, most), "")
		}
		if !ok {
			return nil
		}
		return &f
	}
	b.lostPercent = number("max_lost_percent", 100)
	b.lostTokens = number("max_lost_tokens_per_second", 1e12)
	b.outOfSpace = number("max_out_percent_of_namespace", 100)
	b.outOfAll = number("max_out_percent_of_cluster", 100)
	return b
}
