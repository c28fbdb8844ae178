package forge

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/outbound"
)

const (
	maxAnswer = 8 << 20          // bytes of an answer: a page of pull requests with their texts
	maxQuiet  = 30 * time.Minute // longest time a forge's wish to be left alone is believed
)

// caller sends JSON requests to one forge.
type caller struct {
	kind    Kind
	base    *url.URL
	token   string // file
	timeout time.Duration
	client  *http.Client

	mu    sync.Mutex // guards quiet
	quiet time.Time  // until when the forge wants to be left alone
}

func newCaller(o Options) (*caller, error) {
	u, err := url.Parse(o.API)
	switch {
	case err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https"):
		return nil, invalid("forge api: want https://host/path") // not repeated: it may hold a secret
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, invalid("forge api: holds credentials, a query or a fragment: use the token file, and the plain address")
	}
	if err := outbound.AllowedURL(u); err != nil {
		return nil, &fault.Error{Reason: fault.Invalid, Message: "forge api", Err: err}
	}
	transport, err := outbound.Options{Connect: 10 * time.Second, CAFile: o.CAFile}.Transport()
	if err != nil {
		return nil, &fault.Error{Reason: fault.Invalid, Message: "forge CA file", Err: err}
	}
	return &caller{
		kind: o.Kind, base: u, token: o.TokenFile, timeout: o.Timeout,
		client: outbound.Client(transport),
	}, nil
}

// call is one request.
type call struct {
	doing  string // for messages: "open pull request"
	method string
	path   string // below the base, escaped
	query  url.Values
	in     any // nil: no body
	out    any // nil: the answer does not matter
}

// do sends a request. It returns the status, 0 without an answer. Any status but
// 2xx is an error.
func (c *caller) do(ctx context.Context, q call) (int, error) {
	if left := c.left(time.Now()); left > 0 {
		return 0, &fault.Error{Reason: fault.Throttled, Message: fmt.Sprintf("%s: %s asks to wait %s", q.doing, c, left.Round(time.Second))}
	}
	token, err := c.secret()
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	req, err := c.request(ctx, q, token)
	if err != nil {
		return 0, err
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return 0, c.failed(q, token, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case resp.StatusCode/100 != 2:
		return resp.StatusCode, c.refused(q, token, resp, body)
	case err != nil:
		return resp.StatusCode, c.failed(q, token, err)
	case len(body) > maxAnswer:
		return resp.StatusCode, &fault.Error{Reason: fault.OutOfBounds, Unknown: q.writes(), Message: fmt.Sprintf("%s: %s answers with more than %d bytes", q.doing, c, maxAnswer)}
	case q.out == nil:
		return resp.StatusCode, nil
	}
	if err := json.Unmarshal(body, q.out); err != nil {
		return resp.StatusCode, &fault.Error{Reason: fault.ServerError, Unknown: q.writes(), Message: fmt.Sprintf("%s: the answer of %s cannot be read as JSON; check the API's address", q.doing, c)}
	}
	return resp.StatusCode, nil
}

func (q call) writes() bool { return q.method != http.MethodGet }

// String returns the forge's kind and host.
func (c *caller) String() string { return string(c.kind) + " at " + c.base.Host }

func (c *caller) request(ctx context.Context, q call, token string) (*http.Request, error) {
	var body io.Reader
	if q.in != nil {
		b, err := json.Marshal(q.in)
		if err != nil {
			return nil, invalid("%s: the request cannot be written: %v", q.doing, err)
		}
		body = bytes.NewReader(b)
	}
	address := strings.TrimSuffix(c.base.String(), "/") + q.path
	if q.query != nil {
		address += "?" + q.query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, q.method, address, body)
	if err != nil {
		return nil, invalid("%s: the request cannot be made", q.doing)
	}
	req.Header.Set("User-Agent", "responder")
	req.Header.Set("Accept", "application/json")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	switch c.kind {
	case GitHub:
		req.Header.Set("Accept", "application/vnd.github+json")
		req.Header.Set("X-GitHub-Api-Version", "2022-11-28")
		req.Header.Set("Authorization", "Bearer "+token)
	case GitLab:
		req.Header.Set("Authorization", "Bearer "+token)
	default:
		req.Header.Set("Authorization", "token "+token)
	}
	return req, nil
}

// secret reads the token. Errors name the file, never its content.
func (c *caller) secret() (string, error) {
	token, err := outbound.ReadToken(c.token)
	if err != nil {
		return "", &fault.Error{Reason: fault.Forbidden, Message: "forge token file cannot be read", Err: err}
	}
	return token, nil
}

// failed returns the error of a request without a complete answer.
func (c *caller) failed(q call, token string, err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err // it would name the whole URL
	}
	var refused *outbound.Refused
	var certificate *tls.CertificateVerificationError
	var network net.Error
	e := &fault.Error{Reason: fault.Unreachable, Unknown: q.writes()}
	hint := "cannot be reached; check the address and that it runs"
	switch {
	case errors.As(err, &refused):
		e.Reason, e.Unknown, hint = fault.Invalid, false, "is not asked"
	case errors.As(err, &certificate):
		e.Reason, e.Unknown, hint = fault.Invalid, false, "has a certificate that is not trusted; set its CA file"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		e.Reason, hint = fault.Timeout, "did not answer in time"
	case errors.Is(err, context.Canceled):
		e.Reason, hint = fault.Timeout, "was given up on"
	}
	e.Message = fmt.Sprintf("%s: %s %s: %s", q.doing, c, hint, shown(err.Error(), token))
	return e
}

