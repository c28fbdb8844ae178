package command

import (
	"fmt"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops/edit"
)

// Hidden reports whether a variable whose value is not in the tree may set flags.
func (l *Line) Hidden() bool { return len(l.hidden) > 0 }

// Missing returns the site at which a flag that is not set would be added: the end
// of the engine's own arguments, where it overrides everything before it.
func (l *Line) Missing(f Flag) (*edit.Site, error) {
	if len(l.hidden) > 0 {
		return nil, l.container.Object.Invalid(l.container.Node, "the command line takes $"+l.hidden[0]+", whose value is not in the tree, and which may set --"+f.Name)
	}
	for _, s := range l.scripts {
		if s.form == "shell" {
			return l.missingInScript(s, f)
		}
	}
	if env := l.argsFromEnv(); len(env) > 0 {
		return l.missingInScript(env[len(env)-1], f)
	}
	if len(l.seqs) > 0 {
		return l.missingInList(l.seqs[len(l.seqs)-1], f)
	}
	switch c := l.container; {
	case c.OfRuntime():
		return l.missingArgs(f, "")
	case c.Object.Kind == "Model":
		return l.missingArgs(f, "the operator's own arguments come first, so that this one counts")
	case c.Object.Kind == edit.ValuesKind && slices.Contains([]string{"vllmServe", "imageDefault"}, edit.Str(c.Node, "modelCommand")):
		return l.missingArgs(f, "the chart's own arguments come first, so that this one counts")
	}
	return nil, l.container.Object.NotFound(l.container.Path + " has neither command nor args to add --" + f.Name + " to")
}

// newSite describes the site of a flag that is not set.
func (l *Line) newSite(at, form string, f Flag) edit.Site {
	why := "not set; added at the end of the engine's own arguments"
	if l.container.Unknown != "" {
		why = "not among the service's own arguments; added at their end"
	}
	if len(l.unknown) > 0 {
		why += " ($" + l.unknown[0] + " is not set in the manifest)"
	}
	if l.container.Unknown != "" {
		why += "; the runtime may set it: its arguments come first, so that this one counts"
	}
	if l.Note != "" {
		why += "; " + l.Note
	}
	return edit.Site{Path: at + "[--" + Dashes(f.Name) + "]", Form: form, Missing: true, Unknown: l.container.Unknown, Container: l.container.Name, Why: why}
}

// missingInList returns the end of command or args.
func (l *Line) missingInList(at seqAt, f Flag) (*edit.Site, error) {
	if strings.HasSuffix(at.path, ".command") && !runsEngine(l.args) {
		return nil, l.container.Object.NotFound(l.container.Path + " starts no engine that is known, and has no args to add --" + f.Name + " to")
	}
	if at.doc == nil {
		return nil, l.container.Object.Invalid(at.node, at.path+" is assembled by patches: add --"+f.Name+" in one of them")
	}
	if a := l.embedded(); a != nil {
		return nil, l.container.Object.Invalid(a.node, at.path+" hands a whole command to another program: add --"+f.Name+" in it by hand")
	}
	var words []string
	for _, item := range at.node.Content {
		words = append(words, edit.Str(item))
	}
	pairs, underscores := flagStyle(words)
	form := "--flag=value"
	if pairs {
		form = "--flag value"
	}
	s := l.container.Object.Site(at.doc, at.node, l.newSite(at.path, form, f))
	if n := len(at.node.Content); n > 0 {
		s.Line, s.Column = at.doc.Position(at.node.Content[n-1])
	}
	s.Set = func(value string) (edit.Splice, error) {
		added, err := FlagWords(f, value, pairs && !strings.HasPrefix(value, "-"), underscores)
		if err != nil {
			return edit.Splice{}, err
		}
		return at.doc.AppendItems(at.node, added...)
	}
	return s, nil
}

// embedded returns an argument that is itself a command that starts an engine, for
// a program that is not known to be a shell, or nil: su -c "vllm serve m".
func (l *Line) embedded() *argument {
	for i := range l.args {
		sh, err := split(l.args[i].text)
		if err != nil || len(sh.words) < 2 {
			continue
		}
		words := make([]argument, len(sh.words))
		for j, w := range sh.words {
			words[j] = argument{text: w.text}
		}
		if runsEngine(words) {
			return &l.args[i]
		}
	}
	return nil
}

