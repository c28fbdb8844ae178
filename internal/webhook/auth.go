package webhook

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/inference-responder/responder/internal/rights"
)

// Scope is what a credential may be used for: one of the scopes below, or one of
// the rights, which its person also needs to have on the service.
type Scope string

// The scopes beside the rights. All but intake and metrics include read, and read
// includes metrics. Those two stand alone, so that what Alertmanager and Prometheus hold
// can neither read runs nor decide.
const (
	ScopeIntake  Scope = "intake"  // deliver notifications
	ScopeMetrics Scope = "metrics" // the service's own metrics
	ScopeRead    Scope = "read"    // runs, playbooks, services, the audit log
	ScopeAdmin   Scope = "admin"   // export and archive the journal

	ScopeSessions Scope = "sessions" // list and end the sessions of people who are signed in on the page
)

// Scopes lists every scope.
func Scopes() []Scope {
	all := []Scope{ScopeIntake, ScopeMetrics, ScopeRead, ScopeAdmin, ScopeSessions}
	for _, r := range rights.All() {
		all = append(all, Scope(r))
	}
	return all
}

// Auth lists the credentials that are accepted. If it lists none, only loopback
// is served, as "anonymous" with every scope, unless Insecure is true.
type Auth struct {
	Tokens   []Token
	Users    []User
	Clients  []Client // need TLS with a client CA
	OIDC     *OIDC    // nil: tokens of no issuer are accepted
	People   []Person // who is who, over all of the above
	Insecure bool     // everyone may do everything as "anonymous"

	Sessions    Sessions // of people who signed in on the page, with a password or through the issuer
	ExternalURL string   // under which browsers reach the page; empty: under any
}

// Anonymous is the name of everybody where nobody has to authenticate.
const Anonymous = "anonymous"

// Grant is the person or sender of a credential and its scopes.
type Grant struct {
	Name   string // of a person or a sender; decisions are journaled as user:Name
	Scopes []Scope
	Groups []string // as approval rules name them, without the prefix group:
}

// Token is a bearer token.
type Token struct {
	Grant
	File string // one token per line, all valid, so that one can be rotated; read again when it changes
}

// User is a name and password for basic authentication.
type User struct {
	Grant
	PasswordFile string // like a token's file
}

// Client is a client certificate: Grant.Name is its name of that kind.
type Client struct {
	Grant
	Kind   NameKind // empty: the common name
	Strong bool     // its key is kept where only that person can use it, e.g. on a smart card
}

// NameKind is a kind of name in a certificate.
type NameKind string

// The kinds of names.
const (
	CommonName NameKind = "common_name"
	DNSName    NameKind = "dns"
	EmailName  NameKind = "email"
	URIName    NameKind = "uri"
)

// grants lists every credential of the configuration.
func (a Auth) grants() []Grant {
	var all []Grant
	for _, t := range a.Tokens {
		all = append(all, t.Grant)
	}
	for _, u := range a.Users {
		all = append(all, u.Grant)
	}
	for _, c := range a.Clients {
		all = append(all, c.Grant)
	}
	return all
}

// Identity is who made a request.
type Identity struct {
	Name   string
	Groups []string
	Strong bool // the credential proves strong authentication, e.g. with a second factor
	Person bool // the configuration declares whose credential it is
	scopes []Scope

	SignedIn bool // by a session of the page
}

// Actor is who the identity is in the words of the rights.
func (id Identity) Actor() rights.Actor {
	return rights.Actor{By: "user:" + id.Name, Groups: id.Groups, Person: id.Person}
}

// Can reports whether the identity has the scope.
func (id Identity) Can(want Scope) bool {
	if slices.Contains(id.scopes, want) {
		return true
	}
	switch want {
	case ScopeMetrics:
		return id.Can(ScopeRead)
	case ScopeRead:
		return slices.ContainsFunc(id.scopes, func(s Scope) bool { return s != ScopeIntake && s != ScopeMetrics })
	default:
		return false
	}
}

// sends reports whether the credential is good for nothing but to deliver notifications and
// to scrape metrics.
func (id Identity) sends() bool {
	return !slices.ContainsFunc(id.scopes, func(s Scope) bool { return s != ScopeIntake && s != ScopeMetrics })
}

var (
	errNoCredential  = errors.New("no credential")
	errBadCredential = errors.New("unknown credential")
	errForeignPage   = errors.New("request of another site's page, or under a name that is not loopback")
	errCrossOrigin   = errors.New("request of another site's page")
	errPageSession   = errors.New("the session of a page changes something elsewhere")
)

// authenticator knows the credentials. It is safe for concurrent use.
type authenticator struct {
	files     *credentialFiles
	clients   []Client
	oidc      *oidcVerifier // nil: none
	people    *people
	browsers  *browsers // nil: nobody can sign in on the page
	insecure  bool
	anonymous atomic.Bool // nobody is listed and the listener is loopback
	local     atomic.Bool // the listener is loopback
	origins   *http.CrossOriginProtection

	logger *slog.Logger
	mu     sync.Mutex      // guards logged
	logged map[digest]bool // certificates
}

