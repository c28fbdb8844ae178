package agent

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Reviewer looks up the owner of a token.
type Reviewer interface {
	// ReviewToken returns the user name of a token that is valid for this agent's
	// audience, or empty if it is not valid. An error means that it is unknown.
	ReviewToken(ctx context.Context, token string) (user string, err error)
}

// Limits of token reviews. An answer is cached, so that a polling caller costs the
// API server one request a minute.
const (
	reviewTimeout = 3 * time.Second
	goodFor       = time.Minute
	badFor        = 10 * time.Second
	maxToken      = 16 << 10 // bytes
	maxKept       = 64       // answers
	reviews       = 5        // a second
)

// callers authorizes requests.
type callers struct {
	flag     string // names those who may, for messages
	names    []string
	users    []string // user names of the service accounts
	reviewer Reviewer
	bucket   *rate.Limiter
	log      *slog.Logger

	mu   sync.Mutex // guards kept
	kept map[[sha256.Size]byte]answer
}

// answer is the API server's answer for a token.
type answer struct {
	user  string // empty: not good
	until time.Time
}

// newCallers returns those who may ask for snapshots.
func newCallers(o Options) (*callers, error) {
	if (o.ClientCAFile == "") != (len(o.ClientNames) == 0) {
		return nil, errors.New("agent: client certificates need both a file of authorities and a list of names")
	}
	return callersOf(o, "--allow-account", o.Accounts, o.Reviewer)
}

// newReaders returns those who may only read the metrics. A client certificate
// that may ask for snapshots is enough, because the metrics tell less.
func newReaders(o Options) (*callers, error) {
	return callersOf(o, "--allow-metrics", o.MetricsAccounts, o.MetricsReviewer)
}

func callersOf(o Options, flag string, accounts []string, reviewer Reviewer) (*callers, error) {
	c := &callers{flag: flag, names: o.ClientNames, reviewer: reviewer, log: o.Log, bucket: rate.NewLimiter(reviews, 2*reviews), kept: map[[sha256.Size]byte]answer{}}
	if len(accounts) > 0 && reviewer == nil {
		return nil, errors.New("agent: service accounts need an API server that checks their tokens")
	}
	for _, a := range accounts {
		namespace, name, ok := strings.Cut(a, "/")
		if !ok || namespace == "" || name == "" || strings.ContainsAny(name, "/:") || strings.Contains(namespace, ":") {
			return nil, fmt.Errorf("agent: %s: service account %q: write NAMESPACE/NAME", flag, a)
		}
		c.users = append(c.users, "system:serviceaccount:"+namespace+":"+name)
	}
	return c, nil
}

// anyone reports whether callers need no credentials.
func (c *callers) anyone() bool { return len(c.names) == 0 && len(c.users) == 0 }

// admit authorizes a request. An error that is not a *refusal is a failure.
func (c *callers) admit(r *http.Request) error {
	if c.named(r) {
		return nil
	}
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || token == "" || len(c.users) == 0 {
		return &refusal{http.StatusUnauthorized, "unauthorized", "present a client certificate or the token of an allowed service account; " + c.flag + " lists them"}
	}
	if len(token) > maxToken {
		return &refusal{http.StatusUnauthorized, "unauthorized", "the token is too long"}
	}
	user, err := c.userOf(r.Context(), token)
	if err != nil {
		return err
	}
	switch {
	case user == "":
		return &refusal{http.StatusUnauthorized, "unauthorized", "the API server does not accept this token for this agent's audience"}
	case !slices.Contains(c.users, user):
		return &refusal{http.StatusForbidden, "forbidden", user + " is not allowed; " + c.flag + " lists who is"}
	}
	return nil
}

// named reports whether the client certificate has an allowed name.
func (c *callers) named(r *http.Request) bool {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return false
	}
	return slices.ContainsFunc(namesOf(r.TLS.VerifiedChains[0][0]), func(name string) bool { return slices.Contains(c.names, name) })
}

func namesOf(cert *x509.Certificate) []string {
	names := slices.Concat(cert.DNSNames, cert.EmailAddresses)
	if cert.Subject.CommonName != "" {
		names = append(names, cert.Subject.CommonName)
	}
	for _, u := range cert.URIs {
		names = append(names, u.String())
	}
	return names
}

// userOf returns the user name of a token; empty: not valid.
func (c *callers) userOf(ctx context.Context, token string) (string, error) {
	key := sha256.Sum256([]byte(token))
	now := time.Now()
	c.mu.Lock()
	known, ok := c.kept[key]
	c.mu.Unlock()
	if ok && now.Before(known.until) {
		return known.user, nil
	}
	if !c.bucket.Allow() {
		return "", &refusal{http.StatusTooManyRequests, "busy", "too many tokens to check; ask again in a second"}
	}
	ctx, cancel := context.WithTimeout(ctx, reviewTimeout)
	defer cancel()
	user, err := c.reviewer.ReviewToken(ctx, token)
	if err != nil {
		c.log.Warn("a token cannot be checked", "err", err)
		return "", &refusal{http.StatusServiceUnavailable, "unchecked", "the API server cannot check the token; see the agent's log"}
	}
	c.keep(key, user, now)
	return user, nil
}

func (c *callers) keep(key [sha256.Size]byte, user string, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k, a := range c.kept {
		if now.After(a.until) || len(c.kept) >= maxKept {
			delete(c.kept, k)
		}
	}
	ttl := goodFor
	if user == "" {
		ttl = badFor
	}
	c.kept[key] = answer{user, now.Add(ttl)}
}
