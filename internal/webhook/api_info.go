package webhook

import (
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/inference-responder/responder/internal/playbook"
)

// PlaybookInfo is one playbook in the answer of GET /api/v1/playbooks.
type PlaybookInfo struct {
	Name        string            `json:"name"`
	Title       string            `json:"title,omitempty"`
	Description string            `json:"description,omitempty"`
	Runbook     string            `json:"runbook,omitempty"`
	Digest      string            `json:"digest"`
	Source      string            `json:"source"`
	Autonomy    playbook.Autonomy `json:"autonomy"`
	Start       string            `json:"start"`
	States      int               `json:"states"`
}

// PlaybookList is the answer of GET /api/v1/playbooks.
type PlaybookList struct {
	Playbooks []PlaybookInfo `json:"playbooks"`
}

// ServiceList is the answer of GET /api/v1/services.
type ServiceList struct {
	Services []playbook.Service `json:"services"`
}

// Readiness is the answer of GET /readyz, with status 503 unless Ready.
type Readiness struct {
	Ready   bool     `json:"ready"`
	Missing []string `json:"missing"` // one line each, for people
}

func (s *Server) listPlaybooks(c echo.Context, _ Identity) error {
	if s.o.Playbooks == nil {
		return ErrNotFound
	}
	list := PlaybookList{Playbooks: []PlaybookInfo{}}
	for _, p := range s.o.Playbooks() {
		list.Playbooks = append(list.Playbooks, PlaybookInfo{
			Name: p.Name, Title: p.Title, Description: p.Description, Runbook: p.Runbook, Digest: p.Digest, Source: p.Source,
			Autonomy: p.Autonomy, Start: p.Start, States: len(p.States),
		})
	}
	return reply(c, list)
}

func (s *Server) listServices(c echo.Context, _ Identity) error {
	if s.o.Services == nil {
		return ErrNotFound
	}
	list := ServiceList{Services: s.o.Services()}
	if list.Services == nil {
		list.Services = []playbook.Service{}
	}
	return reply(c, list)
}

func (s *Server) version(c echo.Context, _ Identity) error {
	if s.o.Version == nil {
		return ErrNotFound
	}
	return reply(c, s.o.Version)
}

// healthz says that the process answers, and nothing else: a restart heals no
// full disk.
func (s *Server) healthz(c echo.Context, _ Identity) error {
	return c.String(http.StatusOK, "ok\n")
}

func (s *Server) readyz(c echo.Context, _ Identity) error {
	r := Readiness{Missing: []string{}}
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

// slackInteractivity hands over what Slack posts. Its signature is its only
// credential, and no browser can make one, so neither scopes nor the origin of
// a page apply.
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
