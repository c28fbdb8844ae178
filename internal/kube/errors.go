package kube

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/inference-responder/responder/internal/fault"
)

// cause is the Err of a [fault.Error]. Causes can quote whole objects, so their text
// is shortened and secrets in it are redacted.
type cause struct{ err error }

// Error returns the redacted text.
func (c cause) Error() string { return clip(c.err.Error()) }

// Unwrap returns the cause as the API server or the library returned it.
func (c cause) Unwrap() error { return c.err }

// request describes a request for messages and for the permission it needs.
type request struct {
	verb      string // get, list, patch
	group     string // API group; empty: core
	resource  string // deployments
	namespace string
	name      string
	write     bool // carried out, not a dry-run
}

// String returns the form that people use: "get deployments.apps serving/chat".
func (r request) String() string {
	s := r.verb + " " + r.resource
	if r.group != "" {
		s += "." + r.group
	}
	place := strings.Trim(r.namespace+"/"+r.name, "/")
	if place != "" {
		s += " " + place
	}
	return s
}

// fail converts an error of the API server or of the connection. It is certain
// that no write happened only when the server refused it or was never reached.
func (r request) fail(err error) error {
	if err == nil {
		return nil
	}
	e := &fault.Error{Message: r.String(), Err: cause{err}}
	switch {
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		e.Reason = fault.Forbidden
		e.Message += fmt.Sprintf(": allow it with the rule {apiGroups: [%q], resources: [%q], verbs: [%q]}", r.group, r.resource, r.verb)
	case apierrors.IsNotFound(err):
		e.Reason = fault.NotFound
	case apierrors.IsConflict(err), isFailedTest(err):
		e.Reason = fault.Conflict
		e.Message += ": it changed since it was read"
	case apierrors.IsTooManyRequests(err):
		e.Reason = fault.Throttled
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsMethodNotSupported(err), apierrors.IsRequestEntityTooLargeError(err):
		e.Reason = fault.Invalid
	case isTimeout(err):
		e.Reason, e.Unknown = fault.Timeout, r.write && !isDial(err)
	case isServer(err):
		// A 5xx may come after the write, too: etcd or a proxy timed out.
		e.Reason, e.Unknown = fault.ServerError, r.write
	default:
		e.Reason, e.Unknown = fault.Unreachable, r.write && !isDial(err)
	}
	return e
}

// isFailedTest reports whether a "test" operation of a JSON patch failed. The API
// server has no status of its own for it. It answers 422 with one general sentence
// and drops the details, while an invalid object is answered with its fields.
func isFailedTest(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code == 422 &&
		strings.HasPrefix(status.Status().Message, "the server rejected our request due to an error in our request")
}

func isTimeout(err error) bool {
	var network net.Error
	return apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) ||
		errors.As(err, &network) && network.Timeout()
}

func isServer(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code >= 500
}

// isDial reports whether no connection was made, so nothing was sent.
func isDial(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// IsForbidden reports whether the server knows the caller and denies the
// permission. An unknown credential is a different error.
func IsForbidden(err error) bool { return apierrors.IsForbidden(err) }
