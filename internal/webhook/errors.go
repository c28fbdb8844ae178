package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/rights"
)

// Problem is the body of every answer that is not a success, as
// {"error": {...}}.
type Problem struct {
	api.Problem
	status int
}

// Error returns the message.
func (p *Problem) Error() string { return p.Message }

// Status is the HTTP status that the problem is answered with.
func (p *Problem) Status() int { return p.status }

func problem(status int, code, message, hint string) *Problem {
	return &Problem{api.Problem{Code: code, Message: message, Hint: hint}, status}
}

// problemOf turns every error into an answer. The text of an unknown error stays
// in the log.
func problemOf(err error) *Problem {
	var known *Problem
	var field *playbook.FieldError
	var routing *echo.HTTPError
	var missing *rights.MissingError
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &field):
		return problem(http.StatusBadRequest, "invalid_notification", field.Error(), bodyHint(field))
	case errors.As(err, &routing):
		return routingProblem(routing.Code)
	case errors.Is(err, ErrNotFound):
		return problem(http.StatusNotFound, "not_found", err.Error(), "")
	case errors.Is(err, ErrArchived):
		return problem(http.StatusGone, "archived", err.Error(), "'responder journal restore' puts it back into a copy of the journal")
	case errors.Is(err, machine.ErrStale):
		return problem(http.StatusConflict, api.CodeStale, err.Error(), "read what the run asks now: 'responder runs show'")
	case errors.Is(err, ErrConflict):
		return problem(http.StatusConflict, "conflict", err.Error(), "look at the run again: it may have moved on")
	case errors.As(err, &missing):
		return problem(http.StatusForbidden, "forbidden", missing.Error(), "auth.rights of the configuration gives rights; 'responder policy explain' lists who has which on a service")
	case errors.Is(err, ErrForbidden):
		return problem(http.StatusForbidden, "forbidden", err.Error(), "'responder runs show' lists who may decide; groups come with the credential")
	case errors.Is(err, ErrInvalid):
		return problem(http.StatusBadRequest, "invalid", err.Error(), "")
	case errors.Is(err, ErrBusy), errors.Is(err, errShed):
		return problem(http.StatusServiceUnavailable, "busy", "too much is waiting already", "try again")
	case errors.Is(err, ErrPaused):
		return problem(http.StatusServiceUnavailable, "paused", err.Error(), "lift it with responder unpause --intake, or try again later")
	case errors.Is(err, ErrMemory):
		return problem(http.StatusServiceUnavailable, codeMemory, err.Error(), "try again; if it lasts, raise the memory limit")
	case errors.Is(err, ErrDisk):
		return problem(http.StatusServiceUnavailable, codeDisk, err.Error(), "make room on the volume of journal.dir, or archive; then try again")
	case errors.Is(err, ErrUnavailable):
		return problem(http.StatusServiceUnavailable, "unavailable", "the journal cannot take it now", "see /readyz and the service's log")
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return problem(http.StatusServiceUnavailable, "interrupted", "the request was canceled", "try again")
	default:
		return problem(http.StatusInternalServerError, "internal", "internal error", "see the service's log")
	}
}

// bodyHint returns what to do about a refused body, or "" if that is not known.
func bodyHint(f *playbook.FieldError) string {
	switch {
	case f.Problem == playbook.Doubled:
		return "send each name once in an object"
	case f.Field == "version":
		return payloadHint
	default:
		return ""
	}
}

// routingProblem is the answer for an error of echo's router.
func routingProblem(status int) *Problem {
	switch status {
	case http.StatusNotFound:
		return problem(status, "not_found", "no such path", "")
	case http.StatusMethodNotAllowed:
		return problem(status, "method_not_allowed", "method not allowed on this path", "see the Allow header")
	default:
		return problem(status, "http_error", http.StatusText(status), "")
	}
}

// Codes of problems that are compared.
const (
	codeIssuer = "issuer_unavailable"
	codeMemory = "memory"
	codeDisk   = "disk"
)

// unauthorized answers a request whose credential is missing or wrong. It names
// the wrong part only if an issuer's signature proves that the token is the
// caller's own.
func unauthorized(err error) *Problem {
	var refused *refusedToken
	var guessed *guessedError
	switch {
	case errors.As(err, &guessed):
		return problem(http.StatusTooManyRequests, "limited", guessed.Error()+" by Authorization: Basic",
			fmt.Sprintf("wait %.0f s, or use a token, a certificate or the sign-in page", math.Ceil(guessed.wait.Seconds())))
	case errors.As(err, &refused):
		return problem(http.StatusUnauthorized, "unauthorized", "token refused: "+refused.why, refused.hint)
	case errors.Is(err, errIssuerDown):
		return problem(http.StatusServiceUnavailable, codeIssuer, "cannot fetch the keys of the identity provider, which verify this token", "try again; tokens of the configuration's files work meanwhile")
	case errors.Is(err, errForeignPage):
		return problem(http.StatusForbidden, "forbidden", "without credentials, only requests from this machine, under a loopback name and not from another site's page, are served",
			"configure auth.tokens, or use http://127.0.0.1")
	case errors.Is(err, errCrossOrigin):
		return problem(http.StatusForbidden, "forbidden", "requests from another site's page are refused", "use the CLI, or a page of this service")
	case errors.Is(err, errPageSession):
		return problem(http.StatusForbidden, "forbidden", "who signed in on the page changes things there only", "use its buttons, or the CLI with a credential of its own")
	case errors.Is(err, errTwoNames):
		return problem(http.StatusUnauthorized, "unauthorized", "the client certificate has several common names", "issue one with one common name")
	case errors.Is(err, errNoCredential):
		return problem(http.StatusUnauthorized, "unauthorized", "no credential", "send Authorization: Bearer TOKEN")
	default:
		return problem(http.StatusUnauthorized, "unauthorized", "unknown credential", "check whether it was rotated")
	}
}

// navigates reports whether a browser goes to an address to show what is there.
func navigates(r *http.Request) bool {
	return r.Header.Get("Sec-Fetch-Mode") == "navigate" || strings.Contains(r.Header.Get("Accept"), "text/html")
}

// answer writes p, unless an answer was begun already.
func answer(c echo.Context, p *Problem) {
	if c.Response().Committed {
		return
	}
	h := c.Response().Header()
	switch {
	case p.status != http.StatusUnauthorized:
	case navigates(c.Request()): // Basic would open the browser's own dialog, which remembers what is entered
		h.Set("WWW-Authenticate", `Bearer realm="responder"`)
	default:
		h.Set("WWW-Authenticate", `Bearer realm="responder", Basic realm="responder", charset="UTF-8"`)
	}
	body, err := json.Marshal(struct {
		Error api.Problem `json:"error"`
	}{p.Problem})
	if err != nil {
		panic("webhook: a problem cannot be encoded: " + err.Error()) // unreachable: it holds strings only
	}
	// The peer may be gone; there is nobody else to tell.
	_ = c.Blob(p.status, echo.MIMEApplicationJSON, append(body, '\n'))
}
