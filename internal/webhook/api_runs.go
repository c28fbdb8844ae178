package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/executor/machine"
)

const (
	defaultLimit = 100
	maxLimit     = 1000
	budgetWithin = 20 * time.Second // of what writeTimeout leaves
	keepAlive    = 15 * time.Second // an empty line in a silent stream, so that a lost peer is noticed
)

func (s *Server) listRuns(c echo.Context, _ Identity) error {
	if s.o.Views == nil {
		return ErrNotFound
	}
	f := RunFilter{Service: c.QueryParam("service"), Playbook: c.QueryParam("playbook"), Begins: c.QueryParam("begins")}
	var err error
	if f.Limit, err = limit(c); err != nil {
		return err
	}
	if f.Open, err = choice(c, "open"); err != nil {
		return err
	}
	runs := s.o.Views.Runs(f)
	list := api.RunList{Runs: make([]api.RunSummary, 0, len(runs)), Now: s.o.Now().UTC()}
	for _, r := range runs[:min(len(runs), f.Limit)] {
		list.Runs = append(list.Runs, api.SummaryOf(r))
	}
	return reply(c, list)
}

func (s *Server) showRun(c echo.Context, _ Identity) error {
	return s.answerRun(c, http.StatusOK, c.Param("id"))
}

// answerRun answers with a run.
func (s *Server) answerRun(c echo.Context, status int, id string) error {
	run, err := s.run(id)
	if err != nil {
		return err
	}
	detail := api.RunDetail{Run: api.RunOf(run), Now: s.o.Now().UTC()}
	if s.o.Trace != nil && run.Phase == machine.PhaseEnded {
		detail.Run.Trace = s.o.Trace(id)
	}
	if run.Playbook != nil {
		detail.Document = string(run.Playbook.Doc)
	}
	return replyWith(c, status, detail)
}

// run returns the run with that ID.
func (s *Server) run(id string) (machine.State, error) {
	if s.o.Views == nil {
		return machine.State{}, ErrNotFound
	}
	run, ok := s.o.Views.Run(id)
	if !ok {
		if _, err := s.o.Views.Events(id, 0); err != nil {
			return run, err // there is one, in the archive
		}
		return run, problem(http.StatusNotFound, "not_found", fmt.Sprintf("no run %.64q", id), "'responder runs list' lists them")
	}
	return run, nil
}

// runBudget answers with what each part of a run's time spent of error budgets.
func (s *Server) runBudget(c echo.Context, _ Identity) error {
	if s.o.Spent == nil {
		return ErrNotFound
	}
	run, err := s.run(c.Param("id"))
	if err != nil {
		return err
	}
	events, err := s.o.Views.Events(c.Param("id"), 0)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), budgetWithin)
	defer cancel()
	return reply(c, s.o.Spent(ctx, run, events))
}

// runEvents writes a run's events, one JSON object a line. With follow=1 it
// goes on until the run has ended and every event is written.
func (s *Server) runEvents(c echo.Context, _ Identity) error {
	if _, err := s.run(c.Param("id")); err != nil {
		return err
	}
	from, err := number(c, "from", 0)
	if err != nil {
		return err
	}
	follow := false
	if v := c.QueryParam("follow"); v != "" {
		if follow, err = strconv.ParseBool(v); err != nil {
			return invalid("follow", "want 1 or 0")
		}
	}
	var changes <-chan struct{}
	if follow {
		if s.o.Watch == nil {
			return invalid("follow", "this server cannot follow")
		}
		var end func()
		changes, end = s.o.Watch() // before the first look, so that nothing falls between
		defer end()
	}
	out, err := s.stream(c, "application/x-ndjson")
	if err != nil {
		return err
	}
	defer out.close()
	return s.writeEvents(c, out, from, changes)
}

func (s *Server) writeEvents(c echo.Context, out *stream, from uint64, changes <-chan struct{}) error {
	beat := time.NewTicker(keepAlive)
	defer beat.Stop()
	for {
		run, _ := s.o.Views.Run(c.Param("id")) // before its events: an end seen here is among them
		events, err := s.o.Views.Events(c.Param("id"), from)
		if err != nil {
			return out.abort(err)
		}
		encoder := json.NewEncoder(out)
		for _, e := range events {
			if err := encoder.Encode(api.EventOf(from, e)); err != nil {
				return out.abort(err)
			}
			from++
		}
		if err := out.flush(); err != nil {
			return out.abort(err)
		}
		if changes == nil || run.Phase == machine.PhaseEnded {
			return nil
		}
		select {
		case <-changes:
		case <-beat.C:
			if _, err := out.Write([]byte("\n")); err != nil {
				return out.abort(err)
			}
		case <-c.Request().Context().Done():
			return nil
		case <-s.stopping:
			return nil
		}
	}
}

// limit reads the query parameter limit.
func limit(c echo.Context) (int, error) {
	n, err := number(c, "limit", defaultLimit)
	if err != nil || n == 0 || n > maxLimit {
		return 0, invalid("limit", "want a number from 1 to "+strconv.Itoa(maxLimit))
	}
	return int(n), nil
}

// number reads a query parameter that is a whole number.
func number(c echo.Context, name string, otherwise uint64) (uint64, error) {
	v := c.QueryParam(name)
	if v == "" {
		return otherwise, nil
	}
	n, err := strconv.ParseUint(v, 10, 63)
	if err != nil {
		return 0, invalid(name, "want a whole number, 0 or more")
	}
	return n, nil
}

// invalid returns a 400 about a parameter or a field of a request or, without a
// field, about the whole request.
func invalid(field, what string) error {
	if field != "" {
		what = field + ": " + what
	}
	return problem(http.StatusBadRequest, "invalid", what, "")
}

// reply writes v as JSON.
func reply(c echo.Context, v any) error { return replyWith(c, http.StatusOK, v) }

func replyWith(c echo.Context, status int, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode answer: %w", err)
	}
	c.Response().Header().Set("Cache-Control", "no-store")
	return c.Blob(status, echo.MIMEApplicationJSON, append(body, '\n'))
}
