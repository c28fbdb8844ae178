package command

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/inference-responder/responder/internal/gitops/edit"
)

// Program is what a container runs.
type Program struct {
	Engine bool   // it is a serving engine
	Name   string // of the engine: vllm, sglang, trtllm, ...; empty: not known
	Other  string // a program that is no engine, in words; empty: not known
}

var (
	clients    = regexp.MustCompile(`^(?:bench|chat|complete|collect-env|run-batch)$`)                       // of an engine that runs elsewhere
	bareEngine = regexp.MustCompile(`(?:^|/)(?:vllm/vllm-openai|lmsysorg/sglang)(?:[:@]|$)`)                 // the entrypoint is the engine
	routers    = regexp.MustCompile(`^(?:sglang\.launch_router|sglang\.router|sglang_router|vllm_router)\b`) // modules beside those of the engines

	// others are programs in front of, or beside, engines.
	others = regexp.MustCompile(`^(?:nginx|envoy|haproxy|traefik|caddy|istio-proxy|(?:vllm|sglang)-router|smg|epp|endpoint-picker|redis-server|lmcache_server|lmcache_controller|etcd|nats-server)$`)
	// otherImage matches the last part of the path of images of such programs.
	otherImage = regexp.MustCompile(`(?:^|[-_])(?:nginx|envoy|proxyv2|haproxy|traefik|router|epp|endpoint-picker|inference-scheduler|routing-sidecar|gateway|redis|busybox|prometheus|fluentd|fluent-bit|otel|exporter)(?:[-_]|$)`)
)

// engines has the programs, modules and images of each engine.
var engines = []struct {
	name                string
	word, module, image *regexp.Regexp
}{
	{"vllm", regexp.MustCompile(`^vllm$`), regexp.MustCompile(`^(?:vllm|dynamo\.vllm)(?:\.|$)`), regexp.MustCompile(`vllm|llm-d`)},
	{"sglang", regexp.MustCompile(`^sglang$`), regexp.MustCompile(`^(?:sglang|dynamo\.sglang)(?:\.|$)`), regexp.MustCompile(`sglang`)},
	{"trtllm", regexp.MustCompile(`^trtllm-serve$`), regexp.MustCompile(`^(?:tensorrt_llm|dynamo\.trtllm)(?:\.|$)`), regexp.MustCompile(`trt-?llm|tensorrt-?llm`)},
	{"tgi", regexp.MustCompile(`^text-generation-launcher$`), regexp.MustCompile(`^text_generation_server(?:\.|$)`), regexp.MustCompile(`tgi|text-generation`)},
	{"triton", regexp.MustCompile(`^tritonserver$`), regexp.MustCompile(`^$`), regexp.MustCompile(`tritonserver`)},
	{"lmdeploy", regexp.MustCompile(`^lmdeploy$`), regexp.MustCompile(`^lmdeploy(?:\.|$)`), regexp.MustCompile(`lmdeploy`)},
}

// flagsOf has flags that only one engine has, and flags that engines share ("").
var flagsOf = map[string][]string{
	"vllm":   {"max-model-len", "gpu-memory-utilization", "max-num-seqs", "max-num-batched-tokens", "enable-prefix-caching", "enable-chunked-prefill"},
	"sglang": {"model-path", "mem-fraction-static", "context-length", "max-running-requests", "chunked-prefill-size", "tp-size"},
	"":       {"model", "served-model-name", "tensor-parallel-size", "block-size"},
}

// EntrypointIsEngine reports whether an image starts an engine without a command.
func EntrypointIsEngine(image string) bool { return bareEngine.MatchString(image) }

// StartsEngine reports whether the command line starts an engine.
func (l *Line) StartsEngine() bool { return runsEngine(l.args) }

// runsEngine reports whether the arguments of a command start a serving engine.
func runsEngine(args []argument) bool { return programOf(args).Engine }

// programOf returns the program that a command line starts. An engine counts before
// what runs beside it.
func programOf(args []argument) Program {
	var beside Program
	for i := range args {
		p := program(args, i)
		if p.Engine {
			return p
		}
		if p.Other != "" && beside.Other == "" {
			beside = p
		}
	}
	return beside
}

