package argocd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/inference-responder/responder/internal/credential"
	"github.com/inference-responder/responder/internal/fault"
)

// request describes a request for messages.
type request struct {
	verb  string // get, refresh, sync, ...
	name  string // of the application; empty: of none
	right string // RBAC action that it needs: get, sync; empty: a valid token is enough
	write bool   // it changes something
	slow  bool   // it waits for the controller
}

// String returns the form that people use.
func (r request) String() string {
	if r.name == "" {
		return r.verb
	}
	return r.verb + " application " + r.name
}

// fail converts an error of the server or of the connection. It is certain that a
// write did not happen only when the server refused it.
func (c *Client) fail(ctx context.Context, r request, err error, token string) error {
	if e := new(fault.Error); errors.As(err, &e) {
		return err
	}
	st, ok := status.FromError(err)
	text := clean(st.Message(), token)
	e := &fault.Error{Message: fmt.Sprintf("argo cd at %s: %s", c.server, r)}
	hint := ""
	e.Reason, hint = r.judge(st.Code(), text)
	if !ok { // not of gRPC at all
		e.Reason, hint = fault.ServerError, ""
	}
	e.Unknown = r.write && (passing(e.Reason) || e.Reason == fault.Timeout) && e.Reason != fault.Throttled
	if hint != "" {
		e.Message += ": " + hint
	}
	switch {
	case ctx.Err() != nil: // the caller's own deadline, or that it gave up
		e.Reason, e.Err, e.Unknown = fault.Timeout, ctx.Err(), r.write
	case text != "":
		e.Err = errors.New(text)
	}
	return e
}

// judge returns the reason for a code, and what the code does not tell.
func (r request) judge(code codes.Code, text string) (fault.Reason, string) {
	switch code {
	case codes.Unavailable:
		if strings.Contains(text, "x509:") || strings.Contains(text, "tls:") {
			return fault.Unreachable, "the certificate is not trusted (see ca_file and server_name), or the server speaks no TLS (see plaintext)"
		}
		return fault.Unreachable, ""
	case codes.DeadlineExceeded, codes.Canceled:
		return fault.Timeout, "no answer in time"
	case codes.Unauthenticated:
		return fault.Forbidden, "the token is not valid here: it expired, was revoked, or is another server's"
	case codes.PermissionDenied:
		if strings.Contains(text, "sync window") {
			return fault.Throttled, "a sync window forbids it now"
		}
		return fault.Forbidden, r.lacking(text)
	case codes.NotFound:
		return fault.NotFound, ""
	case codes.FailedPrecondition:
		if strings.Contains(text, "another operation is already in progress") {
			return fault.Throttled, ""
		}
		return fault.Conflict, ""
	case codes.InvalidArgument:
		return fault.Invalid, ""
	case codes.ResourceExhausted:
		if strings.Contains(text, "larger than max") {
			return fault.OutOfBounds, fmt.Sprintf("the answer is larger than %d MiB", maxMessage>>20)
		}
		return fault.Throttled, ""
	case codes.Unimplemented:
		return fault.ServerError, "this is no Argo CD server, or a proxy in front of it that does not pass gRPC on (see grpc_web)"
	default:
		if strings.Contains(text, "deadline exceeded") {
			return fault.Timeout, "the server itself got no answer in time"
		}
		return fault.ServerError, ""
	}
}

// lacking explains the possible causes of a refusal. Argo CD answers the same for
// an application that does not exist, on purpose. Depending on its configuration,
// Argo CD treats a sync to any commit but its branch's as an override.
func (r request) lacking(text string) string {
	if r.right == "" {
		return ""
	}
	if strings.Contains(text, "applications, override") {
		r.right = "override"
	}
	return fmt.Sprintf("there is no such application, or the token lacks the right %q on it (a policy line: p, SUBJECT, applications, %s, PROJECT/%s, allow)",
		"applications, "+r.right, r.right, r.name[strings.Index(r.name, "/")+1:])
}

// Texts of the server are cut at this length.
const maxText = 600

// clean prepares a text of the server for logs and messages: on one line,
// shortened, without our own token and without what looks like a credential.
func clean(text, token string) string {
	if token != "" {
		text = strings.ReplaceAll(text, token, "(redacted)")
	}
	text = strings.ToValidUTF8(credential.Redact(text), "?")
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + " ..."
	}
	return strings.TrimSpace(text)
}
