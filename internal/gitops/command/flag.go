package command

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops/edit"
)

// Flag is a flag of an engine.
type Flag struct {
	Name   string // without leading dashes
	Switch bool   // the flag has no --no- form: to turn it off is to remove it
}

// Hit is one occurrence of a flag in a command line.
type Hit struct {
	line  *Line
	first int // argument with the name
	last  int // argument with the value; may be first
	at    int // byte of the last argument at which the value begins
	Form  string
	Value string
	no    bool // written --no-flag
}

// Dashes returns a name with dashes in place of underscores: engines accept both.
func Dashes(s string) string { return strings.ReplaceAll(s, "_", "-") }

var negative = regexp.MustCompile(`^-\.?[0-9]`)

// Hits returns the occurrences of a flag, in any spelling that engines accept. It
// returns an error for a mention that may be one and cannot be read.
func (l *Line) Hits(flag string) ([]Hit, error) {
	var out []Hit
	flag = Dashes(flag)
	for i, a := range l.args {
		name, isFlag := strings.CutPrefix(a.text, "--")
		if !isFlag {
			continue
		}
		name, value, eq := strings.Cut(name, "=")
		name = Dashes(name)
		no := name == "no-"+flag
		if name != flag && !no {
			if abbreviates(name, flag) {
				return nil, l.container.Object.Invalid(a.node, fmt.Sprintf("--%s may be short for --%s: write it out", edit.Clip(name), flag))
			}
			continue
		}
		h := Hit{line: l, first: i, last: i, no: no, Form: "boolean", Value: fmt.Sprint(!no)}
		switch {
		case eq:
			h.Form, h.Value, h.at = "--flag=value", value, len(a.text)-len(value)
		case no:
		case i+1 < len(l.args) && takesValue(flag, a, l.args[i+1]):
			h.Form, h.Value, h.last, h.at = "--flag value", l.args[i+1].text, i+1, 0
		}
		out = append(out, h)
	}
	return out, l.checkMentions(flag, out)
}

// prefixes has the flags whose names are prefixes of other flags.
var prefixes = []string{
	"chat-template", "data-parallel-size", "disable-cuda-graph", "enable-dp-attention", "enable-lora", "enable-metrics", "kv-cache-dtype",
	"kv-cache-metrics", "log-level", "log-requests", "max-loras", "numa-bind", "reasoning-parser", "ssl-keyfile",
}

// abbreviates reports whether argparse may take a name as an abbreviation of a
// flag or its --no- form. A single word at which a word of the flag ends is a
// flag of its own, such as model of model-impl, or ambiguous.
func abbreviates(name, flag string) bool {
	short := func(of string) bool {
		return strings.HasPrefix(of, name) && (of[len(name)] != '-' || strings.Contains(name, "-") && !slices.Contains(prefixes, name))
	}
	return len(name) > 2 && name != "no" && (short(flag) || strings.HasPrefix(name, "no-") && short("no-"+flag))
}

// toggles matches the flags without a value, by how engines name them.
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

