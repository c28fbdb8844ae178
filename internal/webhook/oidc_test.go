package webhook

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/webhook/oidctest"
)

// withIssuer is a server that an issuer's people may decide on.
func withIssuer(t *testing.T, h *fakeHouse, i *oidctest.Issuer, change func(*Auth)) *Server {
	t.Helper()
	o := options(t, h)
	o.Auth.OIDC = &OIDC{
		Issuer: i.URL, Audience: oidctest.Audience, CAFile: i.CAFile, GroupsClaim: "groups", Scopes: deciding(),
		Strong: &Strong{AMR: []string{"mfa", "hwk"}, ACR: []string{"urn:phishing-resistant"}, MaxAge: 15 * time.Minute},
	}
	if change != nil {
		change(&o.Auth)
	}
	s := mustNew(t, o)
	// What is tested is what is decided, on however slow a machine.
	s.auth.oidc.issuer.wait, s.auth.oidc.issuer.timeout = time.Minute, time.Minute
	return s
}

// who returns the identity of a bearer token.
func who(t *testing.T, s *Server, token string) (Identity, error) {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/api/v1/runs/r-1/approve", untouchable{t})
	r.Header.Set("Authorization", "Bearer "+token)
	return s.auth.authenticate(r, false)
}

// anyKey is a key that no issuer has.
func anyKey(t *testing.T, bits int) *rsa.PrivateKey {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// unsigned is a token that anybody can write.
func unsigned(t *testing.T, header string, claims map[string]any) string {
	t.Helper()
	payload, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	return base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + base64.RawURLEncoding.EncodeToString(payload) + "."
}

func TestTokenDecidesAsItsPerson(t *testing.T) {
	h, i := newHouse(), oidctest.New(t)
	s := withIssuer(t, h, i, nil)
	if w := ask(s, http.MethodPost, "/api/v1/runs/r-1/approve", i.Token(t, nil), strings.NewReader(`{"digest":"d"}`)); w.Code != http.StatusOK {
		t.Fatalf("approve: %d %s", w.Code, w.Body)
	}
	d := h.commands[0].Decision
	if d.By != "user:ada@example.com" || !cmp.Equal(d.Groups, []string{"oncall", "ml platform"}) {
		t.Errorf("decided by %s of %v", d.By, d.Groups)
	}
	if !d.Strong {
		t.Error("a second factor a minute ago is not recorded")
	}
	for route, scope := range scopesOfRoutes() {
		method, path, _ := strings.Cut(route, " ")
		w := ask(s, method, path, i.Token(t, nil), http.NoBody)
		if may := scope != ScopeIntake && scope != ScopeAdmin && scope != ScopeSessions; may == (w.Code == http.StatusForbidden) {
			t.Errorf("%s needs %s: %d", route, scope, w.Code)
		}
	}
	if asked := i.Asked(); asked != 2 {
		t.Errorf("the issuer was asked %d times for one set of keys", asked)
	}
}

func TestTokensOfTheIssuerThatAreNotGood(t *testing.T) {
	i := oidctest.New(t)
	s := withIssuer(t, newHouse(), i, nil)
	now := time.Now()
	in := func(d time.Duration) int64 { return now.Add(d).Unix() }
	for _, c := range []struct {
		name   string
		change map[string]any
		want   string // of the message; empty: it is good
	}{
		{"good", nil, ""},
		{"several audiences", map[string]any{"aud": []string{"other", oidctest.Audience}}, ""},
		{"ended within the skew", map[string]any{"exp": in(-50 * time.Second)}, ""},
		{"begins within the skew", map[string]any{"nbf": in(50 * time.Second), "iat": in(50 * time.Second)}, ""},
		{"verified as text", map[string]any{"email_verified": "true"}, ""},
		{"one group", map[string]any{"groups": "oncall"}, ""},
		{"expired", map[string]any{"exp": in(-2 * time.Minute)}, "it expired at 20"},
		{"without an end", map[string]any{"exp": nil}, "has no expiry"},
		{"future nbf", map[string]any{"nbf": in(2 * time.Minute)}, "not valid yet"},
		{"issued in the future", map[string]any{"iat": in(2 * time.Minute)}, "issued in the future"},
		{"a time beyond time", map[string]any{"exp": 1e300}, "unknown|not a time|types"},
		{"another audience", map[string]any{"aud": "grafana"}, "another audience"},
		{"no audience", map[string]any{"aud": nil}, "another audience"},
		{"another issuer", map[string]any{"iss": "https://evil.example"}, "unknown credential"},
		{"a logout token", map[string]any{"events": map[string]any{"http://schemas.openid.net/event/backchannel-logout": map[string]any{}}}, "event"},
		{"bound to a key", map[string]any{"cnf": map[string]any{"jkt": "x"}}, "bound to a key"},
		{"no e-mail address", map[string]any{"email": nil}, "no claim email"},
		{"an address nobody verified", map[string]any{"email_verified": false}, "did not verify"},
		{"an address that says nothing", map[string]any{"email_verified": nil}, "did not verify"},
		{"an address that is a list", map[string]any{"email": []string{"ada@example.com"}}, "types"},
		{"a name with a prefix", map[string]any{"email": "user:ada"}, "no name"},
		{"a name with control characters", map[string]any{"email": "ada\u202e@example.com"}, "no name"},
		{"a name with a line", map[string]any{"email": "ada@example.com\napproved"}, "no name"},
		{"a long name", map[string]any{"email": strings.Repeat("a", 257)}, "no name"},
		{"the name of a token file", map[string]any{"email": "Decide"}, "name of the configuration"},
		{"the name of nobody", map[string]any{"email": "anonymous"}, "name of the configuration"},
		{"groups that are none", map[string]any{"groups": 7}, "no list of groups"},
	} {
		w := ask(s, http.MethodGet, "/api/v1/runs", i.Token(t, c.change), nil)
		if c.want == "" {
			if w.Code != http.StatusOK {
				t.Errorf("%s: %d %s", c.name, w.Code, w.Body)
			}
			continue
		}
		p := problemIn(t, w)
		found := false
		for _, want := range strings.Split(c.want, "|") {
			found = found || strings.Contains(p.Message, want)
		}
		if w.Code != http.StatusUnauthorized || !found || w.Header().Get("WWW-Authenticate") == "" {
			t.Errorf("%s: %d %q, want 401 that says %q", c.name, w.Code, p.Message, c.want)
		}
	}
}

func TestForgedTokens(t *testing.T) {
	i := oidctest.New(t)
	s := withIssuer(t, newHouse(), i, nil)
	key, kid := i.Key(jose.RS256)
	curve, curveID := i.Key(jose.ES256)
	mine := anyKey(t, 2048)
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	asSecret := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
	claims := i.Claims(nil)
	sign := func(a jose.SignatureAlgorithm, key any, header map[string]any) string {
		return oidctest.Sign(t, jose.SigningKey{Algorithm: a, Key: key}, header, claims)
	}
	good := i.Token(t, nil)
	parts := strings.Split(good, ".")
	other := strings.Split(i.Token(t, map[string]any{"email": "grace@example.com"}), ".")
	for name, token := range map[string]string{
		"none":                         unsigned(t, `{"alg":"none"}`, claims),
		"None":                         unsigned(t, `{"alg":"None","kid":"`+kid+`"}`, claims),
		"no signature":                 parts[0] + "." + parts[1] + ".",
		"another token's claims":       parts[0] + "." + other[1] + "." + parts[2],
		"HS256 with the public key":    sign(jose.HS256, asSecret, map[string]any{"kid": kid}),
		"my key under the issuer's id": sign(jose.RS256, mine, map[string]any{"kid": kid}),
		"my key in the header":         sign(jose.RS256, mine, map[string]any{"kid": kid, "jwk": jose.JSONWebKey{Key: mine.Public(), KeyID: kid}}),
		"my key somewhere":             sign(jose.RS256, mine, map[string]any{"kid": "x", "jku": "https://evil.example/keys"}),
		"an unknown key":               sign(jose.RS256, mine, map[string]any{"kid": "nobody's"}),
		"my key, not named":            sign(jose.RS256, mine, nil),
		"PS256, which is not told":     sign(jose.PS256, key, map[string]any{"kid": kid}),
		"RS512, which is not told":     sign(jose.RS512, key, map[string]any{"kid": kid}),
		"another type":                 sign(jose.RS256, key, map[string]any{"kid": kid, "typ": "logout+jwt"}),
		"an unknown critical header":   sign(jose.RS256, key, map[string]any{"kid": kid, "crit": []string{"x"}, "x": 1}),
		"huge":                         i.Token(t, map[string]any{"pad": strings.Repeat("x", maxJWT)}),
		"two dots":                     "..",
		"five parts":                   good + "." + parts[1] + "." + parts[2],
		"the JSON form":                `{"payload":"` + parts[1] + `","protected":"` + parts[0] + `","signature":"` + parts[2] + `"}`,
	} {
		if id, err := who(t, s, token); err == nil {
			t.Errorf("%s: let in as %s", name, id.Name)
		}
		w := ask(s, http.MethodGet, "/api/v1/runs", token, nil)
		if p := problemIn(t, w); w.Code != http.StatusUnauthorized || p.Message != "unknown credential" {
			t.Errorf("%s: %d %q", name, w.Code, p.Message)
		}
	}
	if _, err := who(t, s, sign(jose.ES256, curve, map[string]any{"kid": curveID})); err != nil {
		t.Errorf("a good one with ES256: %v", err)
	}
}

// TestKeysThatVerifyNothing lists keys that are weak, secret, for another use,
// malformed or of an unknown kind, and signs with them.
func TestKeysThatVerifyNothing(t *testing.T) {
	i := oidctest.New(t)
	weak, encryption := anyKey(t, 1024), anyKey(t, 2048)
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	secret := []byte("0123456789abcdef0123456789abcdef")
	i.Discover("id_token_signing_alg_values_supported", []string{"RS256", "HS256", "EdDSA"})
	i.Show(jose.JSONWebKey{Key: weak.Public(), KeyID: "weak"})
	i.Show(jose.JSONWebKey{Key: encryption.Public(), KeyID: "enc", Use: "enc"})
	i.Show(jose.JSONWebKey{Key: secret, KeyID: "secret"})
	i.Show(jose.JSONWebKey{Key: edwards, KeyID: "private"})
	i.Show(map[string]any{"kty": "new", "kid": "unknown kind"})
	i.Show(map[string]any{"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA", "kid": "not on the curve"})
	i.Show("not a key")
	s := withIssuer(t, newHouse(), i, nil)
	for name, key := range map[string]jose.SigningKey{
		"weak":    {Algorithm: jose.RS256, Key: weak},
		"enc":     {Algorithm: jose.RS256, Key: encryption},
		"secret":  {Algorithm: jose.HS256, Key: secret},
		"private": {Algorithm: jose.EdDSA, Key: crypto.Signer(edwards)},
	} {
		if _, err := who(t, s, oidctest.Sign(t, key, map[string]any{"kid": name}, i.Claims(nil))); err == nil {
			t.Errorf("%s: let in", name)
		}
	}
	if _, err := who(t, s, i.Token(t, nil)); err != nil {
		t.Errorf("a good key beside them: %v", err)
	}
}

func TestStrong(t *testing.T) {
	i := oidctest.New(t)
	s := withIssuer(t, newHouse(), i, nil)
	at := func(d time.Duration) int64 { return time.Now().Add(d).Unix() }
	for _, c := range []struct {
		name   string
		change map[string]any
		want   bool
	}{
		{"second factor, a minute ago", map[string]any{"acr": nil}, true},
		{"acr alone", map[string]any{"amr": nil}, true},
		{"amr as one string", map[string]any{"acr": nil, "amr": "hwk"}, true},
		{"a password", map[string]any{"acr": nil, "amr": []string{"pwd"}}, false},
		{"nothing said", map[string]any{"acr": nil, "amr": nil}, false},
		{"null", map[string]any{"acr": "", "amr": []any{nil}}, false},
		{"another acr", map[string]any{"acr": "0", "amr": nil}, false},
		{"a login long ago", map[string]any{"auth_time": at(-16 * time.Minute)}, false},
		{"a login at no time", map[string]any{"auth_time": nil}, false},
		{"a login in the future", map[string]any{"auth_time": at(2 * time.Minute)}, false},
		{"a login in 1970", map[string]any{"auth_time": 0}, false},
	} {
		if id, err := who(t, s, i.Token(t, c.change)); err != nil || id.Strong != c.want {
			t.Errorf("%s: strong %v, %v", c.name, id.Strong, err)
		}
	}
	if id, err := who(t, s, decideToken); err != nil || id.Strong {
		t.Errorf("a token of a file is strong: %v, %v", id.Strong, err)
	}
	s = withIssuer(t, newHouse(), i, func(a *Auth) { a.OIDC.Strong = nil })
	if id, err := who(t, s, i.Token(t, nil)); err != nil || id.Strong {
		t.Errorf("strong without a rule for it: %v", err)
	}
}

func FuzzAuthorization(f *testing.F) {
	h := newHouse()
	i := oidctest.New(f)
	o := options(f, h)
	o.Auth.OIDC = &OIDC{Issuer: i.URL, Audience: oidctest.Audience, CAFile: i.CAFile, Scopes: deciding()}
	s := mustNew(f, o)
	valid := i.Token(f, nil)
	for _, seed := range []string{"", "Bearer", "Bearer " + valid, "bearer  " + decideToken, basic("a", "b"), "Basic !", "Bearer a.b.c", "Bearer eyJhbGciOiJub25lIn0.e30."} {
		f.Add(seed)
	}
	known := map[string]string{valid: "ada@example.com", intakeToken: "intake", readToken: "read", decideToken: "decide", adminToken: "admin"}
	f.Fuzz(func(t *testing.T, header string) {
		r := httptest.NewRequest(http.MethodGet, "/api/v1/runs", http.NoBody)
		r.Header.Set("Authorization", header)
		id, err := s.auth.authenticate(r, false)
		if err != nil {
			return
		}
		_, token, _ := strings.Cut(header, " ")
		if want := known[strings.TrimLeft(token, " ")]; want == "" || id.Name != want {
			t.Errorf("%q let %q in", header, id.Name)
		}
	})
}
