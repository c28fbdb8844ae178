package gitops

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops/edit"
)

var (
	engineWord   = regexp.MustCompile(`^(?:vllm|sglang|trtllm-serve|text-generation-launcher|tritonserver|lmdeploy)$`)
	clients      = regexp.MustCompile(`^(?:bench|chat|complete|collect-env|run-batch)$`)                                // of an engine that runs elsewhere
	engineModule = regexp.MustCompile(`^(?:vllm|sglang|tensorrt_llm|lmdeploy|dynamo\.(?:vllm|sglang|trtllm|mocker))\b`) // dynamo.frontend serves no model
	bareEngine   = regexp.MustCompile(`(?:^|/)(?:vllm/vllm-openai|lmsysorg/sglang)(?:[:@]|$)`)                          // the entrypoint is the engine
	engineImage  = regexp.MustCompile(`(?:vllm|sglang|trt-?llm|tensorrt-?llm|dynamo|llm-d|tgi|text-generation)`)
)

// runsEngine reports whether the arguments of a command start a serving engine.
func runsEngine(args []argument) bool {
	for i, a := range args {
		if engineWord.MatchString(path.Base(a.text)) && (i+1 == len(args) || !clients.MatchString(args[i+1].text)) || i > 0 && args[i-1].text == "-m" && engineModule.MatchString(a.text) {
			return true
		}
	}
	return false
}

// isEngine reports whether a container serves the model, as far as can be told.
func (l *line) isEngine() bool {
	return runsEngine(l.args) || engineImage.MatchString(edit.Str(l.container.node, "image")) || l.container.name == "kserve-container" || len(l.argsFromEnv()) > 0
}

func (l *line) argsFromEnv() []*script {
	var out []*script
	for _, s := range l.scripts {
		if s.form == "env" {
			out = append(out, s)
		}
	}
	return out
}

// missing is the place where a flag that is not set would be added: the end of
// the engine's own arguments, where it wins over everything before it.
func (l *line) missing(v Variable) (*site, error) {
	if len(l.unknown) > 0 && len(edit.List(l.container.node, "envFrom")) > 0 {
		return nil, l.container.bad(l.container.node, "the command line takes $"+l.unknown[0]+" from envFrom, which may set --"+v.Flag)
	}
	for _, s := range l.scripts {
		if s.form == "shell" {
			return l.missingInScript(s, v)
		}
	}
	if env := l.argsFromEnv(); len(env) > 0 {
		return l.missingInScript(env[len(env)-1], v)
	}
	if len(l.seqs) > 0 {
		return l.missingInList(l.seqs[len(l.seqs)-1], v)
	}
	switch c := l.container; {
	case c.ofRuntime():
		return l.missingArgs(v, "")
	case c.object.kind == helmKind && slices.Contains([]string{"vllmServe", "imageDefault"}, edit.Str(c.node, "modelCommand")):
		return l.missingArgs(v, "the chart's own arguments come first, so that this one counts")
	}
	return nil, notFound("%s: %s has neither command nor args to add --%s to", l.container.object, l.container.path, v.Flag)
}

// place of a flag that is not there.
func (l *line) nowhere(at, form string, v Variable) Place {
	why := "not set; added at the end of the engine's own arguments"
	if len(l.unknown) > 0 {
		why += " ($" + l.unknown[0] + " is not set in the manifest)"
	}
	if l.container.ofRuntime() {
		why += "; the runtime may set it: its arguments come first, so that this one counts"
	}
	if l.note != "" {
		why += "; " + l.note
	}
	return Place{Path: at + "[--" + dashes(v.Flag) + "]", Form: form, Missing: true, Container: l.container.name, Why: why}
}

// missingInList adds to command or args.
func (l *line) missingInList(at seqAt, v Variable) (*site, error) {
	if strings.HasSuffix(at.path, ".command") && !runsEngine(l.args) {
		return nil, notFound("%s: %s starts no engine that is known, and has no args to add --%s to", l.container.object, l.container.path, v.Flag)
	}
	if at.doc == nil {
		return nil, isUnset(l.container.bad(at.node, at.path+" is put together by patches: add --"+v.Flag+" in one of them"))
	}
	if a := l.embedded(); a != nil {
		return nil, l.container.bad(a.node, at.path+" hands a whole command to another program: add --"+v.Flag+" in it by hand")
	}
	var words []string
	for _, item := range at.node.Content {
		words = append(words, edit.Str(item))
	}
	pairs, underscores := habits(words)
	form := "--flag=value"
	if pairs {
		form = "--flag value"
	}
	s := l.container.object.site(at.doc, at.node, l.nowhere(at.path, form, v))
	if n := len(at.node.Content); n > 0 {
		s.place.Line, s.place.Column = at.doc.Position(at.node.Content[n-1])
	}
	s.set = func(value string) (edit.Splice, error) {
		added, err := flagWords(v, value, pairs && !strings.HasPrefix(value, "-"), underscores)
		if err != nil {
			return edit.Splice{}, err
		}
		return at.doc.AppendItems(at.node, added...)
	}
	return s, nil
}

// embedded is an argument that is itself a command which starts an engine, for
// a program that is not known to be a shell: su -c "vllm serve m". nil: none is.
func (l *line) embedded() *argument {
	for i := range l.args {
		sh, err := shellWords(l.args[i].text)
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

// missingArgs adds a list of arguments where there is none and those of a
// runtime or a chart stay, and come first.
func (l *line) missingArgs(v Variable, why string) (*site, error) {
	c := l.container
	doc := c.object.docOf(c.node)
	if doc == nil {
		return nil, c.bad(c.node, c.path+" is put together by patches: add args in one of them")
	}
	place := l.nowhere(c.path+".args", "--flag=value", v)
	if why != "" {
		place.Why = "not set; " + why
	}
	s := c.object.site(doc, c.node, place)
	s.set = func(value string) (edit.Splice, error) {
		added, err := flagWords(v, value, false, false)
		if err != nil {
			return edit.Splice{}, err
		}
		return doc.AddList(c.node, "args", added[0])
	}
	return s, nil
}

// habits tells how a list writes its flags: the last one with a value counts.
func habits(words []string) (pairs, underscores bool) {
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
		case i+1 < len(words) && !strings.HasPrefix(words[i+1], "-") && !toggles.MatchString(dashes(name)):
			pairs = true
		}
	}
	return pairs, underscores && !dashed
}

// flagWords writes a flag as one or two words.
func flagWords(v Variable, value string, pairs, underscores bool) ([]string, error) {
	name := dashes(v.Flag)
	switch {
	case value == "false" && v.Switch:
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
