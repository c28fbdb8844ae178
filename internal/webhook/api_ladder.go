package webhook

import (
	"context"
	"errors"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/rights"
)

// Ladder keeps the track record of levers. Errors are as for [Control].
type Ladder interface {
	// Levers lists the levers there is a record of; an empty service or
	// playbook selects all.
	Levers(service, playbook string) []api.TrackRecord
	// Promote lifts the demotion of a lever. Every field of p is set.
	Promote(ctx context.Context, p Promotion) error
	// Good lists what was last verified; an empty service selects all.
	Good(service string) []api.LastGood
}

// Promotion is a request to lift a demotion, with who makes it.
type Promotion struct {
	api.Promotion
	Who rights.Actor
}

func (s *Server) listLevers(c echo.Context, _ Identity) error {
	return s.levers(c, c.QueryParam("service"), c.QueryParam("playbook"))
}

func (s *Server) listGood(c echo.Context, _ Identity) error {
	if s.o.Ladder == nil {
		return ErrNotFound
	}
	list := api.LastGoodList{Good: s.o.Ladder.Good(c.QueryParam("service"))}
	if list.Good == nil {
		list.Good = []api.LastGood{}
	}
	return reply(c, list)
}

func (s *Server) levers(c echo.Context, service, playbook string) error {
	if s.o.Ladder == nil {
		return ErrNotFound
	}
	list := api.LeverList{Levers: s.o.Ladder.Levers(service, playbook)}
	if list.Levers == nil {
		list.Levers = []api.TrackRecord{}
	}
	return reply(c, list)
}

// promote lifts a demotion. It raises no level above the configured one.
func (s *Server) promote(c echo.Context, id Identity) error {
	var p Promotion
	if err := decodeRequest(c, &p.Promotion, &p.Reason); err != nil {
		return err
	}
	for _, f := range []struct{ name, value, hint string }{
		{"playbook", p.Playbook, "missing"},
		{"service", p.Service, "missing"},
		{"lever", p.Lever, "missing: name its state"},
		{"reason", p.Reason, "missing"},
	} {
		if f.value == "" {
			return invalid(f.name, f.hint)
		}
	}
	if s.o.Ladder == nil {
		return ErrNotFound
	}
	p.Who = id.Actor()
	switch err := s.o.Ladder.Promote(c.Request().Context(), p); {
	case errors.Is(err, ErrConflict):
		return problem(http.StatusConflict, "conflict", err.Error(), "") // it is about no run
	case err != nil:
		return err
	}
	return s.levers(c, p.Service, p.Playbook)
}
