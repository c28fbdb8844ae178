package webhook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"
)

// OIDC lets people in with tokens of an OpenID Connect issuer: as bearer tokens, which
// are not fetched, renewed or kept, and with Browser by signing in on the page.
type OIDC struct {
	Issuer        string  // its https URL, exactly as its tokens write it
	Audience      string  // that bearer tokens must be for; one of the service's own, or tokens made for others pass. With Browser it may be empty: bearer tokens are refused
	CAFile        string  // PEM certificates that vouch for the issuer, read at every refresh; empty: the system's
	UsernameClaim string  // names the person; email has to be verified by the issuer. Default: email
	GroupsClaim   string  // a list of groups, or one; empty: tokens give none
	Scopes        []Scope // of everybody the issuer makes such tokens for
	Strong        *Strong // nil: no token is strong

	AllowedGroups []string // one of which a person must be in, by the token or the configuration; empty: none is required
	PeopleOnly    bool     // only persons of the configuration

	Browser *OIDCBrowser // nil: nobody signs in on the page through the issuer
}

// OIDCBrowser is what the issuer knows the page by, as a client of the authorization
// code flow with PKCE. It needs Auth.ExternalURL.
type OIDCBrowser struct {
	ClientID         string
	ClientSecretFile string   // read at each sign-in; empty: a public client
	Scopes           []string // asked for besides openid
}

// Strong is which tokens prove strong authentication: those with one of ACR or
// one of AMR, of a login not longer ago than MaxAge.
type Strong struct {
	ACR    []string      // values of the claim acr
	AMR    []string      // values of the claim amr, e.g. mfa or hwk
	MaxAge time.Duration // since the claim auth_time; > 0
}

const (
	maxJWT    = 16 << 10    // bytes of a token; those of real issuers have 1 to 4 KiB
	clockSkew = time.Minute // that the issuer's clock may differ by, either way
)

// signatures are the algorithms that may be used, if the issuer says that it
// uses them. All are asymmetric: with HS256 the public key would be the secret.
var signatures = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.ES256, jose.ES384, jose.ES512, jose.PS256, jose.PS384, jose.PS512, jose.EdDSA,
}

// refusedToken is a token that the issuer signed and that is still not good.
// The caller is told why, because it reveals nothing about other tokens.
type refusedToken struct{ why, hint string }

func (r *refusedToken) Error() string { return r.why }

// Unwrap makes it an unknown credential.
func (r *refusedToken) Unwrap() error { return errBadCredential }

func refuse(why, hint string) error { return &refusedToken{why, hint} }

// oidcVerifier verifies tokens of one issuer. It is safe for concurrent use.
type oidcVerifier struct {
	o      OIDC
	issuer *issuer
	people *people
	logger *slog.Logger
	glance time.Duration // that the sign-in page waits for the issuer
}

// newOIDCVerifier checks o and connects to nothing, so that the service starts
// while the issuer is down. A nil o returns nil.
func newOIDCVerifier(o *OIDC, p *people, logger *slog.Logger, refreshed func(ok bool)) (*oidcVerifier, error) {
	if o == nil {
		return nil, nil
	}
	c := *o
	if c.UsernameClaim == "" {
		c.UsernameClaim = "email"
	}
	u, err := url.Parse(c.Issuer)
	switch {
	case err != nil || u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return nil, fmt.Errorf("webhook: OIDC issuer %q is not an https URL as tokens write it", c.Issuer)
	case c.Audience == "" && c.Browser == nil:
		return nil, errors.New("webhook: OIDC has no audience: tokens the issuer made for other services would be accepted")
	case c.Strong != nil && (len(c.Strong.ACR)+len(c.Strong.AMR) == 0 || c.Strong.MaxAge <= 0 ||
		slices.Contains(c.Strong.ACR, "") || slices.Contains(c.Strong.AMR, "")):
		return nil, errors.New("webhook: OIDC strong needs a value of acr or amr, and a positive maximum age")
	}
	if err := checkGrant(Grant{Name: "OIDC", Scopes: c.Scopes}); err != nil {
		return nil, err
	}
	if slices.Contains(c.AllowedGroups, "") {
		return nil, errors.New("webhook: OIDC allows a group without a name")
	}
	if c.Browser != nil && c.Browser.ClientID == "" {
		return nil, errors.New("webhook: OIDC sign-in has no client ID")
	}
	i := newIssuer(c.Issuer, c.CAFile, logger, refreshed)
	if _, err := i.transport(); err != nil {
		return nil, err
	}
	return &oidcVerifier{o: c, issuer: i, people: p, logger: logger, glance: signInGlance}, nil
}

// warm fetches the issuer's keys before the first token comes.
func (d *oidcVerifier) warm() {
	if d != nil {
		d.issuer.refresh()
	}
}

// jwtOf returns the token of an Authorization header, and whether it could be a
// JWT.
func jwtOf(header string) (string, bool) {
	scheme, token, _ := strings.Cut(header, " ")
	token = strings.TrimLeft(token, " ")
	return token, strings.EqualFold(scheme, "Bearer") && len(token) <= maxJWT && strings.Count(token, ".") == 2
}

