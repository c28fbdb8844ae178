// Package goldentest is an engine for tests, as its HTTP API shows it: vLLM's and
// any OpenAI-compatible server's /v1/completions and /v1/chat/completions, SGLang's
// /generate. It knows nothing of who asks it.
package goldentest

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// Engine is a server of one model. Its answer to a prompt is always the same words.
type Engine struct {
	*httptest.Server

	mu    sync.Mutex // guards what follows
	o     Options
	asked []Request
}

// Options are how the engine answers.
type Options struct {
	Addr     string        // host:port that it listens at; empty: any
	Model    string        // that it serves; empty: chat
	Token    string        // bearer token that it wants; empty: none
	IDs      bool          // knows vLLM's return_token_ids
	Native   bool          // has SGLang's /generate
	Delta    bool          // /generate sends what is new only, as with --incremental-streaming-output
	From     int           // tokens from this one on are others than those of the model; needs Broken
	Broken   bool          // by a bad release
	Template bool          // the chat template is another one: more prompt tokens
	Ends     int           // the model ends the completion after so many tokens; 0: never
	First    time.Duration // until the first token
	Each     time.Duration // between two tokens

	// Handler answers in place of the engine, if it is set and reports true.
	Handler func(w http.ResponseWriter, r *http.Request) bool
}

// Request is what was asked.
type Request struct {
	Path          string
	Authorization string
	Body          map[string]any
}

// Start starts an engine.
func Start(t testing.TB, o Options) *Engine {
	t.Helper()
	e := &Engine{o: o}
	if e.o.Model == "" {
		e.o.Model = "chat"
	}
	e.Server = httptest.NewUnstartedServer(e)
	if o.Addr != "" {
		l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", o.Addr)
		if err != nil {
			t.Fatal(err)
		}
		_ = e.Listener.Close() // nobody knows it yet
		e.Listener = l
	}
	e.Start()
	t.Cleanup(func() {
		e.CloseClientConnections()
		e.Close()
	})
	return e
}

// Change changes how the engine answers.
func (e *Engine) Change(change func(o *Options)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	change(&e.o)
}

// Asked returns what was asked so far.
func (e *Engine) Asked() []Request {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]Request(nil), e.asked...)
}

// body is a request in any of the protocols.
type body struct {
	Model    string `json:"model"`
	Prompt   string `json:"prompt"`
	Messages []struct {
		Role, Content string
	} `json:"messages"`
	MaxTokens int  `json:"max_tokens"`
	Stream    bool `json:"stream"`
	IDs       bool `json:"return_token_ids"`
	Options   struct {
		Usage bool `json:"include_usage"`
	} `json:"stream_options"`
	Text     string `json:"text"`
	Sampling struct {
		MaxTokens int `json:"max_new_tokens"`
	} `json:"sampling_params"`
}

