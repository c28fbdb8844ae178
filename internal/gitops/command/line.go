package command

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/inference-responder/responder/internal/gitops/edit"
	"go.yaml.in/yaml/v3"
)

// Container is the container that a command line belongs to.
type Container struct {
	Object *edit.Object
	Name   string
	Path   string     // in the object, for people
	Node   *yaml.Node // of the container
	Whole  bool       // args is one command line, which the operator passes to a shell

	// What the operator runs where the command line does not tell.
	Backend string // engine; empty: not known
	Other   string // a program that is no engine; empty: not known
	Unknown string // of a model: why its runtime may set flags that are not known; empty: the runtime is in the tree

	// Environment returns a variable of the container, or nil if it has none of
	// that name.
	Environment func(name string) (*edit.Value, error)
}

// OfRuntime reports whether KServe takes the command line from a runtime and
// appends the container's own arguments.
func (c Container) OfRuntime() bool {
	return c.Object.Kind == "InferenceService" && strings.HasSuffix(c.Path, ".model")
}

// argument is one word of a command line and where it is written.
type argument struct {
	text    string
	doc     *edit.Document // nil: put together from several documents
	node    *yaml.Node     // the scalar that holds it
	seq     *yaml.Node     // the list that the scalar is an item of; nil: the argument is a word of a script
	index   int            // in seq
	word    *word          // of a script
	script  *script
	form    string // where the words of a script stand: "shell", "env"
	path    string // of the list or script, for people
	command int    // number of the simple command it belongs to
}

// script is a text that a shell splits into words, and where it is written.
type script struct {
	doc   *edit.Document
	node  *yaml.Node
	begin int // of the script in the scalar's value
	shell *words
	form  string
	path  string
}

// Line is the command line of a container.
type Line struct {
	container Container
	Note      string // for people, where the flag may also be set

	args     []argument
	scripts  []*script
	seqs     []seqAt         // lists of arguments
	unknown  []string        // variables that the manifest does not set
	hidden   []string        // of those, the ones that may hold flags
	assigned map[string]bool // variables that a script sets
}

type seqAt struct {
	doc  *edit.Document
	node *yaml.Node
	path string
}

// maxWords limits the items of one command line.
const maxWords = 2000

// extraArgs has the variables that entrypoints append to the command line.
var extraArgs = []string{"VLLM_ADDITIONAL_ARGS", "VLLM_EXTRA_ARGS"}

// ReadList returns the command line that consists of one list of arguments. Its
// path is for people.
func ReadList(c Container, list *yaml.Node, path string) (*Line, error) {
	l := &Line{container: c}
	if !edit.IsList(list) {
		return l, nil
	}
	args, err := l.list(list, path)
	l.args = args
	return l, err
}

// ReadLine reads command and args of a container as Kubernetes and a shell do.
func ReadLine(c Container) (*Line, error) {
	l := &Line{container: c}
	var items []argument
	for _, key := range []string{"command", "args"} {
		n := edit.Get(c.Node, key)
		if n == nil || n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" {
			continue
		}
		at := c.Path + "." + key
		if !edit.IsList(n) {
			return nil, c.Object.Invalid(n, at+" is not a list")
		}
		added, err := l.list(n, at)
		if err != nil {
			return nil, err
		}
		items = append(items, added...)
		if len(items) > maxWords {
			return nil, c.Object.Invalid(n, fmt.Sprintf("%s has more than %d items", at, maxWords))
		}
	}
	if i := c.scriptIndex(items); i >= 0 {
		if err := l.readScript(items[i], items[i+1:]); err != nil {
			return nil, err
		}
	} else {
		l.args = items
	}
	return l, l.additional()
}

// Empty reports whether the command line has no arguments.
func (l *Line) Empty() bool { return len(l.args) == 0 }

// list returns the items of a list of arguments.
func (l *Line) list(n *yaml.Node, at string) ([]argument, error) {
	c := l.container
	whole := c.Object.DocOf(n)
	l.seqs = append(l.seqs, seqAt{whole, n, at})
	var items []argument
	for i, raw := range n.Content {
		item := edit.Deref(raw)
		if item == nil || item.Kind != yaml.ScalarNode {
			return nil, c.Object.Invalid(raw, "an item of "+at+" is not a text")
		}
		doc := whole
		if doc == nil {
			doc = c.Object.DocOf(item)
		}
		a := argument{text: item.Value, doc: doc, node: item, seq: n, index: i, path: at}
		if name := VariableName(item.Value); name != "" && strings.HasPrefix(item.Value, "$(") {
			whole, err := l.whole(name, i == 0 || !positional(items[len(items)-1].text))
			if err != nil {
				return nil, err
			}
			if whole != nil {
				a = *whole
			}
		}
		items = append(items, a)
	}
	return items, nil
}

