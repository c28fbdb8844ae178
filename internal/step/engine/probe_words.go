package engine

import (
	"fmt"
	"strings"

	"github.com/inference-responder/responder/internal/engine/golden"
	"github.com/inference-responder/responder/internal/step"
)

// why is the evidence in a sentence.
func (r *goldenRun) why(out goldenOut) string {
	if !out.Probed {
		return r.whyNothing()
	}
	var parts []string
	if n := len(r.pods) + len(r.beyond); n > 0 {
		text := fmt.Sprintf("of %d ready replicas", n)
		for i, s := range []struct {
			n    int
			what string
		}{{out.Answered, "answered"}, {out.Hung, "hung"}, {out.Failed, "failed"}, {out.Skipped, "not asked"}} {
			if s.n > 0 || i == 0 {
				text += fmt.Sprintf(" %d %s,", s.n, s.what)
			}
		}
		parts = append(parts, strings.TrimSuffix(text, ","))
	} else if r.note == "" {
		parts = append(parts, "no replica is ready")
	}
	switch g := out.Gateway; golden.State(g.State) {
	case golden.Answered:
		parts = append(parts, "the endpoint answered")
	case golden.Hung, golden.Failed:
		parts = append(parts, "the endpoint "+g.State+": "+g.Why)
	}
	return strings.Join(append(parts, r.whyWrong(out)...), "; ")
}

// whyNothing is why neither the endpoint nor a replica was asked.
func (r *goldenRun) whyNothing() string {
	for _, a := range append([]golden.Answer{}, r.answers...) {
		if a.Why != "" {
			return a.Why
		}
	}
	if r.note != "" {
		return r.note + "; the endpoint: " + r.gateway.Why
	}
	return r.gateway.Why
}

// whyWrong tells what the comparison came to.
func (r *goldenRun) whyWrong(out goldenOut) []string {
	if out.Compared == 0 {
		switch g := out.Gateway; {
		case g.Wrong:
			return []string{fmt.Sprintf("its completions are wrong: %d of %d golden prompts differ, first at token %d", g.Differed, g.Differed+g.Matched, g.DifferedAt)}
		case g.Differed+g.Matched > 0:
			return []string{"its completions are right"}
		}
		return nil
	}
	var parts []string
	switch {
	case out.WrongRevision != 0:
		parts = append(parts, fmt.Sprintf("completions are wrong on %d of %d compared replicas: those of revision %d", out.WrongReplicas, out.Compared, out.WrongRevision))
	case out.Wrong:
		parts = append(parts, fmt.Sprintf("completions are wrong on %d of %d compared replicas", out.WrongReplicas, out.Compared))
	default:
		parts = append(parts, fmt.Sprintf("completions are right on %d of %d compared replicas", out.RightReplicas, out.Compared))
	}
	if out.Differed > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d golden prompts differ, first at token %d (%s)", out.Differed, out.Differed+out.Matched, out.DifferedAt, step.FirstOf(out.Differing, 5, ", ")))
	}
	if out.PromptChanged > 0 {
		parts = append(parts, fmt.Sprintf("%d prompts became other tokens than recorded: the tokenizer or the chat template is another one", out.PromptChanged))
	}
	return parts
}

// facts returns the lines for people.
func (r *goldenRun) facts(out goldenOut) []string {
	facts := []string{out.Why}
	add := func(format string, args ...any) { facts = append(facts, fmt.Sprintf(format, args...)) }
	if out.TTFTP50 != nil {
		text := fmt.Sprintf("replicas sent the first token after %s, the slowest after %s", seconds(*out.TTFTP50), seconds(value(out.TTFTMax)))
		if value(out.ITLP50) > 0 {
			text += fmt.Sprintf(", then one every %s", seconds(*out.ITLP50))
		}
		add("%s", text)
	}
	if !out.Agrees {
		add("replicas do not complete the prompts alike")
	}
	var odd []string
	for _, one := range out.Replicas {
		if one.State == string(golden.Hung) || one.State == string(golden.Failed) {
			odd = append(odd, one.Name+" "+one.State+": "+one.Why)
		}
	}
	if len(odd) > 0 {
		add("%s", step.FirstOf(odd, 5, "; "))
	}
	var not []string
	for i, a := range r.answers {
		if a.State == golden.Skipped {
			not = append(not, r.pods[i].Name+": "+a.Why)
		}
	}
	if out.Probed && len(not) > 0 {
		add("not asked: %s", step.FirstOf(not, 3, "; "))
	}
	if r.note != "" && out.Probed {
		add("%s", r.note)
	}
	return facts
}
