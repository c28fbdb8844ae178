package agent

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"log/slog"
	"net"
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
// API server one request a minute. An address has a small share of the reviews, so
// that whoever makes tokens up does not use up those of the others.
const (
	reviewTimeout = 3 * time.Second
	goodFor       = time.Minute
	badFor        = 10 * time.Second
	maxToken      = 16 << 10 // bytes
	maxKept       = 64       // answers of each kind
	reviews       = 20       // a second, of all addresses
	ownReviews    = 2        // a second, of one address
	maxAddresses  = 1024     // with a limit of their own
)

// callers authorizes requests.
type callers struct {
	flag     string       // names those who may, for messages
	names    []clientName // of certificates
	users    []string     // user names of the service accounts
	reviewer Reviewer
	bucket   *rate.Limiter // of reviews, over all addresses
	log      *slog.Logger

	mu        sync.Mutex                   // guards everything below
	good      map[[sha256.Size]byte]answer // tokens of allowed users; an answer that is too old is asked for again without a limit
	bad       map[[sha256.Size]byte]answer // other tokens
	addresses map[string]*rate.Limiter     // of reviews, by the caller's address
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

// clientName is a name in a certificate, of one kind. A DNS name says which machine it
// is, a common name may say anything: one never counts as the other.
type clientName struct{ kind, name string }

// kinds of names, as in auth.mtls.clients of the service.
var kinds = []string{"common_name", "dns", "email", "uri"}

// parseClient reads KIND:NAME. Without a kind it is a common name.
func parseClient(text string) (clientName, error) {
	kind, name, ok := strings.Cut(text, ":")
	if !ok {
		kind, name = "common_name", text
	}
	if !slices.Contains(kinds, kind) || name == "" {
		return clientName{}, fmt.Errorf("agent: --allow-client %q: write NAME, or KIND:NAME with one of %s as the kind", text, strings.Join(kinds, ", "))
	}
	return clientName{kind, name}, nil
}

// newReaders returns those who may only read the metrics. A client certificate
// that may ask for snapshots is enough, because the metrics tell less.
func newReaders(o Options) (*callers, error) {
	return callersOf(o, "--allow-metrics", o.MetricsAccounts, o.MetricsReviewer)
}

func callersOf(o Options, flag string, accounts []string, reviewer Reviewer) (*callers, error) {
	c := &callers{
		flag: flag, reviewer: reviewer, log: o.Log, bucket: rate.NewLimiter(reviews, 2*reviews),
		good: map[[sha256.Size]byte]answer{}, bad: map[[sha256.Size]byte]answer{}, addresses: map[string]*rate.Limiter{},
	}
	if len(accounts) > 0 && reviewer == nil {
		return nil, errors.New("agent: service accounts need an API server that checks their tokens")
	}
	for _, text := range o.ClientNames {
		name, err := parseClient(text)
		if err != nil {
			return nil, err
		}
		c.names = append(c.names, name)
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
	user, err := c.userOf(r.Context(), addressOf(r), token)
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

// named reports whether the client certificate has an allowed name. One with several
// common names has none: readers differ in which one counts.
func (c *callers) named(r *http.Request) bool {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return false
	}
	return slices.ContainsFunc(namesOf(r.TLS.VerifiedChains[0][0]), func(name clientName) bool { return slices.Contains(c.names, name) })
}

func namesOf(cert *x509.Certificate) (names []clientName) {
	isCommonName := func(n pkix.AttributeTypeAndValue) bool { return n.Type.Equal(asn1.ObjectIdentifier{2, 5, 4, 3}) }
	if i := slices.IndexFunc(cert.Subject.Names, isCommonName); i >= 0 && slices.ContainsFunc(cert.Subject.Names[i+1:], isCommonName) {
		return nil
	}
	names = append(names, clientName{"common_name", cert.Subject.CommonName})
	for _, name := range cert.DNSNames {
		names = append(names, clientName{"dns", name})
	}
	for _, name := range cert.EmailAddresses {
		names = append(names, clientName{"email", name})
	}
	for _, u := range cert.URIs {
		names = append(names, clientName{"uri", u.String()})
	}
	return names
}

// addressOf returns the IP address of the caller's connection.
func addressOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// userOf returns the user name of a token; empty: not valid.
func (c *callers) userOf(ctx context.Context, address, token string) (string, error) {
	key := sha256.Sum256([]byte(token))
	now := time.Now()
	known, good := c.known(key)
	if now.Before(known.until) {
		return known.user, nil
	}
	// A token that was good has no limit: there are few, and each is asked about once
	// a minute.
	if !good && (!c.limiter(address).Allow() || !c.bucket.Allow()) {
		return "", &refusal{http.StatusTooManyRequests, "busy", "too many unknown tokens to check; ask again in a second"}
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

// known returns the last answer for a token, and whether its user was allowed.
func (c *callers) known(key [sha256.Size]byte) (a answer, good bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a, ok := c.good[key]; ok {
		return a, true
	}
	return c.bad[key], false
}

// limiter returns the limit of an address. When there are too many, those that have
// not asked lately are forgotten, else one of them.
func (c *callers) limiter(address string) *rate.Limiter {
	c.mu.Lock()
	defer c.mu.Unlock()
	l, ok := c.addresses[address]
	if !ok {
		for other, its := range c.addresses {
			if len(c.addresses) < maxAddresses {
				break
			}
			if its.Tokens() >= ownReviews {
				delete(c.addresses, other)
			}
		}
		for other := range c.addresses {
			if len(c.addresses) < maxAddresses {
				break
			}
			delete(c.addresses, other)
		}
		l = rate.NewLimiter(ownReviews, 2*ownReviews)
		c.addresses[address] = l
	}
	return l
}

// keep remembers an answer. Answers about tokens that are made up never displace
// those about tokens of allowed users.
func (c *callers) keep(key [sha256.Size]byte, user string, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.good, key)
	delete(c.bad, key)
	kept, ttl := c.bad, goodFor
	switch {
	case user == "":
		ttl = badFor
	case slices.Contains(c.users, user):
		kept = c.good
	}
	for k, a := range kept {
		if len(kept) >= maxKept || now.Sub(a.until) > goodFor {
			delete(kept, k)
		}
	}
	kept[key] = answer{user, now.Add(ttl)}
}
