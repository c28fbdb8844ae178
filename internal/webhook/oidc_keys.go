package webhook

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"

	"github.com/inference-responder/responder/internal/dial"
)

// Limits of what is asked of an issuer, and of what it may answer.
const (
	keysFresh   = 10 * time.Minute // keys older than this are fetched again, while tokens come
	keysDead    = time.Hour        // keys older than this verify nothing
	keysRetry   = 10 * time.Second // between two fetches, whatever tokens come
	keysWait    = 2 * time.Second  // that one request waits for keys
	keysTimeout = 5 * time.Second  // for one fetch: discovery and keys
	maxKeysBody = 1 << 20          // bytes of an answer
	maxKeys     = 100
	minRSABits  = 2048
)

var (
	errIssuerDown = errors.New("the identity provider gives no keys")
	errUnknownKey = fmt.Errorf("%w: signed with a key that is not the issuer's", errBadCredential)
	errRedirect   = errors.New("redirects of an issuer are not followed")
)

// issuer keeps the keys of an OpenID Connect issuer. One fetch is under way at
// most, started by a token that needs it and never more often than keysRetry,
// so that tokens made up by strangers are not passed on as load. go-oidc's own
// key set does not bound that.
type issuer struct {
	url, caFile string
	logger      *slog.Logger
	refreshed   func(ok bool)
	retry, wait time.Duration // between two fetches, and of one request for keys
	limit       time.Duration // of one fetch

	mu         sync.Mutex // guards what follows
	known      []publicKey
	algorithms []string
	at         time.Time     // when known was fetched; zero: never
	tried      time.Time     // when the last fetch began
	flight     chan struct{} // closed when the fetch under way ends; nil: none
	err        error         // of the last fetch
}

func newIssuer(url, caFile string, logger *slog.Logger, refreshed func(bool)) *issuer {
	return &issuer{url: url, caFile: caFile, logger: logger, refreshed: refreshed, retry: keysRetry, wait: keysWait, limit: keysTimeout}
}

// keys gives the keys that a token with this header may be signed with, and
// the algorithms the issuer uses. It waits at most keysWait.
func (i *issuer) keys(ctx context.Context, id, algorithm string) ([]crypto.PublicKey, []string, error) {
	found, algorithms, flight := i.look(id, algorithm)
	if len(found) == 0 && flight != nil {
		ctx, cancel := context.WithTimeout(ctx, i.wait)
		defer cancel()
		select {
		case <-flight:
		case <-ctx.Done():
			return nil, nil, errIssuerDown
		}
		found, algorithms, _ = i.look(id, algorithm)
	}
	if len(found) > 0 {
		return found, algorithms, nil
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.err != nil || !i.alive(time.Now()) {
		return nil, nil, errIssuerDown // the key may be a new one
	}
	return nil, nil, errUnknownKey
}

// alive reports whether the known keys may still verify. i.mu is held.
func (i *issuer) alive(now time.Time) bool { return !i.at.IsZero() && now.Sub(i.at) < keysDead }

// look gives the known keys that fit, and starts a fetch where one is due.
func (i *issuer) look(id, algorithm string) (found []crypto.PublicKey, algorithms []string, flight <-chan struct{}) {
	i.mu.Lock()
	defer i.mu.Unlock()
	now := time.Now()
	if i.alive(now) && slices.Contains(i.algorithms, algorithm) {
		for _, k := range i.known {
			// A token that names no key is only clear if there is one key.
			if (k.id == id && id != "" || id == "" && len(i.known) == 1) && (k.algorithm == "" || k.algorithm == algorithm) {
				found = append(found, k.key)
			}
		}
	}
	due := len(found) == 0 || now.Sub(i.at) > keysFresh
	if due && i.flight == nil && (i.tried.IsZero() || now.Sub(i.tried) >= i.retry) {
		i.tried, i.flight = now, make(chan struct{})
		go i.refresh(i.flight)
	}
	if i.flight == nil { // a nil channel of the interface's type, not a typed one
		return found, i.algorithms, nil
	}
	return found, i.algorithms, i.flight
}

// refresh fetches the keys and closes done. Keys that cannot be fetched leave
// the last good ones, until those are too old.
func (i *issuer) refresh(done chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), i.limit)
	defer cancel()
	known, algorithms, err := i.fetch(ctx)
	i.refreshed(err == nil)
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case err != nil && (i.err == nil || i.err.Error() != err.Error()):
		i.logger.Error("oidc issuer gives no keys: the last good ones stay for an hour", "issuer", i.url, "err", cut(err.Error(), 500))
	case err == nil && i.err != nil:
		i.logger.Info("oidc issuer gives keys again", "issuer", i.url)
	}
	if i.err = err; err == nil {
		i.known, i.algorithms, i.at = known, algorithms, time.Now()
	}
	i.flight = nil
	close(done)
}