// refused returns the error of an answer that is not a success.
func (c *caller) refused(q call, token string, resp *http.Response, body []byte) error {
	code := resp.StatusCode
	e := &fault.Error{Unknown: q.writes() && code/100 == 5}
	hint := ""
	after := retryAfter(resp.Header, time.Now())
	switch {
	case code == http.StatusTooManyRequests, code == http.StatusForbidden && after > 0:
		e.Reason, hint = fault.Throttled, "it wants to be left alone"
		c.leave(cmp.Or(after, time.Minute))
	case code/100 == 3:
		e.Reason, hint = fault.Invalid, "redirects are not followed, set the final address"
	case code == http.StatusUnauthorized, code == http.StatusForbidden, code == http.StatusProxyAuthRequired:
		e.Reason, hint = fault.Forbidden, "check the token and its rights: contents and pull requests, read and write"
	case code == http.StatusNotFound, code == http.StatusGone:
		e.Reason, hint = fault.NotFound, "check the repository's name, and that the token may see it"
	case code == http.StatusConflict:
		e.Reason = fault.Conflict
	case code == http.StatusRequestTimeout:
		e.Reason = fault.Timeout
	case code/100 == 4:
		e.Reason = fault.Invalid
	default:
		e.Reason = fault.ServerError
	}
	e.Message = fmt.Sprintf("%s: %s answered %d %s", q.doing, c, code, http.StatusText(code))
	if hint != "" {
		e.Message += "; " + hint
	}
	if text := shown(errorText(body), token); text != "" {
		e.Message += ": " + text
	}
	return e
}

// errorText extracts the text of an error's JSON: message and errors of GitHub
// and Gitea, message or error of GitLab, where a message may be a list.
func errorText(body []byte) string {
	var answer struct {
		Message any `json:"message"`
		Error   any `json:"error"`
		Errors  any `json:"errors"`
	}
	if json.Unmarshal(body, &answer) != nil {
		return string(body)
	}
	var parts []string
	for _, v := range []any{answer.Message, answer.Error, answer.Errors} {
		switch v := v.(type) {
		case nil:
		case string:
			parts = append(parts, v)
		default:
			if b, err := json.Marshal(v); err == nil {
				parts = append(parts, string(b))
			}
		}
	}
	return strings.Join(parts, ": ")
}

func (c *caller) left(now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.quiet.Sub(now)
}

func (c *caller) leave(after time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.quiet = time.Now().Add(min(after, maxQuiet))
}

// retryAfter returns how long to wait: Retry-After, or the reset of a spent rate
// limit (GitHub and GitLab name it differently).
func retryAfter(h http.Header, now time.Time) time.Duration {
	if n, err := strconv.Atoi(h.Get("Retry-After")); err == nil && n > 0 {
		return time.Duration(min(n, 1<<20)) * time.Second
	}
	for _, prefix := range []string{"X-Ratelimit-", "Ratelimit-"} {
		if h.Get(prefix+"Remaining") != "0" {
			continue
		}
		if at, err := strconv.ParseInt(h.Get(prefix+"Reset"), 10, 64); err == nil {
			return max(time.Second, time.Unix(at, 0).Sub(now))
		}
		return time.Minute
	}
	return 0
}

// shown prepares foreign text for an error.
func shown(s, token string) string {
	for _, form := range []string{token, url.QueryEscape(token)} {
		s = strings.ReplaceAll(s, form, "[redacted]")
	}
	return outbound.OneLine(s, 300)
}
