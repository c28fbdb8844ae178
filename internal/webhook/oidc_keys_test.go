package webhook

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
	"golang.org/x/time/rate"

	"github.com/inference-responder/responder/internal/webhook/oidctest"
)

func TestKeyRotation(t *testing.T) {
	i := oidctest.New(t)
	for _, c := range []struct {
		name  string
		retry time.Duration // between two fetches
		next  bool          // the key set is replaced
		want  error         // of a token with the new key
	}{
		{"at once", keysRetry, false, errUnknownKey}, // strangers must not cause another fetch
		{"after the retry time", time.Nanosecond, false, nil},
		{"with the next key set", keysRetry, true, nil},
	} {
		s := withIssuer(t, newHouse(), i, nil)
		issuer := s.auth.oidc.issuer
		issuer.retry = c.retry
		issuer.refreshes.SetLimit(rate.Inf)
		before := i.Token(t, nil)
		if _, err := who(t, s, before); err != nil {
			t.Fatal(err)
		}
		i.Rotate(t)
		if c.next {
			age(issuer, keysFresh)
			<-issuer.refresh()
		}
		if _, err := who(t, s, i.Token(t, nil)); !errors.Is(err, c.want) {
			t.Errorf("%s: the new key: %v", c.name, err)
		}
		if _, err := who(t, s, before); c.want == nil && !errors.Is(err, errUnknownKey) {
			t.Errorf("%s: the key that is gone: %v", c.name, err)
		}
	}
}

// age makes the issuer's key set as old as d.
func age(i *issuer, d time.Duration) {
	if set := i.current.Load(); set != nil {
		old := *set
		old.at = time.Now().Add(-d)
		i.current.Store(&old)
	}
}

// TestStrangersAreNotPassedOnAsLoad: however many tokens name keys that do not
// exist, the issuer is asked once, and the answer is quick.
func TestStrangersAreNotPassedOnAsLoad(t *testing.T) {
	i := oidctest.New(t)
	s := withIssuer(t, newHouse(), i, nil)
	token := oidctest.Sign(t, jose.SigningKey{Algorithm: jose.RS256, Key: anyKey(t, 2048)}, map[string]any{"kid": "x"}, i.Claims(nil))
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			if _, err := who(t, s, token); !errors.Is(err, errUnknownKey) {
				t.Errorf("want an unknown key: %v", err)
			}
		})
	}
	all.Wait()
	if asked := i.Asked(); asked != 2 {
		t.Errorf("the issuer was asked %d times, want 2: discovery and keys", asked)
	}
}

// faults are ways in which an issuer fails to serve its keys.
func faults(release <-chan struct{}) map[string]http.HandlerFunc {
	return map[string]http.HandlerFunc{
		"slow":  func(http.ResponseWriter, *http.Request) { <-release },
		"down":  func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"error": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusBadGateway) },
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://evil.example/", http.StatusFound)
		},
		"not JSON": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
		"endless": func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write([]byte(`{"keys":"`))
			for r.Context().Err() == nil {
				if _, err := w.Write(bytes.Repeat([]byte("x"), 64<<10)); err != nil {
					return
				}
			}
		},
	}
}

func TestIssuerWithoutKeys(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	for name, fault := range faults(release) {
		i := oidctest.New(t)
		i.Fail(fault)
		s := withIssuer(t, newHouse(), i, nil)
		s.auth.oidc.issuer.wait = 300 * time.Millisecond
		began := time.Now()
		w := ask(s, http.MethodPost, "/api/v1/runs/r-1/approve", i.Token(t, nil), untouchable{t})
		if p := problemIn(t, w); w.Code != http.StatusServiceUnavailable || p.Code != "issuer_unavailable" || w.Header().Get("Connection") != "close" {
			t.Errorf("%s: %d %+v", name, w.Code, p)
		}
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("%s: a request was held for %s", name, took)
		}
		if w := ask(s, http.MethodGet, "/api/v1/runs", readToken, nil); w.Code != http.StatusOK {
			t.Errorf("%s: a token of a file: %d", name, w.Code)
		}
	}
}

// TestKnownKeysOutliveAnOutage, for an hour, and come back after it.
func TestKnownKeysOutliveAnOutage(t *testing.T) {
	var log bytes.Buffer
	i := oidctest.New(t)
	s := withIssuer(t, newHouse(), i, nil)
	issuer := s.auth.oidc.issuer
	issuer.logger = slog.New(slog.NewTextHandler(&log, nil))
	issuer.retry = time.Nanosecond
	issuer.refreshes.SetLimit(rate.Inf)
	token := i.Token(t, nil)
	if _, err := who(t, s, token); err != nil {
		t.Fatal(err)
	}
	i.Fail(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusBadGateway) })
	age(issuer, 50*time.Minute)
	if _, err := who(t, s, token); err != nil {
		t.Errorf("known keys during an outage: %v", err)
	}
	stranger := oidctest.Sign(t, jose.SigningKey{Algorithm: jose.RS256, Key: anyKey(t, 2048)}, map[string]any{"kid": "new"}, i.Claims(nil))
	if _, err := who(t, s, stranger); !errors.Is(err, errIssuerDown) {
		t.Errorf("a key that may be new during an outage: %v", err)
	}
	age(issuer, 61*time.Minute)
	for range 2 {
		if _, err := who(t, s, token); !errors.Is(err, errIssuerDown) {
			t.Errorf("keys of an hour ago: %v", err)
		}
	}
	i.Fail(nil)
	age(issuer, 61*time.Minute)
	if _, err := who(t, s, token); err != nil {
		t.Errorf("after the outage: %v", err)
	}
	if n := strings.Count(log.String(), "cannot fetch the keys"); n != 1 || !strings.Contains(log.String(), "fetched the keys") {
		t.Errorf("the outage was logged %d times:\n%s", n, &log)
	}
	if strings.Contains(log.String(), token) {
		t.Error("a token is in the log")
	}
}

