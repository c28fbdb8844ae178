package notify

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

const (
	defaultTimeout = 10 * time.Second
	maxQuiet       = 10 * time.Minute // longest time a server's Retry-After is believed
	maxAnswer      = 64 << 10         // bytes of an answer that says only whether it worked
)

// endpoint is one server that is told things. It is safe for concurrent use.
type endpoint struct {
	what    string   // for messages: webhook, PagerDuty, Alertmanager
	base    *url.URL // as configured
	where   string   // for messages: scheme and host only, for a path can be a secret
	timeout time.Duration
	client  *http.Client

	mu    sync.Mutex // guards quiet
	quiet time.Time  // until when the server wants to be left alone
}

// newEndpoint checks the address and reads the CA file. It does not connect: a
// server that is down now may be up when it is needed.
func newEndpoint(what, raw, caFile string, timeout time.Duration) (*endpoint, error) {
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
	return &endpoint{
		what: what, base: u, where: u.Scheme + "://" + u.Host, timeout: timeout,
		client: outbound.Client(transport),
	}, nil
}

// request is one question to an endpoint.
type request struct {
	method      string
	path        string     // below the base, already escaped; empty: the base itself
	query       url.Values // nil: the base's
	contentType string     // of body
	body        []byte
	token       string // for the Authorization header; empty: none
	key         string // for the Idempotency-Key header; empty: none
	secret      string // in the body; must not come back in an error
	maxAnswer   int64  // bytes; 0: the answer's text does not matter
}

// do sends a request and gives the answer's body, cut where it does not
// matter. Everything but a 2xx is a [*fault.Error].
func (e *endpoint) do(ctx context.Context, r request) ([]byte, error) {
	if left := e.left(time.Now()); left > 0 {
		return nil, &fault.Error{
			Reason: fault.Throttled, RetryAfter: left,
			Message: fmt.Sprintf("%s at %s wants to be left alone for %s", e.what, e.where, left.Round(time.Second)),
		}
	}
	ctx, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	u := *e.base
	if r.path != "" {
		u = *e.base.JoinPath(r.path)
	}
	if r.query != nil {
		u.RawQuery = r.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, r.method, u.String(), bytes.NewReader(r.body))
	if err != nil {
		return nil, invalid("%s: the request cannot be made", e.what)
	}
	req.Header.Set("User-Agent", "responder")
	if r.contentType != "" {
		req.Header.Set("Content-Type", r.contentType)
	}
	if r.token != "" {
		req.Header.Set("Authorization", "Bearer "+r.token)
	}
	if r.key != "" {
		req.Header.Set("Idempotency-Key", r.key)
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
func (e *endpoint) answer(resp *http.Response, r request) ([]byte, error) {
	limit := r.maxAnswer
	if limit == 0 || resp.StatusCode/100 != 2 {
		limit = maxAnswer
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	if resp.StatusCode/100 != 2 {
		after := retryAfter(resp.Header.Get("Retry-After"), time.Now())
		e.leave(after)
		return nil, refusedAnswer(e.what, e.where, resp.StatusCode, e.scrub(string(body), r), after)
	}
	switch {
	case r.maxAnswer == 0:
		return nil, nil // a 2xx is all that counts
	case err != nil:
		return nil, accepted{failedRequest(e.what, e.where, err)}
	case int64(len(body)) > limit:
		return nil, accepted{&fault.Error{Reason: fault.ServerError, Unknown: true, Message: fmt.Sprintf("%s at %s answers with more than %d bytes", e.what, e.where, limit)}}
	}
	return body, nil
}

// scrub takes out what a server echoes of our secrets: the token, the key, and
// the address, whose path or query may be one.
func (e *endpoint) scrub(s string, r request) string {
	var pairs []string
	add := func(secret string, atLeast int) {
		if len(secret) >= atLeast {
			pairs = append(pairs, secret, "[redacted]")
		}
	}
	add(r.token, 1)
	add(r.secret, 1)
	add(e.base.RawQuery, 1)
	add(strings.Trim(e.base.Path, "/"), 16) // a short one is a prefix such as alertmanager
	return strings.NewReplacer(pairs...).Replace(s)
}

func (e *endpoint) left(now time.Time) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.quiet.Sub(now)
}

func (e *endpoint) leave(after time.Duration) {
	if after <= 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.quiet = time.Now().Add(after)
}

// readSecret reads a token or key. The file is named, its content is not.
func readSecret(what, file string) (string, error) {
	secret, err := outbound.ReadToken(file)
	if err != nil {
		return "", &fault.Error{Reason: fault.Forbidden, Message: what + " file cannot be read", Err: err}
	}
	return secret, nil
}

// bearer reads an optional token file.
func bearer(what, file string) (string, error) {
	if file == "" {
		return "", nil
	}
	return readSecret(what+" token", file)
}

// encodeJSON writes a value as people read it: < and & stay what they are.
func encodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, invalid("encode message: %v", err)
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}
