package sandbox

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"
)

// port is where every engine listens.
const port = 8000

// question is a request for a completion, by OpenAI's API or by SGLang's own.
type question struct {
	Model  string `json:"model"`
	Prompt string `json:"prompt"`
	Tokens int    `json:"max_tokens"`
	IDs    bool   `json:"return_token_ids"`

	Text     string `json:"text"` // SGLang's /generate, and what follows
	Sampling struct {
		Tokens int `json:"max_new_tokens"`
	} `json:"sampling_params"`
}

// reply is how an engine answers a question.
type reply struct {
	Completion
	status      int // 0: it does not answer
	first, each time.Duration
}

// RoundTrip answers a request for a streamed completion as the engine of a pod would, by
// the pod's address, or one of those behind a service's endpoint. The tokens come as
// fast as the engine's load lets them, by the caller's clock. The request is no load for
// the engine. One that is stuck does not answer; one that loads refuses the connection.
func (w *World) RoundTrip(req *http.Request) (*http.Response, error) {
	var q question
	if req.Body != nil {
		err := json.NewDecoder(req.Body).Decode(&q)
		if err := errors.Join(err, req.Body.Close()); err != nil {
			return nil, fmt.Errorf("read the request: %w", err)
		}
	}
	a, err := w.reply(req.URL, q)
	switch {
	case err != nil:
		return nil, err
	case a.status == 0:
		<-req.Context().Done()
		return nil, req.Context().Err()
	case a.status == http.StatusNotFound:
		return respond(req, a.status, `{"error":{"type":"NotFoundError"}}`), nil
	case a.status != http.StatusOK:
		return respond(req, a.status, `{"error":{"type":"InternalServerError"}}`), nil
	}
	out := respond(req, a.status, "")
	out.Header, out.ContentLength = http.Header{"Content-Type": {"text/event-stream; charset=utf-8"}}, -1
	out.Body = &stream{done: req.Context().Done(), canceled: req.Context().Err, events: a.events(q), first: a.first, each: a.each}
	return out, nil
}

// reply returns what an engine answers. Where none listens, it is an error.
func (w *World) reply(to *url.URL, q question) (reply, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.advanceLocked()
	prompt, tokens := cmp.Or(q.Prompt, q.Text), cmp.Or(q.Tokens, q.Sampling.Tokens)
	f, p := w.listener(to.Host, prompt)
	if p == nil {
		return reply{}, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connect: connection refused")}
	}
	known := to.Path == "/v1/completions" && q.Model == f.spec.service.Model || to.Path == "/generate" && f.dialect().name == "sglang"
	luck := f.rng.unit(p.name+prompt, f.ticks)
	switch fails := p.set.image.failures; {
	case p.stuck || luck < p.hangs:
		return reply{}, nil
	case !known:
		return reply{status: http.StatusNotFound}, nil
	case 1-luck <= fails:
		return reply{status: http.StatusInternalServerError}, nil
	}
	how, whose := p.differs()
	a := reply{Completion: complete(f.spec.service.Model, prompt, tokens, how, whose), status: http.StatusOK}
	first, each := p.engine.Ahead(len(a.Prompt))
	a.first, a.each = time.Duration(first*float64(time.Second)), time.Duration(each*float64(time.Second))
	return a, nil
}

// addressed returns the ready pod with that address.
func (w *World) addressed(host string) (*fleet, *pod) {
	for _, f := range w.fleets {
		for _, p := range slices.Concat(f.pods, f.apart) {
			if p.ready && p.engine != nil && host == net.JoinHostPort(p.ip, strconv.Itoa(port)) {
				return f, p
			}
		}
	}
	return nil, nil
}

// listener returns the pod that listens at an address. Behind an endpoint it is any of
// those that are ready, by the prompt and the time.
func (w *World) listener(host, prompt string) (*fleet, *pod) {
	for _, f := range w.fleets {
		if u, err := url.Parse(f.spec.service.Endpoint); err == nil && u.Host == host {
			at := f.routes(prompt)
			ready := at.serving()
			if len(ready) == 0 {
				return nil, nil
			}
			p := ready[f.rng.of("router"+prompt, f.ticks)%uint64(len(ready))]
			if p.engine == nil {
				return nil, nil
			}
			return at, p
		}
	}
	return w.addressed(host)
}

// events returns the server-sent events of a completion, one for each token and then
// those that end the stream.
func (a reply) events(q question) [][]byte {
	var out [][]byte
	add := func(v any) {
		b, err := json.Marshal(v)
		if err != nil {
			panic(err) // unreachable: maps of plain values
		}
		out = append(out, fmt.Appendf(nil, "data: %s\n\n", b))
	}
	for i := range a.Tokens {
		last := i == len(a.Tokens)-1
		if q.Text != "" {
			add(a.native(i+1, last))
			continue
		}
		choice := map[string]any{"index": 0, "text": a.Words[i], "finish_reason": nil}
		if last {
			choice["finish_reason"] = "length"
		}
		if q.IDs {
			choice["token_ids"] = a.Tokens[i : i+1]
		}
		if q.IDs && i == 0 {
			choice["prompt_token_ids"] = a.Prompt
		}
		add(map[string]any{"object": "text_completion", "model": q.Model, "choices": []any{choice}})
	}
	if q.Text == "" {
		add(map[string]any{"object": "text_completion", "model": q.Model, "choices": []any{}, "usage": map[string]any{"prompt_tokens": len(a.Prompt), "completion_tokens": len(a.Tokens)}})
	}
	return append(out, []byte("data: [DONE]\n\n"))
}

// native returns an event of SGLang's /generate: the completion up to its nth token,
// whose text comes with the last.
func (a reply) native(n int, last bool) map[string]any {
	meta := map[string]any{"prompt_tokens": len(a.Prompt), "completion_tokens": n, "finish_reason": nil}
	e := map[string]any{"text": nil, "output_ids": a.Tokens[:n], "meta_info": meta}
	if last {
		meta["finish_reason"], e["text"] = map[string]any{"type": "length", "length": n}, a.Text()
	}
	return e
}

// stream is the body of an answer: its events, each when it is due.
type stream struct {
	done        <-chan struct{} // the caller left
	canceled    func() error
	events      [][]byte // still to come
	rest        bytes.Reader
	first, each time.Duration
}

// Read implements [io.Reader].
func (s *stream) Read(b []byte) (int, error) {
	if s.rest.Len() == 0 {
		if len(s.events) == 0 {
			return 0, io.EOF
		}
		due := time.NewTimer(s.first)
		defer due.Stop()
		select {
		case <-s.done:
			return 0, s.canceled()
		case <-due.C:
		}
		s.rest.Reset(s.events[0])
		s.events, s.first = s.events[1:], s.each
	}
	return s.rest.Read(b)
}

// Close implements [io.Closer].
func (s *stream) Close() error { return nil }

var _ http.RoundTripper = (*World)(nil)
