package webhook

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
)

// SignIn is what the sign-in page shows.
type SignIn struct {
	Status int
	Next   string // where to go afterwards, as localPath returns it

	Password bool     // a form asks for name and password
	Issuer   string   // host that signs people in; empty: none does
	Down     bool     // it does not answer at present
	Others   []string // other ways to authenticate, one line each

	Who *Identity // who is signed in already; nil: nobody

	Message string   // why the person is not signed in; empty: nothing went wrong
	Hint    string   // what to do about it
	Groups  []string // that the issuer named, if the person has no rights
	Left    bool     // the person has just signed out
}

// Methods and results of sign-ins, for the metric.
const (
	methodPassword = "password"
	methodOIDC     = "oidc"

	signedInOK        = "ok"
	signInWrong       = "wrong"
	signInLimited     = "limited"
	signInRefused     = "refused"
	signInNoRights    = "no_rights"
	signInInvalid     = "invalid"
	signInUnavailable = "unavailable"
)

// pathSignIn is the sign-in page. Below it are the issuer's ways there and back.
const (
	pathSignIn   = "/signin"
	pathToIssuer = "/signin/oidc"
	pathCallback = "/signin/callback"
	pathSignOut  = "/signout"

	pathSignOutEverywhere = "/signout/everywhere"
)

// maxPassword bounds a password, in bytes.
const maxPassword = 1 << 10

// signInRoutes adds the routes that sign people in and out, which ask for no credential.
func (s *Server) signInRoutes() {
	s.route(http.MethodGet, pathSignIn, "", s.showSignIn, asPage)
	s.route(http.MethodHead, pathSignIn, "", s.showSignIn, asPage)
	s.route(http.MethodPost, pathSignIn, "", s.takePassword, asPage)
	s.route(http.MethodPost, pathSignOut, "", s.signOut, asPage)
	s.route(http.MethodPost, pathSignOutEverywhere, "", s.signOutEverywhere, asPage)
	if s.o.Auth.OIDC != nil && s.o.Auth.OIDC.Browser != nil {
		s.route(http.MethodGet, pathToIssuer, "", s.toIssuer, asPage)
		s.route(http.MethodGet, pathCallback, "", s.fromIssuer, asPage)
	}
}

// showSignIn answers with the sign-in page, which says who is signed in.
func (s *Server) showSignIn(c echo.Context, _ Identity) error {
	p := SignIn{Status: http.StatusOK, Next: nextOf(c.QueryParam("next")), Left: c.QueryParam("said") == "out"}
	if id, ok := s.auth.signedIn(c.Request()); ok {
		trust(c)
		p.Who, p.Left = &id, false
	}
	s.signInPage(c, p)
	return nil
}

// askToSignIn answers a request without a good credential with the sign-in page, which
// leads back to what was asked for.
func (s *Server) askToSignIn(c echo.Context, p *Problem) {
	page := SignIn{Status: p.Status(), Next: nextOf(c.Request().URL.RequestURI())}
	if p.Message != errNoCredential.Error() {
		page.Message, page.Hint = p.Message, p.Hint
	}
	if changes(c.Request()) {
		page.Next = "/"
		page.Message, page.Hint = "You are signed out: nothing was changed.", "Sign in, and look again before you change anything."
		if id := c.Param("id"); id != "" {
			page.Next = nextOf("/runs/" + url.PathEscape(id))
			page.Message, page.Hint = "You are signed out: nothing was decided.", "Sign in, look at the run again, and decide."
		}
	} else if page.Message == "" && s.auth.browsers.idOf(c.Request()) != "" {
		page.Message = "Your session has ended."
	}
	s.signInPage(c, page)
}

