package webhook

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/inference-responder/responder/internal/webhook/session"
)

// Sessions are the limits of browsers' sessions.
type Sessions struct {
	Lifetime time.Duration // after which a person signs in again; default 12 h
	Idle     time.Duration // without a page being open, after which they do; default 1 h
}

// Limits of sessions that need no option.
const (
	sessionRotates = 15 * time.Minute // with a new id in the cookie
	sessionsOfOne  = 16               // person: browsers in use at once
	maxSessions    = 4096
)

// signedIn is who a session belongs to.
type signedIn struct {
	id    Identity
	proof claims  // of an issuer: what shows how strong authentication was, and when
	known *digest // of a name and password; they have to be accepted still
}

// browsers keeps the sessions of people who signed in on the page. It is safe for
// concurrent use.
type browsers struct {
	sessions *session.Store[signedIn]
	attempts *session.Sealer
	failures *failures
	external *url.URL // under which browsers know the service; nil: under what they send as Host
}

// newBrowsers returns nil where nobody can sign in.
func newBrowsers(o Auth) (*browsers, error) {
	if len(o.Users) == 0 && (o.OIDC == nil || o.OIDC.Browser == nil) {
		return nil, nil
	}
	l := session.Limits{Lifetime: o.Sessions.Lifetime, Idle: o.Sessions.Idle, Rotate: sessionRotates, PerPerson: sessionsOfOne, All: maxSessions}
	if l.Lifetime == 0 {
		l.Lifetime = 12 * time.Hour
	}
	if l.Idle == 0 {
		l.Idle = time.Hour
	}
	if l.Lifetime < 0 || l.Idle < 0 {
		return nil, errors.New("webhook: the lifetime of a session is negative")
	}
	b := &browsers{sessions: session.NewStore[signedIn](l), failures: newFailures()}
	var err error
	if b.attempts, err = session.NewSealer(); err != nil {
		return nil, err
	}
	if o.ExternalURL != "" {
		if b.external, err = url.Parse(o.ExternalURL); err != nil || b.external.Host == "" {
			return nil, fmt.Errorf("webhook: external URL %q is not a URL", o.ExternalURL)
		}
		b.external = b.external.JoinPath("/")
	}
	return b, nil
}

// Names of cookies. A browser takes one that begins with __Host- over https only, for
// no other host and from no other host, so that a neighbor cannot plant one.
const (
	sessionCookie       = "__Host-responder"
	sessionCookiePlain  = "responder" // over plain http
	attemptCookie       = "__Secure-responder-signin"
	attemptCookiePlain  = "responder-signin"
	attemptCookieFolder = "/signin"
)

// secure reports whether the browser reached the service over https.
func (b *browsers) secure(r *http.Request) bool {
	return r.TLS != nil || b.external != nil && b.external.Scheme == "https"
}

// cookie returns the session's cookie with an id; empty: one that removes it. It ends
// with the browser, and is sent when a person follows a link from elsewhere, but not
// with requests of other sites' pages.
func (b *browsers) cookie(r *http.Request, id string) *http.Cookie {
	c := &http.Cookie{Name: sessionCookiePlain, Value: id, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode}
	if b.secure(r) {
		c.Name, c.Secure = sessionCookie, true
	}
	if id == "" {
		c.MaxAge = -1
	}
	return c
}

// attemptCookie returns the cookie of a sign-in under way; empty: one that removes it.
func (b *browsers) attemptCookie(r *http.Request, sealed string) *http.Cookie {
	c := &http.Cookie{
		Name: attemptCookiePlain, Value: sealed, Path: attemptCookieFolder, HttpOnly: true, SameSite: http.SameSiteLaxMode,
		MaxAge: int(session.MaxAttempt / time.Second),
	}
	if b.external != nil {
		c.Path = b.external.JoinPath(attemptCookieFolder).EscapedPath()
	}
	if b.secure(r) {
		c.Name, c.Secure = attemptCookie, true
	}
	if sealed == "" {
		c.MaxAge = -1
	}
	return c
}

// idOf returns the id that the browser sent; empty: none.
func (b *browsers) idOf(r *http.Request) string {
	if b == nil {
		return ""
	}
	c, err := r.Cookie(b.cookie(r, "").Name)
	if err != nil {
		return ""
	}
	return c.Value
}

// changes reports whether a request is meant to change something.
func changes(r *http.Request) bool { return r.Method != http.MethodGet && r.Method != http.MethodHead }

// fromOwnPage reports whether the browser says that the request comes from a page of
// this service. A browser sends a session's cookie by itself, so its absence of proof
// is no proof, unlike for the credentials of programs.
func (b *browsers) fromOwnPage(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "same-origin":
		return true
	case "": // an old browser
	default:
		return false
	}
	u, err := url.Parse(r.Header.Get("Origin"))
	if err != nil || u.Host == "" {
		return false
	}
	return u.Host == r.Host || b.external != nil && u.Host == b.external.Host && u.Scheme == b.external.Scheme
}

// signedIn returns who is signed in with the browser that sent the request; false: nobody.
func (a *authenticator) signedIn(r *http.Request) (Identity, bool) {
	cookie, now := a.browsers.idOf(r), time.Now()
	if cookie == "" {
		return Identity{}, false
	}
	s, ok := a.browsers.sessions.Get(cookie, now, r.Method != http.MethodHead) // the page asks by HEAD whether it is outdated
	if !ok {
		return Identity{}, false
	}
	id := s.id
	if s.known != nil {
		known, err := a.files.known(*s.known)
		if err != nil { // the password was replaced
			a.browsers.sessions.Close(cookie, now)
			return Identity{}, false
		}
		id = a.people.ofCredential(known)
	} else {
		id.Strong = a.oidc.o.Strong.proven(s.proof, now)
	}
	id.SignedIn = true
	return id, true
}

// password returns whose name and password those are.
func (a *authenticator) password(name, password string) (signedIn, error) {
	if name == "" { // so tokens are hashed
		return signedIn{}, errBadCredential
	}
	d := a.files.hash(name, password)
	known, err := a.files.known(d)
	if err != nil {
		return signedIn{}, err
	}
	return signedIn{id: a.people.ofCredential(known), known: &d}, nil
}

// sameText compares secrets.
func sameText(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
