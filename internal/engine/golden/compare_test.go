package golden

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// ids makes a completion of token ids.
func ids(ended bool, all ...int64) Completion { return Completion{tokens: all, ended: ended} }

// pieces makes a completion of texts, one for each event.
func pieces(ended bool, all ...string) Completion {
	c := Completion{ended: ended}
	for _, s := range all {
		c.text += s
		c.pieces = append(c.pieces, len(c.text))
	}
	return c
}

func TestCompare(t *testing.T) {
	counted := pieces(false, "one two three four five six seven eight")
	counted.counted = 8
	sameText := ids(false, 1, 9, 3)
	sameText.text = "abc"
	for _, tt := range []struct {
		name string
		want Expected
		got  Completion
		most int
		at   int
	}{
		{"equal", Expected{Tokens: []int64{1, 2, 3}}, ids(false, 1, 2, 3), 16, -1},
		{"late", Expected{Tokens: []int64{1, 2, 3}}, ids(false, 1, 2, 4), 16, 2},
		{"more was recorded than is asked for", Expected{Tokens: []int64{1, 2, 3}, Ends: true}, ids(false, 1, 2), 2, -1},
		{"the server's own limit is lower", Expected{Tokens: []int64{1, 2, 3}}, ids(false, 1, 2), 16, -1},
		{"it stops early", Expected{Tokens: []int64{1, 2, 3}}, ids(true, 1, 2), 16, 2},
		{"it does not stop", Expected{Tokens: []int64{1, 2}, Ends: true}, ids(false, 1, 2, 3), 16, 2},
		{"only the common part was recorded", Expected{Tokens: []int64{1, 2}}, ids(true, 1, 2, 3), 16, -1},
		{"it ends at once", Expected{Tokens: []int64{1, 2}, Text: "ab"}, Completion{ended: true}, 16, 0},
		{"other ids of the same text", Expected{Tokens: []int64{1, 2, 3}, Text: "abc"}, sameText, 16, -1},
		{"text", Expected{Text: "abc def"}, pieces(false, "abc", " def"), 16, -1},
		{"text, another token", Expected{Text: "abc def ghi"}, pieces(false, "abc", " dxf", " ghi"), 16, 1},
		{"text, in one event", Expected{Text: "one two three four five six seven NINE"}, counted, 16, 6},
		{"text of one event, not counted", Expected{Text: "one two three four five six"}, pieces(false, "one two three four five sIx"), 16, 6},
		{"text within a character", Expected{Text: "é"}, pieces(false, "è"), 16, 0},
		{"text stops early", Expected{Text: "abc def"}, pieces(true, "abc"), 16, 1},
		{"text does not stop", Expected{Text: "abc", Ends: true}, pieces(false, "abc", "def"), 16, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := Prompt{Name: "p", Prompt: "x", Expect: &tt.want}.Compare(tt.got, tt.most)
			if !m.Compared || m.At != tt.at {
				t.Errorf("%+v, want %d", m, tt.at)
			}
		})
	}
	if m := (Prompt{Expect: &Expected{Tokens: []int64{1}}}).Compare(pieces(false, "a"), 16); m.Compared || m.Why == "" {
		t.Errorf("ids against text: %+v", m)
	}
	if m := (Prompt{}).Compare(ids(false, 1), 16); m.Compared || m.At != -1 || m.Why == "" {
		t.Errorf("nothing recorded: %+v", m)
	}
}

// TestAgreed: only what every completion has in common is recorded.
func TestAgreed(t *testing.T) {
	a, b := ids(true, 1, 2, 3), ids(true, 1, 2, 4)
	a.text, b.text, a.promptTokens = "abc", "abd", 7
	if diff := cmp.Diff(&Expected{Tokens: []int64{1, 2}, Text: "ab", PromptTokens: 7}, Agreed([]Completion{a, b})); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(&Expected{Tokens: []int64{1, 2, 3}, Text: "abc", Ends: true, PromptTokens: 7}, Agreed([]Completion{a, a})); diff != "" {
		t.Error(diff)
	}
	gateway := pieces(true, "abc") // tells no ids
	if diff := cmp.Diff(&Expected{Tokens: []int64{1, 2, 3}, Text: "abc", Ends: true, PromptTokens: 7}, Agreed([]Completion{gateway, a})); diff != "" {
		t.Error(diff)
	}
	if e := Agreed([]Completion{ids(false, 1), ids(false, 2)}); e != nil {
		t.Errorf("nothing in common: %+v", e)
	}
	other := a
	other.promptTokens = 8
	if e := Agreed([]Completion{a, other}); e != nil {
		t.Errorf("another tokenizer: %+v", e)
	}
}

