package oidctest

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/go-jose/go-jose/v4"
)

// Client is a client of the authorization code flow.
type Client struct {
	ID       string
	Secret   string // empty: a public client
	Redirect string // the one URL that people are sent back to
}

// flow is what the issuer remembers of the authorization code flow.
type flow struct {
	client Client
	person map[string]any // changes of the claims of whoever signs in
	denial string         // error code in place of a code
	codes  map[string]grant
	asked  url.Values // of the last request to sign in
}

// grant is a code that has not been exchanged.
type grant struct{ nonce, challenge string }

// Register replaces the client that the issuer knows.
func (i *Issuer) Register(c Client) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.flow.client, i.flow.codes = c, map[string]grant{}
}

// Person changes the claims of whoever signs in from now on, as [Issuer.Claims] does.
func (i *Issuer) Person(change map[string]any) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.flow.person = change
}

// Deny answers requests to sign in with an error from now on; empty: no more.
func (i *Issuer) Deny(code string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.flow.denial = code
}

// AskedFor returns the parameters of the last request to sign in.
func (i *Issuer) AskedFor() url.Values {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.flow.asked
}

// authorize signs the person in without asking, and sends the browser back.
func (i *Issuer) authorize(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	q := r.URL.Query()
	i.flow.asked = q
	switch c := i.flow.client; {
	case c.ID == "" || q.Get("client_id") != c.ID || q.Get("redirect_uri") != c.Redirect:
		http.Error(w, "unknown client or redirect_uri", http.StatusBadRequest) // shown here: nobody is sent to an unknown place
		return
	case q.Get("response_type") != "code" || !slices.Contains(strings.Fields(q.Get("scope")), "openid") || q.Get("state") == "" ||
		q.Get("code_challenge_method") != "S256" || len(q.Get("code_challenge")) != 43:
		http.Error(w, "a parameter is missing", http.StatusBadRequest)
		return
	}
	back := url.Values{"state": {q.Get("state")}, "iss": {i.URL}}
	if i.flow.denial != "" {
		back.Set("error", i.flow.denial)
		back.Set("error_description", "ask the help desk")
	} else {
		code := rand.Text()
		i.flow.codes[code] = grant{q.Get("nonce"), q.Get("code_challenge")}
		back.Set("code", code)
	}
	http.Redirect(w, r, i.flow.client.Redirect+"?"+back.Encode(), http.StatusFound)
}

// exchange is the token endpoint. A code is good once, for the client and the verifier
// that it was made for.
func (i *Issuer) exchange(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if err := r.ParseForm(); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c := i.flow.client
	id, secret := clientOf(r)
	code := r.PostForm.Get("code")
	g, known := i.flow.codes[code]
	delete(i.flow.codes, code)
	sum := sha256.Sum256([]byte(r.PostForm.Get("code_verifier")))
	switch {
	case id != c.ID || secret != c.Secret:
		refuse(w, http.StatusUnauthorized, "invalid_client")
		return
	case r.PostForm.Get("grant_type") != "authorization_code" || !known || r.PostForm.Get("redirect_uri") != c.Redirect,
		base64.RawURLEncoding.EncodeToString(sum[:]) != g.challenge:
		refuse(w, http.StatusBadRequest, "invalid_grant")
		return
	}
	claims := map[string]any{"aud": c.ID, "nonce": g.nonce}
	for name, value := range i.flow.person {
		claims[name] = value
	}
	key := jose.SigningKey{Algorithm: jose.RS256, Key: i.keys[jose.RS256]}
	token, err := sign(key, map[string]any{"kid": i.id(jose.RS256), "typ": "JWT"}, i.Claims(claims))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	answer(w, http.StatusOK, map[string]any{"access_token": rand.Text(), "token_type": "Bearer", "expires_in": 300, "id_token": token})
}

// clientOf returns who the client says it is, and how it proves it. In the header both
// are escaped (RFC 6749, section 2.3.1).
func clientOf(r *http.Request) (id, secret string) {
	id, secret, basic := r.BasicAuth()
	if !basic {
		return r.PostForm.Get("client_id"), r.PostForm.Get("client_secret")
	}
	rawID, err := url.QueryUnescape(id)
	rawSecret, err2 := url.QueryUnescape(secret)
	if err != nil || err2 != nil {
		return "", ""
	}
	return rawID, rawSecret
}

func refuse(w http.ResponseWriter, status int, code string) {
	answer(w, status, map[string]any{"error": code, "error_description": "it is refused"})
}

func answer(w http.ResponseWriter, status int, body map[string]any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the peer may have given up
}