func TestDiscoveryThatCannotBeTrusted(t *testing.T) {
	elsewhere := oidctest.New(t)
	elsewhere.Fail(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"keys":[{"kty":"oct","k":"AAAA","kid":"x"}]}`))
	})
	for want, change := range map[string]func(*oidctest.Issuer){
		"did not match":    func(i *oidctest.Issuer) { i.Discover("issuer", "https://evil.example") },
		"not an https URL": func(i *oidctest.Issuer) { i.Discover("jwks_uri", "http"+strings.TrimPrefix(i.URL, "https")+"/keys") },
		"never asked":      func(i *oidctest.Issuer) { i.Discover("jwks_uri", "https://169.254.169.254/keys") },
		`"none"], none of which`: func(i *oidctest.Issuer) {
			i.Discover("id_token_signing_alg_values_supported", []string{"HS256", "none"})
		},
		"[], none of which": func(i *oidctest.Issuer) { i.Discover("id_token_signing_alg_values_supported", nil) },
		"unexpected end":    func(i *oidctest.Issuer) { i.Show(strings.Repeat("x", maxKeysBody)) },
		"101 keys":          func(i *oidctest.Issuer) { showMany(i, maxKeys-1) },
		"none of the 1 ":    func(i *oidctest.Issuer) { i.Discover("jwks_uri", elsewhere.URL+"/keys") },
		"are not followed":  func(i *oidctest.Issuer) { moveKeys(t, i) },
	} {
		i := oidctest.New(t)
		change(i)
		s := withIssuer(t, newHouse(), i, nil)
		_, err := who(t, s, i.Token(t, nil))
		if why := fmt.Sprint((<-s.auth.oidc.issuer.refresh()).Err); !errors.Is(err, errIssuerDown) || !strings.Contains(why, want) {
			t.Errorf("%v because %s; want %q", err, why, want)
		}
	}
	i := oidctest.New(t)
	s := withIssuer(t, newHouse(), i, func(a *Auth) { a.OIDC.CAFile = "" })
	if _, err := who(t, s, i.Token(t, nil)); !errors.Is(err, errIssuerDown) {
		t.Errorf("an authority that does not vouch: %v", err)
	}
}

// TestHundredKeys lists as many keys as a set may have.
func TestHundredKeys(t *testing.T) {
	i := oidctest.New(t)
	showMany(i, maxKeys-2)
	if _, err := who(t, withIssuer(t, newHouse(), i, nil), i.Token(t, nil)); err != nil {
		t.Error(err)
	}
}

func showMany(i *oidctest.Issuer, n int) {
	for range n {
		i.Show(map[string]any{"kty": "new"})
	}
}

// panicking is an answer that makes its reader panic.
type panicking struct{}

func (panicking) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: panicking{}}, nil
}
func (panicking) Read([]byte) (int, error) { panic("bad key") }
func (panicking) Close() error             { return nil }

// TestPanicInKeySet fetches in a goroutine of go-oidc, where a panic would end
// the process.
func TestPanicInKeySet(t *testing.T) {
	client := &http.Client{Transport: &issuerTransport{next: panicking{}, limit: rate.NewLimiter(rate.Inf, 0), filter: true}}
	set := oidc.NewRemoteKeySet(oidc.ClientContext(t.Context(), client), "https://idp.example/keys")
	if _, err := set.VerifySignature(t.Context(), noSignature); !isFetchError(err) || !strings.Contains(err.Error(), "bad key") {
		t.Error(err)
	}
}

// moveKeys names keys at an address that redirects to the good ones.
func moveKeys(t *testing.T, i *oidctest.Issuer) {
	t.Helper()
	old := oidctest.New(t)
	old.Fail(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, i.URL+"/keys", http.StatusFound) })
	i.Discover("jwks_uri", old.URL+"/keys")
}

func TestNewRefusesAnIssuerThatCannotBeSafe(t *testing.T) {
	i := oidctest.New(t)
	empty := write(t, t.TempDir(), "ca", "")
	for want, change := range map[string]func(*OIDC){
		"not an https URL":    func(o *OIDC) { o.Issuer = "http://idp.example" },
		"has no audience":     func(o *OIDC) { o.Audience = "" },
		"has no scopes":       func(o *OIDC) { o.Scopes = nil },
		"positive maximum":    func(o *OIDC) { o.Strong.MaxAge = 0 },
		"acr or amr":          func(o *OIDC) { o.Strong = &Strong{AMR: []string{""}, MaxAge: time.Minute} },
		"no such file":        func(o *OIDC) { o.CAFile += "x" },
		"no PEM certificate":  func(o *OIDC) { o.CAFile = empty },
		`unknown scope "all"`: func(o *OIDC) { o.Scopes = []Scope{"all"} },
	} {
		o := options(t, newHouse())
		o.Auth.OIDC = &OIDC{Issuer: i.URL, Audience: "a", CAFile: i.CAFile, Scopes: []Scope{ScopeRead}, Strong: &Strong{AMR: []string{"mfa"}, MaxAge: time.Minute}}
		change(o.Auth.OIDC)
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New: %v, want %q", err, want)
		}
	}
	if err := os.Remove(empty); err != nil {
		t.Error(err)
	}
}
