package webhook

import (
	"context"
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/rights"
)

// Sandbox steers a simulated cluster. Errors are as for [Control].
type Sandbox interface {
	// Show describes the cluster and the scenarios that it can simulate.
	Show() api.Sandbox
	// Fire delivers the alerts of the cluster. With a scenario it replaces the
	// cluster by the one of that scenario instead: the service then restarts, and
	// nothing is delivered. It refuses that with [ErrConflict] while a run is open.
	Fire(ctx context.Context, who rights.Actor, scenario string) (api.SandboxFired, error)
}

// noSandbox is the answer of a service whose cluster is real.
func noSandbox() *Problem {
	return problem(http.StatusNotFound, "not_found", "this service is not a sandbox: its cluster is real, and nothing is simulated there",
		"'responder serve --sandbox' runs one; --server names it")
}

func (s *Server) showSandbox(c echo.Context, _ Identity) error {
	if s.o.Sandbox == nil {
		return noSandbox()
	}
	return reply(c, s.o.Sandbox.Show())
}

func (s *Server) fireSandbox(c echo.Context, id Identity) error {
	if s.o.Sandbox == nil {
		return noSandbox()
	}
	var req api.SandboxFire
	var noReason string
	if err := decodeRequest(c, &req, &noReason); err != nil {
		return err
	}
	fired, err := s.o.Sandbox.Fire(c.Request().Context(), id.Actor(), req.Scenario)
	switch {
	case errors.Is(err, ErrConflict):
		return problem(http.StatusConflict, "conflict", err.Error(), "") // it says what to do
	case err != nil:
		return err
	case req.Scenario != "":
		return c.JSON(http.StatusAccepted, fired)
	}
	return reply(c, fired)
}
