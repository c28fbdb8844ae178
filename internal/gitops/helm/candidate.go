package helm

import (
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/inference-responder/responder/internal/gitops/command"
	"github.com/inference-responder/responder/internal/gitops/edit"
)

// Wanted is a variable of which the value in the values is looked for.
type Wanted struct {
	Flag  command.Flag // empty name: no flag
	Names []string     // keys that values may have for it
	Env   bool         // it is an environment variable
	Set   bool         // the templates make it
	Value string       // as they do
}

// Candidate is a value that may decide a variable. Whether it does shows in the
// rendered result.
type Candidate struct {
	Site  *edit.Site
	Named bool // its key has the variable's name
	class int
}

// The classes of candidates, the one that is preferred first.
const (
	ofKey   = iota // a key with the variable's name
	ofValue        // another key with its value
	ofMap          // a mapping of flags or variables
	ofList         // a list of arguments
	ofText         // a text of arguments
	ofGuess        // arguments that the values do not have yet
)

// Preferred reports whether the candidate is of a class that comes before the other's.
func (c Candidate) Preferred(to Candidate) bool { return c.class < to.class }

// Arguments reports whether the candidate holds further arguments.
func (c Candidate) Arguments() bool { return c.class >= ofList }

// Limits of a search.
const (
	maxCandidates = 60
	maxDepth      = 12
)

// search collects the candidates of one variable.
type search struct {
	layers []layer
	w      Wanted
	fields []string // of the templates that have the variable's name
	found  []Candidate
}

// Candidates returns the values of the deployment that may decide a variable, the
// likeliest first. all are the values that it is rendered with.
func (d Deployment) Candidates(tr *edit.Tree, all *yaml.Node, w Wanted) ([]Candidate, error) {
	layers, err := d.layers(tr)
	if err != nil || len(layers) == 0 {
		return nil, err
	}
	s := &search{layers: layers, w: w}
	refs := s.references(tr, d.Dir)
	s.walk(all, nil)
	for _, ref := range refs {
		if edit.Get(all, ref...) == nil {
			s.absent(ref)
		}
	}
	slices.SortStableFunc(s.found, func(a, b Candidate) int { return a.class - b.class })
	return s.found[:min(len(s.found), maxCandidates)], nil
}

var (
	reference = regexp.MustCompile(`\.Values((?:\.[A-Za-z_][A-Za-z0-9_]*)+)`)
	field     = regexp.MustCompile(`\.([A-Za-z_][A-Za-z0-9_]*)`)
	arguments = regexp.MustCompile(`(?i)args|arguments|flags|options|opts|command|cmd`)
	variables = regexp.MustCompile(`(?i)env`)
)

// references returns the paths of values that the templates name, and records the
// fields with the variable's name.
func (s *search) references(tr *edit.Tree, dir string) [][]string {
	var out [][]string
	seen := map[string]bool{}
	for _, p := range tr.Paths() {
		below := strings.TrimPrefix(p, dir+"/")
		if !edit.Below(p, dir) || !strings.Contains("/"+below, "/templates/") {
			continue
		}
		var prefix []string
		for parts := strings.Split(below, "/"); len(parts) > 2 && parts[0] == "charts"; parts = parts[2:] {
			prefix = append(prefix, parts[1])
		}
		text := string(tr.File(p))
		for _, m := range field.FindAllStringSubmatch(text, -1) {
			if s.named(m[1]) && !slices.Contains(s.fields, m[1]) {
				s.fields = append(s.fields, m[1])
			}
		}
		for _, m := range reference.FindAllStringSubmatch(text, -1) {
			ref := slices.Concat(prefix, strings.Split(m[1][1:], "."))
			if key := strings.Join(ref, "."); !seen[key] {
				seen[key] = true
				out = append(out, ref)
			}
		}
	}
	return out
}

// plain returns a name without what spellings differ in.
func plain(name string) string {
	return strings.ToLower(strings.NewReplacer("-", "", "_", "", ".", "").Replace(name))
}

// named reports whether a key has the variable's name.
func (s *search) named(key string) bool {
	return slices.ContainsFunc(s.w.Names, func(n string) bool { return plain(n) == plain(key) })
}

// related reports whether the name of a value is part of the variable's, or the other
// way around.
func (s *search) related(at []string) bool {
	const least = 5
	last := plain(at[len(at)-1])
	both := plain(strings.Join(at[max(0, len(at)-2):], ""))
	return slices.ContainsFunc(s.w.Names, func(n string) bool {
		n = plain(n)
		return strings.Contains(both, n) || len(last) >= least && strings.Contains(n, last)
	})
}

