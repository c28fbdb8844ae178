package webhook

import (
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/inference-responder/responder/internal/api"
)

func (s *Server) listPlaybooks(c echo.Context, _ Identity) error {
	if s.o.Playbooks == nil {
		return ErrNotFound
	}
	list := api.PlaybookList{Playbooks: []api.Playbook{}}
	set := s.o.Playbooks()
	for _, p := range set.All() {
		list.Playbooks = append(list.Playbooks, api.PlaybookOf(set, p))
	}
	return reply(c, list)
}

func (s *Server) listServices(c echo.Context, _ Identity) error {
	if s.o.Services == nil {
		return ErrNotFound
	}
	list, name := api.ServiceList{Services: []api.Service{}}, c.QueryParam("service")
	for _, service := range s.o.Services() {
		if name != "" && service.Name != name {
			continue
		}
		shown := api.ServiceOf(service)
		if s.o.Playbooks != nil {
			shown = shown.With(s.o.Playbooks().OfService(service.Name))
		}
		if name != "" && s.o.Arming != nil {
			arming := s.o.Arming()(service)
			shown.Arming = &arming
		}
		list.Services = append(list.Services, shown)
	}
	return reply(c, list)
}

func (s *Server) listNodes(c echo.Context, _ Identity) error {
	if s.o.Nodes == nil {
		return ErrNotFound
	}
	return reply(c, s.o.Nodes(c.Request().Context()))
}

// Alerts lists what became of alerts.
type Alerts interface {
	// Alerts returns received alerts, the most recently mentioned ones first, and the
	// service's time.
	Alerts(f AlertFilter) api.AlertList
}

// AlertFilter selects alerts; zero fields select everything.
type AlertFilter struct {
	Firing  *bool
	NoRun   bool
	Episode string // its beginning, such as a fingerprint
	Skip    int    // of those, as many are left out that were mentioned last
	Limit   int
}

func (s *Server) listAlerts(c echo.Context, _ Identity) error {
	if s.o.Alerts == nil {
		return ErrNotFound
	}
	f := AlertFilter{Episode: c.QueryParam("alert")}
	var err error
	if f.Limit, err = limit(c); err != nil {
		return err
	}
	if f.Firing, err = choice(c, "firing"); err != nil {
		return err
	}
	noRun, err := choice(c, "no_run")
	if err != nil {
		return err
	}
	f.NoRun = noRun != nil && *noRun
	return reply(c, s.o.Alerts.Alerts(f))
}

// choice reads a query parameter that is true, false or absent.
func choice(c echo.Context, name string) (*bool, error) {
	v := c.QueryParam(name)
	if v == "" {
		return nil, nil //nolint:nilnil // absent
	}
	is, err := strconv.ParseBool(v)
	if err != nil {
		return nil, invalid(name, "want true or false")
	}
	return &is, nil
}

func (s *Server) version(c echo.Context, _ Identity) error {
	if s.o.Version == nil {
		return ErrNotFound
	}
	return reply(c, s.o.Version)
}

// healthz reports that the process answers, and nothing else: a restart does not
// fix a full disk.
func (s *Server) healthz(c echo.Context, _ Identity) error {
	return c.String(http.StatusOK, "ok\n")
}

// missing returns what is missing before work can be done; empty: nothing is.
func (s *Server) missing() []string {
	if s.o.Ready == nil {
		return nil
	}
	return s.o.Ready()
}

func (s *Server) readyz(c echo.Context, _ Identity) error {
	r := api.Readiness{Missing: append([]string{}, s.missing()...)}
	r.Ready = len(r.Missing) == 0
	if s.o.Room != nil {
		if err := s.o.Room(); err != nil {
			r.Refusing = err.Error()
		}
	}
	if r.Refusing == "" {
		r.Refusing = s.overShare()
	}
	if r.Refusing == "" && s.o.Crowded != nil && s.o.Crowded() {
		r.Refusing = "alerts start no runs: as many that had one are remembered and fire still as may be"
	}
	status := http.StatusOK
	if !r.Ready {
		status = http.StatusServiceUnavailable
	}
	return c.JSON(status, r)
}

func (s *Server) serveMetrics(c echo.Context, _ Identity) error {
	if s.o.Metrics == nil {
		return ErrNotFound
	}
	s.o.Metrics.ServeHTTP(c.Response(), c.Request())
	return nil
}

// slackInteractivity passes on what Slack posts. The signature is the only
// credential and no browser can make one, so scopes and origins do not apply.
func (s *Server) slackInteractivity(c echo.Context, _ Identity) error {
	if s.o.Slack == nil {
		return ErrNotFound
	}
	s.o.Slack.ServeHTTP(c.Response(), c.Request())
	return nil
}
