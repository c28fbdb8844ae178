package webhook

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/labstack/echo/v4"
	"golang.org/x/oauth2"

	"github.com/inference-responder/responder/internal/outbound"
	"github.com/inference-responder/responder/internal/webhook/session"
)

// signInGlance is how long the sign-in page waits to learn whether the issuer answers.
const signInGlance = 500 * time.Millisecond

// host is the issuer as people know it.
func (d *oidcVerifier) host() string {
	u, err := url.Parse(d.o.Issuer)
	if err != nil {
		return d.o.Issuer // unreachable: newOIDCVerifier has parsed it
	}
	return u.Host
}

// toIssuer sends the browser to the issuer, and has it keep what the answer must match. A
// link of another site leads to the sign-in page instead: where the issuer knows the person,
// it would sign them in without a click of theirs.
func (s *Server) toIssuer(c echo.Context, _ Identity) error {
	if fromElsewhere(c.Request()) {
		s.goTo(c, pathSignIn+"?next="+url.QueryEscape(nextOf(c.QueryParam("next"))))
		return nil
	}
	a := session.Attempt{
		State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier(), Next: nextOf(c.QueryParam("next")), Began: time.Now(),
	}
	left := s.auth.browsers.sent(c.Request(), leftCookie) != ""
	at, err := s.auth.oidc.signInURL(c.Request().Context(), s.redirectURL(), a, left)
	if err != nil {
		s.issuerFails(c, a.Next, err)
		return nil
	}
	sealed, err := s.auth.browsers.sealer.Seal(a)
	if err != nil {
		return err
	}
	h := c.Response().Header()
	c.SetCookie(s.auth.browsers.cookie(c.Request(), attemptCookie, sealed, session.MaxAttempt))
	h.Set("Location", at)
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	return c.NoContent(http.StatusSeeOther)
}

// redirectURL is where the issuer sends the browser back to.
func (s *Server) redirectURL() string {
	return s.auth.browsers.external.JoinPath(pathCallback).String()
}

// fromIssuer takes the issuer's answer. Nothing in the address is believed, nor shown,
// before its state shows that this browser asked for it.
func (s *Server) fromIssuer(c echo.Context, _ Identity) error {
	b, d, r, now := s.auth.browsers, s.auth.oidc, c.Request(), time.Now()
	a, err := s.attemptOf(c, now)
	q := r.URL.Query()
	if err != nil || !sameText(q.Get("state"), a.State) {
		s.notBegunHere(c)
		return nil
	}
	good, ok := b.failures.begin(r.RemoteAddr, b.deviceOf(r, "", now), now)
	if !ok {
		s.tooMany(c, a.Next, "Too many sign-ins from your address failed. Try again in a minute.")
		return nil
	}
	// After the limit, so that no address fills the memory of attempts by failing.
	err = b.spent.Spend(a.State, now)
	switch {
	case errors.Is(err, session.ErrSpent):
		s.notBegunHere(c)
		return nil
	case err != nil:
		s.tooMany(c, a.Next, "Too many people sign in at present. Try again in a few minutes.")
		return nil
	case q.Get("iss") != "" && q.Get("iss") != d.o.Issuer: // RFC 9207
		err = refuse("another issuer sent it", "sign in again")
	case q.Get("error") != "":
		page := SignIn{Status: http.StatusForbidden, Next: a.Next}
		page.Message, page.Hint = denialOf(d.host(), q.Get("error"), q.Get("error_description"))
		s.signInFails(c, methodOIDC, signInRefused, page)
		return nil
	}
	var who signedIn
	if err == nil {
		who, err = d.exchange(r.Context(), s.redirectURL(), q.Get("code"), a, now)
	}
	if err != nil {
		s.issuerFails(c, a.Next, err)
		return nil
	}
	good()
	s.admit(c, methodOIDC, "", who, a.Next)
	return nil
}

// notBegunHere refuses an answer of the issuer that this browser did not ask for, or that
// was taken already.
func (s *Server) notBegunHere(c echo.Context) {
	s.signInFails(c, methodOIDC, signInInvalid, SignIn{
		Status: http.StatusBadRequest, Next: "/",
		Message: "This sign-in was not begun in this browser, took too long, or is over.", Hint: "Sign in again, in one tab.",
	})
}

