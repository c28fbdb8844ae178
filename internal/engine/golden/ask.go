package golden

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/inference-responder/responder/internal/outbound"
)

// State is what became of asking a target.
type State string

// The states of a target.
const (
	Answered State = "answered" // each prompt came back whole
	Hung     State = "hung"     // no token came in time
	Failed   State = "failed"   // it refused, or ended early
	Skipped  State = "skipped"  // it was not asked
)

// Answer is what a target made of the golden prompts, up to the first that it did
// not complete.
type Answer struct {
	State       State
	Why         string // it did not answer; never what the server said
	Status      int    // HTTP status code of the last answer; 0: none
	Completions []Completion
}

// dialect is how one target is asked.
type dialect struct {
	native bool // SGLang's /generate, for prompts that are texts
	ids    bool // vLLM's return_token_ids
}

// target is where and how one engine is asked.
type target struct {
	base  *url.URL
	path  string // of OpenAI's API
	model string
	token string
	dialect
}

// request makes the request for one prompt.
func (t target) request(ctx context.Context, p Prompt, most int) (*http.Request, error) {
	body := map[string]any{}
	u := t.base.JoinPath(t.path, "completions")
	switch {
	case t.native && p.Prompt != "":
		u = t.base.JoinPath("generate")
		body["text"] = p.Prompt
		body["stream"] = true
		body["sampling_params"] = map[string]any{"temperature": 0, "max_new_tokens": most}
	default:
		body["model"], body["max_tokens"], body["temperature"], body["seed"] = t.model, most, 0, 0
		body["stream"], body["stream_options"] = true, map[string]any{"include_usage": true}
		if t.ids {
			body["return_token_ids"] = true
		}
		if body["prompt"] = p.Prompt; len(p.Messages) > 0 {
			delete(body, "prompt")
			u, body["messages"] = t.base.JoinPath(t.path, "chat", "completions"), p.Messages
		}
	}
	b, err := json.Marshal(body)
	if err != nil {
		return nil, errors.New("the prompt cannot be encoded")
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(b))
	if err != nil {
		return nil, errors.New("the request cannot be made")
	}
	req.Header.Set("User-Agent", "responder")
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	if t.token != "" {
		req.Header.Set("Authorization", "Bearer "+t.token)
	}
	return req, nil
}

// refused is an error that is an answer of its own, or none at all: not a hang.
type refused struct {
	status int
	why    string
}

func (r refused) Error() string { return r.why }

// complete asks for the completion of one prompt. The status code is 0 where none came.
func (t target) complete(ctx context.Context, client *http.Client, p Prompt, most int) (Completion, int, error) {
	req, err := t.request(ctx, p, most)
	if err != nil {
		return Completion{}, 0, err
	}
	r := &reading{most: most, began: time.Now()}
	resp, err := client.Do(req)
	if err != nil {
		return Completion{}, 0, unreached(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }() // nothing is lost; the engine stops generating for a client that left
	if resp.StatusCode != http.StatusOK {
		return Completion{}, resp.StatusCode, refused{resp.StatusCode, statusText(resp)}
	}
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind != "text/event-stream" {
		return Completion{}, resp.StatusCode, refused{resp.StatusCode, "it answers no event stream: check probe.endpoint and probe.path"}
	}
	for e := newEvents(resp.Body); !r.done; {
		data, err := e.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Completion{}, resp.StatusCode, broken(ctx, err, r)
		}
		if err := r.event(data, time.Now()); err != nil {
			return Completion{}, resp.StatusCode, refused{resp.StatusCode, err.Error()}
		}
	}
	c, err := r.end()
	return c, resp.StatusCode, err
}

// hung is no token for as long as a completion may take.
type hung struct{ why string }

func (h hung) Error() string { return h.why }

// unreached is a request without an answer.
func unreached(ctx context.Context, err error) error {
	var no *outbound.Refused
	var dialed *net.OpError
	var cert *tls.CertificateVerificationError
	switch {
	case errors.As(err, &no):
		return refused{why: no.Error()}
	case errors.As(err, &dialed) && dialed.Op == "dial":
		var dns *net.DNSError
		if errors.As(err, &dns) {
			return refused{why: "its name cannot be resolved"}
		}
		if errors.Is(ctx.Err(), context.DeadlineExceeded) || dialed.Timeout() {
			return refused{why: "it cannot be connected to in time: is a network policy in between?"}
		}
		return refused{why: "it cannot be connected to"}
	case errors.As(err, &cert):
		return refused{why: "its certificate is not trusted: set probe.ca_file"}
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return hung{"no answer in time"}
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return refused{why: "the connection broke before an answer"}
}

// broken is a stream that was not read to its end.
func broken(ctx context.Context, err error, r *reading) error {
	switch {
	case errors.Is(err, errTooLarge):
		return err
	case errors.Is(ctx.Err(), context.DeadlineExceeded) && r.first.IsZero():
		return hung{"no token in time"}
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return hung{fmt.Sprintf("not all tokens in time, only %d", r.length())}
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return errEarly
}

// statusText says what an answer other than 200 means. Its body may repeat the
// prompt, so of that only whether the model is missing is told.
func statusText(resp *http.Response) string {
	what := fmt.Sprintf("it answers %d", resp.StatusCode)
	switch code := resp.StatusCode; {
	case code/100 == 3:
		return what + ": redirects are not followed, set the final address"
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return what + ": check probe.token_file"
	case code == http.StatusNotFound:
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 16<<10))
		var e struct {
			Type  string `json:"type"`
			Error struct {
				Type string `json:"type"`
			} `json:"error"`
		}
		if json.Unmarshal(body, &e) == nil && (e.Type == "NotFoundError" || e.Error.Type == "NotFoundError") {
			return what + ": no such model, check probe.model"
		}
		return what + ": no such path, check probe.path"
	case code == http.StatusTooManyRequests:
		return what + ": too many requests"
	case code/100 == 4:
		return what + ": the request is refused"
	}
	return what
}
