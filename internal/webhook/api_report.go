package webhook

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/inference-responder/responder/internal/api"
)

// mostDigests bounds the runs that are read for one page: each costs reading its events.
const mostDigests = 200

// Reports reads what reports over a period are made of.
type Reports interface {
	// Period returns the runs that began in a period, newest first, at most q.Limit, and
	// with the first page what became of the alerts. It ends early with the error of ctx.
	Period(ctx context.Context, q PeriodQuery) (api.DigestPage, error)
	// Preview returns the summary that a report of the configuration would send next, and
	// sends and records nothing. since is where its period begins instead; zero: where the
	// last one ended.
	Preview(ctx context.Context, name string, since time.Time) (api.ReportPreview, error)
}

// PeriodQuery selects the runs that began in a period; empty texts select everything.
type PeriodQuery struct {
	Since, Until      time.Time // Until is excluded
	Service, Playbook string
	Before            string // a run: only those that began before it
	Limit             int    // runs that are looked at for one page, > 0
}

// report answers with one page of the runs that began from since= on and before until=,
// now by default.
func (s *Server) report(c echo.Context, _ Identity) error {
	if s.o.Reports == nil {
		return ErrNotFound
	}
	q := PeriodQuery{Service: c.QueryParam("service"), Playbook: c.QueryParam("playbook"), Before: c.QueryParam("before"), Until: s.o.Now().UTC()}
	n, err := number(c, "limit", mostDigests)
	if err != nil || n == 0 || n > mostDigests {
		return invalid("limit", "want a number from 1 to "+strconv.Itoa(mostDigests))
	}
	q.Limit = int(n)
	if q.Since, err = time.Parse(time.RFC3339, c.QueryParam("since")); err != nil {
		return invalid("since", "want a time like 2026-11-01T12:00:00Z")
	}
	if v := c.QueryParam("until"); v != "" {
		if q.Until, err = time.Parse(time.RFC3339, v); err != nil {
			return invalid("until", "want a time like 2026-11-01T12:00:00Z")
		}
	}
	switch {
	case !q.Since.Before(q.Until):
		return invalid("since", fmt.Sprintf("%s is not before until, %s", q.Since.UTC().Format(time.RFC3339), q.Until.UTC().Format(time.RFC3339)))
	case q.Before != "" && !strings.HasPrefix(q.Before, "r-"):
		return invalid("before", "want the ID of a run, the next of the page before")
	}
	page, err := s.o.Reports.Period(c.Request().Context(), q)
	if err != nil {
		return fmt.Errorf("read the runs of a period: %w", err)
	}
	return reply(c, page)
}

// preview answers with the summary that the report name= would send next.
func (s *Server) preview(c echo.Context, _ Identity) error {
	if s.o.Reports == nil {
		return ErrNotFound
	}
	name, since := c.QueryParam("name"), time.Time{}
	if name == "" {
		return invalid("name", "want the name of a report of the configuration's block reports")
	}
	if v := c.QueryParam("since"); v != "" {
		var err error
		if since, err = time.Parse(time.RFC3339, v); err != nil {
			return invalid("since", "want a time like 2026-11-01T12:00:00Z")
		}
	}
	found, err := s.o.Reports.Preview(c.Request().Context(), name, since)
	if err != nil {
		return fmt.Errorf("preview a report: %w", err)
	}
	return reply(c, found)
}
