package gitops

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops/edit"
	"go.yaml.in/yaml/v3"
)

// hit is one time that a flag is given.
type hit struct {
	line  *line
	first int // argument that names it
	last  int // argument that holds its value; first, when that is the same
	at    int // byte of the last argument where the value begins
	form  string
	value string
	no    bool // written --no-flag
}

func dashes(s string) string { return strings.ReplaceAll(s, "_", "-") }

var negative = regexp.MustCompile(`^-\.?[0-9]`)

// hits finds a flag in a command line, in any spelling that engines accept.
func (l *line) hits(flag string) ([]hit, error) {
	var out []hit
	flag = dashes(flag)
	for i, a := range l.args {
		name, isFlag := strings.CutPrefix(a.text, "--")
		if !isFlag {
			continue
		}
		name, value, eq := strings.Cut(name, "=")
		name = dashes(name)
		no := name == "no-"+flag
		if name != flag && !no {
			if abbreviates(name, flag) {
				return nil, l.container.bad(a.node, fmt.Sprintf("--%s may be short for --%s: write it out", edit.Clip(name), flag))
			}
			continue
		}
		h := hit{line: l, first: i, last: i, no: no, form: "boolean", value: fmt.Sprint(!no)}
		switch {
		case eq:
			h.form, h.value, h.at = "--flag=value", value, len(a.text)-len(value)
		case no:
		case i+1 < len(l.args) && takesValue(flag, a, l.args[i+1]):
			h.form, h.value, h.last, h.at = "--flag value", l.args[i+1].text, i+1, 0
		}
		out = append(out, h)
	}
	return out, l.overlooked(flag, out)
}

// whole are flags whose names other flags begin with.
var whole = []string{
	"chat-template", "data-parallel-size", "disable-cuda-graph", "enable-dp-attention", "enable-lora", "enable-metrics", "kv-cache-dtype",
	"kv-cache-metrics", "log-level", "log-requests", "max-loras", "numa-bind", "reasoning-parser", "ssl-keyfile",
}

// abbreviates reports whether a name may be short for a flag or its --no- form,
// as argparse takes it. A single word that ends where a word of the flag does is
// a flag of its own (model, of model-impl), or short for several.
func abbreviates(name, flag string) bool {
	short := func(of string) bool {
		return strings.HasPrefix(of, name) && (of[len(name)] != '-' || strings.Contains(name, "-") && !slices.Contains(whole, name))
	}
	return len(name) > 2 && name != "no" && (short(flag) || strings.HasPrefix(name, "no-") && short("no-"+flag))
}

// toggles are flags without a value, by how engines name them.
var toggles = regexp.MustCompile(`^(?:enable|disable|trust|skip|use|enforce)-|^(?:async-scheduling|scheduler-reserve-full-isl)$`)

// takesValue reports whether the next word is the flag's value.
func takesValue(flag string, a, next argument) bool {
	if next.command != a.command || strings.HasPrefix(next.text, "-") && !negative.MatchString(next.text) {
		return false
	}
	if toggles.MatchString(flag) {
		return next.text == "true" || next.text == "false" || next.text == "True" || next.text == "False"
	}
	return true
}