// positional reports whether the word after this one is no flag of its own: it is a
// value, or the model.
func positional(text string) bool {
	return text == "serve" || strings.HasPrefix(text, "-") && !strings.Contains(text, "=") && !toggles.MatchString(Dashes(strings.TrimLeft(text, "-")))
}

// whole returns the flag that a variable holds, in one word as Kubernetes fills it
// in, or nil if it holds no flag. flag reports whether the word may be one.
func (l *Line) whole(name string, flag bool) (*argument, error) {
	v, err := l.container.Environment(name)
	switch {
	case err != nil:
		return nil, err
	case v == nil || v.Node == nil:
		if flag {
			l.hides(name, v)
		}
		return nil, nil
	case !strings.HasPrefix(v.Text(), "--"):
		return nil, nil
	}
	w := word{text: v.Text(), begin: v.Begin, end: v.Begin + len(v.Text())}
	for i := range w.text {
		w.from, w.to = append(w.from, v.Begin+i), append(w.to, v.Begin+i+1)
	}
	s := &script{doc: v.Doc, node: v.Node, begin: v.Begin, shell: &words{words: []word{w}}, form: "env", path: v.Path}
	a := s.argument(&s.shell.words[0])
	return &a, nil
}

// hides records a variable that may set a flag and whose value is not in the tree.
func (l *Line) hides(name string, v *edit.Value) {
	if v != nil || len(edit.List(l.container.Node, "envFrom")) > 0 {
		l.hidden = append(l.hidden, name)
	}
}

// readScript splits a script into words. rest has the words that $@ expands to.
func (l *Line) readScript(item argument, rest []argument) error {
	words, err := split(item.text)
	if err != nil {
		return l.container.Object.Invalid(item.node, item.path+" is a shell script that cannot be read safely: "+err.Error())
	}
	s := &script{doc: item.doc, node: item.node, shell: words, form: "shell", path: item.path}
	l.scripts = append(l.scripts, s)
	l.assigned = words.assigned
	for i := range words.words {
		w := &words.words[i]
		name := VariableName(w.text)
		switch {
		case w.redirect:
		case w.text == "$@" || w.text == "${@}":
			for j, r := range rest {
				if j > 0 { // the first is $0
					r.command = w.command
					l.args = append(l.args, r)
				}
			}
		case name != "" && w.bare:
			known, err := l.expand(name, w.command)
			if err != nil {
				return err
			}
			if !known {
				l.args = append(l.args, s.argument(w))
			}
		default:
			l.args = append(l.args, s.argument(w))
		}
	}
	return nil
}

func (s *script) argument(w *word) argument {
	return argument{text: w.text, doc: s.doc, node: s.node, word: w, script: s, form: s.form, path: s.path, command: w.command}
}

var variable = regexp.MustCompile(`^\$(?:([A-Za-z_][A-Za-z0-9_]*)|\{([A-Za-z_][A-Za-z0-9_]*)\}|\(([A-Za-z_][A-Za-z0-9_]*)\))$`)

// VariableName returns the name of the variable that a word consists of, or "".
func VariableName(word string) string {
	m := variable.FindStringSubmatch(word)
	if m == nil {
		return ""
	}
	return m[1] + m[2] + m[3]
}

// expand adds the words of an environment variable to the command line. It
// reports whether the manifest sets the variable.
func (l *Line) expand(name string, command int) (known bool, err error) {
	v, err := l.container.Environment(name)
	if err != nil {
		return false, err
	}
	if v == nil || v.Node == nil {
		l.unknown = append(l.unknown, name)
		if n := len(l.args); n == 0 || l.args[n-1].command != command || !positional(l.args[n-1].text) {
			l.hides(name, v)
		}
		return false, nil
	}
	if err := l.CheckAssigned(name, l.container.Node); err != nil {
		return false, err
	}
	return true, l.words(v, command)
}