// tooMany refuses an answer of the issuer for now.
func (s *Server) tooMany(c echo.Context, next, why string) {
	s.signInFails(c, methodOIDC, signInLimited, SignIn{Status: http.StatusTooManyRequests, Next: next, Message: why})
}

// attemptOf returns the attempt that the browser kept, and has it forget it: an answer
// is taken once.
func (s *Server) attemptOf(c echo.Context, now time.Time) (session.Attempt, error) {
	b := s.auth.browsers
	kept := b.sent(c.Request(), attemptCookie)
	if kept == "" {
		return session.Attempt{}, session.ErrAttempt
	}
	c.SetCookie(b.cookie(c.Request(), attemptCookie, "", 0))
	return b.sealer.Open(kept, now)
}

// issuerFails shows why the issuer signs nobody in.
func (s *Server) issuerFails(c echo.Context, next string, err error) {
	host := s.auth.oidc.host()
	page, result := SignIn{Status: http.StatusForbidden, Next: next}, signInRefused
	var denied *oauth2.RetrieveError
	var noRights *noRightsError
	switch {
	case errors.As(err, &noRights):
		page.Message, page.Hint = refusalOf(err)
		page.Groups, result = noRights.groups, signInNoRights
	case errors.Is(err, errBadCredential):
		page.Message, page.Hint = refusalOf(err)
	case errors.As(err, &denied) && denied.ErrorCode != "":
		page.Message, page.Hint = denialOf(host, denied.ErrorCode, denied.ErrorDescription)
	case errors.Is(err, errClientSecret):
		page.Status, result = http.StatusServiceUnavailable, signInUnavailable
		page.Message, page.Hint = "Responder cannot read the secret of its client at "+host+".", "Ask whoever runs Responder to look at auth.oidc.sign_in.client_secret_file. Other ways to sign in work meanwhile."
	default:
		page.Status, result = http.StatusServiceUnavailable, signInUnavailable
		page.Message, page.Hint = host+" cannot be reached to sign you in.", "Responder tries again: reload in a moment. Other ways to sign in work meanwhile."
	}
	if !errors.Is(err, errIssuerDown) { // of which the log tells once
		warn := func() {
			s.log.Warn("the OIDC issuer signed nobody in on the page", "issuer", s.auth.oidc.o.Issuer, "result", result, "err", cut(hideCode(err), 500), "address", c.Request().RemoteAddr)
		}
		if c.Path() == pathCallback {
			warn() // failures are limited there
		} else {
			s.auth.browsers.troubles.Do(warn)
		}
		s.refuseSignIn(c, methodOIDC, result, page)
		return
	}
	s.signInFails(c, methodOIDC, result, page)
}

// hideCode returns an error's text without what the issuer echoes in a body, which may
// repeat the code.
func hideCode(err error) string {
	var denied *oauth2.RetrieveError
	if errors.As(err, &denied) {
		return fmt.Sprintf("the token endpoint answered %q %q", denied.ErrorCode, denied.ErrorDescription)
	}
	return err.Error()
}

// client is the page as the issuer knows it.
func (d *oidcVerifier) client(ctx context.Context, redirect string) (*oauth2.Config, error) {
	ctx, cancel := context.WithTimeout(ctx, d.issuer.wait)
	defer cancel()
	set, err := d.issuer.keys(ctx)
	if err != nil {
		return nil, err
	}
	for _, at := range []string{set.endpoint.AuthURL, set.endpoint.TokenURL} {
		if u, err := url.Parse(at); err != nil || u.Scheme != "https" || u.Host == "" {
			return nil, fmt.Errorf("the issuer's endpoint %q is not an https URL", cut(at, 100))
		}
	}
	c := &oauth2.Config{ClientID: d.o.Browser.ClientID, Endpoint: set.endpoint, RedirectURL: redirect, Scopes: []string{oidc.ScopeOpenID}}
	for _, scope := range d.o.Browser.Scopes {
		if !slices.Contains(c.Scopes, scope) {
			c.Scopes = append(c.Scopes, scope)
		}
	}
	if d.o.Browser.ClientSecretFile == "" {
		c.Endpoint.AuthStyle = oauth2.AuthStyleInParams // a public client only names itself
	}
	return c, nil
}