// mentions reports whether a text has the flag.
func (s *search) mentions(text string) bool {
	return s.w.Flag.Name != "" && strings.Contains(command.Dashes(text), "--"+command.Dashes(s.w.Flag.Name)) ||
		s.w.Flag.Name != "" && strings.Contains(command.Dashes(text), "--no-"+command.Dashes(s.w.Flag.Name))
}

// walk looks at a value and all that it holds.
func (s *search) walk(n *yaml.Node, at []string) {
	if n == nil || len(at) > maxDepth {
		return
	}
	switch n.Kind {
	case yaml.MappingNode:
		s.mapping(n, at)
		for i := 0; i+1 < len(n.Content); i += 2 {
			s.walk(n.Content[i+1], append(slices.Clone(at), n.Content[i].Value))
		}
	case yaml.SequenceNode:
		s.list(n, at)
		for i, item := range n.Content {
			s.walk(item, append(slices.Clone(at), "["+strconv.Itoa(i)+"]"))
		}
	case yaml.ScalarNode:
		if len(at) > 0 {
			s.scalar(n, at)
		}
	}
}

// scalar looks at one value.
func (s *search) scalar(n *yaml.Node, at []string) {
	key := at[len(at)-1]
	null := n.ShortTag() == "!!null"
	named := s.named(key) || len(at) > 1 && s.named(at[len(at)-2]+key)
	switch {
	case named:
		s.add(ofKey, true, s.leaf(at))
	case s.w.Set && !null && n.Value == s.w.Value, s.w.Set && !null && number(n.Value) != "" && number(n.Value) == number(s.w.Value):
		s.add(ofValue, false, s.leaf(at))
	case n.ShortTag() == "!!bool" && s.related(at):
		s.add(ofValue, false, s.leaf(at))
	}
	if s.w.Flag.Name == "" {
		return
	}
	switch {
	case n.ShortTag() == "!!str" && (s.mentions(n.Value) || !s.w.Set && !strings.HasPrefix(key, "[") && arguments.MatchString(key)):
		s.add(ofText, false, s.text(at, n.Value))
	case null && !s.w.Set && arguments.MatchString(key):
		s.absent(at)
	}
}

// number returns a number in its shortest form, or "".
func number(text string) string {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return ""
	}
	return strconv.FormatFloat(f, 'f', -1, 64)
}

// mapping looks for a mapping to which the variable would be added.
func (s *search) mapping(n *yaml.Node, at []string) {
	has := func(key string) bool { return edit.KeyIndex(n, key) >= 0 }
	for _, f := range s.fields {
		if !has(f) {
			s.add(ofKey, true, s.newKey(at, f))
		}
	}
	if len(at) == 0 || s.w.Set {
		return
	}
	key := at[len(at)-1]
	switch {
	case s.w.Env && variables.MatchString(key):
		s.add(ofMap, false, s.newKey(at, s.w.Names[0]))
	case s.w.Flag.Name != "" && arguments.MatchString(key):
		s.add(ofMap, false, s.newKey(at, flagKey(n, s.w.Flag.Name)))
	}
}

// flagKey returns the name of a flag in the style of a mapping's keys.
func flagKey(n *yaml.Node, flag string) string {
	name := command.Dashes(flag)
	for i := 0; i+1 < len(n.Content); i += 2 {
		switch key := n.Content[i].Value; {
		case strings.HasPrefix(key, "--"):
			return "--" + name
		case strings.Contains(key, "-"):
			return name
		case strings.Contains(key, "_"):
			return strings.ReplaceAll(name, "-", "_")
		case key != strings.ToLower(key):
			return camel(name)
		}
	}
	return name
}

// camel writes max-num-seqs as maxNumSeqs.
func camel(name string) string {
	parts := strings.Split(name, "-")
	for i := 1; i < len(parts); i++ {
		if parts[i] != "" {
			parts[i] = strings.ToUpper(parts[i][:1]) + parts[i][1:]
		}
	}
	return strings.Join(parts, "")
}

// list looks at a list, which may be one of arguments.
func (s *search) list(n *yaml.Node, at []string) {
	if len(at) == 0 {
		return
	}
	var items []string
	for _, item := range n.Content {
		if item.Kind == yaml.ScalarNode {
			items = append(items, item.Value)
		}
	}
	key := at[len(at)-1]
	switch {
	case s.w.Env && !s.w.Set && variables.MatchString(key) && len(items) == 0:
		s.add(ofList, false, s.pairs(at))
	case s.w.Flag.Name == "" || len(items) < len(n.Content):
	case slices.ContainsFunc(items, s.mentions), !s.w.Set && (arguments.MatchString(key) || slices.ContainsFunc(items, func(i string) bool { return strings.HasPrefix(i, "--") })):
		s.add(ofList, false, s.args(at, items))
	}
}