// identify returns the identity of a token. Nothing in it is trusted before its
// signature is verified. If the issuer's keys are not known, it waits a moment for
// them and then fails with errIssuerDown.
func (d *oidcVerifier) identify(ctx context.Context, token string) (Identity, error) {
	id, err := d.verify(ctx, token, time.Now())
	if err != nil {
		d.logger.Debug("token refused", "err", cut(err.Error(), 300))
	}
	return id, err
}

func (d *oidcVerifier) verify(ctx context.Context, token string, now time.Time) (Identity, error) {
	c, err := d.verified(ctx, token, d.o.Audience, now)
	if err != nil {
		return Identity{}, err
	}
	return d.identity(c, now)
}

// verified returns the claims of a token that the issuer signed for an audience and
// that is valid now.
func (d *oidcVerifier) verified(ctx context.Context, token, audience string, now time.Time) (claims, error) {
	parsed, err := jose.ParseSigned(token, signatures)
	if err != nil || len(parsed.Signatures) != 1 {
		return claims{}, fmt.Errorf("%w: not a token with a signature that may be used", errBadCredential)
	}
	header := parsed.Signatures[0].Header
	if !slices.Contains([]any{nil, "JWT", "jwt", "at+jwt", "application/at+jwt"}, header.ExtraHeaders[jose.HeaderType]) {
		return claims{}, fmt.Errorf("%w: a token of another type", errBadCredential)
	}
	ctx, cancel := context.WithTimeout(ctx, d.issuer.wait)
	defer cancel()
	set, err := d.issuer.keys(ctx)
	if err != nil {
		return claims{}, err
	}
	signature := &signatureCheck{set: set}
	verifier := oidc.NewVerifier(d.o.Issuer, signature, &oidc.Config{
		SupportedSigningAlgs: set.algorithms,
		SkipClientIDCheck:    true, // done below, so that the caller is told
		SkipExpiryCheck:      true, // done below, with less patience for nbf
	})
	verified, err := verifier.Verify(ctx, token)
	switch {
	case isFetchError(signature.err):
		return claims{}, errIssuerDown // the key may be a new one
	case signature.err != nil:
		return claims{}, errUnknownKey
	case err != nil:
		return claims{}, fmt.Errorf("%w: %w", errBadCredential, err)
	}
	if !slices.Contains(verified.Audience, audience) {
		return claims{}, refuse("it is for another audience", "ask the issuer for a token for this service")
	}
	c, err := readClaims(verified)
	if err != nil {
		return claims{}, err
	}
	return c, c.valid(now)
}

// identity returns the person of verified claims.
func (d *oidcVerifier) identity(c claims, now time.Time) (Identity, error) {
	name, err := c.username(d.o.UsernameClaim)
	if err != nil {
		return Identity{}, err
	}
	id, err := d.people.ofToken(name, d.o.UsernameClaim, c.verifiedEmail())
	if err != nil {
		return Identity{}, err
	}
	groups, err := c.groups(d.o.GroupsClaim)
	if err != nil {
		return Identity{}, err
	}
	id.Groups = union(id.Groups, groups)
	if err := d.o.admits(id); err != nil {
		return Identity{}, err
	}
	id.Strong = d.o.Strong.proven(c, now)
	id.scopes = d.o.Scopes
	return id, nil
}

// admits refuses a person of the issuer whom the service is not for.
func (o *OIDC) admits(id Identity) error {
	if o.PeopleOnly && !id.Person {
		return refuse(id.Name+" is nobody of the configuration, and only its people may come in", "ask the operator to list you under auth.people")
	}
	if len(o.AllowedGroups) == 0 || slices.ContainsFunc(id.Groups, func(g string) bool { return slices.Contains(o.AllowedGroups, g) }) {
		return nil
	}
	seen := "has none"
	if len(id.Groups) > 0 {
		seen = "has " + cut(strings.Join(id.Groups, ", "), 300)
	}
	return refuse("it needs one of the groups "+strings.Join(o.AllowedGroups, ", ")+", and "+seen,
		"ask whoever runs the issuer for the group; if you are in it, the operator checks auth.oidc.groups_claim")
}

// proven reports whether the claims prove strong authentication. A missing claim
// proves nothing.
func (s *Strong) proven(c claims, now time.Time) bool {
	if s == nil || c.AuthTime == nil {
		return false
	}
	since := now.Sub(c.AuthTime.Time())
	if since > s.MaxAge || since < -clockSkew {
		return false
	}
	return slices.Contains(s.ACR, c.ACR) || slices.ContainsFunc(c.AMR, func(m string) bool { return slices.Contains(s.AMR, m) })
}

// signatureCheck verifies one token and keeps the error, of which
// [oidc.IDTokenVerifier] returns the text only.
type signatureCheck struct {
	set *keySet
	err error
}

// VerifySignature returns the payload of a token that the issuer signed.
func (s *signatureCheck) VerifySignature(ctx context.Context, token string) ([]byte, error) {
	var payload []byte
	payload, s.err = s.set.VerifySignature(ctx, token)
	return payload, s.err
}

// cut shortens text from outside for the log.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "..."
}
