package webhook

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/rights"
)

// Sandbox changes a simulated cluster. Errors are as for [Control].
type Sandbox interface {
	// Show describes the cluster and the scenarios that it can simulate.
	Show() api.Sandbox
	// Fire delivers the alerts of the cluster. With a scenario it replaces the
	// cluster by the one of that scenario instead: the service then restarts, and
	// nothing is delivered. It refuses that with [ErrConflict] while a run is open.
	Fire(ctx context.Context, who rights.Actor, scenario string) (api.SandboxFired, error)
}

// standIn returns the identity of the person that a request names as the one who decides:
// a member of every group that the open question asks. Only a sandbox that authenticates
// nobody accepts that. Every other service takes the identity from the credential.
func (s *Server) standIn(id Identity, run, name string) (Identity, error) {
	switch {
	case s.o.Sandbox == nil || !s.auth.open() || id.Name != Anonymous || id.SignedIn:
		return Identity{}, problem(http.StatusForbidden, "forbidden", "only a sandbox that authenticates nobody takes a name in place of a credential; here the credential says who decides",
			"leave --as out, and use the credential of that person")
	case !personName.MatchString(name) || name == Anonymous:
		return Identity{}, invalid("as", fmt.Sprintf("%.64q is no name of a person; write it like ada, with letters, digits, '.', '_', '@' and '-'", name))
	}
	state, err := s.run(run)
	if err != nil {
		return Identity{}, err
	}
	other := Identity{Name: name, Person: true, scopes: id.scopes}
	if state.Gate != nil {
		for _, n := range state.Gate.Needs {
			other.Groups = append(append(other.Groups, groupsOf(n.From)...), groupsOf(n.Among)...)
		}
	}
	return other, nil
}

// personName matches the names that a request may give.
var personName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._@-]{0,62}$`)

// groupsOf returns the groups of a list of deciders, without the prefix.
func groupsOf(deciders []string) []string {
	var groups []string
	for _, d := range deciders {
		if group, ok := strings.CutPrefix(d, "group:"); ok {
			groups = append(groups, group)
		}
	}
	return groups
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