// TestFile: a file reads as it was written, and what is wrong with one is told by
// line and name, never by its content.
func TestFile(t *testing.T) {
	f := File{Recorded: noon, Model: "llama", Prompts: []Prompt{
		{Name: "a", Prompt: "x: \"y\"\n# z", Expect: &Expected{Tokens: []int64{1, 128_009}, Text: " b\n", Ends: true, PromptTokens: 3, PromptDigest: "00ff"}},
		{Name: "b", Messages: []Message{{"user", "hi"}}},
	}}
	b, err := f.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if back, err := Parse(b); err != nil || cmp.Diff(f, back) != "" {
		t.Errorf("%v %s\n%s", err, cmp.Diff(f, back), b)
	}
	common := Common()
	if _, err := common.Encode(); err != nil {
		t.Error(err)
	}
	for text, want := range map[string]string{
		"":                                       "is empty",
		"prompts: []":                            "has 0 prompts",
		"prompts: canary":                        "line 1",
		"prompts:\n- nam: canary":                "line 2",
		"prompts:\n- name: a\n  prompt: [canary": "cannot be read",
		"prompts:\n- {name: Canary Prompt, prompt: canary}":                                        "lower-case",
		"prompts:\n- {name: a}":                                                                    "exactly one",
		"prompts:\n- {name: a, prompt: canary, messages: [{role: user}]}":                          "exactly one",
		"prompts:\n- {name: a, messages: [{content: canary}]}":                                     "no role",
		"prompts:\n- {name: a, prompt: canary}\n- {name: a, prompt: b}":                            "also that of an earlier",
		"prompts:\n- {name: a, prompt: canary}\n---\na: b":                                         "more than one document",
		"prompts:\n- {name: a, prompt: " + strings.Repeat("canary", maxPrompt/6+1) + "}":           "at most",
		"prompts:\n- {name: a, prompt: b, expect: {tokens: [canary]}}":                             "line 2",
		"prompts:\n- {name: a, prompt: b, expect: {tokens: [" + strings.Repeat("1,", 1025) + "]}}": "at most 1024",
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(strings.ToLower(err.Error()), "canary") {
			t.Errorf("%.60q: %v, want %q", text, err, want)
		}
	}
}

// FuzzStream: no stream panics, is read without end, or has a completion of more than
// was asked for; and what it says is in no error.
func FuzzStream(f *testing.F) {
	f.Add("data: {\"choices\":[{\"index\":0,\"text\":\" a\",\"token_ids\":[1],\"prompt_token_ids\":[5,6],\"finish_reason\":\"length\"}]}\n\ndata: [DONE]\n\n")
	f.Add("\xef\xbb\xbfdata:{\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2}}\r\rdata: [DONE]\r\r")
	f.Add(": ping\r\n\r\nevent: x\ndata: {\"text\":null,\"output_ids\":[1,2],\"meta_info\":{\"completion_tokens\":2,\"finish_reason\":{\"type\":\"stop\"}}}\n\n")
	f.Add("data: {\"error\":{\"message\":\"x\"}}\n\n")
	f.Add("data: {\"text\":\"ab\",\"meta_info\":{}}\n\ndata: {\"text\":\"abc\",\"meta_info\":{\"finish_reason\":{\"type\":\"length\"}}}\n\n")
	f.Add("data\ndata: \ndata:a\n\n")
	const other = "data: {\"choices\":[{\"index\":0,\"text\":\" a b\",\"token_ids\":[1,2],\"finish_reason\":\"stop\"}]}\n\n"
	f.Add(other)
	wanted, err := completionOf(other)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, stream string) {
		c, err := completionOf(stream)
		if err != nil {
			return
		}
		if len(c.tokens) > 4 || c.TTFT < 0 || c.ITL < 0 {
			t.Errorf("%d tokens, first %s, each %s", len(c.tokens), c.TTFT, c.ITL)
		}
		p := Prompt{Name: "p", Prompt: "x", Expect: c.expected()}
		if m := p.Compare(c, 4); m.At >= 0 || m.Prompt {
			t.Errorf("%#v differs from itself: %+v", c, m)
		}
		if at := c.Differ(c); at >= 0 {
			t.Errorf("%#v differs from itself at %d", c, at)
		}
		want := Prompt{Name: "p", Prompt: "x", Expect: wanted.expected()}
		if m := want.Compare(c, 4); m.At < -1 || m.At > 4*256 {
			t.Errorf("%#v differs at %d", c, m.At)
		}
		Agreed([]Completion{wanted, c})
		Agreed([]Completion{c, wanted})
	})
}

// completionOf reads a stream as a request of four tokens does.
func completionOf(stream string) (Completion, error) {
	r := &reading{most: 4, began: noon}
	e := newEvents(strings.NewReader(stream))
	for n := 0; !r.done && n <= len(stream); n++ {
		data, err := e.next()
		if err != nil {
			break
		}
		if err := r.event(data, noon.Add(time.Duration(n)*time.Second)); err != nil {
			return Completion{}, err
		}
	}
	return r.end()
}