// words adds the words of a variable's value to the command line.
func (l *Line) words(v *edit.Value, command int) error {
	if v.ConfigMap && strings.Contains(v.Text(), "$(") {
		return v.Doc.Invalid(v.Node, v.Path+" has $(...), which nothing fills in in a ConfigMap")
	}
	sh, err := split(v.Text())
	if err != nil {
		return l.container.Object.Invalid(v.Node, v.Path+" cannot be split into words safely: "+err.Error())
	}
	for i := range sh.words {
		sh.words[i].shift(v.Begin)
	}
	for i := range sh.comments {
		sh.comments[i][0] += v.Begin
		sh.comments[i][1] += v.Begin
	}
	s := &script{doc: v.Doc, node: v.Node, begin: v.Begin, shell: sh, form: "env", path: v.Path}
	l.scripts = append(l.scripts, s)
	for i := range sh.words {
		a := s.argument(&sh.words[i])
		a.command = command
		l.args = append(l.args, a)
	}
	return nil
}

// shift moves the places of a word that was read from the middle of a text.
func (w *word) shift(by int) {
	w.begin, w.end = w.begin+by, w.end+by
	for i := range w.from {
		w.from[i] += by
		w.to[i] += by
	}
}

// additional adds the words of the variables that an image's entrypoint or an
// operator's preset appends. They do so only where the container has no command
// line of its own.
func (l *Line) additional() error {
	if len(l.seqs) > 0 {
		return nil
	}
	for _, name := range extraArgs {
		v, err := l.container.Environment(name)
		if err != nil {
			return err
		}
		if v == nil || v.Node == nil || l.used(v.Node) {
			continue
		}
		command := 0
		if len(l.args) > 0 {
			command = l.args[len(l.args)-1].command
		}
		if err := l.words(v, command); err != nil {
			return err
		}
	}
	return nil
}

// used reports whether a script of the command line is in the scalar.
func (l *Line) used(n *yaml.Node) bool {
	for _, s := range l.scripts {
		if s.node == n {
			return true
		}
	}
	return false
}

var (
	shells = regexp.MustCompile(`^(?:ba|da|a|z|k)?sh$`)
	// scriptOption begins a list of arguments if the image or the operator starts
	// the shell. vLLM has similar options: -cc, -sc.
	scriptOption = regexp.MustCompile(`^-[eiluvx]*c[eiluvx]*$`)
	shellOption  = regexp.MustCompile(`^[-+][a-zA-Z]+$`)
)

// scriptIndex returns the item that a shell runs as a script, or -1. Another
// program may start the shell: tini, env, numactl.
func (c Container) scriptIndex(items []argument) int {
	switch {
	case len(items) == 0:
		return -1
	case c.Whole && len(items) == 1 && strings.Contains(items[0].text, " "):
		return 0
	case !edit.IsList(edit.Get(c.Node, "command")) && scriptOption.MatchString(items[0].text):
		if i := afterOptions(items, 0); i >= 0 {
			return i
		}
	}
	for i, item := range items {
		if !shells.MatchString(path.Base(item.text)) {
			continue
		}
		if at := afterOptions(items, i+1); at >= 0 {
			return at
		}
	}
	return -1
}

// afterOptions returns the index of the item after a shell's options if one of
// them is -c, or -1.
func afterOptions(items []argument, at int) int {
	command := false
	for ; at < len(items); at++ {
		option := items[at].text
		if option == "--" {
			at++
			break
		}
		switch long := strings.HasPrefix(option, "--"); {
		case option == "--rcfile" || option == "--init-file":
			at++
		case long:
		case !shellOption.MatchString(option):
			return scriptAt(command, items, at)
		default:
			command = command || option[0] == '-' && strings.Contains(option, "c")
			if strings.ContainsAny(option, "oO") {
				at++ // -eo pipefail
			}
		}
	}
	return scriptAt(command, items, at)
}

func scriptAt(command bool, items []argument, at int) int {
	if !command || at >= len(items) {
		return -1
	}
	return at
}

// CheckAssigned returns an error about a node if the script sets the variable: its
// value in the manifest may not take effect.
func (l *Line) CheckAssigned(name string, n *yaml.Node) error {
	if !l.assigned[name] {
		return nil
	}
	return l.container.Object.Invalid(n, fmt.Sprintf("the script sets $%s itself, so that what the manifest says of it may not count", name))
}

// ReadText returns the command line that a text holds.
func ReadText(c Container, v *edit.Value) (*Line, error) {
	l := &Line{container: c}
	return l, l.words(v, 0)
}
