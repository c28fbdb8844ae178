package webhook

import (
	"crypto/rand"
	"net/http"
	"net/url"
	"time"

	"github.com/inference-responder/responder/internal/webhook/session"
)

// Names of cookies. Over https they get a prefix with which a browser takes them for no
// other host and from no other host, so that a neighbor cannot plant one.
const (
	sessionCookie = "responder"        // the id of a session
	attemptCookie = "responder-signin" // a sign-in under way
	deviceCookie  = "responder-device" // a browser in which a name signed in before
	leftCookie    = "responder-left"   // somebody signed out, and nobody signed in since
	hostPrefix    = "__Host-"
)

// secure reports whether the browser reached the service over https. Behind a proxy that
// speaks it, a cookie shows that, which the browser sends over https only.
func (b *browsers) secure(r *http.Request) bool {
	if r.TLS != nil || b.external != nil && b.external.Scheme == "https" {
		return true
	}
	for _, name := range []string{sessionCookie, attemptCookie, deviceCookie, leftCookie} {
		if len(r.CookiesNamed(hostPrefix+name)) > 0 {
			return true
		}
	}
	return false
}

// overHTTPS reports the same of a form, for which a browser says where its page is from.
func (b *browsers) overHTTPS(r *http.Request) bool {
	u, err := url.Parse(r.Header.Get("Origin"))
	return b.secure(r) || changes(r) && err == nil && u.Scheme == "https"
}

// cookie returns a cookie of the service; an empty value: one that removes it. It ends
// with the browser if it has no age. It is sent when a person follows a link from
// elsewhere, but not with requests of other sites' pages.
func (b *browsers) cookie(r *http.Request, name, value string, age time.Duration) *http.Cookie {
	c := &http.Cookie{Name: name, Value: value, Path: "/", MaxAge: int(age / time.Second), HttpOnly: true, SameSite: http.SameSiteLaxMode}
	if b.overHTTPS(r) {
		c.Name, c.Secure = hostPrefix+name, true
	}
	if value == "" {
		c.MaxAge = -1
	}
	return c
}

// sent returns the value of a cookie that the browser sent; empty: none. Of two with the
// same name one is not the service's, and nothing tells which.
func (b *browsers) sent(r *http.Request, name string) string {
	if b.secure(r) {
		name = hostPrefix + name
	}
	if found := r.CookiesNamed(name); len(found) == 1 {
		return found[0].Value
	}
	return ""
}

// idOf returns the id of the session that the browser sent; empty: none.
func (b *browsers) idOf(r *http.Request) string {
	if b == nil {
		return ""
	}
	return b.sent(r, sessionCookie)
}

// everyID returns the ids of all sessions that the browser sent, also of cookies that
// count for nothing else. It is for ending them.
func (b *browsers) everyID(r *http.Request) []string {
	var ids []string
	for _, name := range []string{sessionCookie, hostPrefix + sessionCookie} {
		for _, c := range r.CookiesNamed(name) {
			ids = append(ids, c.Value)
		}
	}
	return ids
}

// deviceOf returns what the browser is known by that signed in with the name before;
// empty: it did not. An empty name is any.
func (b *browsers) deviceOf(r *http.Request, name string, now time.Time) string {
	d, ok := b.sealer.OpenDevice(b.sent(r, deviceCookie), now)
	if !ok || name != "" && d.Name != name {
		return ""
	}
	return d.ID
}

// remember has the browser keep that it signed in with the name.
func (b *browsers) remember(w http.ResponseWriter, r *http.Request, name string, now time.Time) {
	sealed, err := b.sealer.SealDevice(session.Device{Name: name, ID: rand.Text(), Since: now})
	if err == nil { // else the browser stays unknown
		http.SetCookie(w, b.cookie(r, deviceCookie, sealed, session.MaxDevice))
	}
}

// changes reports whether a request is meant to change something.
func changes(r *http.Request) bool { return r.Method != http.MethodGet && r.Method != http.MethodHead }

// fromElsewhere reports whether the browser says that a page of another site caused the
// request. Browsers of before 2023, and those that use http, may not say so.
func fromElsewhere(r *http.Request) bool {
	site := r.Header.Get("Sec-Fetch-Site")
	return site != "" && site != "same-origin" && site != "none"
}

// fromOwnPage reports whether the browser says that the request comes from a page of
// this service. A browser adds a session's cookie by itself, so a request that does not
// say where it comes from is taken for another site's.
func (b *browsers) fromOwnPage(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "same-origin":
		return true
	case "": // an old browser
	default:
		return false
	}
	u, err := url.Parse(r.Header.Get("Origin"))
	if err != nil || u.Host == "" || b.secure(r) && u.Scheme != "https" {
		return false
	}
	return u.Host == r.Host || b.external != nil && u.Host == b.external.Host && u.Scheme == b.external.Scheme
}