// overlooked refuses a mention of the flag that was not read: in nested quotes,
// in one item with its value, in a command that another command runs.
func (l *line) overlooked(flag string, hits []hit) error {
	seen := map[*yaml.Node]int{}
	for _, h := range hits {
		seen[l.args[h.first].node]++
	}
	mention := regexp.MustCompile(`--(?:no[-_])?` + strings.ReplaceAll(regexp.QuoteMeta(flag), "-", "[-_]") + `(?:[^A-Za-z0-9_.-]|$)`)
	check := func(n *yaml.Node, s *shell) error {
		text := n.Value
		if s != nil {
			text = s.spoken(text)
		}
		if len(mention.FindAllString(text, -1)) != seen[n] {
			return l.container.bad(n, fmt.Sprintf("mentions --%s where it cannot be read safely (inside nested quotes, or as one item with its value)", flag))
		}
		return nil
	}
	checked := map[*yaml.Node]bool{}
	for _, s := range l.scripts {
		checked[s.node] = true
		if err := check(s.node, s.shell); err != nil {
			return err
		}
	}
	for _, list := range l.seqs {
		for _, item := range list.node.Content {
			if item = edit.Deref(item); item != nil && !checked[item] {
				if err := check(item, nil); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// spot gives the bytes of the scalar's value that bytes of an argument are.
func (a *argument) spot(from, to int) (begin, end int, ok bool) {
	if a.word == nil {
		return from, to, true
	}
	if from == to {
		return 0, 0, false
	}
	for i := from; i+1 < to; i++ {
		if a.word.to[i] != a.word.from[i+1] {
			return 0, 0, false
		}
	}
	return a.word.from[from], a.word.to[to-1], true
}

// site is where the hit's value is written.
func (h hit) site() *site {
	a := &h.line.args[h.last]
	name := &h.line.args[h.first]
	form, from := h.form, h.at
	if a.form != "" {
		form = a.form
	}
	if h.form == "boolean" {
		from = 0
	}
	p := Place{Path: name.path + "[--" + dashes(strings.TrimPrefix(cutEq(name.text), "--")) + "]", Form: form, Value: h.value, Why: h.why()}
	s := h.line.container.object.site(a.doc, a.node, p)
	if begin, _, ok := a.spot(from, len(a.text)); ok {
		s.at(begin)
	}
	s.place.Container = h.line.container.name
	s.set = h.set
	s.unset = h.unset
	return s
}

func cutEq(s string) string {
	s, _, _ = strings.Cut(s, "=")
	return s
}

func (h hit) why() string {
	o := h.line.container.object
	why := "the container's command line sets it"
	if a := h.line.args[h.last]; a.form == "env" {
		why = "the container's command line takes it from this variable"
	}
	if h.line.repeated(h) {
		why += "; given more than once, and the last one counts"
	}
	if o.why != "" {
		why += "; " + o.why
	}
	return why
}

func (l *line) repeated(h hit) bool {
	flag := dashes(strings.TrimPrefix(strings.TrimPrefix(dashes(cutEq(l.args[h.first].text)), "--"), "no-"))
	for i := range h.first {
		name := dashes(cutEq(l.args[i].text))
		if name == "--"+flag || name == "--no-"+flag {
			return true
		}
	}
	return false
}

// set changes the value where it stands.
func (h hit) set(value string) (edit.Splice, error) {
	a := &h.line.args[h.last]
	if a.doc == nil {
		return edit.Splice{}, h.line.container.bad(a.node, "is put together from several manifests")
	}
	if a.word != nil && !harmless(value) {
		return edit.Splice{}, a.doc.Invalid(a.node, fmt.Sprintf("the value %q would be shell syntax in %s", edit.Clip(value), a.path))
	}
	if h.form == "boolean" {
		return h.setBoolean(value)
	}
	if h.form == "--flag value" && strings.HasPrefix(value, "-") {
		return edit.Splice{}, a.doc.Invalid(a.node, fmt.Sprintf("%q would be read as another flag: write the flag as --flag=value first", value))
	}
	if a.word == nil && h.at == 0 {
		return a.doc.SetScalar(a.node, value)
	}
	begin, end, ok := a.spot(h.at, len(a.text))
	if !ok {
		return edit.Splice{}, a.doc.Invalid(a.node, "the value is put together from several quoted parts: write it as one")
	}
	s, err := a.doc.ReplaceText(a.node, begin, end, value)
	if err == nil && a.word == nil {
		if a.doc.Check(s) != nil {
			return a.doc.SetScalar(a.node, a.text[:h.at]+value)
		}
	}
	return s, err
}

// setBoolean turns --flag into --no-flag and back.
func (h hit) setBoolean(value string) (edit.Splice, error) {
	a := &h.line.args[h.last]
	if value != "true" && value != "false" {
		return edit.Splice{}, a.doc.Invalid(a.node, fmt.Sprintf("is written as a boolean and takes true or false, not %q", edit.Clip(value)))
	}
	begin, _, ok := a.spot(2, len(a.text))
	if !ok {
		return edit.Splice{}, a.doc.Invalid(a.node, "the flag is put together from several quoted parts: write it as one")
	}
	switch {
	case fmt.Sprint(!h.no) == value:
		return edit.Splice{}, &fault.Error{Reason: fault.NothingToDo, Message: "already " + value}
	case h.no:
		return a.doc.ReplaceText(a.node, begin, begin+len("no-"), "")
	case strings.Contains(a.text, "_"):
		return a.doc.ReplaceText(a.node, begin, begin, "no_")
	}
	return a.doc.ReplaceText(a.node, begin, begin, "no-")
}

// unset takes the flag and its value away.
func (h hit) unset() (edit.Splice, error) {
	first, last := &h.line.args[h.first], &h.line.args[h.last]
	switch {
	case h.line.repeated(h):
		return edit.Splice{}, first.doc.Invalid(first.node, "is given more than once: remove it by hand")
	case first.doc == nil || first.doc != last.doc:
		return edit.Splice{}, h.line.container.bad(first.node, "is put together from several manifests")
	case first.word == nil && first.seq == last.seq && last.word == nil:
		return h.line.container.without(first, last)
	case first.word == nil || first.node != last.node:
		return edit.Splice{}, first.doc.Invalid(first.node, "stands in two places: remove it by hand")
	}
	return first.script.without(first.word, last.word)
}

// without takes items away, and the list with its last one, where none means
// the same as an empty one.
func (c container) without(first, last *argument) (edit.Splice, error) {
	all := first.index == 0 && last.index == len(first.seq.Content)-1
	if all && (first.seq.Style&yaml.FlowStyle == 0 || c.object.kind == "InferenceService" || c.object.kind == helmKind) {
		for _, key := range []string{"args", "extraArgs"} {
			if i := edit.KeyIndex(c.node, key); i >= 0 && c.node.Content[i+1] == first.seq {
				return first.doc.RemoveKey(c.node, key)
			}
		}
	}
	return first.doc.RemoveItems(first.seq, first.index, last.index)
}
