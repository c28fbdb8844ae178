package golden

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Completion is what an engine made of a prompt. It does not show its content.
type Completion struct {
	tokens []int64 // empty: the server told none
	text   string
	pieces []int // bytes of text after each event that brought some
	ended  bool  // by the model; else by the limit

	promptTokens int    // 0: not told
	promptDigest string // empty: not told
	counted      int    // completion tokens that the server counted; 0: not told

	TTFT time.Duration // until its first token
	ITL  time.Duration // between two tokens, on average; 0: it has fewer than two
}

// String tells no content.
func (c Completion) String() string { return fmt.Sprintf("(completion of %d tokens)", c.length()) }

// GoString tells no content.
func (c Completion) GoString() string { return c.String() }

// MarshalJSON tells no content.
func (c Completion) MarshalJSON() ([]byte, error) { return json.Marshal(c.String()) }

// length is how many tokens it has, as far as that is known.
func (c Completion) length() int {
	switch {
	case len(c.tokens) > 0:
		return len(c.tokens)
	case c.counted > 0:
		return c.counted
	default:
		return len(c.pieces)
	}
}

// chunk is one event of a stream, of any protocol.
type chunk struct {
	Choices []struct {
		Index int    `json:"index"`
		Text  string `json:"text"`
		Delta struct {
			Content   string `json:"content"`
			Reasoning string `json:"reasoning_content"`
			Thinking  string `json:"reasoning"` // the same, as vLLM has it since v0.12
		} `json:"delta"`
		Finish         *string `json:"finish_reason"`
		TokenIDs       []int64 `json:"token_ids"`
		PromptTokenIDs []int64 `json:"prompt_token_ids"`
	} `json:"choices"`
	PromptTokenIDs []int64 `json:"prompt_token_ids"`
	Usage          *struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
	} `json:"usage"`
	Error json.RawMessage `json:"error"`

	// SGLang's own. Text and ids are of the whole completion so far, or with
	// --incremental-streaming-output of what is new; text is null while it is not
	// needed.
	Text      *string `json:"text"`
	OutputIDs []int64 `json:"output_ids"`
	Meta      *struct {
		Prompt     int             `json:"prompt_tokens"`
		Completion int             `json:"completion_tokens"`
		Finish     json.RawMessage `json:"finish_reason"`
	} `json:"meta_info"`
}

// Errors of a stream. They repeat nothing of it.
var (
	errNoJSON   = errors.New("its stream holds an event that is not JSON of a completion")
	errInStream = errors.New("it reports an error within the stream")
	errEarly    = errors.New("its stream ended before the completion did")
	errNothing  = errors.New("its completion is empty")
	errTooMuch  = errors.New("it sends more tokens than were asked for")
)

// reading builds a completion of a stream.
type reading struct {
	Completion
	most     int // tokens that were asked for
	began    time.Time
	first    time.Time // token
	last     time.Time
	finished bool
	done     bool // the stream said so
}

// event takes one event in.
func (r *reading) event(data []byte, now time.Time) error {
	if string(bytes.TrimSpace(data)) == "[DONE]" {
		r.done = true
		return nil
	}
	var c chunk
	if err := json.Unmarshal(data, &c); err != nil {
		return errNoJSON
	}
	if len(c.Error) > 0 && string(c.Error) != "null" {
		return errInStream
	}
	tokens, text := len(r.tokens), len(r.text)
	if c.Meta != nil || c.OutputIDs != nil {
		r.native(c)
	} else if err := r.openAI(c); err != nil {
		return err
	}
	if len(r.text) > text {
		r.pieces = append(r.pieces, len(r.text))
	}
	if len(r.tokens) > tokens || len(r.text) > text || r.finished && r.first.IsZero() {
		if r.first.IsZero() {
			r.first = now
		}
		r.last = now
	}
	if len(r.tokens) > r.most || len(r.text) > 256*(r.most+1) {
		return errTooMuch
	}
	return nil
}

func (r *reading) openAI(c chunk) error {
	if c.Choices == nil && c.Usage == nil {
		return errNoJSON
	}
	r.prompt(c.PromptTokenIDs)
	if c.Usage != nil {
		r.promptTokens, r.counted = max(r.promptTokens, c.Usage.Prompt), c.Usage.Completion
	}
	for _, one := range c.Choices {
		if one.Index != 0 {
			continue
		}
		r.prompt(one.PromptTokenIDs)
		r.text += one.Text + one.Delta.Reasoning + one.Delta.Thinking + one.Delta.Content
		r.tokens = append(r.tokens, one.TokenIDs...)
		if one.Finish != nil && *one.Finish != "" {
			r.finish(*one.Finish)
		}
	}
	return nil
}

func (r *reading) native(c chunk) {
	whole := c.Meta == nil || c.Meta.Completion == 0 || len(c.OutputIDs) == c.Meta.Completion
	if len(c.OutputIDs) == 0 && c.Text != nil {
		whole = strings.HasPrefix(*c.Text, r.text)
	}
	if !whole {
		r.tokens = append(r.tokens, c.OutputIDs...)
	} else if len(c.OutputIDs) >= len(r.tokens) {
		r.tokens = c.OutputIDs
	}
	if c.Text != nil && whole {
		r.text = *c.Text
	} else if c.Text != nil {
		r.text += *c.Text
	}
	if c.Meta == nil {
		return
	}
	r.promptTokens, r.counted = c.Meta.Prompt, c.Meta.Completion
	var reason struct {
		Type string `json:"type"`
	}
	if len(c.Meta.Finish) > 0 && json.Unmarshal(c.Meta.Finish, &reason) == nil && reason.Type != "" {
		r.finish(reason.Type)
	}
}

func (r *reading) finish(reason string) { r.finished, r.ended = true, reason == "stop" }

func (r *reading) prompt(ids []int64) {
	if len(ids) == 0 {
		return
	}
	r.promptTokens, r.promptDigest = len(ids), PromptDigest(ids)
}

// PromptDigest returns the digest of a prompt's tokens, as a file records it.
func PromptDigest(ids []int64) string {
	h := sha256.New()
	var b [8]byte
	for _, id := range ids {
		binary.BigEndian.PutUint64(b[:], uint64(id)) //nolint:gosec // only its bits count
		h.Write(b[:])
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// end returns the completion of a stream that is over.
func (r *reading) end() (Completion, error) {
	switch {
	case !r.finished && !r.done:
		return Completion{}, errEarly
	case r.first.IsZero():
		return Completion{}, errNothing
	}
	r.TTFT = r.first.Sub(r.began)
	if n := r.length(); n > 1 {
		r.ITL = r.last.Sub(r.first) / time.Duration(n-1)
	}
	r.tokens = slices.Clip(r.tokens)
	return r.Completion, nil
}

// expected returns the completion as a file records it.
func (c Completion) expected() *Expected {
	e := &Expected{Tokens: c.tokens, Ends: c.ended, PromptTokens: c.promptTokens, PromptDigest: c.promptDigest}
	if utf8.ValidString(c.text) {
		e.Text = c.text
	}
	return e
}
