package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"unicode"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/rights"
)

// keyHeader names a request so that it can be sent again.
const keyHeader = "Idempotency-Key"

const (
	maxKey   = 200  // characters
	maxGiven = 64   // labels
	maxLabel = 1024 // bytes of a label's value
)

var labelName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]{0,127}$`)

// Starter starts runs that people ask for. Errors are as for [Control].
type Starter interface {
	// Start returns the ID of a run that is durable. again reports that an
	// earlier request with the same key by the same person started it.
	Start(ctx context.Context, r StartRequest) (run string, again bool, err error)
}

// StartRequest is a request for a run, with who makes it.
type StartRequest struct {
	api.StartRequest
	Key string // names the request; may be empty
	Who rights.Actor
}

// startRun answers with the run: 201 if this request started it, 200 if an
// earlier one did.
func (s *Server) startRun(c echo.Context, id Identity) error {
	var r StartRequest
	if err := decodeRequest(c, &r.StartRequest, &r.Reason); err != nil {
		return err
	}
	r.Key, r.Who = c.Request().Header.Get(keyHeader), id.Actor()
	if err := r.check(); err != nil {
		return err
	}
	if s.o.Starter == nil || s.o.Views == nil {
		return ErrNotFound
	}
	run, again, err := s.o.Starter.Start(c.Request().Context(), r)
	switch {
	case errors.Is(err, ErrConflict):
		return problem(http.StatusConflict, "conflict", err.Error(), "") // there is no run to look at
	case err != nil:
		return err
	}
	c.Response().Header().Set("Location", "/api/v1/runs/"+run)
	status := http.StatusCreated
	if again {
		status = http.StatusOK
	}
	return s.answerRun(c, status, run)
}

func (r StartRequest) check() error {
	switch {
	case r.Playbook == "":
		return invalid("playbook", "missing: its name, as GET /api/v1/playbooks lists it")
	case r.Service == "":
		return invalid("service", "missing: its name, as GET /api/v1/services lists it")
	case len(r.Labels) > maxGiven:
		return invalid("labels", "more than "+strconv.Itoa(maxGiven)+" of them")
	case utf8.RuneCountInString(r.Key) > maxKey || !printable(r.Key):
		return invalid(keyHeader, fmt.Sprintf("want at most %d printable characters", maxKey))
	}
	for name, value := range r.Labels {
		switch {
		case !labelName.MatchString(name):
			return invalid("labels", fmt.Sprintf("%.64q is no name of a label", name))
		case len(value) > maxLabel || !printable(value):
			return invalid("labels."+name, fmt.Sprintf("want at most %d bytes of printable text", maxLabel))
		}
	}
	return nil
}

func printable(text string) bool {
	for _, r := range text {
		if unicode.IsControl(r) || r == utf8.RuneError {
			return false
		}
	}
	return true
}
