package webhook

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/rights"
)

// Pages render what people see in a browser. Requests are authenticated before
// they are called. This package handles the forms, like the API's decisions.
type Pages interface {
	// Page answers GET or HEAD of a page's path for who. It has answered when
	// it returns nil; its errors are as for [Control] and nothing is answered.
	Page(w http.ResponseWriter, r *http.Request, who Identity) error
	// Verify verifies the journal for who, as long as the request lasts, and sends the
	// browser to the page of the audit log. It bounds how often that is done.
	Verify(w http.ResponseWriter, r *http.Request, who Identity)
	// Problem answers with a page that shows p, with p's status.
	Problem(w http.ResponseWriter, r *http.Request, p *Problem)
	// SignIn answers with the page on which people sign in.
	SignIn(w http.ResponseWriter, r *http.Request, p SignIn)
}

// isPage marks the requests of pages' routes in their echo.Context.
const isPage = "page"

// pageRoutes is the list of everything for browsers.
func (s *Server) pageRoutes() {
	for _, path := range []string{"/", "/history", "/services", "/nodes", "/playbooks", "/runs/:id", "/audit", "/alerts", "/loans", "/ladder", "/policy"} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			s.route(method, path, ScopeRead, s.showPage, asPage)
		}
	}
	for _, verb := range verbs() {
		s.route(http.MethodPost, "/runs/:id/"+verb, Scope(rightOf(verb)), s.takeForm(verb), asPage)
	}
	s.route(http.MethodPost, "/pause", Scope(rights.Pause), s.takePause(rights.Pause), asPage)
	s.route(http.MethodPost, "/unpause", Scope(rights.Unpause), s.takePause(rights.Unpause), asPage)
	s.route(http.MethodPost, "/audit/verify", ScopeRead, s.takeVerify, asPage)
	s.signInRoutes()
}

// asPage makes a route's problems pages.
func asPage(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		c.Set(isPage, true)
		return next(c)
	}
}

func (s *Server) showPage(c echo.Context, id Identity) error {
	return s.o.Pages.Page(c.Response(), c.Request(), id)
}

// takeVerify takes the form of the audit log's page that has it verified.
func (s *Server) takeVerify(c echo.Context, id Identity) error {
	fields, err := readForm(c.Request())
	if err != nil {
		return err
	}
	if len(fields) > 0 {
		return invalid("body", "the form has no fields")
	}
	if err := unlimit(c); err != nil { // a long log may need longer than an answer's time limit
		return err
	}
	s.o.Pages.Verify(c.Response(), c.Request(), id)
	return nil
}

// unlimit removes the time limits of a request.
func unlimit(c echo.Context) error {
	control := http.NewResponseController(c.Response())
	for _, unlimit := range []func(time.Time) error{control.SetReadDeadline, control.SetWriteDeadline} {
		if err := unlimit(time.Time{}); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return err
		}
	}
	return nil
}

// takeForm takes a decision from a page's form and sends the browser back to
// the run, so that reloading the page decides nothing again. The address carries
// the result as a word, and the page shows a text for it: a page shows no text
// from its address.
func (s *Server) takeForm(verb string) handler {
	return func(c echo.Context, id Identity) error {
		req, err := decodeForm(c.Request())
		if err != nil {
			return err
		}
		if err := s.bound(c, verb, req); err != nil {
			return err
		}
		result := formResult{word: "reason"} // the form cannot require it: its other button needs none
		if verb != verbDeny || req.Reason != "" {
			result = formResultOf(verb, s.decide(c, verb, id, "web", req))
		}
		if run, err := s.run(c.Param("id")); result.word == wordLate && err == nil && run.Gate != nil && run.Gate.ID != req.Gate {
			result.word = wordStale // another question is open now, which can still be answered
		}
		if result.err != nil {
			return result.err
		}
		// Relative, so that it is right behind a proxy that adds a prefix.
		c.Response().Header().Set("Location", "../"+url.PathEscape(c.Param("id"))+"?said="+result.word)
		c.Response().Header().Set("Cache-Control", "no-store")
		return c.NoContent(http.StatusSeeOther)
	}
}

