package webhook

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
	"golang.org/x/oauth2"
	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"

	"github.com/inference-responder/responder/internal/outbound"
)

// Limits on what an issuer is asked for, and on what it may answer.
const (
	keysFresh   = 10 * time.Minute // key sets older than this are replaced, while tokens come
	keysDead    = time.Hour        // key sets older than this verify nothing
	keysRetry   = 10 * time.Second // between two fetches, whatever tokens come
	keysWait    = 2 * time.Second  // that one request waits for keys
	keysTimeout = 5 * time.Second  // for one request to the issuer
	maxKeysBody = 1 << 20          // bytes of an answer
	maxKeys     = 100              // in a key set
	minRSABits  = 2048             // of an RSA key
)

var (
	errIssuerDown = errors.New("no keys from the identity provider")
	errUnknownKey = fmt.Errorf("%w: signed with a key that is not the issuer's", errBadCredential)
)

// issuer keeps the key set and the endpoints of an OpenID Connect issuer. go-oidc fetches and
// caches the keys. This type adds what go-oidc lacks: tokens made up by
// strangers cause no load on the issuer, unfit keys are ignored, and a key that
// the issuer withdrew verifies nothing after keysDead.
type issuer struct {
	url, caFile   string
	logger        *slog.Logger
	refreshed     func(ok bool)
	wait, timeout time.Duration // for keys; for an answer of the issuer
	retry         time.Duration // between two fetches with one key set

	refreshes *rate.Limiter
	flight    singleflight.Group // one refresh at a time; it owns err
	err       error              // of the last refresh
	current   atomic.Pointer[keySet]
}

// keySet is what one refresh found.
type keySet struct {
	*oidc.RemoteKeySet
	algorithms []string        // that the issuer signs with
	endpoint   oauth2.Endpoint // where people sign in
	at         time.Time
}

func newIssuer(url, caFile string, logger *slog.Logger, refreshed func(bool)) *issuer {
	return &issuer{
		url: url, caFile: caFile, logger: logger, refreshed: refreshed, wait: keysWait, timeout: keysTimeout,
		retry: keysRetry, refreshes: rate.NewLimiter(rate.Every(keysRetry), 1),
	}
}

// keys returns the key set that verifies tokens now. If there is none, it waits
// for the issuer until ctx is done.
func (i *issuer) keys(ctx context.Context) (*keySet, error) {
	set := i.current.Load()
	if set != nil && time.Since(set.at) < keysFresh {
		return set, nil
	}
	refreshed := i.refresh()
	if set == nil || time.Since(set.at) >= keysDead {
		select {
		case <-refreshed:
		case <-ctx.Done():
		}
		set = i.current.Load()
	}
	if set == nil || time.Since(set.at) >= keysDead {
		return nil, errIssuerDown
	}
	return set, nil
}

// refresh replaces the key set in the background. If that fails, the current
// set stays until it is too old.
func (i *issuer) refresh() <-chan singleflight.Result {
	return i.flight.DoChan("", func() (any, error) {
		if !i.refreshes.Allow() {
			return nil, i.err
		}
		set, err := i.fetch()
		i.refreshed(err == nil)
		switch {
		case err != nil && (i.err == nil || i.err.Error() != err.Error()):
			i.logger.Error("cannot fetch the keys of the OIDC issuer; the last ones are valid for an hour", "issuer", i.url, "err", cut(err.Error(), 500))
		case err == nil && i.err != nil:
			i.logger.Info("fetched the keys of the OIDC issuer again", "issuer", i.url)
		}
		if i.err = err; err == nil {
			i.current.Store(set)
		}
		return nil, err
	})
}

// noSignature is a JWT with an empty signature. A key set that is asked to verify
// it fetches its keys.
const noSignature = "eyJhbGciOiJSUzI1NiJ9.e30."

// fetch discovers the issuer and fetches its keys.
func (i *issuer) fetch() (*keySet, error) {
	transport, err := i.transport()
	if err != nil {
		return nil, err
	}
	ctx := oidc.ClientContext(context.Background(), &http.Client{Transport: transport, Timeout: i.timeout})
	set := &keySet{at: time.Now()}
	provider, err := oidc.NewProvider(ctx, i.url)
	if err != nil {
		return nil, fmt.Errorf("discover the issuer: %w", err)
	}
	var metadata struct {
		Keys       string   `json:"jwks_uri"`
		Algorithms []string `json:"id_token_signing_alg_values_supported"`
		Clients    []string `json:"token_endpoint_auth_methods_supported"`
	}
	if err := provider.Claims(&metadata); err != nil {
		return nil, fmt.Errorf("discover the issuer: %w", err)
	}
	set.endpoint = provider.Endpoint()
	set.endpoint.AuthStyle = oauth2.AuthStyleInHeader // which is also the default where it says nothing
	if slices.Contains(metadata.Clients, "client_secret_post") && !slices.Contains(metadata.Clients, "client_secret_basic") {
		set.endpoint.AuthStyle = oauth2.AuthStyleInParams
	}
	for _, a := range signatures {
		if slices.Contains(metadata.Algorithms, string(a)) {
			set.algorithms = append(set.algorithms, string(a))
		}
	}
	if len(set.algorithms) == 0 {
		return nil, fmt.Errorf("discover the issuer: it signs with %q, none of which may be used", metadata.Algorithms)
	}
	transport.filter = true // every request from here on is for the key set
	set.RemoteKeySet = oidc.NewRemoteKeySet(ctx, metadata.Keys)
	if _, err := set.VerifySignature(ctx, noSignature); isFetchError(err) {
		return nil, err
	}
	return set, nil
}