// signInURL is where people sign in. If some tokens are strong, it asks for one: a
// login not long ago, of a kind that counts. If somebody has left this browser, it has the
// issuer ask who signs in now: it may still know the former person.
func (d *oidcVerifier) signInURL(ctx context.Context, redirect string, a session.Attempt, left bool) (string, error) {
	client, err := d.client(ctx, redirect)
	if err != nil {
		return "", err
	}
	options := []oauth2.AuthCodeOption{oidc.Nonce(a.Nonce), oauth2.S256ChallengeOption(a.Verifier)}
	if strong := d.o.Strong; strong != nil {
		options = append(options, oauth2.SetAuthURLParam("max_age", strconv.Itoa(int(strong.MaxAge/time.Second))))
		if len(strong.ACR) > 0 {
			options = append(options, oauth2.SetAuthURLParam("acr_values", strings.Join(strong.ACR, " ")))
		}
	}
	if left {
		options = append(options, oauth2.SetAuthURLParam("prompt", "select_account"))
	}
	return client.AuthCodeURL(a.State, options...), nil
}

// exchange returns who signed in: the code is exchanged for an ID token, which is
// verified as bearer tokens are, is for this client, and answers this attempt. The
// token is not kept.
func (d *oidcVerifier) exchange(ctx context.Context, redirect, code string, a session.Attempt, now time.Time) (signedIn, error) {
	client, err := d.client(ctx, redirect)
	if err != nil {
		return signedIn{}, err
	}
	if file := d.o.Browser.ClientSecretFile; file != "" {
		if client.ClientSecret, err = outbound.ReadSecret(file); err != nil {
			return signedIn{}, fmt.Errorf("%w: %w", errClientSecret, err)
		}
	}
	t, err := outbound.Options{CAFile: d.o.CAFile}.Transport()
	if err != nil {
		return signedIn{}, err
	}
	t.DisableKeepAlives = true
	own := outbound.Client(t) // oauth2 bounds what it reads
	own.Timeout = d.issuer.timeout
	token, err := client.Exchange(oidc.ClientContext(ctx, own), code, oauth2.VerifierOption(a.Verifier))
	var denied *oauth2.RetrieveError
	if errors.As(err, &denied) && code != "" { // the issuer may repeat it
		denied.ErrorDescription = strings.ReplaceAll(denied.ErrorDescription, code, "CODE")
	}
	if err != nil {
		return signedIn{}, fmt.Errorf("exchange the code: %w", err)
	}
	raw, _ := token.Extra("id_token").(string)
	if raw == "" || len(raw) > maxJWT {
		return signedIn{}, refuse("the issuer sent none", "ask whoever runs the issuer whether this client may use the scope openid")
	}
	c, err := d.verified(ctx, raw, client.ClientID, now)
	if err != nil {
		return signedIn{}, err
	}
	if !sameText(c.Nonce, a.Nonce) {
		return signedIn{}, refuse("it answers another sign-in", "sign in again")
	}
	if c.IssuedTo != "" && c.IssuedTo != client.ClientID {
		return signedIn{}, refuse("it was issued to another client", "sign in again")
	}
	id, err := d.identity(c, now)
	if err != nil {
		groups, _ := c.groups(d.o.GroupsClaim) // for the person's eyes; the error says what is wrong
		return signedIn{}, &noRightsError{err, groups}
	}
	return signedIn{id: id, method: methodOIDC, proof: claims{AuthTime: c.AuthTime, ACR: c.ACR, AMR: c.AMR}}, nil
}

// errClientSecret reports that the page cannot prove itself to the issuer.
var errClientSecret = errors.New("client secret")

// noRightsError is why a person whom the issuer signed in is nobody here.
type noRightsError struct {
	error
	groups []string
}

// Unwrap returns why.
func (n *noRightsError) Unwrap() error { return n.error }
