package command

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/gitops/edit"
)

var (
	engineWord   = regexp.MustCompile(`^(?:vllm|sglang|trtllm-serve|text-generation-launcher|tritonserver|lmdeploy)$`)
	clients      = regexp.MustCompile(`^(?:bench|chat|complete|collect-env|run-batch)$`)                                // of an engine that runs elsewhere
	engineModule = regexp.MustCompile(`^(?:vllm|sglang|tensorrt_llm|lmdeploy|dynamo\.(?:vllm|sglang|trtllm|mocker))\b`) // dynamo.frontend serves no model
	bareEngine   = regexp.MustCompile(`(?:^|/)(?:vllm/vllm-openai|lmsysorg/sglang)(?:[:@]|$)`)                          // the entrypoint is the engine
	engineImage  = regexp.MustCompile(`(?:vllm|sglang|trt-?llm|tensorrt-?llm|dynamo|llm-d|tgi|text-generation)`)
)

// EntrypointIsEngine reports whether an image starts an engine without a command.
func EntrypointIsEngine(image string) bool { return bareEngine.MatchString(image) }

// StartsEngine reports whether the command line starts an engine.
func (l *Line) StartsEngine() bool { return runsEngine(l.args) }

// runsEngine reports whether the arguments of a command start a serving engine.
func runsEngine(args []argument) bool {
	for i, a := range args {
		if engineWord.MatchString(path.Base(a.text)) && (i+1 == len(args) || !clients.MatchString(args[i+1].text)) || i > 0 && args[i-1].text == "-m" && engineModule.MatchString(a.text) {
			return true
		}
	}
	return false
}

// IsEngine reports whether the container runs a serving engine, as far as its
// command line, its image and its name tell.
func (l *Line) IsEngine() bool {
	return runsEngine(l.args) || engineImage.MatchString(edit.Str(l.container.Node, "image")) || l.container.Name == "kserve-container" || len(l.argsFromEnv()) > 0
}

// argsFromEnv returns the variables that hold words of the command line.
func (l *Line) argsFromEnv() []*script {
	var out []*script
	for _, s := range l.scripts {
		if s.form == "env" {
			out = append(out, s)
		}
	}
	return out
}

// engines returns the numbers of the commands that start an engine.
func (l *Line) engines() []int {
	var out []int
	for i := 0; i < len(l.args); {
		j := i
		for j < len(l.args) && l.args[j].command == l.args[i].command {
			j++
		}
		if isEngineCommand(l.args[i:j]) {
			out = append(out, l.args[i].command)
		}
		i = j
	}
	return slices.Compact(out)
}

// isEngineCommand reports whether a command starts a serving engine. A command
// such as pip install vllm only names one.
func isEngineCommand(args []argument) bool {
	return runsEngine(args) && slices.ContainsFunc(args, func(a argument) bool { return strings.HasPrefix(a.text, "--") || a.text == "serve" })
}

// collects reports whether the words of a command are the arguments of another
// one: set -- ..., or the elements of an array.
func (l *Line) collects(a argument) bool {
	i := slices.IndexFunc(l.args, func(b argument) bool { return b.command == a.command })
	first := l.args[i]
	if first.text == "set" || strings.HasPrefix(first.text, "-") {
		return true
	}
	return first.word != nil && strings.HasSuffix(strings.TrimRight(first.node.Value[:first.word.begin], " \t\n"), "=(")
}
