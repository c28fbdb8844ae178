package webhook

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4/jwt"
)

const maxHandle = 256 // bytes of a name or a group

// claims are the claims of a verified token.
type claims struct {
	Expiry        *jwt.NumericDate `json:"exp"`
	NotBefore     *jwt.NumericDate `json:"nbf"`
	IssuedAt      *jwt.NumericDate `json:"iat"`
	AuthTime      *jwt.NumericDate `json:"auth_time"` // when the person logged in
	ACR           string           `json:"acr"`
	AMR           oneOrMore        `json:"amr"`
	Nonce         string           `json:"nonce"`
	IssuedTo      string           `json:"azp"` // the client that asked for the token; empty: it does not say
	Email         string           `json:"email"`
	EmailVerified json.RawMessage  `json:"email_verified"`
	Events        json.RawMessage  `json:"events"` // only of logout and security event tokens
	Bound         json.RawMessage  `json:"cnf"`    // only of tokens that are void without the key they name

	all map[string]json.RawMessage
}

// oneOrMore is a list of strings, or one string, as issuers write either.
type oneOrMore []string

// UnmarshalJSON reads "a" or ["a", "b"].
func (o *oneOrMore) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*o = oneOrMore{one}
		return nil
	}
	return json.Unmarshal(data, (*[]string)(o))
}

func readClaims(token *oidc.IDToken) (claims, error) {
	var c claims
	if token.Claims(&c) != nil || token.Claims(&c.all) != nil {
		return claims{}, refuse("its claims are not of the types they should be", "show it to whoever runs the issuer")
	}
	for _, d := range []*jwt.NumericDate{c.Expiry, c.NotBefore, c.IssuedAt, c.AuthTime} {
		if d != nil && (*d < 0 || *d > math.MaxInt32*16) { // beyond the year 3000, where sums of times overflow
			return claims{}, refuse("one of its times is not a time", "show it to whoever runs the issuer")
		}
	}
	return c, nil
}

// valid refuses what is not valid now, and what is no token for a caller.
func (c claims) valid(now time.Time) error {
	const fresh = "get a new one"
	switch {
	case c.Events != nil:
		return refuse("it is a security event token", "use an ID token or an access token")
	case c.Bound != nil:
		return refuse("it is bound to a key", "ask the issuer for a bearer token")
	case c.Expiry == nil:
		return refuse("it has no expiry", "use a token that expires")
	case now.After(c.Expiry.Time().Add(clockSkew)):
		return refuse("it expired at "+c.Expiry.Time().UTC().Format(time.RFC3339), fresh)
	case c.NotBefore != nil && now.Add(clockSkew).Before(c.NotBefore.Time()):
		return refuse("it is not valid yet", "check the clocks")
	case c.IssuedAt != nil && now.Add(clockSkew).Before(c.IssuedAt.Time()):
		return refuse("it was issued in the future", "check the clocks")
	}
	return nil
}

// verifiedEmail is the e-mail address if the issuer verified it, in lower case
// so that no spelling of it is another person.
func (c claims) verifiedEmail() string {
	if v := string(c.EmailVerified); v != "true" && v != `"true"` {
		return ""
	}
	return strings.ToLower(c.Email)
}

// username is the value of the claim that names the person.
func (c claims) username(claim string) (string, error) {
	var name string
	if err := json.Unmarshal(c.all[claim], &name); err != nil || name == "" {
		return "", refuse("it has no claim "+claim, "ask the issuer for it, e.g. by a scope of that name, or set auth.oidc.username_claim")
	}
	if claim == "email" {
		if name = c.verifiedEmail(); name == "" {
			return "", refuse("the issuer did not verify its e-mail address", "verify it there, or set auth.oidc.username_claim to a claim people cannot change")
		}
	}
	if !plainName(name) {
		return "", refuse(fmt.Sprintf("its claim %s is no name", claim), "a name has no spaces, control characters or prefixes, and at most 256 bytes")
	}
	return name, nil
}

// groups are the values of the claim that can be names of groups. A missing
// claim is none.
func (c claims) groups(claim string) ([]string, error) {
	raw, ok := c.all[claim]
	if claim == "" || !ok {
		return nil, nil
	}
	var found oneOrMore
	if err := json.Unmarshal(raw, &found); err != nil {
		return nil, refuse("its claim "+claim+" is no list of groups", "set auth.oidc.groups_claim to one that is")
	}
	return slices.DeleteFunc(found, func(g string) bool { return !plainName(strings.ReplaceAll(g, " ", "")) }), nil
}

// plainName reports whether name can be journaled and shown as it is, and is
// not read as something else.
func plainName(name string) bool {
	return name != "" && len(name) <= maxHandle && utf8.ValidString(name) &&
		!strings.HasPrefix(name, "user:") && !strings.HasPrefix(name, "group:") &&
		!strings.ContainsFunc(name, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) })
}

// union is a and what b adds to it.
func union(a, b []string) []string {
	all := slices.Clone(a)
	for _, g := range b {
		if !slices.Contains(all, g) {
			all = append(all, g)
		}
	}
	return all
}