// signInPage answers with the sign-in page and what it offers.
func (s *Server) signInPage(c echo.Context, p SignIn) {
	a := s.o.Auth
	p.Password = len(a.Users) > 0
	if d := s.auth.oidc; d != nil && d.o.Browser != nil {
		p.Issuer = d.host()
		ctx, cancel := context.WithTimeout(c.Request().Context(), d.glance)
		defer cancel()
		_, err := d.issuer.keys(ctx)
		p.Down = err != nil
	}
	if len(a.Clients) > 0 {
		p.Others = append(p.Others, "Client certificate: import yours into the browser, then load this page again.")
	}
	if a.OIDC != nil && p.Issuer == "" {
		p.Others = append(p.Others, "Single sign-on: open this page through the proxy that signs you in and sends your token as Authorization: Bearer.")
	}
	if !p.Password && p.Issuer == "" && len(a.Tokens) > 0 {
		p.Others = append(p.Others, "Token: a browser cannot send one by itself; use the command line; see responder runs list --help.")
	}
	if !s.auth.anyone() {
		p.Others = append(p.Others, "No credential is configured: only browsers on the machine of the service are served, at http://127.0.0.1.")
	}
	if p.Status == http.StatusUnauthorized {
		c.Response().Header().Set("WWW-Authenticate", `Bearer realm="responder"`) // Basic would open the browser's own dialog
	}
	s.o.Pages.SignIn(c.Response(), c.Request(), p)
}

// takePassword signs in who sends the form of the sign-in page. The form of another site is
// refused: it could sign a person in as somebody else, and what the person decides then
// would be recorded as decided by the other one.
func (s *Server) takePassword(c echo.Context, _ Identity) error {
	b, r := s.auth.browsers, c.Request()
	if b == nil {
		return ErrNotFound
	}
	if !b.fromOwnPage(r) {
		return unauthorized(errCrossOrigin)
	}
	fields, err := readForm(r)
	if err != nil {
		return err
	}
	name, password := fields["name"], fields["password"]
	page := SignIn{Next: nextOf(fields["next"])}
	var who signedIn
	wait, err := b.failures.check(name, r.RemoteAddr, b.deviceOf(r, name, time.Now()), time.Now(), func() (err error) {
		if len(name) > maxHandle || len(password) > maxPassword {
			return errBadCredential
		}
		who, err = s.auth.password(name, password)
		return err
	})
	switch {
	case wait > 0:
		seconds := strconv.Itoa(int(math.Ceil(wait.Seconds())))
		c.Response().Header().Set("Retry-After", seconds)
		page.Status, page.Message = http.StatusTooManyRequests, "Too many sign-ins failed. Wait "+seconds+" s and try again."
		s.signInFails(c, methodPassword, signInLimited, page)
	case err != nil:
		page.Status, page.Message = http.StatusUnauthorized, "Wrong name or password."
		s.signInFails(c, methodPassword, signInWrong, page)
	default:
		s.admit(c, methodPassword, name, who, page.Next)
	}
	return nil
}

// admit begins a session of a person who has proven who they are, and leads to the page
// that they wanted. It refuses a person who may not read.
func (s *Server) admit(c echo.Context, method, name string, who signedIn, next string) {
	b, r, now := s.auth.browsers, c.Request(), time.Now()
	if !who.id.Can(ScopeRead) {
		s.signInFails(c, method, signInNoRights, SignIn{
			Status: http.StatusForbidden, Next: next, Groups: who.id.Groups,
			Message: "You are " + who.id.Name + ", who may not read here.",
			Hint:    "Ask whoever runs Responder: the scopes of your entry under auth in its configuration lack read.",
		})
		return
	}
	trust(c)
	for _, old := range b.everyID(r) {
		b.sessions.Close(old, now)
	}
	c.SetCookie(b.cookie(r, sessionCookie, b.sessions.Open(who.id.Name, who, now), 0))
	b.remember(c.Response(), r, cmp.Or(name, who.id.Name), now)
	if b.sent(r, leftCookie) != "" {
		c.SetCookie(b.cookie(r, leftCookie, "", 0))
	}
	s.metrics.signIns.WithLabelValues(method, signedInOK).Inc()
	s.log.Info("a person signed in on the page", "person", who.id.Name, "method", method, "groups", who.id.Groups)
	s.goTo(c, next)
}

// signInFails logs and counts a failed sign-in, and shows the sign-in page again.
func (s *Server) signInFails(c echo.Context, method, result string, page SignIn) {
	level := slog.LevelInfo
	if slices.Contains([]string{signInLimited, signInInvalid, signInUnavailable}, result) {
		level = slog.LevelDebug // strangers cause these as often as they like
	}
	s.log.Log(c.Request().Context(), level, "a sign-in on the page failed", "method", method, "result", result, "why", cut(page.Message, 300), "address", c.Request().RemoteAddr)
	s.refuseSignIn(c, method, result, page)
}

