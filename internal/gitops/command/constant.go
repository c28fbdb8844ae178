package command

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/inference-responder/responder/internal/gitops/edit"
)

// withDefault matches ${NAME:-default}.
var withDefault = regexp.MustCompile(`^\$\{([A-Za-z_][A-Za-z0-9_]*):?-([^${}"'` + "`" + `\\ ]+)\}$`)

// Default returns the name and the default of ${NAME:-default}.
func Default(word string) (name, value string, ok bool) {
	m := withDefault.FindStringSubmatch(word)
	if m == nil {
		return "", "", false
	}
	return m[1], m[2], true
}

// Constant returns the site of the value that the script itself gives a variable: a
// constant, or a default where the manifest does not set the variable. It is nil if
// the script does not always set it so. from is the site of the flag.
func (l *Line) Constant(name string, from *edit.Site) (*edit.Site, error) {
	for i := range l.args {
		a := &l.args[i]
		if a.word == nil || a.script == nil || a.script.form != "shell" {
			continue
		}
		begin, always := a.script.shell.constant[name]
		if !always || a.word.begin != begin || !strings.HasPrefix(a.text, name+"=") {
			continue
		}
		if used := l.use(from); used == nil || used.word == nil || used.word.begin < begin {
			return nil, nil
		}
		if n := l.uses(name, l.use(from)); n > 1 {
			return nil, l.container.Object.Invalid(a.node, fmt.Sprintf("%d flags take their values from $%s, which the script sets", n, name))
		}
		value := a.text[len(name)+1:]
		if of, fallback, ok := Default(value); ok && of == name {
			return l.part(a, len(a.text)-1-len(fallback), len(a.text)-1, from)
		}
		if a.word.expands {
			return nil, nil
		}
		return l.part(a, len(name)+1, len(a.text), from)
	}
	return nil, nil
}

// DefaultSite returns the site of the default in --flag=${NAME:-default}.
func (h Hit) DefaultSite() (*edit.Site, error) {
	a := &h.line.args[h.last]
	_, value, ok := Default(h.Value)
	if !ok {
		return nil, nil
	}
	return h.line.part(a, len(a.text)-1-len(value), len(a.text)-1, h.Site())
}

// uses returns how many words of the command that a word belongs to take a variable.
func (l *Line) uses(name string, of *argument) int {
	n := 0
	for _, a := range l.args {
		if a.command == of.command && regexp.MustCompile(`\$\{?`+name+`\b`).MatchString(a.text) {
			n++
		}
	}
	return n
}

// use returns the argument that a site is in.
func (l *Line) use(s *edit.Site) *argument {
	for i := len(l.args) - 1; i >= 0; i-- {
		if l.args[i].node == s.Node && l.args[i].word != nil && strings.Contains(l.args[i].text, "$") {
			return &l.args[i]
		}
	}
	return nil
}

// part returns the site of a part of a word of a script that sets a variable.
func (l *Line) part(a *argument, from, to int, flag *edit.Site) (*edit.Site, error) {
	begin, end, ok := a.span(from, to)
	if !ok || a.doc == nil {
		return nil, l.container.Object.Invalid(a.node, "the value is put together from several parts: write it as one")
	}
	s := l.container.Object.Site(a.doc, a.node, edit.Site{
		Path: flag.Path, Form: "shell", Value: a.text[from:to], Container: l.container.Name,
		Why: "the script sets the variable that the flag takes its value from",
	})
	s.At(begin)
	s.Set = func(value string) (edit.Splice, error) {
		if !harmless(value) {
			return edit.Splice{}, a.doc.Invalid(a.node, fmt.Sprintf("the value %q would be shell syntax in %s", edit.Clip(value), a.path))
		}
		return a.doc.ReplaceText(a.node, begin, end, value)
	}
	return s, nil
}