// absent looks at a value that the templates name and the values do not have.
func (s *search) absent(at []string) {
	key := at[len(at)-1]
	switch {
	case s.named(key):
		s.add(ofKey, true, s.leaf(at))
	case s.w.Set:
	case s.w.Flag.Name != "" && arguments.MatchString(key):
		s.add(ofGuess, false, s.args(at, nil))
		s.add(ofGuess+1, false, s.text(at, ""))
	}
}

// add records a candidate, unless it has no site.
func (s *search) add(class int, named bool, site *edit.Site) {
	if site != nil {
		s.found = append(s.found, Candidate{Site: site, Named: named, class: class})
	}
}

// written returns the layer that decides a value and the value in it. own reports
// whether the value may be changed there: in the chart's own defaults only where there
// is nothing else.
func (s *search) written(at []string) (l layer, n *yaml.Node, own bool) {
	for i := len(s.layers) - 1; i >= 0; i-- {
		l := s.layers[i]
		if n := below(l.root, at); n != nil {
			return l, n, !l.chart || len(s.layers) == 1
		}
	}
	return s.layers[len(s.layers)-1], nil, false
}

// below returns the value at a path of keys and indices, or nil.
func below(n *yaml.Node, at []string) *yaml.Node {
	for _, key := range at {
		if index, ok := strings.CutPrefix(key, "["); ok {
			i, err := strconv.Atoi(strings.TrimSuffix(index, "]"))
			if err != nil || !edit.IsList(n) || i >= len(n.Content) {
				return nil
			}
			n = edit.Deref(n.Content[i])
			continue
		}
		if !edit.IsMap(n) || edit.KeyIndex(n, key) < 0 && edit.Get(n, key) == nil {
			return nil
		}
		n = edit.Get(n, key)
	}
	return n
}

// name writes a path for people.
func name(l layer, at []string) string {
	return l.prefix + strings.ReplaceAll(strings.Join(at, "."), ".[", "[")
}

func (l layer) object() *edit.Object {
	return values(l.doc.File, l.root, []*edit.Document{l.doc})
}

// container stands for the one that the values are made a part of.
func (l layer) container(at []string) command.Container {
	return command.Container{
		Object: l.object(), Path: name(l, at), Node: below(l.root, at[:len(at)-1]),
		Environment: func(string) (*edit.Value, error) { return nil, nil },
	}
}

// leaf returns the site of one value.
func (s *search) leaf(at []string) *edit.Site {
	l, n, own := s.written(at)
	if n == nil || !own {
		return s.put(at, func(to string) (string, error) { return scalarText(to, n), nil })
	}
	if n.Kind != yaml.ScalarNode {
		return nil
	}
	site := l.object().Site(l.doc, n, edit.Site{Path: name(l, at), Form: "values", Value: n.Value})
	parent, key := below(l.root, at[:len(at)-1]), at[len(at)-1]
	site.Set = func(to string) (edit.Splice, error) {
		if n.ShortTag() == "!!null" && edit.IsMap(parent) {
			return l.doc.PutText(parent, key, scalarText(to, nil))
		}
		return l.doc.SetAny(n, to)
	}
	if edit.IsMap(parent) {
		site.Unset = func() (edit.Splice, error) { return l.doc.RemoveKey(parent, key) }
	}
	return site
}

// scalarText returns a value as a text of YAML, with the type of another one.
func scalarText(to string, like *yaml.Node) string {
	tag := (&yaml.Node{Kind: yaml.ScalarNode, Value: to}).ShortTag()
	if tag == "!!str" || like != nil && like.ShortTag() == "!!str" && like.Value != "" {
		return strconv.Quote(to)
	}
	return to
}

// newKey returns the site of a key that a mapping does not have.
func (s *search) newKey(at []string, key string) *edit.Site {
	return s.put(append(slices.Clone(at), key), func(to string) (string, error) { return scalarText(to, nil), nil })
}

// put returns the site of a value that is added to the last of the values: a key, and
// the mappings that it is in. text returns the value as YAML.
func (s *search) put(at []string, text func(to string) (string, error)) *edit.Site {
	l := s.layers[len(s.layers)-1]
	if _, n, own := s.written(at); n != nil && own {
		return nil // unreachable: a value that is written is changed where it is
	}
	m, i := l.root, 0
	for ; i+1 < len(at); i++ {
		var child *yaml.Node
		if strings.HasPrefix(at[i], "[") {
			child = below(m, at[i:i+1])
		} else if k := edit.KeyIndex(m, at[i]); edit.IsMap(m) && k >= 0 {
			child = edit.Deref(m.Content[k+1])
		}
		if child == nil || len(child.Content) == 0 {
			break
		}
		m = child
	}
	if !edit.IsMap(m) || slices.ContainsFunc(at[i:], func(k string) bool { return strings.HasPrefix(k, "[") }) {
		return nil // an item of a list that stands elsewhere
	}
	site := l.object().Site(l.doc, m, edit.Site{Path: name(l, at), Form: "values", Missing: true})
	site.Set = func(to string) (edit.Splice, error) {
		value, err := text(to)
		if err != nil {
			return edit.Splice{}, err
		}
		for k := len(at) - 1; k > i; k-- {
			value = "{" + keyText(at[k]) + ": " + value + "}"
		}
		return l.doc.PutText(m, at[i], value)
	}
	return site
}