// refuseSignIn counts a failed sign-in that was logged already, and shows the sign-in page
// again.
func (s *Server) refuseSignIn(c echo.Context, method, result string, page SignIn) {
	s.metrics.signIns.WithLabelValues(method, result).Inc()
	s.signInPage(c, page)
}

// signOut ends the session of the browser.
func (s *Server) signOut(c echo.Context, _ Identity) error {
	return s.leave(c, func(id string) int {
		if s.auth.browsers.sessions.Close(id, time.Now()) {
			return 1
		}
		return 0
	})
}

// signOutEverywhere ends all sessions of the person.
func (s *Server) signOutEverywhere(c echo.Context, _ Identity) error {
	return s.leave(c, func(id string) int {
		who, ok := s.auth.ofSession(id, false)
		if !ok {
			return 0
		}
		n := s.auth.browsers.sessions.CloseIf(func(person string) bool { return person == who.Name }, time.Now())
		s.log.Info("a person signed out in all browsers", "person", who.Name, "sessions", n)
		return n
	})
}

// leave ends sessions by each id that the browser sent: where two cookies have the name,
// nothing tells which is the person's. It does not say that somebody is signed out if
// nothing has ended.
func (s *Server) leave(c echo.Context, end func(id string) (ended int)) error {
	b, r := s.auth.browsers, c.Request()
	if b == nil {
		return ErrNotFound
	}
	if !b.fromOwnPage(r) {
		return unauthorized(errCrossOrigin)
	}
	ended := 0
	for _, id := range b.everyID(r) {
		ended += end(id)
	}
	c.SetCookie(b.cookie(r, sessionCookie, "", 0))
	if ended == 0 {
		s.signInPage(c, SignIn{Status: http.StatusUnauthorized, Next: "/", Message: "You were not signed in: no session was ended."})
		return nil
	}
	c.SetCookie(b.cookie(r, leftCookie, "1", 0))
	s.goTo(c, pathSignIn+"?said=out")
	return nil
}

// renew gives the browser a new id for its session when it is time.
func (s *Server) renew(c echo.Context, id Identity) {
	if !id.SignedIn {
		return
	}
	b, r := s.auth.browsers, c.Request()
	if fresh, due := b.sessions.Rotate(b.idOf(r), time.Now()); due {
		c.SetCookie(b.cookie(r, sessionCookie, fresh, 0))
	}
}

// goTo sends the browser to a path of this service. The address is relative, so that it
// is right behind a proxy that adds a prefix, and cannot name another site.
func (s *Server) goTo(c echo.Context, path string) {
	up := strings.Repeat("../", strings.Count(c.Request().URL.Path, "/")-1)
	c.Response().Header().Set("Location", "./"+up+strings.TrimPrefix(path, "/"))
	c.Response().Header().Set("Cache-Control", "no-store")
	c.Response().WriteHeader(http.StatusSeeOther)
}

// nextOf returns the page to go to after a sign-in: the list of runs, if raw is none.
func nextOf(raw string) string {
	if next, ok := localPath(raw); ok {
		return next
	}
	return "/"
}

// refusalOf returns what the page says of an error about an issuer's token.
func refusalOf(err error) (message, hint string) {
	var refused *refusedToken
	if errors.As(err, &refused) {
		return "Your ID token was refused: " + refused.why + ".", capital(refused.hint) + "."
	}
	return "Your ID token was refused.", "Try again. The service's log has the reason."
}

// capital begins a sentence.
func capital(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// mayRetry lists the errors of an issuer after which trying again helps.
var mayRetry = []string{"temporarily_unavailable", "server_error", "login_required", "interaction_required", "consent_required", "account_selection_required"}

// denialOf returns what the page says of an error that the issuer answered with.
func denialOf(host, code, description string) (message, hint string) {
	hint = "Ask whoever runs " + host + " whether you may use Responder."
	if slices.Contains(mayRetry, code) {
		hint = "Try again."
	}
	message = host + " did not sign you in: " + cut(code, 60)
	if description != "" {
		message += " (" + cut(description, 200) + ")"
	}
	return message + ".", hint
}
