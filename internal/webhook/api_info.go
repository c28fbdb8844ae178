package webhook

import (
	"net/http"
	"time"

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
	list := api.ServiceList{Services: []api.Service{}}
	for _, service := range s.o.Services() {
		list.Services = append(list.Services, api.ServiceOf(service))
	}
	return reply(c, list)
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

func (s *Server) readyz(c echo.Context, _ Identity) error {
	r := api.Readiness{Missing: []string{}}
	if s.o.Ready != nil {
		r.Missing = append(r.Missing, s.o.Ready()...)
	}
	r.Ready = len(r.Missing) == 0
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
	select {
	case s.clicks <- struct{}{}:
	default:
		wait := time.NewTimer(clickWait)
		defer wait.Stop()
		select {
		case s.clicks <- struct{}{}:
		case <-wait.C:
			return errShed
		case <-c.Request().Context().Done():
			return errShed
		}
	}
	defer func() { <-s.clicks }()
	s.o.Slack.ServeHTTP(c.Response(), c.Request())
	return nil
}
