package golden

import (
	"slices"
	"unicode/utf8"
)

// Match is the result of a comparison.
type Match struct {
	Compared bool
	At       int  // the first token that differs, counted from 0; -1: none does
	Prompt   bool // the prompt became other tokens than those recorded
	Why      string
}

// Compare compares a completion with what the prompt expects: as many tokens as
// were asked for, by their ids, or by text where either has no ids. Other ids of the
// same text are no difference.
func (p Prompt) Compare(c Completion, most int) Match {
	m := Match{At: -1}
	e := p.Expect
	if e == nil {
		m.Why = "no answer is recorded for it"
		return m
	}
	m.Prompt = e.PromptDigest != "" && c.promptDigest != "" && e.PromptDigest != c.promptDigest ||
		(e.PromptDigest == "" || c.promptDigest == "") && e.PromptTokens > 0 && c.promptTokens > 0 && e.PromptTokens != c.promptTokens
	switch {
	case len(e.Tokens) > 0 && len(c.tokens) > 0:
		whole := len(e.Tokens) <= most
		m.Compared, m.At = true, differTokens(e.Tokens[:min(len(e.Tokens), most)], c, e.Ends && whole)
		if m.At >= 0 && whole && e.Text != "" && differText(e.Text, c, e.Ends) < 0 {
			m.At = -1
		}
	case e.Text != "" || e.Ends:
		m.Compared, m.At = true, differText(e.Text, c, e.Ends)
	default:
		m.Why = "the server tells no token ids, and no text is recorded"
	}
	return m
}

// Differ returns the first token at which two completions differ; -1: none does.
func (c Completion) Differ(d Completion) int {
	if len(c.tokens) > 0 && len(d.tokens) > 0 && (c.text != d.text || c.text == "") {
		return differTokens(c.tokens, d, c.ended)
	}
	return differText(c.text, d, c.ended)
}

// differTokens returns where a completion's ids differ from those expected. If one
// is the beginning of the other, they differ only where a model ended it.
func differTokens(want []int64, c Completion, ends bool) int {
	at := common(want, c.tokens)
	switch {
	case at == len(want) && at == len(c.tokens):
		return -1
	case at == len(want) && !ends, at == len(c.tokens) && !c.ended:
		return -1
	}
	return at
}

// differText returns the token at which a completion's text differs from the one
// expected. If one is the beginning of the other, they differ only where a model
// ended it.
func differText(want string, c Completion, ends bool) int {
	got := c.text
	at := common([]byte(want), []byte(got))
	switch {
	case at == len(want) && at == len(got):
		return -1
	case at == len(want) && !ends, at == len(got) && !c.ended:
		return -1
	}
	for at > 0 && at < len(got) && !utf8.RuneStart(got[at]) {
		at--
	}
	return c.tokenAt(at)
}

// tokenAt returns about which token a byte of the text is of: by the events of the
// stream where each brought one token, else in proportion.
func (c Completion) tokenAt(at int) int {
	n := c.length()
	switch {
	case len(c.pieces) > 1 && len(c.pieces) >= n:
		i, _ := slices.BinarySearch(c.pieces, at+1)
		return i
	case n > 1 && len(c.text) > 0:
		return at * n / len(c.text)
	case at == 0:
		return 0
	}
	return max(1, at/4) // bytes of a token, about
}

// Agreed returns what completions of one prompt have in common, as a file records
// it; nil: nothing.
func Agreed(all []Completion) *Expected {
	if len(all) == 0 {
		return nil
	}
	e := all[0].expected()
	for _, c := range all[1:] {
		o := c.expected()
		if o.PromptDigest != e.PromptDigest && o.PromptDigest != "" {
			if e.PromptDigest != "" {
				return nil
			}
			e.PromptDigest = o.PromptDigest
		}
		if o.PromptTokens != e.PromptTokens && o.PromptTokens != 0 {
			if e.PromptTokens != 0 {
				return nil
			}
			e.PromptTokens = o.PromptTokens
		}
		ends := e.Ends && o.Ends
		if len(e.Tokens) == 0 {
			e.Tokens = o.Tokens
		} else if len(o.Tokens) > 0 {
			n := common(e.Tokens, o.Tokens)
			ends = ends && n == len(e.Tokens) && n == len(o.Tokens)
			e.Tokens = e.Tokens[:n]
		}
		n := common([]rune(e.Text), []rune(o.Text))
		ends = ends && n == len([]rune(e.Text)) && n == len([]rune(o.Text))
		e.Text, e.Ends = string([]rune(e.Text)[:n]), ends
	}
	if len(e.Tokens) == 0 && e.Text == "" && !e.Ends {
		return nil
	}
	return e
}

// common returns how many first elements are the same.
func common[T comparable](a, b []T) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}