// ServeHTTP implements [http.Handler].
func (e *Engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var raw json.RawMessage
	var b body
	req := Request{Path: r.URL.Path, Authorization: r.Header.Get("Authorization")}
	if err := json.NewDecoder(r.Body).Decode(&raw); err == nil {
		_ = json.Unmarshal(raw, &req.Body) // an object, as every request of these protocols is
		if err := json.Unmarshal(raw, &b); err != nil {
			refuse(w, http.StatusBadRequest, "BadRequestError", err.Error())
			return
		}
	}
	e.mu.Lock()
	e.asked = append(e.asked, req)
	o := e.o
	e.mu.Unlock()
	switch {
	case o.Handler != nil && o.Handler(w, r):
	case o.Token != "" && req.Authorization != "Bearer "+o.Token:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, `{"error":"Unauthorized"}`)
	case r.URL.Path == "/generate" && o.Native:
		native(w, r, o, b)
	case r.URL.Path == "/v1/completions" || r.URL.Path == "/v1/chat/completions":
		if b.Model != o.Model {
			refuse(w, http.StatusNotFound, "NotFoundError", fmt.Sprintf("The model `%s` does not exist. You asked: %s", b.Model, b.Prompt))
			return
		}
		openAI(w, r, o, b)
	default:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"detail":"Not Found"}`)
	}
}

func refuse(w http.ResponseWriter, code int, kind, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"message": message, "type": kind, "param": nil, "code": code}})
}

// token is one word of an answer.
type token struct {
	id   int64
	text string
}

// answer returns the model's continuation of a prompt, at most n tokens, and whether
// the model ended it.
func answer(o Options, prompt string, n int) ([]token, bool) {
	var out []token
	for i := range n {
		if o.Ends > 0 && i == o.Ends {
			return out, true
		}
		salt := ""
		if o.Broken && i >= o.From {
			salt = "broken"
		}
		id := hash(fmt.Sprint(prompt, i, salt))
		out = append(out, token{id, fmt.Sprintf(" w%d", id)})
	}
	return out, o.Ends > 0 && o.Ends == n
}

func hash(s string) int64 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(s))
	return int64(h.Sum32() % 128_000)
}

func promptIDs(o Options, prompt string) []int64 {
	var ids []int64
	if o.Template {
		ids = append(ids, 1)
	}
	for _, word := range strings.Fields(prompt) {
		ids = append(ids, hash(word))
	}
	return ids
}

// stream writes events until the client leaves.
type stream struct {
	w http.ResponseWriter
	r *http.Request
}

func (s stream) event(v any) {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // unreachable: maps of plain values
	}
	fmt.Fprintf(s.w, "data: %s\n\n", b)
	s.flush()
}

func (s stream) flush() { _ = http.NewResponseController(s.w).Flush() }

func (s stream) wait(d time.Duration) bool {
	if d == 0 {
		return true
	}
	select {
	case <-s.r.Context().Done():
		return false
	case <-time.After(d):
		return true
	}
}

// completionChunk is vLLM's CompletionStreamResponse, with its fields in its order. It
// writes what is not set as null.
type completionChunk struct {
	ID      string             `json:"id"`
	Object  string             `json:"object"`
	Created int64              `json:"created"`
	Model   string             `json:"model"`
	Choices []completionChoice `json:"choices"`
	Usage   *struct{}          `json:"usage"` // comes last, in a chunk of its own
}

type completionChoice struct {
	Index          int       `json:"index"`
	Text           string    `json:"text"`
	Logprobs       *struct{} `json:"logprobs"`
	Finish         *string   `json:"finish_reason"`
	Stop           *string   `json:"stop_reason"`
	PromptTokenIDs []int64   `json:"prompt_token_ids"`
	TokenIDs       []int64   `json:"token_ids"`
}

// openAI streams as vLLM does: ids of the prompt in the first chunk only, ids of the
// new tokens in each, usage last.
func openAI(w http.ResponseWriter, r *http.Request, o Options, b body) {
	chat := strings.HasSuffix(r.URL.Path, "/chat/completions")
	prompt := b.Prompt
	for _, m := range b.Messages {
		prompt += m.Role + " " + m.Content + " "
	}
	ids := promptIDs(o, prompt)
	tokens, ended := answer(o, prompt, b.MaxTokens)
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	s := stream{w, r}
	s.flush()
	if !s.wait(o.First) {
		return
	}
	id, created := fmt.Sprintf("cmpl-%032x", hash(prompt)), time.Now().Unix()
	for i, t := range tokens {
		var finish *string
		if i == len(tokens)-1 {
			finish = new(string)
			*finish = map[bool]string{true: "stop", false: "length"}[ended]
		}
		var prompted, fresh []int64
		if b.IDs && o.IDs {
			fresh = []int64{t.id}
			if i == 0 {
				prompted = ids
			}
		}
		if chat {
			s.event(chatChunk(id, created, o.Model, t.text, finish, prompted, fresh))
		} else {
			s.event(completionChunk{
				ID: id, Object: "text_completion", Created: created, Model: o.Model,
				Choices: []completionChoice{{Text: t.text, Finish: finish, PromptTokenIDs: prompted, TokenIDs: fresh}},
			})
		}
		if !s.wait(o.Each) {
			return
		}
	}
	if b.Options.Usage {
		s.event(map[string]any{
			"id": id, "object": "text_completion", "created": created, "model": o.Model, "choices": []any{},
			"usage": map[string]any{"prompt_tokens": len(ids), "total_tokens": len(ids) + len(tokens), "completion_tokens": len(tokens)},
		})
	}
	fmt.Fprint(w, "data: [DONE]\n\n")
}

// chatChunk is a chunk of a chat, of which vLLM leaves out what is not set.
func chatChunk(id string, created int64, model, text string, finish *string, prompted, fresh []int64) map[string]any {
	choice := map[string]any{"index": 0, "delta": map[string]any{"content": text}, "logprobs": nil, "finish_reason": finish}
	c := map[string]any{"id": "chat" + id, "object": "chat.completion.chunk", "created": created, "model": model, "choices": []any{choice}}
	if fresh != nil {
		choice["token_ids"] = fresh
	}
	if prompted != nil {
		c["prompt_token_ids"] = prompted
	}
	return c
}

// native streams as SGLang's /generate does: the whole completion so far in each
// event, its text only in the last, or with Delta what is new.
func native(w http.ResponseWriter, r *http.Request, o Options, b body) {
	ids := promptIDs(o, b.Text)
	tokens, ended := answer(o, b.Text, b.Sampling.MaxTokens)
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	s := stream{w, r}
	s.flush()
	if !s.wait(o.First) {
		return
	}
	var all []int64
	text := ""
	for i, t := range tokens {
		all, text = append(all, t.id), text+t.text
		meta := map[string]any{"id": "1", "finish_reason": nil, "prompt_tokens": len(ids), "completion_tokens": len(all), "cached_tokens": 0}
		e := map[string]any{"text": nil, "output_ids": all, "meta_info": meta}
		if o.Delta {
			e["text"], e["output_ids"] = t.text, []int64{t.id}
		}
		if i == len(tokens)-1 {
			meta["finish_reason"] = map[string]any{"type": map[bool]string{true: "stop", false: "length"}[ended], "length": len(all)}
			if !o.Delta {
				e["text"] = text
			}
		}
		s.event(e)
		if !s.wait(o.Each) {
			return
		}
	}
	fmt.Fprint(w, "data: [DONE]\n\n")
}
