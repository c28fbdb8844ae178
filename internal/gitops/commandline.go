package gitops

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops/edit"
	"go.yaml.in/yaml/v3"
)

// argument is one word of an engine's command line, and where it is written.
type argument struct {
	text    string
	doc     *edit.Document // nil: put together from several
	node    *yaml.Node     // the scalar that holds it
	seq     *yaml.Node     // the list that the scalar is an item of; nil: a word of a script
	index   int            // in seq
	word    *word          // of a script
	script  *script
	form    string // where the words of a script stand: "shell", "env"
	path    string // of the list or script, for people
	command int    // number of the simple command
}

// script is a text that a shell splits into words.
type script struct {
	doc   *edit.Document
	node  *yaml.Node
	begin int // of the script in the scalar's text
	shell *shell
	form  string
	path  string
}

// line is a container's whole command line.
type line struct {
	container container
	args      []argument
	scripts   []*script
	seqs      []seqAt         // lists that hold words of their own
	unknown   []string        // variables that the manifest does not set
	assigned  map[string]bool // variables that a script sets itself
	note      string          // for people, about where else the flag may be
}

type seqAt struct {
	doc  *edit.Document
	node *yaml.Node
	path string
}

// maxWords limits the items of one command line.
const maxWords = 2000

// extraArgs are variables that entrypoints add to the command line.
var extraArgs = []string{"VLLM_ADDITIONAL_ARGS", "VLLM_EXTRA_ARGS"}

// commandLine reads command and args as Kubernetes and then a shell do.
func (c container) commandLine() (*line, error) {
	l := &line{container: c}
	var items []argument
	for _, key := range []string{"command", "args"} {
		n := edit.Get(c.node, key)
		if n == nil || n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" {
			continue
		}
		at := c.path + "." + key
		if !edit.IsList(n) {
			return nil, c.bad(n, at+" is not a list")
		}
		added, err := l.list(n, at)
		if err != nil {
			return nil, err
		}
		items = append(items, added...)
		if len(items) > maxWords {
			return nil, c.bad(n, fmt.Sprintf("%s has more than %d items", at, maxWords))
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

// list gives the items of a list of arguments.
func (l *line) list(n *yaml.Node, at string) ([]argument, error) {
	c := l.container
	whole := c.object.docOf(n)
	l.seqs = append(l.seqs, seqAt{whole, n, at})
	var items []argument
	for i, raw := range n.Content {
		item := edit.Deref(raw)
		if item == nil || item.Kind != yaml.ScalarNode {
			return nil, c.bad(raw, "an item of "+at+" is not a text")
		}
		doc := whole
		if doc == nil {
			doc = c.object.docOf(item)
		}
		items = append(items, argument{text: item.Value, doc: doc, node: item, seq: n, index: i, path: at})
	}
	return items, nil
}

func (c container) bad(n *yaml.Node, message string) error {
	if d := c.object.docOf(n); d != nil {
		return d.Invalid(n, message)
	}
	return &fault.Error{Reason: fault.Invalid, Message: c.object.String() + ": " + message}
}

// readScript splits a script into words; rest is what $@ stands for in it.
func (l *line) readScript(item argument, rest []argument) error {
	words, err := shellWords(item.text)
	if err != nil {
		return l.container.bad(item.node, item.path+" is a shell script that cannot be read safely: "+err.Error())
	}
	s := &script{doc: item.doc, node: item.node, shell: words, form: "shell", path: item.path}
	l.scripts = append(l.scripts, s)
	l.assigned = words.assigned
	for i := range words.words {
		w := &words.words[i]
		name := variableName(w.text)
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

// variableName is the variable that a word consists of; empty: it is none.
func variableName(word string) string {
	m := variable.FindStringSubmatch(word)
	if m == nil {
		return ""
	}
	return m[1] + m[2] + m[3]
}

// expand puts the words of an environment variable into the command line, when
// the manifest sets it.
func (l *line) expand(name string, command int) (known bool, err error) {
	v, err := l.container.environment(name)
	if err != nil {
		return false, err
	}
	if v == nil || v.node == nil {
		l.unknown = append(l.unknown, name)
		return false, nil
	}
	if l.assigned[name] {
		return false, l.container.bad(l.container.node, l.reassigned(name))
	}
	return true, l.words(v, command)
}

// words adds the words of a variable's value.
func (l *line) words(v *envVar, command int) error {
	if v.held && strings.Contains(v.value(), "$(") {
		return v.doc.Invalid(v.node, v.path+" has $(...), which nothing fills in in a ConfigMap")
	}
	sh, err := shellWords(v.value())
	if err != nil {
		return l.container.bad(v.node, v.path+" cannot be split into words safely: "+err.Error())
	}
	for i := range sh.words {
		sh.words[i].shift(v.begin)
	}
	for i := range sh.comments {
		sh.comments[i][0] += v.begin
		sh.comments[i][1] += v.begin
	}
	s := &script{doc: v.doc, node: v.node, begin: v.begin, shell: sh, form: "env", path: v.path}
	l.scripts = append(l.scripts, s)
	for i := range sh.words {
		a := s.argument(&sh.words[i])
		a.command = command
		l.args = append(l.args, a)
	}
	return nil
}

// shift moves a word that was read from the middle of a text.
func (w *word) shift(by int) {
	w.begin, w.end = w.begin+by, w.end+by
	for i := range w.from {
		w.from[i] += by
		w.to[i] += by
	}
}

// additional adds the words of variables that an entrypoint or a preset of the
// operator reads without the manifest saying so: where the container has no
// command line of its own.
func (l *line) additional() error {
	if len(l.seqs) > 0 {
		return nil
	}
	for _, name := range extraArgs {
		v, err := l.container.environment(name)
		if err != nil {
			return err
		}
		if v == nil || v.node == nil || l.used(v.node) {
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

func (l *line) used(n *yaml.Node) bool {
	for _, s := range l.scripts {
		if s.node == n {
			return true
		}
	}
	return false
}
