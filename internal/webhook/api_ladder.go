package webhook

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// Ladder knows how far levers can be trusted. Errors are as for [Control].
type Ladder interface {
	// Levers lists the levers there is a record of; an empty service or
	// playbook selects all.
	Levers(service, playbook string) []LeverTrust
	// Promote lifts the demotion of a lever. Every field of p is set.
	Promote(ctx context.Context, p Promotion) error
	// Good lists what was last verified; an empty service selects all.
	Good(service string) []LastGood
}

// LastGood is the value of one variable of a service that a run last proved to
// be good: verified, not merely deployed.
type LastGood struct {
	Service  string    `json:"service"`
	Variable string    `json:"variable"` // --max-num-seqs, replicas, image
	Value    string    `json:"value"`    // empty: it was not set
	Revision string    `json:"revision"` // commit that has it
	Run      string    `json:"run"`      // that verified it
	Lever    string    `json:"lever"`    // kind of step
	At       time.Time `json:"at"`
}

// LastGoodList is the answer of GET /api/v1/last-good.
type LastGoodList struct {
	Good []LastGood `json:"good"`
}

// LeverTrust is the record of one lever of a playbook on a service: what it
// came to so far, and how far it may go without people.
type LeverTrust struct {
	Playbook string `json:"playbook"`
	Service  string `json:"service"`
	State    string `json:"state"`
	Lever    string `json:"lever"` // kind of step, e.g. kube.scale

	Attempts     int `json:"attempts"` // applied: the world was changed
	Verified     int `json:"verified"`
	Ineffective  int `json:"ineffective"`  // proven not to help
	Inconclusive int `json:"inconclusive"` // not proven
	Undone       int `json:"undone"`       // of the attempts, those that were changed back, for whatever reason
	Overridden   int `json:"overridden"`   // a person changed the target, or stopped it in mid-air
	Refused      int `json:"refused"`      // by its plan or a guard
	Denied       int `json:"denied"`       // by a person
	WouldApply   int `json:"wouldApply"`   // autonomy observe: nothing was done
	Recovered    int `json:"recovered"`    // of those, after which the alert recovered by itself
	Watched      int `json:"watched"`      // of those, whose alert is still waited for

	Streak int       `json:"streak"`          // verified in a row
	Since  time.Time `json:"since,omitzero"`  // the first of them
	Last   []string  `json:"last"`            // verified, ineffective or inconclusive; newest last
	LastAt time.Time `json:"lastAt,omitzero"` // of any result

	Level    playbook.Autonomy `json:"level"`              // the effective one
	Limits   []machine.Cap     `json:"limits"`             // what holds it there; empty at auto
	Demoted  bool              `json:"demoted"`            // by itself, because it did not help
	Changed  time.Time         `json:"changed,omitzero"`   // when it was last demoted, or that lifted
	Why      string            `json:"why,omitempty"`      // of that
	Proposal string            `json:"proposal,omitempty"` // what a person could raise, with the figures
}

// LeverList is the answer of GET /api/v1/ladder and of POST
// /api/v1/ladder/promote: the levers after it.
type LeverList struct {
	Levers []LeverTrust `json:"levers"`
}

// Promotion is the body of POST /api/v1/ladder/promote. Who promotes is not in
// it: that is who authenticated.
type Promotion struct {
	Playbook string `json:"playbook"`
	Service  string `json:"service"`
	Lever    string `json:"lever"` // its state, or its kind where that is enough
	Reason   string `json:"reason"`

	By string `json:"-"`
}

func (s *Server) listLevers(c echo.Context, _ Identity) error {
	return s.levers(c, c.QueryParam("service"), c.QueryParam("playbook"))
}

func (s *Server) listGood(c echo.Context, _ Identity) error {
	if s.o.Ladder == nil {
		return ErrNotFound
	}
	list := LastGoodList{Good: s.o.Ladder.Good(c.QueryParam("service"))}
	if list.Good == nil {
		list.Good = []LastGood{}
	}
	return reply(c, list)
}

func (s *Server) levers(c echo.Context, service, playbook string) error {
	if s.o.Ladder == nil {
		return ErrNotFound
	}
	list := LeverList{Levers: s.o.Ladder.Levers(service, playbook)}
	if list.Levers == nil {
		list.Levers = []LeverTrust{}
	}
	return reply(c, list)
}

// promote lifts a demotion; it raises nothing above what is configured.
func (s *Server) promote(c echo.Context, id Identity) error {
	var p Promotion
	if err := decodeRequest(c, &p); err != nil {
		return err
	}
	for _, f := range []struct{ name, value, hint string }{
		{"playbook", p.Playbook, "missing"},
		{"service", p.Service, "missing"},
		{"lever", p.Lever, "missing: the name of its state"},
		{"reason", p.Reason, "missing: say why"},
	} {
		if f.value == "" {
			return invalid(f.name, f.hint)
		}
	}
	if s.o.Ladder == nil {
		return ErrNotFound
	}
	p.By = "user:" + id.Name
	switch err := s.o.Ladder.Promote(c.Request().Context(), p); {
	case errors.Is(err, ErrConflict):
		return problem(http.StatusConflict, "conflict", err.Error(), "") // it is about no run
	case err != nil:
		return err
	}
	return s.levers(c, p.Service, p.Playbook)
}
