// Package oidctest is an OpenID Connect issuer for tests: discovery, keys and the
// authorization code flow with PKCE over TLS on loopback, and tokens, good ones and others.
//
// It is for tests only and knows nothing of who verifies its tokens.
package oidctest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"encoding/pem"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// Audience is who tokens are for, unless a test says otherwise.
const Audience = "responder"

// Issuer serves /.well-known/openid-configuration, /keys, /auth and /token.
type Issuer struct {
	URL    string // as tokens name it
	CAFile string // PEM certificate that vouches for it

	mu       sync.Mutex // guards what follows
	round    int        // how often keys were rotated
	keys     map[jose.SignatureAlgorithm]crypto.Signer
	shown    []any // what /keys lists
	fault    http.HandlerFunc
	discover map[string]any
	asked    int
	flow     flow
}

// New starts an issuer that ends with the test. It signs with RS256 and ES256.
func New(t testing.TB) *Issuer {
	t.Helper()
	i := &Issuer{}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", i.answer(func() any { return i.discover }))
	mux.HandleFunc("GET /keys", i.answer(func() any { return map[string]any{"keys": i.shown} }))
	mux.HandleFunc("GET /auth", i.orFault(i.authorize))
	mux.HandleFunc("POST /token", i.orFault(i.exchange))
	server := httptest.NewUnstartedServer(mux)
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // handshakes that tests break
	server.StartTLS()
	t.Cleanup(server.Close)
	i.URL = server.URL
	i.CAFile = filepath.Join(t.TempDir(), "issuer.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(i.CAFile, block, 0o600); err != nil {
		t.Fatal(err)
	}
	i.discover = map[string]any{
		"issuer": i.URL, "jwks_uri": i.URL + "/keys", "authorization_endpoint": i.URL + "/auth", "token_endpoint": i.URL + "/token",
		"id_token_signing_alg_values_supported": []string{"RS256", "ES256", "HS256", "none"},
	}
	i.Rotate(t)
	return i
}

// answer serves what give gives, or the fault in its place.
func (i *Issuer) answer(give func() any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		i.mu.Lock()
		i.asked++
		fault := i.fault
		body, err := json.Marshal(give())
		i.mu.Unlock()
		switch {
		case fault != nil:
			fault(w, r)
		case err != nil:
			http.Error(w, err.Error(), http.StatusInternalServerError)
		default:
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(body) // the peer may have given up
		}
	}
}

// orFault serves with serve, or the fault in its place.
func (i *Issuer) orFault(serve http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		i.mu.Lock()
		fault := i.fault
		i.mu.Unlock()
		if fault != nil {
			fault(w, r)
			return
		}
		serve(w, r)
	}
}

// Rotate replaces every key by a new one under a new name.
func (i *Issuer) Rotate(t testing.TB) {
	t.Helper()
	r, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	e, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.round++
	i.keys = map[jose.SignatureAlgorithm]crypto.Signer{jose.RS256: r, jose.ES256: e}
	i.shown = nil
	for algorithm, key := range i.keys {
		i.shown = append(i.shown, jose.JSONWebKey{Key: key.Public(), KeyID: i.id(algorithm), Algorithm: string(algorithm), Use: "sig"})
	}
}

func (i *Issuer) id(algorithm jose.SignatureAlgorithm) string {
	return string(algorithm) + "-" + strconv.Itoa(i.round)
}

// Show adds a JSON Web Key, whatever it is, to those listed.
func (i *Issuer) Show(key any) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.shown = append(i.shown, key)
}

// Discover changes a field of the discovery document.
func (i *Issuer) Discover(field string, value any) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.discover[field] = value
}

// Fail lets f answer every request; nil: the issuer is well again.
func (i *Issuer) Fail(f http.HandlerFunc) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.fault = f
}

// Asked counts the requests so far.
func (i *Issuer) Asked() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.asked
}

// Key returns the present key and its name.
func (i *Issuer) Key(algorithm jose.SignatureAlgorithm) (crypto.Signer, string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.keys[algorithm], i.id(algorithm)
}

// Claims are those of a good token for ada, who logged in a minute ago with a
// second factor, changed by change; nil removes one.
func (i *Issuer) Claims(change map[string]any) map[string]any {
	now := time.Now()
	c := map[string]any{
		"iss": i.URL, "aud": Audience, "sub": "00u1", "email": "ada@example.com", "email_verified": true,
		"iat": now.Add(-time.Minute).Unix(), "exp": now.Add(time.Hour).Unix(),
		"auth_time": now.Add(-time.Minute).Unix(), "amr": []string{"pwd", "mfa"}, "acr": "urn:phishing-resistant",
		"groups": []string{"oncall", "ml platform"},
	}
	maps.Copy(c, change)
	maps.DeleteFunc(c, func(_ string, v any) bool { return v == nil })
	return c
}

// Token is signed with RS256 and has the claims that [Issuer.Claims] gives.
func (i *Issuer) Token(t testing.TB, change map[string]any) string {
	t.Helper()
	key, id := i.Key(jose.RS256)
	return Sign(t, jose.SigningKey{Algorithm: jose.RS256, Key: key}, map[string]any{"kid": id, "typ": "JWT"}, i.Claims(change))
}

// Sign makes a token with any key, header and claims.
func Sign(t testing.TB, key jose.SigningKey, header, claims map[string]any) string {
	t.Helper()
	token, err := sign(key, header, claims)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func sign(key jose.SigningKey, header, claims map[string]any) (string, error) {
	o := &jose.SignerOptions{}
	for name, value := range header {
		o.WithHeader(jose.HeaderKey(name), value)
	}
	signer, err := jose.NewSigner(key, o)
	if err != nil {
		return "", err
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		return "", err
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		return "", err
	}
	return signed.CompactSerialize()
}
