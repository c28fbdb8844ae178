package repository

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"syscall"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"
	"github.com/skeema/knownhosts"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/outbound"
)

// errTooLarge stops a remote that sends more than the limit.
var errTooLarge = errors.New("more than the limit")

// damaged is a clone whose objects cannot be read.
type damaged struct{ err error }

func (d *damaged) Error() string { return "the clone is damaged: " + d.err.Error() }
func (d *damaged) Unwrap() error { return d.err }

// remoteError explains why an exchange with the remote failed. write: a push may
// have happened, unless the remote refused it before it read it.
func (r *Repository) remoteError(doing string, err error, write bool) error {
	var known *fault.Error
	if errors.As(err, &known) {
		return known
	}
	var wrapped *plumbing.UnexpectedError
	if errors.As(err, &wrapped) && wrapped.Err != nil {
		err = wrapped.Err // it has no Unwrap
	}
	e := &fault.Error{Unknown: write}
	hint := ""
	var answer *githttp.Err
	var line *pktline.ErrorLine
	if reason, why := definite(err, write); reason != "" {
		e.Reason, hint, e.Unknown = reason, why, false
	} else if errors.As(err, &answer) {
		code := answer.StatusCode()
		e.Reason, e.Unknown = statusReason(code), write && code/100 == 5
		hint, err = fmt.Sprintf("answers %d %s", code, http.StatusText(code)), nil
		if text := r.shown(answer.Reason); text != "" {
			hint += ": " + text
		}
	} else if errors.As(err, &line) {
		e.Reason, hint, err = fault.ServerError, "says: "+r.shown(line.Text), nil
	} else {
		e.Reason, hint = lost(err)
	}
	e.Message = fmt.Sprintf("%s: repository %s %s", doing, r.at, hint)
	if write && e.Unknown {
		e.Message += "; whether the push arrived is not known"
	}
	if err != nil && e.Reason != fault.Timeout {
		e.Err = &redactedError{text: r.shown(err.Error()), err: err}
	}
	return e
}

// definite explains errors after which it is certain that nothing was done; empty:
// err is none of them.
func definite(err error, write bool) (fault.Reason, string) {
	may := "read the repository"
	if write {
		may = "write to the repository"
	}
	var refused *outbound.Refused
	var certificate *tls.CertificateVerificationError
	var mismatch *hostKeyError
	switch {
	case errors.As(err, &refused):
		return fault.Invalid, "is not asked"
	case errors.As(err, &mismatch):
		return fault.Forbidden, mismatch.Error()
	case errors.As(err, &certificate):
		return fault.Invalid, "has a certificate that is not trusted; set its CA file"
	case errors.Is(err, errRedirect):
		return fault.Invalid, "answers with a redirect to another host, which is not followed; set the final address"
	case errors.Is(err, errTooLarge):
		return fault.OutOfBounds, "sends more than the limit; raise limits.pack or limits.refs, or use a smaller depth"
	case errors.Is(err, transport.ErrAuthenticationRequired), errors.Is(err, transport.ErrAuthorizationFailed), errors.Is(err, errSSHAuth):
		return fault.Forbidden, "refuses the credential; check the token or key, and that it may " + may
	case errors.Is(err, transport.ErrRepositoryNotFound):
		return fault.NotFound, "has no such repository, or hides it from this credential; check the address and the token's rights"
	case errors.Is(err, transport.ErrEmptyRemoteRepository):
		return fault.NotFound, "is empty: push a first commit"
	}
	return "", ""
}

// lost explains an answer that is missing or incomplete.
func lost(err error) (fault.Reason, string) {
	var network net.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return fault.Timeout, "did not answer in time"
	case errors.Is(err, context.Canceled):
		return fault.Timeout, "was given up on"
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF), errors.Is(err, errStopped):
		return fault.Unreachable, "cut the answer off"
	}
	return fault.Unreachable, "cannot be reached; check the address and that it runs"
}

// redactedError is an error of a library or a server, without secrets, on one line.
type redactedError struct {
	text string
	err  error
}

func (e *redactedError) Error() string { return e.text }

// Is looks at the cause. There is no Unwrap: the cause's own text may hold a
// credential.
func (e *redactedError) Is(target error) bool { return errors.Is(e.err, target) }

func statusReason(code int) fault.Reason {
	switch {
	case code == http.StatusUnauthorized, code == http.StatusForbidden, code == http.StatusProxyAuthRequired:
		return fault.Forbidden
	case code == http.StatusNotFound, code == http.StatusGone:
		return fault.NotFound
	case code == http.StatusRequestTimeout, code == http.StatusGatewayTimeout:
		return fault.Timeout
	case code == http.StatusTooManyRequests:
		return fault.Throttled
	case code == http.StatusRequestEntityTooLarge:
		return fault.OutOfBounds
	case code/100 == 4, code/100 == 3:
		return fault.Invalid
	default:
		return fault.ServerError
	}
}

// localError explains an error of our own directory.
func (r *Repository) localError(doing string, err error) error {
	var known *fault.Error
	if errors.As(err, &known) {
		return known
	}
	e := &fault.Error{Reason: fault.Unreachable, Message: fmt.Sprintf("%s: the clone in %s", doing, r.o.Dir), Err: err}
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		e.Message += ": the disk is full; free space there"
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		e.Message += ": cannot be written; check the directory's owner and mode"
	}
	return e
}

// isLocal reports whether an error is of our own disk, not of the remote.
func isLocal(err error) bool {
	var p *fs.PathError
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.As(err, &p)
}

func notFound(format string, args ...any) *fault.Error {
	return &fault.Error{Reason: fault.NotFound, Message: fmt.Sprintf(format, args...)}
}

func bounded(format string, args ...any) *fault.Error {
	return &fault.Error{Reason: fault.OutOfBounds, Message: fmt.Sprintf(format, args...)}
}

// shown prepares foreign text for an error: without our credentials, on one line,
// a few hundred bytes.
func (r *Repository) shown(s string) string {
	return outbound.OneLine(r.secrets.scrub(s), 400)
}

// hostKeyError is an SSH host with another key than the known one.
type hostKeyError struct {
	host string
	err  error
}

func (h *hostKeyError) Error() string {
	switch {
	case knownhosts.IsHostKeyChanged(h.err):
		return "shows another host key than known_hosts has for " + h.host + ": somebody may stand between, or the host has a new key; compare it with what the host publishes"
	case knownhosts.IsHostUnknown(h.err):
		return "is not in the known_hosts file: add a line for " + h.host
	}
	return "shows a host key that is not accepted: " + h.err.Error()
}

func (h *hostKeyError) Unwrap() error { return h.err }