// missingArgs returns the site of a new list of arguments, which a runtime or a
// chart appends to its own.
func (l *Line) missingArgs(f Flag, why string) (*edit.Site, error) {
	c := l.container
	doc := c.Object.DocOf(c.Node)
	if doc == nil {
		return nil, c.Object.Invalid(c.Node, c.Path+" is assembled by patches: add args in one of them")
	}
	place := l.newSite(c.Path+".args", "--flag=value", f)
	if why != "" {
		place.Why = "not set; " + why
	}
	s := c.Object.Site(doc, c.Node, place)
	s.Set = func(value string) (edit.Splice, error) {
		added, err := FlagWords(f, value, false, false)
		if err != nil {
			return edit.Splice{}, err
		}
		return doc.AddList(c.Node, "args", added[0])
	}
	return s, nil
}

// flagStyle returns how the flags of a list are written: with their values as
// words of their own, as the last one is, and with underscores.
func flagStyle(words []string) (pairs, underscores bool) {
	dashed := false
	for i, w := range words {
		name, isFlag := strings.CutPrefix(w, "--")
		if !isFlag {
			continue
		}
		name, _, eq := strings.Cut(name, "=")
		underscores = underscores || strings.Contains(name, "_")
		dashed = dashed || strings.Contains(name, "-")
		switch {
		case eq:
			pairs = false
		case i+1 < len(words) && !strings.HasPrefix(words[i+1], "-") && !toggles.MatchString(Dashes(name)):
			pairs = true
		}
	}
	return pairs, underscores && !dashed
}

// FlagWords returns a flag and its value as one or two words.
func FlagWords(f Flag, value string, pairs, underscores bool) ([]string, error) {
	name := Dashes(f.Name)
	switch {
	case value == "false" && f.Switch:
		return nil, &fault.Error{Reason: fault.NothingToDo, Message: "--" + name + " is not set already"}
	case value == "false":
		name = "no-" + name
	}
	if underscores {
		name = strings.ReplaceAll(name, "-", "_")
	}
	switch {
	case value == "true" || value == "false":
		return []string{"--" + name}, nil
	case pairs:
		return []string{"--" + name, value}, nil
	}
	return []string{"--" + name + "=" + value}, nil
}

// missingInScript returns the end of the engine's command in a shell script, or of
// a variable that holds further arguments.
func (l *Line) missingInScript(s *script, f Flag) (*edit.Site, error) {
	if s.doc == nil {
		return nil, l.container.Object.Invalid(s.node, s.path+" is assembled by patches: add --"+f.Name+" in one of them")
	}
	words, err := l.engineCommand(s)
	if err != nil {
		return nil, err
	}
	var texts []string
	for _, w := range words {
		texts = append(texts, w.text)
	}
	pairs, underscores := flagStyle(texts)
	end, sep := s.begin, ""
	if len(words) > 0 {
		end = words[len(words)-1].end
		sep = s.separator(words)
	}
	out := l.container.Object.Site(s.doc, s.node, l.newSite(s.path, s.form, f))
	out.At(end)
	out.Set = func(value string) (edit.Splice, error) {
		if !harmless(value) {
			return edit.Splice{}, s.doc.Invalid(s.node, fmt.Sprintf("the value %q would be shell syntax in %s", edit.Clip(value), s.path))
		}
		added, err := FlagWords(f, value, pairs && !strings.HasPrefix(value, "-"), underscores)
		if err != nil {
			return edit.Splice{}, err
		}
		return s.insert(end, sep+strings.Join(added, " "))
	}
	return out, nil
}

// engineCommand returns the words of the simple command that starts the engine.
func (l *Line) engineCommand(s *script) ([]word, error) {
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
		if isEngineCommand(args) {
			found = append(found, n)
		}
	}
	if len(found) != 1 {
		return nil, l.container.Object.Invalid(s.node, fmt.Sprintf("%s has %d commands that start an engine: nothing tells where a flag belongs", s.path, len(found)))
	}
	return commands[found[0]], nil
}

// separator returns what separates the script's flags: a space, or a line
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

// insert inserts text after a word.
func (s *script) insert(at int, text string) (edit.Splice, error) {
	if strings.TrimSpace(s.node.Value) == "" {
		return s.doc.SetScalar(s.node, strings.TrimSpace(text))
	}
	return s.doc.ReplaceText(s.node, at, at, text)
}

// without removes words first to last and what separates them from the word
// before.
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
