package sandbox

import (
	"fmt"
	"strings"
)

// wrong is how an engine's completions differ from those of a good one.
type wrong string

const (
	wrongOutput wrong = "output" // other tokens are generated: weights, quantization, a kernel
	wrongPrompt wrong = "prompt" // the prompt becomes other tokens: the tokenizer or the chat template
)

// What the series show of wrong engines. Those that generate other tokens compute
// logits that are not numbers for some requests. Those that get a prompt in another
// template miss its stop token for some.
const (
	corrupted = 0.2
	endless   = 0.4
)

// differs returns how a pod's completions differ, and of whom: those of one revision
// differ in the same way.
func (p *pod) differs() (how wrong, whose string) {
	if p.wrong != "" {
		return p.wrong, p.name
	}
	return p.set.image.wrong, p.set.name
}

// Completion is what an engine makes of a prompt at temperature 0.
type Completion struct {
	Prompt []int64  // tokens of the prompt
	Tokens []int64  // that are generated
	Words  []string // the text of each
}

// Text returns the generated text.
func (c Completion) Text() string { return strings.Join(c.Words, "") }

// vocabulary is the number of tokens of a model.
const vocabulary = 128_000

// complete returns how a model goes on after a prompt, for that many tokens.
func complete(model, prompt string, tokens int, how wrong, whose string) Completion {
	rng := hash(nameHash(model))
	var c Completion
	if how == wrongPrompt {
		c.Prompt = []int64{int64(rng.of("template", 0) % vocabulary)}
	}
	for _, word := range strings.Fields(prompt) {
		c.Prompt = append(c.Prompt, int64(rng.of(word, 0)%vocabulary))
	}
	from := rng.of(prompt, 0) % 4 // the first token that differs
	for i := range uint64(tokens) {
		after := prompt
		if how != "" && i >= from {
			after += whose
		}
		id := rng.of(after, i+1) % vocabulary
		c.Tokens, c.Words = append(c.Tokens, int64(id)), append(c.Words, fmt.Sprintf(" w%d", id))
	}
	return c
}

// Recorded returns the completion that a good engine of a service gives.
func (w *World) Recorded(service, prompt string, tokens int) Completion {
	model := ""
	for _, f := range w.fleets {
		if f.spec.service.Name == service {
			model = f.spec.service.Model
		}
	}
	return complete(model, prompt, tokens, "", "")
}
