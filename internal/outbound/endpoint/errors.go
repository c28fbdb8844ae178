package endpoint

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

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/outbound"
)

// Accepted marks an error after a 2xx: the server took the request, and the
// rest of its answer could not be read.
type Accepted struct{ error }

// Unwrap returns the [*fault.Error].
func (a Accepted) Unwrap() error { return a.error }

// Invalid returns an error whose reason is [fault.Invalid].
func Invalid(format string, args ...any) *fault.Error {
	return &fault.Error{Reason: fault.Invalid, Message: fmt.Sprintf(format, args...)}
}

// failedRequest is a request without a usable answer. The URL in a client's
// error may hold a secret in its path, so only the cause is kept.
func failedRequest(what, where string, err error) *fault.Error {
	var refused *outbound.Refused
	var certificate *tls.CertificateVerificationError
	var network net.Error
	var dialed *net.OpError
	e := &fault.Error{Reason: fault.Unreachable, Unknown: true, Err: err}
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
	if errors.As(err, &dialed) && dialed.Op == "dial" {
		e.Unknown = false
	}
	e.Message = fmt.Sprintf("%s at %s %s", what, where, hint)
	return e
}

// refusedAnswer is an answer that is no success. body is what the server says,
// without secrets.
func refusedAnswer(what, where string, code int, body string, after time.Duration) *fault.Error {
	reason, hint := statusReason(code)
	msg := fmt.Sprintf("%s at %s answered %d %s", what, where, code, http.StatusText(code))
	if hint != "" {
		msg += "; " + hint
	}
	if body = outbound.OneLine(body, 200); body != "" {
		msg += ": " + body
	}
	return &fault.Error{Reason: reason, Message: msg, RetryAfter: after, Status: code, Unknown: reason == fault.ServerError || reason == fault.Timeout}
}

func statusReason(code int) (fault.Reason, string) {
	switch {
	case code/100 == 3:
		return fault.Invalid, "redirects are not followed, set the final address"
	case code == http.StatusUnauthorized, code == http.StatusForbidden, code == http.StatusProxyAuthRequired:
		return fault.Forbidden, "check the token or key file"
	case code == http.StatusNotFound, code == http.StatusGone:
		return fault.NotFound, ""
	case code == http.StatusRequestTimeout, code == http.StatusGatewayTimeout:
		return fault.Timeout, ""
	case code == http.StatusTooManyRequests:
		return fault.Throttled, ""
	case code/100 == 4:
		return fault.Invalid, ""
	default:
		return fault.ServerError, ""
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
