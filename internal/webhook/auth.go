package webhook

import (
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
)

// Scope is what a credential is good for.
type Scope string

// The scopes. Decide and admin include read; intake stands alone, so that the
// credential in Alertmanager's configuration can neither read nor decide.
const (
	ScopeIntake Scope = "intake" // deliver notifications
	ScopeRead   Scope = "read"   // runs, playbooks, services, the audit log
	ScopeDecide Scope = "decide" // approve, deny, cancel, resolve, pause
	ScopeAdmin  Scope = "admin"  // export the journal
)

// Auth is who may talk to the server. With nobody listed, only loopback may,
// as "anonymous" with every scope, unless Insecure is true.
type Auth struct {
	Tokens   []Token
	Users    []User
	Clients  []Client // need TLS with a client CA
	Insecure bool     // everyone may do everything as "anonymous"
}

// Grant is whom a credential stands for and what it is good for.
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

// Client is a client certificate: Grant.Name is its common name or one of its
// DNS, e-mail or URI names.
type Client struct {
	Grant
}

// Identity is who made a request.
type Identity struct {
	Name   string
	Groups []string
	scopes []Scope
}

// can reports whether the identity has the scope.
func (id Identity) can(want Scope) bool {
	if slices.Contains(id.scopes, want) {
		return true
	}
	return want == ScopeRead && (slices.Contains(id.scopes, ScopeDecide) || slices.Contains(id.scopes, ScopeAdmin))
}

var (
	errNoCredential  = errors.New("no credential")
	errBadCredential = errors.New("unknown credential")
	errForeignPage   = errors.New("request of another site's page, or under a name that is not loopback")
)

// authenticator knows the credentials. It is safe for concurrent use.
type authenticator struct {
	files     *credentialFiles
	clients   []Client
	insecure  bool
	anonymous atomic.Bool // nobody is listed and the listener is loopback
	origins   *http.CrossOriginProtection
}

// anyone reports whether anybody is listed.
func (a *authenticator) anyone() bool { return len(a.files.sources) > 0 || len(a.clients) > 0 }

// authenticate says who made the request, from its headers and connection
// alone. A credential that is present and wrong is never made up for by another.
func (a *authenticator) authenticate(r *http.Request) (Identity, error) {
	switch header := r.Header.Values("Authorization"); len(header) {
	case 0:
	case 1:
		return a.files.lookup(header[0])
	default:
		return Identity{}, errBadCredential
	}
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		if id, ok := a.client(r.TLS.VerifiedChains[0][0]); ok {
			return id, nil
		}
		if len(a.clients) > 0 {
			return Identity{}, errBadCredential
		}
	}
	if !a.insecure && !a.anonymous.Load() {
		return Identity{}, errNoCredential
	}
	if a.origins.Check(r) != nil || !a.insecure && !loopbackHost(r.Host) {
		return Identity{}, errForeignPage
	}
	return Identity{Name: "anonymous", scopes: []Scope{ScopeIntake, ScopeRead, ScopeDecide, ScopeAdmin}}, nil
}

// client finds the certificate's first name that is listed.
func (a *authenticator) client(cert *x509.Certificate) (Identity, bool) {
	names := append([]string{cert.Subject.CommonName}, cert.DNSNames...)
	names = append(names, cert.EmailAddresses...)
	for _, u := range cert.URIs {
		names = append(names, u.String())
	}
	for _, c := range a.clients {
		if slices.Contains(names, c.Name) {
			return c.identity(), true
		}
	}
	return Identity{}, false
}

func (g Grant) identity() Identity {
	return Identity{Name: g.Name, Groups: g.Groups, scopes: g.Scopes}
}

// digest is what of a secret stays in memory.
type digest [sha256.Size]byte

// credential is one accepted Authorization header.
type credential struct {
	hash  digest
	grant Grant
}

// match compares with every credential, in a time that does not depend on
// which one it is or how much of it is right.
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