// program returns the program that one word starts.
func program(args []argument, i int) Program {
	text := args[i].text
	if i > 0 && args[i-1].text == "-m" {
		return module(text)
	}
	word := path.Base(text)
	begins := i == 0 || args[i-1].command != args[i].command || args[i-1].text == "exec" || args[i-1].text == "--"
	next := ""
	if i+1 < len(args) && args[i+1].command == args[i].command {
		next = args[i+1].text
	}
	for _, e := range engines {
		switch {
		case !e.word.MatchString(word):
		case clients.MatchString(next):
			return Program{Other: word + " " + next}
		default:
			return Program{Engine: true, Name: e.name}
		}
	}
	switch {
	case word == "ray" && next == "start", word == "multi-node-serving.sh" && next == "worker":
		return Program{Other: "Ray"}
	case begins && others.MatchString(word):
		return Program{Other: word}
	}
	return Program{}
}

// module returns the program that a module of Python is.
func module(name string) Program {
	if routers.MatchString(name) {
		return Program{Other: name}
	}
	for _, e := range engines {
		if e.module.MatchString(name) {
			return Program{Engine: true, Name: e.name}
		}
	}
	switch {
	case name == "dynamo.mocker":
		return Program{Engine: true}
	case strings.HasPrefix(name, "dynamo."):
		return Program{Other: name}
	}
	return Program{}
}

// Program returns what the container runs: as its command line tells, or else its
// operator, its image or its flags. The arguments of a container alone do
// not make it an engine.
func (l *Line) Program() Program {
	c := l.container
	if p := programOf(l.args); p != (Program{}) {
		return p
	}
	if c.Other != "" || c.Backend != "" {
		return Program{Engine: c.Other == "", Name: c.Backend, Other: c.Other}
	}
	image, _, _ := strings.Cut(edit.Str(c.Node, "image"), "@")
	image = strings.ToLower(image)
	last := path.Base(image)
	last, _, _ = strings.Cut(last, ":")
	if otherImage.MatchString(last) {
		return Program{Other: last}
	}
	name := strings.ToLower(c.Name)
	for _, e := range engines {
		if e.image.MatchString(image) {
			return Program{Engine: true, Name: e.name}
		}
	}
	if strings.Contains(image, "dynamo") || name == "kserve-container" || len(l.argsFromEnv()) > 0 {
		return Program{Engine: true, Name: l.byFlags().Name}
	}
	return l.byFlags()
}

// NamedEngine reports whether the container has the name of an engine.
func (l *Line) NamedEngine() bool {
	for _, e := range engines {
		if e.image.MatchString(strings.ToLower(l.container.Name)) {
			return true
		}
	}
	return false
}

// byFlags returns the engine whose flags the command line has.
func (l *Line) byFlags() Program {
	var p Program
	for _, a := range l.args {
		name, isFlag := strings.CutPrefix(Dashes(cutEq(a.text)), "--")
		if !isFlag {
			continue
		}
		for engine, flags := range flagsOf {
			if !slices.Contains(flags, strings.TrimPrefix(name, "no-")) {
				continue
			}
			if p.Engine && p.Name != "" && engine != "" && engine != p.Name {
				return Program{Engine: true} // of two engines: a wrapper's
			}
			p.Engine = true
			if engine != "" {
				p.Name = engine
			}
		}
	}
	return p
}

// RuntimeOf returns what a model of a KServe service runs on, as far as its
// runtime and format tell.
func RuntimeOf(model *yaml.Node) (backend, other string) {
	format, runtime := strings.ToLower(edit.Str(model, "modelFormat", "name")), strings.ToLower(edit.Str(model, "runtime"))
	for _, text := range []string{runtime, format} {
		switch {
		case strings.Contains(text, "sglang"):
			return "sglang", ""
		case strings.Contains(text, "trtllm"), strings.Contains(text, "tensorrt-llm"):
			return "trtllm", ""
		case strings.Contains(text, "vllm"), strings.Contains(text, "huggingface"):
			return "vllm", ""
		}
	}
	if slices.Contains([]string{"sklearn", "xgboost", "lightgbm", "pmml", "paddle", "mlflow", "tensorflow", "onnx", "catboost"}, format) {
		return "", "a server of " + format + " models"
	}
	return "", ""
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
