// Package endpoint asks one HTTP server of somebody else's: a webhook,
// PagerDuty, Alertmanager, whoever repairs GPUs. Answers are bounded, and
// redirects are not followed, because they would carry the secret elsewhere.
//
// Every failure is a [*fault.Error] with a [fault.Reason], so that a caller can
// decide whether to try again. Nothing is tried again here. A server's
// Retry-After is kept, and the server is not asked before it.
//
// Tokens and keys are read from their files for every request, because mounted
// secrets rotate. They are in no error, whatever a server echoes.
package endpoint

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/outbound"
)

// MaxAnswer bounds a short answer, in bytes.
const MaxAnswer = 64 << 10

const (
	defaultTimeout = 10 * time.Second
	maxQuiet       = 10 * time.Minute // longest time a server's Retry-After is believed
)

// Endpoint is one server. It is safe for concurrent use.
type Endpoint struct {
	what    string   // for messages: webhook, PagerDuty, Alertmanager
	base    *url.URL // as configured
	where   string   // for messages: scheme and host only, for a path can be a secret
	timeout time.Duration
	client  *http.Client

	mu    sync.Mutex // guards quiet
	quiet time.Time  // until when the server wants to be left alone
}

// New checks the address and reads the CA file. what names the server in
// messages; a zero timeout is 10 s. New does not connect: a server that is down
// now may be up when it is needed.
func New(what, raw, caFile string, timeout time.Duration) (*Endpoint, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https"):
		return nil, fmt.Errorf("%s url: want http://host or https://host", what) // not repeated: it may hold a secret
	case u.User != nil:
		return nil, fmt.Errorf("%s url: holds credentials, which end up in logs: use a token file", what)
	case u.Fragment != "":
		return nil, fmt.Errorf("%s url: has a fragment (#...), which is never sent: leave it out", what)
	}
	if err := outbound.AllowedURL(u); err != nil {
		return nil, fmt.Errorf("%s url: %w", what, err)
	}
	transport, err := outbound.Options{CAFile: caFile}.Transport()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	if timeout <= 0 {
		timeout = defaultTimeout
	}
	return &Endpoint{
		what: what, base: u, where: u.Scheme + "://" + u.Host, timeout: timeout,
		client: outbound.Client(transport),
	}, nil
}

// Where returns the server's scheme and host. The rest of its address can be a
// secret.
func (e *Endpoint) Where() string { return e.where }

// Request is one request to an endpoint.
type Request struct {
	Method      string
	Path        string     // below the base, already escaped; empty: the base itself
	Query       url.Values // nil: the base's
	ContentType string     // of Body
	Body        []byte
	Token       string            // for the Authorization header; empty: none
	Key         string            // for the Idempotency-Key header; empty: none
	Header      map[string]string // further headers
	Secret      string            // in Body; must not come back in an error
	Secrets     []string          // in Header; must not come back in an error
	MaxAnswer   int64             // bytes; 0: the answer's text does not matter
}

// Do sends a request and returns the answer's body, which is empty where
// MaxAnswer is 0. Everything but a 2xx is a [*fault.Error].
func (e *Endpoint) Do(ctx context.Context, r Request) ([]byte, error) {
	if left := e.left(time.Now()); left > 0 {
		return nil, &fault.Error{
			Reason: fault.Throttled, RetryAfter: left,
			Message: fmt.Sprintf("%s at %s asks to wait %s", e.what, e.where, left.Round(time.Second)),
		}
	}
	ctx, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	u := *e.base
	if r.Path != "" {
		u = *e.base.JoinPath(r.Path)
	}
	if r.Query != nil {
		u.RawQuery = r.Query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, u.String(), bytes.NewReader(r.Body))
	if err != nil {
		return nil, Invalid("%s: the request cannot be made", e.what)
	}
	req.Header.Set("User-Agent", "responder")
	if r.ContentType != "" {
		req.Header.Set("Content-Type", r.ContentType)
	}
	for name, value := range r.Header {
		req.Header.Set(name, value)
	}
	if r.Token != "" {
		req.Header.Set("Authorization", "Bearer "+r.Token)
	}
	if r.Key != "" {
		req.Header.Set("Idempotency-Key", r.Key)
		req.GetBody = nil // else the transport takes the header for leave to send it again by itself
	}
	resp, err := e.client.Do(req)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err // it would name the whole URL
		}
		return nil, failedRequest(e.what, e.where, err)
	}
	defer resp.Body.Close()
	return e.answer(resp, r)
}

// answer reads what came back.
func (e *Endpoint) answer(resp *http.Response, r Request) ([]byte, error) {
	limit := r.MaxAnswer
	if limit == 0 || resp.StatusCode/100 != 2 {
		limit = MaxAnswer
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if resp.StatusCode/100 != 2 {
		after := retryAfter(resp.Header.Get("Retry-After"), time.Now())
		e.leave(after)
		return nil, refusedAnswer(e.what, e.where, resp.StatusCode, e.scrub(string(body), r), after)
	}
	switch {
	case r.MaxAnswer == 0:
		return nil, nil // a 2xx is all that counts
	case err != nil:
		return nil, Accepted{failedRequest(e.what, e.where, err)}
	case int64(len(body)) > limit:
		return nil, Accepted{&fault.Error{Reason: fault.ServerError, Unknown: true, Message: fmt.Sprintf("%s at %s answers with more than %d bytes", e.what, e.where, limit)}}
	}
	return body, nil
}

// scrub takes out what a server echoes of our secrets: the token, the key, and
// the address, whose path or query may be one.
func (e *Endpoint) scrub(s string, r Request) string {
	var pairs []string
	add := func(secret string, atLeast int) {
		if len(secret) >= atLeast {
			pairs = append(pairs, secret, "[redacted]")
		}
	}
	add(r.Token, 1)
	add(r.Secret, 1)
	for _, secret := range r.Secrets {
		add(secret, 1)
	}
	add(e.base.RawQuery, 1)
	add(strings.Trim(e.base.Path, "/"), 16) // a short one is a prefix such as alertmanager
	return strings.NewReplacer(pairs...).Replace(s)
}

func (e *Endpoint) left(now time.Time) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.quiet.Sub(now)
}

func (e *Endpoint) leave(after time.Duration) {
	if after <= 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.quiet = time.Now().Add(after)
}

// ReadSecret reads a token or key. An error names the file, not its content.
func ReadSecret(what, file string) (string, error) {
	secret, err := outbound.ReadToken(file)
	if err != nil {
		return "", &fault.Error{Reason: fault.Forbidden, Message: what + " file cannot be read", Err: err}
	}
	return secret, nil
}

// Bearer reads an optional token file.
func Bearer(what, file string) (string, error) {
	if file == "" {
		return "", nil
	}
	return ReadSecret(what+" token", file)
}

// EncodeJSON encodes a value without escaping < and &.
func EncodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, Invalid("encode message: %v", err)
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}
