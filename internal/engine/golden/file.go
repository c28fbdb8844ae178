package golden

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"time"

	"go.yaml.in/yaml/v3"
)

// Limits of a file of golden prompts.
const (
	maxFile    = 1 << 20
	maxPrompts = 32
	maxPrompt  = 16 << 10 // bytes of one prompt
	maxExpect  = 1024     // tokens
)

// File is a file of golden prompts, which the operator keeps.
type File struct {
	Recorded time.Time `yaml:"recorded,omitempty"` // when the expected answers were
	Model    string    `yaml:"model,omitempty"`    // that gave them
	Prompts  []Prompt  `yaml:"prompts"`
}

// Prompt is one golden prompt: a text to continue, or the messages of a chat.
type Prompt struct {
	Name     string    `yaml:"name"`
	Prompt   string    `yaml:"prompt,omitempty"`
	Messages []Message `yaml:"messages,omitempty"`
	Expect   *Expected `yaml:"expect,omitempty"` // nil: it is asked, and compared between replicas only
}

// Message is one message of a chat.
type Message struct {
	Role    string `yaml:"role" json:"role"`
	Content string `yaml:"content" json:"content"`
}

// Expected is the recorded answer to a prompt. What is empty is not compared.
type Expected struct {
	Tokens       []int64 `yaml:"tokens,omitempty,flow"`   // ids of the completion
	Text         string  `yaml:"text,omitempty"`          // the completion
	Ends         bool    `yaml:"ends,omitempty"`          // the model ended it; else it was cut
	PromptTokens int     `yaml:"prompt_tokens,omitempty"` // of the prompt, template and all
	PromptDigest string  `yaml:"prompt_digest,omitempty"` // of the ids of these tokens
}

// Length is how many tokens are expected, by their ids, else about.
func (e *Expected) Length() int {
	switch {
	case e == nil:
		return 0
	case len(e.Tokens) > 0:
		return len(e.Tokens)
	}
	return (len(e.Text) + 3) / 4
}

var nameForm = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

// Read reads a file of golden prompts, and returns it with its digest. An error
// names the file and a line, never what stands there.
func Read(file string) (File, string, error) {
	f, err := os.Open(file)
	if err != nil {
		return File{}, "", fmt.Errorf("read golden prompts: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return File{}, "", fmt.Errorf("read golden prompts: %w", err)
	case len(data) > maxFile:
		return File{}, "", fmt.Errorf("golden prompts %s: more than %d bytes", file, maxFile)
	}
	out, err := Parse(data)
	if err != nil {
		return File{}, "", fmt.Errorf("golden prompts %s: %w", file, err)
	}
	return out, digest(data), nil
}

// Parse decodes and checks the content of a file of golden prompts.
func Parse(data []byte) (File, error) {
	var out File
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(&out); err != nil {
		return File{}, unreadable(err)
	}
	if more := new(yaml.Node); !errors.Is(dec.Decode(more), io.EOF) {
		return File{}, errors.New("holds more than one document")
	}
	return out, out.check()
}

var lineOf = regexp.MustCompile(`line \d+`)

// unreadable is a YAML error without the text that it quotes.
func unreadable(err error) error {
	if errors.Is(err, io.EOF) {
		return errors.New("is empty: list prompts, each with name and prompt or messages")
	}
	where := lineOf.FindString(err.Error())
	if where == "" {
		where = "it"
	}
	return fmt.Errorf("%s cannot be read as golden prompts: prompts is a list of name, prompt or messages (role, content), and expect (tokens, text, ends, prompt_tokens, prompt_digest)", where)
}

func (f File) check() error {
	if len(f.Prompts) == 0 || len(f.Prompts) > maxPrompts {
		return fmt.Errorf("has %d prompts, 1 to %d are allowed", len(f.Prompts), maxPrompts)
	}
	seen := map[string]bool{}
	for i, p := range f.Prompts {
		if err := p.check(); err != nil {
			return fmt.Errorf("prompts[%d]: %w", i, err)
		}
		if seen[p.Name] {
			return fmt.Errorf("prompts[%d]: its name is also that of an earlier one", i)
		}
		seen[p.Name] = true
	}
	return nil
}

func (p Prompt) check() error {
	size := len(p.Prompt)
	for _, m := range p.Messages {
		size += len(m.Role) + len(m.Content)
		if m.Role == "" {
			return errors.New("a message has no role")
		}
	}
	switch {
	case !nameForm.MatchString(p.Name): // names are in evidence: no place for a prompt
		return errors.New("name must be 1 to 64 lower-case letters, digits, dots, dashes and underscores")
	case (p.Prompt == "") == (len(p.Messages) == 0):
		return errors.New("give exactly one of prompt and messages")
	case size > maxPrompt:
		return fmt.Errorf("has %d bytes, at most %d are allowed", size, maxPrompt)
	case p.Expect != nil && len(p.Expect.Tokens) > maxExpect:
		return fmt.Errorf("expects %d tokens, at most %d are allowed", len(p.Expect.Tokens), maxExpect)
	case p.Expect != nil && len(p.Expect.Text) > maxPrompt:
		return fmt.Errorf("expects %d bytes of text, at most %d are allowed", len(p.Expect.Text), maxPrompt)
	}
	return nil
}

// size is about how many tokens the prompt has, rather too many.
func (p Prompt) size() int {
	if p.Expect != nil && p.Expect.PromptTokens > 0 {
		return p.Expect.PromptTokens
	}
	n := len(p.Prompt)
	for _, m := range p.Messages {
		n += len(m.Content) + 16
	}
	return n/2 + 8
}

// Encode returns the file's content.
func (f File) Encode() ([]byte, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.WriteString("# Golden prompts: what engine.probe asks, and the answers of a service that was known to be good.\n")
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(f); err != nil {
		return nil, fmt.Errorf("encode golden prompts: %w", err)
	}
	return b.Bytes(), enc.Close()
}

// Common returns prompts for a service whose operator has none yet. Whatever the
// model, their first tokens are not close to a tie.
func Common() File {
	return File{Prompts: []Prompt{
		{Name: "count", Prompt: "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19"},
		{Name: "alphabet", Prompt: "a b c d e f g h i j k l m n o"},
		{Name: "capital", Prompt: "The capital of Italy is Rome. The capital of Germany is Berlin. The capital of France is"},
		{Name: "repeat", Prompt: "red green blue red green blue red green blue red green"},
		{Name: "code", Prompt: "def add(a, b):\n    return a + b\n\ndef subtract(a, b):\n    return a"},
	}}
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:6])
}
