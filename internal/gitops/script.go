package gitops

import (
	"fmt"
	"github.com/inference-responder/responder/internal/gitops/edit"
	"strings"
)

// missingInScript adds to the engine's command of a shell script, or to a
// variable that holds further arguments.
func (l *line) missingInScript(s *script, v Variable) (*site, error) {
	if s.doc == nil {
		return nil, l.container.bad(s.node, s.path+" is put together by patches: add --"+v.Flag+" in one of them")
	}
	words, err := l.engineCommand(s)
	if err != nil {
		return nil, err
	}
	var texts []string
	for _, w := range words {
		texts = append(texts, w.text)
	}
	pairs, underscores := habits(texts)
	end, sep := s.begin, ""
	if len(words) > 0 {
		end = words[len(words)-1].end
		sep = s.separator(words)
	}
	place := s.doc
	out := l.container.object.site(place, s.node, l.nowhere(s.path, s.form, v))
	out.at(end)
	out.set = func(value string) (edit.Splice, error) {
		if !harmless(value) {
			return edit.Splice{}, s.doc.Invalid(s.node, fmt.Sprintf("the value %q would be shell syntax in %s", edit.Clip(value), s.path))
		}
		added, err := flagWords(v, value, pairs && !strings.HasPrefix(value, "-"), underscores)
		if err != nil {
			return edit.Splice{}, err
		}
		return s.insert(end, sep+strings.Join(added, " "))
	}
	return out, nil
}

// engineCommand gives the words of the simple command that starts the engine.
func (l *line) engineCommand(s *script) ([]word, error) {
	commands := map[int][]word{}
	for _, w := range s.shell.words {
		if !w.redirect {
			commands[w.command] = append(commands[w.command], w)
		}
	}
	if s.form == "env" || len(commands) == 1 {
		for _, words := range commands {
			return words, nil
		}
		return nil, nil
	}
	var found []int
	for n, words := range commands {
		var args []argument
		for i := range words {
			args = append(args, s.argument(&words[i]))
		}
		if startsEngine(args) {
			found = append(found, n)
		}
	}
	if len(found) != 1 {
		return nil, l.container.bad(s.node, fmt.Sprintf("%s has %d commands that start an engine: nothing tells where a flag belongs", s.path, len(found)))
	}
	return commands[found[0]], nil
}

// separator is what stands between the script's flags: a space, or a line
// continuation and an indentation.
func (s *script) separator(words []word) string {
	text := s.node.Value
	for i := len(words) - 1; i > 0; i-- {
		between := text[words[i-1].end:words[i].begin]
		if strings.HasPrefix(words[i].text, "-") && strings.Trim(between, " \\\n\t") == "" && between != "" {
			return between
		}
	}
	return " "
}

// insert adds text behind a word.
func (s *script) insert(at int, text string) (edit.Splice, error) {
	if strings.TrimSpace(s.node.Value) == "" {
		return s.doc.SetScalar(s.node, strings.TrimSpace(text))
	}
	return s.doc.ReplaceText(s.node, at, at, text)
}

// without takes words first to last away, with what separates them from the
// word before.
func (s *script) without(first, last *word) (edit.Splice, error) {
	begin := -1
	for i := range s.shell.words {
		if s.shell.words[i].begin == first.begin && i > 0 && s.shell.words[i-1].command == first.command {
			begin = s.shell.words[i-1].end
		}
	}
	if begin >= 0 {
		return s.doc.ReplaceText(s.node, begin, last.end, "")
	}
	return edit.Splice{}, s.doc.Invalid(s.node, "is the first word of its command: remove it by hand")
}
