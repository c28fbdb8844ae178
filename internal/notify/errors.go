package notify

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/inference-responder/responder/internal/dial"
)

// Reason says, for machines, why something was not delivered. The words are
// those of the executor's reasons.
type Reason string

// The reasons.
const (
	Unreachable Reason = "unreachable"  // could not connect, or the answer was cut off
	Timeout     Reason = "timeout"      // no answer in time: it may have arrived
	Throttled   Reason = "throttled"    // 429
	ServerError Reason = "server_error" // 5xx, or an answer that cannot be read
	Forbidden   Reason = "forbidden"    // 401, 403, or the secret cannot be read
	NotFound    Reason = "not_found"    // 404, 410
	Conflict    Reason = "conflict"     // somebody else decided otherwise: a silence was ended by hand
	Invalid     Reason = "invalid"      // refused for what it is, by the server or before it was sent
)

// Error is why something was not delivered.
type Error struct {
	Reason     Reason
	Message    string        // what, where, why, what to do; holds no secret
	RetryAfter time.Duration // how long the server wants to be left alone; 0: it did not say
	Maybe      bool          // the server may have taken it all the same
	Accepted   bool          // the server said that it took it, and the rest of its answer could not be read
	Err        error
}

// Error says the message and the cause.
func (e *Error) Error() string {
	if e.Err == nil {
		return e.Message
	}
	return fmt.Sprintf("%s: %v", e.Message, e.Err)
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

func invalid(format string, args ...any) *Error {
	return &Error{Reason: Invalid, Message: fmt.Sprintf(format, args...)}
}

// failedRequest is a request without a usable answer. The URL in a client's
// error may hold a secret in its path, so only the cause is kept.
func failedRequest(what, where string, err error) *Error {
	var refused *dial.Refused
	var certificate *tls.CertificateVerificationError
	var network net.Error
	var dialed *net.OpError
	e := &Error{Reason: Unreachable, Maybe: true, Err: err}
	hint := "cannot be reached; check the address and that it runs"
	switch {
	case errors.As(err, &refused):
		e.Reason, e.Maybe, hint = Invalid, false, "is not asked"
	case errors.As(err, &certificate):
		e.Reason, e.Maybe, hint = Invalid, false, "has a certificate that is not trusted; set its CA file"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		e.Reason, hint = Timeout, "did not answer in time"
	case errors.Is(err, context.Canceled):
		e.Reason, hint = Timeout, "was given up on"
	}
	if errors.As(err, &dialed) && dialed.Op == "dial" {
		e.Maybe = false
	}
	e.Message = fmt.Sprintf("%s at %s %s", what, where, hint)
	return e
}

// refusedAnswer is an answer that is no success. body is what the server says,
// without secrets.
func refusedAnswer(what, where string, code int, body string, after time.Duration) *Error {
	reason, hint := statusReason(code)
	msg := fmt.Sprintf("%s at %s answered %d %s", what, where, code, http.StatusText(code))
	if hint != "" {
		msg += "; " + hint
	}
	if body = oneLine(body, 200); body != "" {
		msg += ": " + body
	}
	return &Error{Reason: reason, Message: msg, RetryAfter: after, Maybe: reason == ServerError || reason == Timeout}
}

func statusReason(code int) (Reason, string) {
	switch {
	case code/100 == 3:
		return Invalid, "redirects are not followed, set the final address"
	case code == http.StatusUnauthorized, code == http.StatusForbidden, code == http.StatusProxyAuthRequired:
		return Forbidden, "check the token or key file"
	case code == http.StatusNotFound, code == http.StatusGone:
		return NotFound, ""
	case code == http.StatusRequestTimeout, code == http.StatusGatewayTimeout:
		return Timeout, ""
	case code == http.StatusTooManyRequests:
		return Throttled, ""
	case code/100 == 4:
		return Invalid, ""
	default:
		return ServerError, ""
	}
}

// retryAfter reads the header's two forms: seconds, or a date.
func retryAfter(value string, now time.Time) time.Duration {
	if n, err := strconv.Atoi(strings.TrimSpace(value)); err == nil {
		return min(max(0, time.Duration(min(n, 1<<20))*time.Second), maxQuiet)
	}
	if at, err := http.ParseTime(value); err == nil {
		return min(max(0, at.Sub(now)), maxQuiet)
	}
	return 0
}

// oneLine makes a server's words fit for a message: no control or format
// characters, at most n bytes.
func oneLine(s string, n int) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r):
			return -1
		default:
			return r
		}
	}, strings.ToValidUTF8(s, ""))
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > n {
		s = strings.ToValidUTF8(s[:n], "") + "..."
	}
	return s
}
