package kube

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/inference-responder/responder/internal/credential"
)

// Reason says, for machines, why a request failed. The words are those of the
// executor's reasons.
type Reason string

// The reasons.
const (
	Unreachable Reason = "unreachable"   // could not connect, or the answer was cut off
	Timeout     Reason = "timeout"       // no answer in time
	Throttled   Reason = "throttled"     // 429
	ServerError Reason = "server_error"  // 5xx
	Forbidden   Reason = "forbidden"     // 401, 403
	NotFound    Reason = "not_found"     // the object or the revision is not there
	Conflict    Reason = "conflict"      // a precondition failed: the object moved
	Invalid     Reason = "invalid"       // the server or this package refuses the request
	NothingToDo Reason = "nothing_to_do" // already as wanted
	OutOfBounds Reason = "out_of_bounds" // the workload does not allow it
)

// Error is why a request failed.
type Error struct {
	Reason  Reason
	Message string // what, where, why, what to do
	Unknown bool   // a write may have been carried out
	Err     error
}

// Error returns the message and the cause. Causes can quote whole objects, so
// they are shortened and secrets in them are redacted.
func (e *Error) Error() string {
	if e.Err == nil {
		return e.Message
	}
	return e.Message + ": " + clip(credential.Redact(e.Err.Error()))
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// request names a request for messages and for the permission it needs.
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

// fail types an error of the API server or of the way to it. Whether a write
// happened is only certain when the server said no, or never heard of it.
func (r request) fail(err error) error {
	if err == nil {
		return nil
	}
	e := &Error{Message: r.String(), Err: err}
	switch {
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		e.Reason = Forbidden
		e.Message += fmt.Sprintf(": allow it with the rule {apiGroups: [%q], resources: [%q], verbs: [%q]}", r.group, r.resource, r.verb)
	case apierrors.IsNotFound(err):
		e.Reason = NotFound
	case apierrors.IsConflict(err), isFailedTest(err):
		e.Reason = Conflict
		e.Message += ": it changed since it was looked at"
	case apierrors.IsTooManyRequests(err):
		e.Reason = Throttled
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsMethodNotSupported(err), apierrors.IsRequestEntityTooLargeError(err):
		e.Reason = Invalid
	case isTimeout(err):
		e.Reason, e.Unknown = Timeout, r.write && !isDial(err)
	case isServer(err):
		// Even a 5xx may come after the write: etcd timed out, or a proxy did.
		e.Reason, e.Unknown = ServerError, r.write
	default:
		e.Reason, e.Unknown = Unreachable, r.write && !isDial(err)
	}
	return e
}

// isFailedTest recognises a "test" operation of a JSON patch that did not
// hold. The API server has no status of its own for it: it answers 422 with one
// general sentence and drops what the patch said, while an object that is not
// valid is answered with its fields.
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

// isDial reports whether no connection was made, so that nothing was sent.
func isDial(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// IsForbidden reports whether the server knows who asks and denies the right
// to. A credential that it does not know is something else.
func IsForbidden(err error) bool { return apierrors.IsForbidden(err) }
