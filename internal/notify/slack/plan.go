package slack

import (
	"fmt"
	"math"
	"strings"

	"github.com/slack-go/slack"
)

// Plan is what will change.
type Plan struct {
	Summary string   // one line; empty: none
	Digest  string   // of the rendered plan; the decision is bound to it
	Changes []Change // in the order in which to show them
}

// Change is one field that changes.
type Change struct {
	Object string // the changed object: "Deployment llm/chat-api"; empty: the plan has one object
	Field  string
	From   string // empty: the field is new
	To     string // empty: the field is removed
}

// planText limits the diff in the message; [Details] has all of it.
const planText = 2000

// blocks shows as many whole changes as fit and counts the rest.
func (p Plan) blocks(page string) []slack.Block {
	var blocks []slack.Block
	if p.Summary != "" || len(p.Changes) > 0 {
		blocks = append(blocks, small(marked("*Plan*")))
	}
	if p.Summary != "" {
		blocks = append(blocks, section(plain(line(p.Summary, 300))))
	}
	if len(p.Changes) == 0 {
		return blocks
	}
	texts, shown, shortened := fit(p.Changes, planText, 220)
	blocks = append(blocks, section(marked(fence(texts))))
	left := len(p.Changes) - shown
	if left > 0 || shortened {
		words := "Values are shortened."
		if left > 0 {
			words = fmt.Sprintf("… %d more %s.", left, plural(left, "field", "fields"))
		}
		blocks = append(blocks, small(marked(words+" Press Details, or "+link(page, "see the whole plan on its page")+".")))
	}
	return blocks
}

// fit renders changes as a diff of at most limit characters, with values of at
// most value characters. It returns the number of changes in the diff, at least
// one, and whether a value was shortened.
func fit(changes []Change, limit, value int) (text string, shown int, shortened bool) {
	var b strings.Builder
	n, object := 0, ""
	for i, c := range changes {
		t, cutShort := c.diff(object, value)
		if i > 0 && n+size(t) > limit {
			break
		}
		b.WriteString(t)
		n += size(t)
		object, shown, shortened = c.Object, i+1, shortened || cutShort
	}
	return b.String(), shown, shortened
}

// diff renders the change as escaped lines of a diff. It names the object where
// it differs from the previous one.
func (c Change) diff(before string, value int) (text string, shortened bool) {
	var b strings.Builder
	if c.Object != before {
		fmt.Fprintf(&b, "%s\n", literal(oneLine(c.Object), 160))
	}
	fmt.Fprintf(&b, "  %s\n", literal(oneLine(c.Field), 200))
	for _, side := range []struct{ sign, text string }{{"-", c.From}, {"+", c.To}} {
		if side.text == "" {
			continue
		}
		shown := literal(side.text, value)
		shortened = shortened || shown != literal(side.text, math.MaxInt)
		for l := range strings.Lines(shown) {
			fmt.Fprintf(&b, "%s %s\n", side.sign, strings.TrimRight(l, "\n"))
		}
	}
	return strings.ReplaceAll(b.String(), "```", "'''"), shortened
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// fence wraps escaped text in a code block.
func fence(text string) string { return "```\n" + text + "```" }

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