func newAuthenticator(o Auth, logger *slog.Logger, m *metrics) (*authenticator, error) {
	files, err := newCredentialFiles(o, logger, m.authReload.Inc)
	if err != nil {
		return nil, err
	}
	a := &authenticator{files: files, clients: o.Clients, insecure: o.Insecure, origins: http.NewCrossOriginProtection(), logger: logger, logged: map[digest]bool{}}
	if a.people, err = newPeople(o); err != nil {
		return nil, err
	}
	if a.browsers, err = newBrowsers(o, logger); err != nil {
		return nil, err
	}
	if o.OIDC != nil && o.OIDC.Browser != nil && o.ExternalURL == "" {
		return nil, errors.New("webhook: OIDC sign-in needs the external URL, to which the issuer sends people back")
	}
	a.oidc, err = newOIDCVerifier(o.OIDC, a.people, logger, m.oidcRefreshed)
	return a, err
}

// anyone reports whether anybody is listed.
func (a *authenticator) anyone() bool {
	return len(a.files.sources) > 0 || len(a.clients) > 0 || a.oidc != nil
}

// open reports whether requests without a credential are served.
func (a *authenticator) open() bool { return a.insecure || a.anonymous.Load() }

// authenticate returns who made the request, from its headers and connection
// alone. A wrong credential is refused even if the request has another one.
//
// A browser adds remembered passwords and client certificates to the requests of
// any page. Therefore a request that changes something must also not come from
// another site's page. A session of the page changes things by the page's forms only.
func (a *authenticator) authenticate(r *http.Request, page bool) (Identity, error) {
	id, err := a.credential(r, page)
	switch {
	case err != nil:
		return Identity{}, err
	case a.origins.Check(r) != nil, id.SignedIn && changes(r) && !a.browsers.fromOwnPage(r):
		return Identity{}, errCrossOrigin
	case id.SignedIn && changes(r) && !page:
		return Identity{}, errPageSession
	}
	return id, nil
}

// credential returns the identity of the request's credential.
// On a page a session wins over a password, which a browser may remember and send by itself.
func (a *authenticator) credential(r *http.Request, page bool) (Identity, error) {
	if _, _, basic := r.BasicAuth(); page && basic {
		if id, ok := a.signedIn(r); ok {
			return id, nil
		}
	}
	switch header := r.Header.Values("Authorization"); len(header) {
	case 0:
	case 1:
		return a.header(r, header[0])
	default:
		return Identity{}, errBadCredential
	}
	if id, ok := a.signedIn(r); ok { // which a person did on purpose, unlike showing a certificate
		return id, nil
	}
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 && len(a.clients) > 0 {
		return a.certificate(r.TLS.VerifiedChains[0][0])
	}
	if !a.open() {
		return Identity{}, errNoCredential
	}
	if a.origins.Check(r) != nil || a.rebound(r) {
		return Identity{}, errForeignPage
	}
	return Identity{Name: Anonymous, scopes: Scopes()}, nil
}

// rebound reports whether a request without a credential reached this machine's own
// address under another name, as the page of an attacker's site does whose name
// resolves to 127.0.0.1.
func (a *authenticator) rebound(r *http.Request) bool {
	return (!a.insecure || a.local.Load()) && !loopbackHost(r.Host)
}

// header returns the identity of an Authorization header: of a credential file or,
// if it is in none, of the issuer's token.
func (a *authenticator) header(r *http.Request, header string) (Identity, error) {
	id, err := a.files.lookup(header)
	if scheme, _, _ := strings.Cut(header, " "); strings.EqualFold(scheme, "Basic") && a.browsers != nil {
		if err := a.guessed(r, id, err != nil); err != nil {
			return Identity{}, err
		}
	}
	if err == nil {
		return a.people.ofCredential(id), nil
	}
	if token, ok := jwtOf(header); ok && a.oidc != nil && a.oidc.o.Audience != "" {
		return a.oidc.identify(r.Context(), token)
	}
	return Identity{}, err
}

// guessed refuses a password by Authorization: Basic after too many wrong ones from the
// address, even if it is right: else a guesser would see which one is. A right password of a
// sender is never refused, so that no stranger keeps alerts out.
func (a *authenticator) guessed(r *http.Request, id Identity, wrong bool) error {
	wait := a.browsers.failures.basic(r.RemoteAddr, wrong, time.Now())
	if wait == 0 || !wrong && id.sends() {
		return nil
	}
	a.browsers.guesses.Do(func() {
		a.logger.Warn("too many wrong passwords by Authorization: Basic: people's passwords are refused that way from this address for a while, senders' are not", "address", r.RemoteAddr)
	})
	return &guessedError{wait}
}

// guessedError reports that too many passwords from an address were wrong.
type guessedError struct{ wait time.Duration }

func (g *guessedError) Error() string { return "too many wrong passwords came from this address" }

func (g Grant) identity() Identity {
	return Identity{Name: g.Name, Groups: g.Groups, scopes: g.Scopes}
}

// digest is the hash of a secret. Only it stays in memory.
type digest [sha256.Size]byte

// credential is one accepted Authorization header.
type credential struct {
	hash  digest
	grant Grant
}

// match compares with every credential. The time it takes does not depend on
// which one matches, or how much of it.
func match(credentials []credential, hash digest) (Identity, error) {
	found := -1
	for i := range credentials {
		equal := subtle.ConstantTimeCompare(credentials[i].hash[:], hash[:])
		found = subtle.ConstantTimeSelect(equal, i, found)
	}
	if found < 0 {
		return Identity{}, errBadCredential
	}
	return credentials[found].grant.identity(), nil
}

// loopbackHost reports whether a Host header names this machine.
func loopbackHost(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// loopback reports whether only this machine can reach the address.
func loopback(addr net.Addr) bool {
	switch a := addr.(type) {
	case *net.TCPAddr:
		return a.IP.IsLoopback()
	case *net.UnixAddr:
		return true
	default:
		return false
	}
}