// checkMentions returns an error for a mention of the flag that is not a hit: in
// nested quotes, in one item with its value, in a command that another one runs.
func (l *Line) checkMentions(flag string, hits []Hit) error {
	seen := map[*yaml.Node]int{}
	for _, h := range hits {
		seen[l.args[h.first].node]++
	}
	mention := regexp.MustCompile(`--(?:no[-_])?` + strings.ReplaceAll(regexp.QuoteMeta(flag), "-", "[-_]") + `(?:[^A-Za-z0-9_.-]|$)`)
	check := func(n *yaml.Node, s *words) error {
		text := n.Value
		if s != nil {
			text = s.withoutComments(text)
		}
		if len(mention.FindAllString(text, -1)) != seen[n] {
			return l.container.Object.Invalid(n, fmt.Sprintf("mentions --%s where it cannot be read safely (inside nested quotes, or as one item with its value)", flag))
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

// span returns the bytes of the scalar's value that bytes from to to of an argument
// are written as.
func (a *argument) span(from, to int) (begin, end int, ok bool) {
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

// Last returns the hit that takes effect: the last one of the command, as engines
// accept a flag more than once. rival is a hit of another command of the script:
// then nothing decides between the two.
func Last(hits []Hit) (Last Hit, rival *Hit, err error) {
	Last = hits[len(hits)-1]
	at := Last.line.args[Last.first]
	for _, h := range hits {
		if h.line.args[h.first].command != at.command {
			return Last, &h, nil
		}
	}
	engines := Last.line.engines()
	switch {
	case at.script == nil || at.script.form != "shell":
	case len(engines) > 1 && slices.Contains(engines, at.command):
		return Hit{}, nil, Last.line.container.Object.Invalid(at.node, fmt.Sprintf("%s has %d commands that start an engine, and one of them sets %s: nothing tells which one counts", at.path, len(engines), cutEq(at.text)))
	case len(engines) > 0 && !slices.Contains(engines, at.command) && !Last.line.collects(at):
		return Hit{}, nil, Last.line.container.Object.Invalid(at.node, fmt.Sprintf("%s sets %s on another command than the one that starts the engine", at.path, cutEq(at.text)))
	}
	return Last, nil, nil
}

// Site returns where the value is written.
func (h Hit) Site() *edit.Site {
	a := &h.line.args[h.last]
	name := &h.line.args[h.first]
	form, from := h.Form, h.at
	if a.form != "" {
		form = a.form
	}
	if h.Form == "boolean" {
		from = 0
	}
	p := edit.Site{Path: name.path + "[--" + Dashes(strings.TrimPrefix(cutEq(name.text), "--")) + "]", Form: form, Value: h.Value, Why: h.why()}
	s := h.line.container.Object.Site(a.doc, a.node, p)
	if begin, _, ok := a.span(from, len(a.text)); ok {
		s.At(begin)
	}
	s.Container = h.line.container.Name
	s.Set = h.set
	s.Unset = h.Unset
	return s
}

// cutEq returns the part of an argument before the equals sign.
func cutEq(s string) string {
	s, _, _ = strings.Cut(s, "=")
	return s
}

func (h Hit) why() string {
	o := h.line.container.Object
	why := "the container's command line sets it"
	if a := h.line.args[h.last]; a.form == "env" {
		why = "the container's command line takes it from this variable"
	}
	if h.line.repeated(h) {
		why += "; given more than once, and the last one counts"
	}
	if o.Why != "" {
		why += "; " + o.Why
	}
	return why
}

// repeated reports whether an earlier argument gives the flag of a hit too.
func (l *Line) repeated(h Hit) bool {
	flag := Dashes(strings.TrimPrefix(strings.TrimPrefix(Dashes(cutEq(l.args[h.first].text)), "--"), "no-"))
	for i := range h.first {
		name := Dashes(cutEq(l.args[i].text))
		if name == "--"+flag || name == "--no-"+flag {
			return true
		}
	}
	return false
}

// set replaces the value.
func (h Hit) set(value string) (edit.Splice, error) {
	a := &h.line.args[h.last]
	if a.doc == nil {
		return edit.Splice{}, h.line.container.Object.Invalid(a.node, "is put together from several manifests")
	}
	if a.word != nil && !harmless(value) {
		return edit.Splice{}, a.doc.Invalid(a.node, fmt.Sprintf("the value %q would be shell syntax in %s", edit.Clip(value), a.path))
	}
	if h.Form == "boolean" {
		return h.setBoolean(value)
	}
	if h.Form == "--flag value" && strings.HasPrefix(value, "-") {
		return edit.Splice{}, a.doc.Invalid(a.node, fmt.Sprintf("%q would be read as another flag: write the flag as --flag=value first", value))
	}
	if a.word == nil && h.at == 0 {
		return a.doc.SetScalar(a.node, value)
	}
	begin, end, ok := a.span(h.at, len(a.text))
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

// setBoolean replaces --flag by --no-flag or the other way around.
func (h Hit) setBoolean(value string) (edit.Splice, error) {
	a := &h.line.args[h.last]
	if value != "true" && value != "false" {
		return edit.Splice{}, a.doc.Invalid(a.node, fmt.Sprintf("is written as a boolean and takes true or false, not %q", edit.Clip(value)))
	}
	begin, _, ok := a.span(2, len(a.text))
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

// Unset removes the flag and its value.
func (h Hit) Unset() (edit.Splice, error) {
	first, last := &h.line.args[h.first], &h.line.args[h.last]
	switch {
	case h.line.repeated(h):
		return edit.Splice{}, first.doc.Invalid(first.node, "is given more than once: remove it by hand")
	case first.doc == nil || first.doc != last.doc:
		return edit.Splice{}, h.line.container.Object.Invalid(first.node, "is put together from several manifests")
	case first.word == nil && first.seq == last.seq && last.word == nil:
		return h.line.container.without(first, last)
	case first.word == nil || first.node != last.node:
		return edit.Splice{}, first.doc.Invalid(first.node, "stands in two places: remove it by hand")
	}
	return first.script.without(first.word, last.word)
}

// without removes items of a list. It removes the list with its last item where
// no list means the same as an empty one.
func (c Container) without(first, last *argument) (edit.Splice, error) {
	all := first.index == 0 && last.index == len(first.seq.Content)-1
	if all && (first.seq.Style&yaml.FlowStyle == 0 || slices.Contains([]string{"InferenceService", "Model", edit.ValuesKind}, c.Object.Kind)) {
		for _, key := range []string{"args", "extraArgs"} {
			if i := edit.KeyIndex(c.Node, key); i >= 0 && c.Node.Content[i+1] == first.seq {
				return first.doc.RemoveKey(c.Node, key)
			}
		}
	}
	return first.doc.RemoveItems(first.seq, first.index, last.index)
}
