package engine

import (
	"regexp"
	"slices"
	"strings"
)

// Sign is what a line of an engine's log tells of a failure. The causes of
// [Crash] are signs, too.
type Sign string

// The signs beside the causes of a crash.
const (
	SignNCCL      Sign = "nccl"        // the collective communication between GPUs failed or timed out
	SignDead      Sign = "engine_dead" // the process that computes is gone or stands still, while the one that answers HTTP may live
	SignTokenizer Sign = "tokenizer"   // the tokenizer or its chat template cannot be loaded
)

// Signs returns all signs that [Engine.Read] tells apart, the most exact first.
func Signs() []string {
	var out []string
	for _, s := range slices.Concat(commonSigns, vllmSigns, sglangSigns) {
		if !slices.Contains(out, string(s.sign)) {
			out = append(out, string(s.sign))
		}
	}
	return append(out, string(CrashOther))
}

// sign is one way in which a log tells it.
type sign struct {
	sign  Sign
	words *regexp.Regexp
}

// commonSigns are those of the libraries that all engines use: PyTorch's process
// groups and NCCL, Transformers' tokenizers, and what ends an engine.
var commonSigns = append([]sign{
	{SignNCCL, regexp.MustCompile(`\bNCCL (?:error|WARN)|ncclSystemError|ncclUnhandledCudaError|ncclInternalError|ncclRemoteError|ProcessGroupNCCL.{0,80}(?:[Tt]imeout|timed out|Watchdog)|Watchdog caught collective operation timeout|DistBackendError`)},
	{SignTokenizer, regexp.MustCompile(`Can't load tokenizer|Tokenizer class \S+ does not exist|Couldn't instantiate the backend tokenizer|Error loading tokenizer|[Ff]ailed to load the tokenizer|chat template .{0,60}(?:not found|could not|is not|invalid)`)},
}, ofCrashes()...)

// vllmSigns are those of vLLM's v1 engine and of the one before.
var vllmSigns = []sign{
	{SignDead, regexp.MustCompile(`EngineDeadError|AsyncEngineDeadError|EngineCore encountered (?:a fatal error|an issue)|EngineCore_?\S* died|Engine core proc \S+ died|RPC call to \S+ timed out|sample_tokens timed out|execute_model timed out|MQEngineDeadError`)},
}

// sglangSigns are those of SGLang's scheduler and its launcher.
var sglangSigns = []sign{
	{SignDead, regexp.MustCompile(`Scheduler hit an exception|Watchdog timeout|[Rr]eceived sigquit from a child process|Detokenizer(?:Manager)? hit an exception|TokenizerManager hit an exception|Health check failed\. Server couldn't get a response from detokenizer`)},
}

func ofCrashes() []sign {
	var out []sign
	for _, c := range crashes {
		out = append(out, sign{Sign(c.cause), c.words})
	}
	return out
}

// signs returns those that the engine's programs may print.
func (e Engine) signs() []sign {
	out := slices.Clone(commonSigns)
	for _, p := range e.programs {
		switch p.Name {
		case "vllm":
			out = append(out, vllmSigns...)
		case "sglang":
			out = append(out, sglangSigns...)
		}
	}
	return out
}

// Line is a line of a log that tells of a failure.
type Line struct {
	Sign  Sign
	Text  string // the first such line
	Count int    // lines with that sign
}

// request begins what a line repeats of a request; input_value is how pydantic
// names what it refuses.
var request = regexp.MustCompile(`(?i)\b(prompts?|prompt_token_ids|messages|content|inputs?|input_(?:ids|text|value)|text_input|query|text)(["']?\s*[:=]\s*[bru]?["'\[{(]).*$`)

// Quiet returns the lines of a log without what engines print while all is well,
// and without the rest of a line that repeats a request. A line of an error may
// hold some of a request all the same.
func Quiet(text string) []string {
	var out []string
	for line := range strings.Lines(chatter.ReplaceAllString(text, "")) {
		line = strings.TrimRight(request.ReplaceAllString(strings.TrimRight(line, "\r\n"), "$1: (left out)"), " \t")
		if line != "" {
			out = append(out, line)
		}
	}
	return out
}

// Read returns what the lines of a log tell of failures, in the order in which
// they first do. An exception that no sign describes is [CrashOther].
func (e Engine) Read(lines []string) []Line {
	var out []Line
	known := e.signs()
	for _, line := range lines {
		found := Sign("")
		for _, s := range known {
			if s.words.MatchString(line) {
				found = s.sign
				break
			}
		}
		if found == "" && exception.MatchString(line) {
			found = Sign(CrashOther)
		}
		if found == "" {
			continue
		}
		at := slices.IndexFunc(out, func(l Line) bool { return l.Sign == found })
		if at < 0 {
			out = append(out, Line{Sign: found, Text: line, Count: 1})
			continue
		}
		out[at].Count++
	}
	return out
}