// isFetchError reports whether a key set failed because it could not fetch its
// keys. Only then does it wrap another error.
func isFetchError(err error) bool {
	return errors.Unwrap(err) != nil && !errors.Is(err, errUnknownKey)
}

// transport connects over verified TLS. It reads the CA file anew, so that a
// rotated one is used.
func (i *issuer) transport() (*issuerTransport, error) {
	// The issuer names the address of its keys, so some addresses are refused.
	t, err := outbound.Options{CAFile: i.caFile}.Transport()
	if err != nil {
		return nil, fmt.Errorf("webhook: load OIDC authorities: %w", err)
	}
	t.DisableKeepAlives = true
	return &issuerTransport{next: t, limit: rate.NewLimiter(rate.Every(i.retry), 2)}, nil // discovery and keys
}

// issuerTransport bounds how often an issuer is asked and how much is read of
// its answer, and follows no redirect.
type issuerTransport struct {
	next   http.RoundTripper
	limit  *rate.Limiter
	filter bool // answers are key sets, of which only the fit keys are returned

	mu  sync.Mutex
	err error // of the last request that was sent
}

// RoundTrip sends r. Beyond the limit it sends nothing and returns the last
// error or, when the last request succeeded, errUnknownKey.
func (t *issuerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.limit.Allow() {
		return nil, cmp.Or(t.err, errUnknownKey)
	}
	var answer *http.Response
	if answer, t.err = t.send(r); t.err != nil {
		return nil, t.err
	}
	body := io.LimitReader(answer.Body, maxKeysBody)
	if t.filter {
		var fit []byte
		fit, t.err = fitKeys(body)
		if t.err = errors.Join(t.err, answer.Body.Close()); t.err != nil {
			return nil, fmt.Errorf("%s: %w", r.URL, t.err)
		}
		answer.ContentLength, body = int64(len(fit)), bytes.NewReader(fit)
	}
	outbound.SetBody(answer, body)
	return answer, nil
}

func (t *issuerTransport) send(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" {
		return nil, fmt.Errorf("%s is not an https URL", r.URL)
	}
	answer, err := t.next.RoundTrip(r)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = errors.Join(fmt.Errorf("%s answered %s; redirects are not followed", r.URL, answer.Status), answer.Body.Close())
	}
	return answer, err
}

// fitKeys returns the JSON Web Key Set in body without the keys that are unfit
// to verify tokens. It fails if no key is left. A panic of a parser becomes an
// error, because the issuer must not be able to end the process.
func fitKeys(body io.Reader) (fit []byte, err error) {
	defer func() {
		if v := recover(); v != nil {
			fit, err = nil, fmt.Errorf("read a key set: panic: %v", v)
		}
	}()
	data, err := io.ReadAll(body)
	if err != nil {
		return nil, fmt.Errorf("read a key set: %w", err)
	}
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(data, &set); err != nil {
		return nil, fmt.Errorf("read a key set: %w", err)
	}
	if len(set.Keys) > maxKeys {
		return nil, fmt.Errorf("read a key set: it has %d keys, more than %d", len(set.Keys), maxKeys)
	}
	var keys []json.RawMessage
	for _, raw := range set.Keys {
		if key, ok := fitKey(raw); ok {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("read a key set: none of the %d keys can verify signatures", len(set.Keys))
	}
	set.Keys = keys
	return json.Marshal(set)
}

// fitKey encodes a JSON Web Key anew, with the fields that verify a signature. It
// returns false for a key that is malformed, of an unknown kind, secret, weak
// or for another use.
func fitKey(raw json.RawMessage) (json.RawMessage, bool) {
	var k jose.JSONWebKey
	if k.UnmarshalJSON(raw) != nil || !k.Valid() || k.Use != "" && k.Use != "sig" {
		return nil, false
	}
	switch key := k.Key.(type) {
	case *rsa.PublicKey:
		if key.N.BitLen() < minRSABits {
			return nil, false
		}
	case *ecdsa.PublicKey, ed25519.PublicKey:
	default:
		return nil, false
	}
	fit, err := jose.JSONWebKey{Key: k.Key, KeyID: k.KeyID, Algorithm: k.Algorithm, Use: k.Use}.MarshalJSON()
	return fit, err == nil
}
