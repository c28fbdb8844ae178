package webhook

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/time/rate"

	"github.com/inference-responder/responder/internal/webhook/session"
)

// Sessions are the limits of browsers' sessions.
type Sessions struct {
	Lifetime time.Duration // after which a person signs in again; default 12 h
	Idle     time.Duration // without a request other than HEAD, after which they do; default 1 h
}

// Limits of sessions that need no option.
const (
	sessionRotates = 15 * time.Minute // with a new id in the cookie
	sessionsOfOne  = 16               // person: browsers in use at once
	maxSessions    = 4096
)

// signedIn is who a session belongs to.
type signedIn struct {
	id     Identity
	method string
	proof  claims  // of an issuer: what shows how strong authentication was, and when
	known  *digest // of a name and password; they have to be accepted still
}

// browsers keeps the sessions of people who signed in on the page. It is safe for
// concurrent use.
type browsers struct {
	sessions *session.Store[signedIn]
	sealer   *session.Sealer // of cookies
	spent    session.Spent
	failures *failures
	troubles rate.Sometimes // limits what is logged of failures on the way to the issuer
	guesses  rate.Sometimes // limits what is logged of wrong passwords by Authorization: Basic
	external *url.URL       // under which browsers know the service; nil: under what they send as Host
}

// newBrowsers returns nil where nobody can sign in.
func newBrowsers(o Auth, logger *slog.Logger) (*browsers, error) {
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
	stolen := func(person string) {
		logger.Warn("a session was ended: its browser's old cookie came again, so somebody may have copied it", "person", person)
	}
	b := &browsers{sessions: session.NewStore[signedIn](l, stolen), failures: newFailures(), troubles: rate.Sometimes{Interval: time.Minute}, guesses: rate.Sometimes{Interval: time.Minute}}
	var err error
	if b.sealer, err = session.NewSealer(); err != nil {
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

// signedIn returns who is signed in with the browser that sent the request; false: nobody.
func (a *authenticator) signedIn(r *http.Request) (Identity, bool) {
	cookie := a.browsers.idOf(r)
	if cookie == "" {
		return Identity{}, false
	}
	return a.ofSession(cookie, r.Method != http.MethodHead) // by HEAD the page asks by itself whether it is outdated
}

// ofSession returns whose session an id is; false: nobody's. With use the session counts
// as used now.
func (a *authenticator) ofSession(cookie string, use bool) (Identity, bool) {
	now := time.Now()
	s, ok := a.browsers.sessions.Get(cookie, now, use)
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
	if name == "" { // tokens are hashed with it
		return signedIn{}, errBadCredential
	}
	d := a.files.hash(name, password)
	known, err := a.files.known(d)
	if err != nil {
		return signedIn{}, err
	}
	return signedIn{id: a.people.ofCredential(known), method: methodPassword, known: &d}, nil
}

// sameText compares secrets.
func sameText(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
