package webhook

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/rights"
)

// takePause takes a page's form that sets or lifts a pause, and sends the browser to the
// start page, which shows the pauses in force. Both need a reason: it is on record, and on
// every page.
func (s *Server) takePause(right rights.Right) handler {
	return func(c echo.Context, id Identity) error {
		req, err := decodePause(c.Request())
		if err != nil {
			return err
		}
		if s.o.Pauses == nil {
			return ErrNotFound
		}
		change := s.o.Pauses.Pause
		if right == rights.Unpause {
			change = s.o.Pauses.Unpause
		}
		if err := change(c.Request().Context(), id.Actor(), pauseBy(req, id)); err != nil {
			return err
		}
		// Relative, so that it is right behind a proxy that adds a prefix.
		c.Response().Header().Set("Location", "./")
		c.Response().Header().Set("Cache-Control", "no-store")
		return c.NoContent(http.StatusSeeOther)
	}
}

// decodePause reads the form of a pause strictly.
func decodePause(r *http.Request) (api.PauseRequest, error) {
	var req api.PauseRequest
	fields, err := readForm(r)
	if err != nil {
		return req, err
	}
	for name, value := range fields {
		switch name {
		case "service":
			req.Service = value
		case "playbook":
			req.Playbook = value
		case "intake":
			if req.Intake, err = strconv.ParseBool(value); err != nil {
				return req, invalid(name, "want true or false")
			}
		case "reason": // browsers send line breaks as CR LF
			req.Reason = strings.TrimSpace(strings.ReplaceAll(value, "\r\n", "\n"))
		default:
			return req, invalid("body", "unknown field "+strconv.Quote(name[:min(len(name), 64)]))
		}
	}
	if req.Reason == "" {
		return req, invalid("reason", "missing")
	}
	if err := checkReason(req.Reason); err != nil {
		return req, err
	}
	return req, checkPause(req)
}