// fetch asks the issuer where its keys are, and for them. What a parser
// panics on is an error: the issuer must not end the service.
func (i *issuer) fetch(ctx context.Context) (known []publicKey, algorithms []string, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("read the issuer's answer: panic: %v", v)
		}
	}()
	client, err := i.client()
	if err != nil {
		return nil, nil, err
	}
	provider, err := oidc.NewProvider(oidc.ClientContext(ctx, client), i.url)
	if err != nil {
		return nil, nil, fmt.Errorf("discover the issuer: %w", err)
	}
	var told struct {
		Keys       string   `json:"jwks_uri"`
		Algorithms []string `json:"id_token_signing_alg_values_supported"`
	}
	if err := provider.Claims(&told); err != nil {
		return nil, nil, fmt.Errorf("discover the issuer: %w", err)
	}
	for _, a := range signatures {
		if slices.Contains(told.Algorithms, string(a)) {
			algorithms = append(algorithms, string(a))
		}
	}
	if len(algorithms) == 0 {
		return nil, nil, fmt.Errorf("discover the issuer: it signs with %q, none of which may be used", told.Algorithms)
	}
	known, err = fetchKeys(ctx, client, told.Keys)
	return known, algorithms, err
}

// fetchKeys gets a JSON Web Key Set.
func fetchKeys(ctx context.Context, client *http.Client, url string) ([]publicKey, error) {
	if !strings.HasPrefix(url, "https://") {
		return nil, fmt.Errorf("fetch keys: %q is no https URL", url)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("fetch keys: %w", err)
	}
	answer, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("fetch keys: %w", err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("fetch keys: %s answered %s", url, answer.Status)
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.NewDecoder(answer.Body).Decode(&set); err != nil {
		return nil, fmt.Errorf("fetch keys: %s: %w", url, err)
	}
	if len(set.Keys) > maxKeys {
		return nil, fmt.Errorf("fetch keys: %s has %d keys, more than %d", url, len(set.Keys), maxKeys)
	}
	var known []publicKey
	for _, raw := range set.Keys {
		if k, ok := readKey(raw); ok {
			known = append(known, k)
		}
	}
	if len(known) == 0 {
		return nil, fmt.Errorf("fetch keys: none of the %d keys at %s can verify signatures", len(set.Keys), url)
	}
	return known, nil
}

// readKey reads a key; false for one of another use, a secret one, a weak one
// and one of a kind that is not known.
func readKey(raw json.RawMessage) (publicKey, bool) {
	var k jose.JSONWebKey
	if k.UnmarshalJSON(raw) != nil || !k.Valid() || k.Use != "" && k.Use != "sig" {
		return publicKey{}, false
	}
	switch key := k.Key.(type) {
	case *rsa.PublicKey:
		if key.N.BitLen() < minRSABits {
			return publicKey{}, false
		}
	case *ecdsa.PublicKey, ed25519.PublicKey:
	default:
		return publicKey{}, false
	}
	return publicKey{id: k.KeyID, algorithm: k.Algorithm, key: k.Key}, true
}

// client asks the issuer and nobody it redirects to, and reads bounded answers.
func (i *issuer) client() (*http.Client, error) {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DisableKeepAlives = true
	t.DialContext = (&net.Dialer{Control: dial.Control}).DialContext // the issuer names the address of its keys
	t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	if i.caFile != "" {
		pem, err := os.ReadFile(i.caFile)
		if err != nil {
			return nil, fmt.Errorf("webhook: load OIDC authorities: %w", err)
		}
		t.TLSClientConfig.RootCAs = x509.NewCertPool()
		if !t.TLSClientConfig.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("webhook: load OIDC authorities: %s holds no PEM certificate", i.caFile)
		}
	}
	return &http.Client{
		Transport:     boundedTransport{t},
		CheckRedirect: func(*http.Request, []*http.Request) error { return errRedirect },
		Timeout:       i.limit,
	}, nil
}

// boundedTransport cuts answers off after maxKeysBody.
type boundedTransport struct{ next http.RoundTripper }

// RoundTrip sends r.
func (b boundedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := b.next.RoundTrip(r)
	if err == nil {
		answer.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(answer.Body, maxKeysBody), answer.Body}
	}
	return answer, err
}