var plainKey = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]*$`)

// keyText returns a key as a text of YAML.
func keyText(key string) string {
	if plainKey.MatchString(key) {
		return key
	}
	return strconv.Quote(key)
}

// args returns the site of the flag in a list of arguments.
func (s *search) args(at, items []string) *edit.Site {
	l, n, own := s.written(at)
	if n == nil || !own || !edit.IsList(n) {
		return s.put(at, func(to string) (string, error) {
			changed, err := s.changed(items, to)
			for i := range changed {
				changed[i] = strconv.Quote(changed[i])
			}
			return "[" + strings.Join(changed, ", ") + "]", err
		})
	}
	line, err := command.ReadList(l.container(at), n, name(l, at))
	if err != nil {
		return nil
	}
	return s.inLine(line)
}

// text returns the site of the flag in a text of arguments.
func (s *search) text(at []string, was string) *edit.Site {
	l, n, own := s.written(at)
	if n == nil || !own || n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null" {
		return s.put(at, func(to string) (string, error) {
			changed, err := s.changed(strings.Fields(was), to)
			return strconv.Quote(strings.Join(changed, " ")), err
		})
	}
	line, err := command.ReadText(l.container(at), &edit.Value{Doc: l.doc, Node: n, Path: name(l, at)})
	if err != nil {
		return nil
	}
	return s.inLine(line)
}

// inLine returns the site of the flag on a command line.
func (s *search) inLine(line *command.Line) *edit.Site {
	hits, err := line.Hits(s.w.Flag.Name)
	if err != nil {
		return nil
	}
	if len(hits) == 0 {
		site, err := line.Missing(s.w.Flag)
		if err != nil {
			return nil
		}
		return site
	}
	h, rival, err := command.Last(hits)
	if err != nil || rival != nil {
		return nil
	}
	site := h.Site()
	if set := site.Set; s.w.Flag.Switch && h.Form == "boolean" {
		site.Set = func(to string) (edit.Splice, error) {
			if to == "false" {
				return h.Unset()
			}
			return set(to)
		}
	}
	return site
}

// changed returns arguments with a flag set.
func (s *search) changed(args []string, to string) ([]string, error) {
	words, err := command.FlagWords(s.w.Flag, to, false, false)
	if err != nil {
		return nil, err
	}
	var out []string
	flag := "--" + command.Dashes(s.w.Flag.Name)
	for i := 0; i < len(args); i++ {
		name, _, _ := strings.Cut(args[i], "=")
		switch pair := i+1 < len(args) && !strings.HasPrefix(args[i+1], "-"); {
		case command.Dashes(name) != flag:
			out = append(out, args[i])
		case name == args[i] && pair && to != "true" && to != "false":
			i++
		}
	}
	return append(out, words...), nil
}

// pairs returns the site of a variable in a list of names and values.
func (s *search) pairs(at []string) *edit.Site {
	l, n, own := s.written(at)
	pair := func(to string) string { return "{name: " + s.w.Names[0] + ", value: " + strconv.Quote(to) + "}" }
	switch {
	case n == nil || edit.IsList(n) && len(n.Content) == 0:
		if own {
			parent := below(l.root, at[:len(at)-1])
			site := l.object().Site(l.doc, n, edit.Site{Path: name(l, at), Form: "values", Missing: true})
			site.Set = func(to string) (edit.Splice, error) {
				return l.doc.PutText(parent, at[len(at)-1], "["+pair(to)+"]")
			}
			return site
		}
		return s.put(at, func(to string) (string, error) { return "[" + pair(to) + "]", nil })
	case !own || !edit.IsList(n) || n.Style&yaml.FlowStyle != 0:
		return nil
	}
	site := l.object().Site(l.doc, n, edit.Site{Path: name(l, at) + "[" + s.w.Names[0] + "]", Form: "values", Missing: true})
	site.Set = func(to string) (edit.Splice, error) { return l.doc.AppendPair(n, s.w.Names[0], to) }
	return site
}

// Own reports whether a file is the chart's own defaults.
func (d Deployment) Own(file string) bool { return file == path.Join(d.Dir, "values.yaml") }
