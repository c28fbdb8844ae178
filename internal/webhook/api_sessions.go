package webhook

import (
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/inference-responder/responder/internal/api"
)

// listSessions lists who is signed in on the page. It shows no id of a session.
func (s *Server) listSessions(c echo.Context, _ Identity) error {
	return reply(c, api.SessionList{Sessions: s.auth.sessions(time.Now())})
}

// endSessions ends the sessions of one person, or all. It is logged and not journaled: it
// decides about no run, and sessions are not in the journal either.
func (s *Server) endSessions(c echo.Context, id Identity) error {
	var req api.SessionEnd
	if err := decodeRequest(c, &req, &req.Reason); err != nil {
		return err
	}
	person := strings.TrimPrefix(req.Person, "user:")
	if (person != "") == req.All {
		return invalid("person", "name a person, or all; not both")
	}
	ended := 0
	if s.auth.browsers != nil {
		ended = s.auth.browsers.sessions.CloseIf(func(p string) bool { return req.All || p == person }, time.Now())
	}
	if ended == 0 && !req.All {
		return problem(http.StatusNotFound, "not_found", "no session of "+cut(person, maxHandle)+" was ended: there is none", "'responder sessions list' shows who is signed in")
	}
	s.log.Info("sessions of the page were ended", "by", "user:"+id.Name, "person", person, "all", req.All, "sessions", ended, "reason", req.Reason)
	return reply(c, api.SessionList{Sessions: s.auth.sessions(time.Now()), Ended: ended})
}

// sessions lists those that a request could still use.
func (a *authenticator) sessions(now time.Time) []api.Session {
	list := []api.Session{}
	if a.browsers == nil {
		return list
	}
	for _, one := range a.browsers.sessions.All(now) {
		if one.Value.known != nil {
			if _, err := a.files.known(*one.Value.known); err != nil {
				continue // the password was replaced
			}
		}
		list = append(list, api.Session{
			Person: "user:" + one.Person, Method: one.Value.method, Groups: append([]string{}, one.Value.id.Groups...), Began: one.Began.UTC(), Used: one.Used.UTC(),
		})
	}
	return list
}