// bound refuses an answer to a question that does not name the question and
// the plan that the person saw. The API allows it for a person at a terminal;
// every form of a page has both.
func (s *Server) bound(c echo.Context, verb string, req api.DecisionRequest) error {
	if verb != verbApprove && verb != verbDeny && verb != verbReplan {
		return nil
	}
	run, err := s.run(c.Param("id"))
	if err != nil {
		return err
	}
	if req.Gate == "" || req.Digest == "" && run.Gate != nil && run.Gate.ID == req.Gate && run.Gate.Digest != "" {
		return invalid("gate, digest", "missing: the form does not name the plan; load the run's page again")
	}
	return nil
}

// Words that are looked at here too.
const (
	wordLate  = "late"
	wordStale = "stale"
)

// formResult is the result of a form: a word for the page, or an error that is
// not an answer of the run.
type formResult struct {
	word string
	err  error
}

func formResultOf(verb string, err error) formResult {
	var bad *Problem
	switch {
	case err == nil:
		return formResult{word: verb}
	case errors.As(err, &bad): // of this package: the request is invalid
		return formResult{err: err}
	case errors.Is(err, machine.ErrStale):
		return formResult{word: wordStale}
	case errors.Is(err, machine.ErrVoted):
		return formResult{word: "again"}
	case errors.Is(err, machine.ErrEnded):
		return formResult{word: "ended"}
	case errors.Is(err, machine.ErrNoGate):
		return formResult{word: wordLate}
	case errors.Is(err, machine.ErrTooMany):
		return formResult{word: "many"}
	case errors.Is(err, ErrForbidden):
		return formResult{word: "forbidden"}
	case errors.Is(err, ErrConflict):
		return formResult{word: "conflict"}
	default:
		return formResult{err: err}
	}
}

// decodeForm reads a decision's form strictly.
func decodeForm(r *http.Request) (api.DecisionRequest, error) {
	var req api.DecisionRequest
	fields, err := readForm(r)
	if err != nil {
		return req, err
	}
	for name, value := range fields {
		if err := setField(&req, name, value); err != nil {
			return req, err
		}
	}
	return req, checkReason(req.Reason)
}

// readForm reads a page's form, in which each field is there once.
func readForm(r *http.Request) (map[string]string, error) {
	if media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || media != echo.MIMEApplicationForm {
		return nil, problem(http.StatusUnsupportedMediaType, "unsupported_media_type", "what is sent to this page is a form", "load the page and use its buttons")
	}
	data, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxRequest))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, problem(http.StatusRequestEntityTooLarge, "too_large", "the form is larger than "+strconv.Itoa(maxRequest)+" bytes", "")
	case err != nil:
		return nil, problem(http.StatusBadRequest, "incomplete", "the form ended early", "")
	}
	values, err := url.ParseQuery(string(data))
	if err != nil {
		return nil, invalid("body", "is not a form")
	}
	fields := map[string]string{}
	for name, given := range values {
		if len(given) != 1 || !utf8.ValidString(given[0]) {
			return nil, invalid("body", "a field is there twice, or is not UTF-8")
		}
		fields[name] = given[0]
	}
	return fields, nil
}

// setField takes one field of a form.
func setField(r *api.DecisionRequest, name, value string) error {
	switch name {
	case "gate":
		r.Gate = value
	case "digest":
		r.Digest = value
	case "reason": // browsers send line breaks as CR LF
		r.Reason = strings.TrimSpace(strings.ReplaceAll(value, "\r\n", "\n"))
	case "applied", "breakGlass":
		yes, err := strconv.ParseBool(value)
		if err != nil {
			return invalid(name, "want true or false")
		}
		if name == "applied" {
			r.Applied = &yes
		} else {
			r.BreakGlass = yes
		}
	default:
		return invalid("body", "unknown field "+strconv.Quote(name[:min(len(name), 64)]))
	}
	return nil
}

// answer writes p: as a page to a browser that asked for one, else as JSON.
func (s *Server) answer(c echo.Context, p *Problem) {
	page, _ := c.Get(isPage).(bool)
	if s.o.Pages == nil || c.Response().Committed || !page && !wantsPage(c.Request()) {
		answer(c, p)
		return
	}
	if p.Status() == http.StatusUnauthorized {
		s.askToSignIn(c, p)
		return
	}
	s.o.Pages.Problem(c.Response(), c.Request(), p)
}

// wantsPage reports whether a browser asks for a page that does not exist.
func wantsPage(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) && !strings.HasPrefix(r.URL.Path, "/api/") &&
		strings.Contains(r.Header.Get("Accept"), "text/html")
}
