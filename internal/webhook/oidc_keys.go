package webhook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
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
)

var (
	errIssuerDown = errors.New("no keys from the identity provider")
	errUnknownKey = fmt.Errorf("%w: signed with a key that is not the issuer's", errBadCredential)
)

// issuer keeps the key set of an OpenID Connect issuer. go-oidc fetches and
// caches the keys. This type adds what go-oidc lacks: tokens made up by
// strangers cause no load on the issuer, and a key that the issuer withdrew
// verifies nothing after keysDead.
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
	algorithms []string // that the issuer signs with
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
	}
	if err := provider.Claims(&metadata); err != nil {
		return nil, fmt.Errorf("discover the issuer: %w", err)
	}
	set.RemoteKeySet, set.algorithms = oidc.NewRemoteKeySet(ctx, metadata.Keys), metadata.Algorithms
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
	next  http.RoundTripper
	limit *rate.Limiter

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
	outbound.SetBody(answer, io.LimitReader(answer.Body, maxKeysBody))
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
