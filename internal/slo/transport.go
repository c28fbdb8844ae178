package slo

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/inference-responder/responder/internal/credential"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/outbound"
)

// mostQueries is how many queries are under way at once: as many as Prometheus
// evaluates by default (--query.max-concurrency). It would queue the rest.
const mostQueries = 20

// transport is the HTTP transport the options ask for. Files that can be read
// now are read now, so that a wrong path is found at the start and not in an
// incident.
func (o Options) transport() (*credentials, error) {
	t, err := outbound.Options{
		CAFile: o.CAFile, CertFile: o.CertFile, KeyFile: o.KeyFile, ServerName: o.ServerName, SkipVerify: o.InsecureSkipVerify,
		AnyAddress: true, // only the operator writes it
	}.Transport()
	if err != nil {
		return nil, fmt.Errorf("prometheus: %w", err)
	}
	t.MaxConnsPerHost, t.MaxIdleConns, t.MaxIdleConnsPerHost = mostQueries, mostQueries, mostQueries
	t.ResponseHeaderTimeout = defaulted(o.Timeout, 10*time.Second)
	c := &credentials{next: t, tokenFile: o.BearerTokenFile, user: o.Username, passwordFile: o.PasswordFile}
	if _, err := c.header(); err != nil {
		return nil, err
	}
	return c, nil
}

// credentials reads its files for every request: mounted secrets rotate.
type credentials struct {
	next         http.RoundTripper
	tokenFile    string
	user         string
	passwordFile string

	mu   sync.Mutex // guards sent
	sent [2]string  // the newest secret that was read to be sent, and the one before: an answer may be to either
}

// RoundTrip implements [http.RoundTripper].
func (c *credentials) RoundTrip(req *http.Request) (*http.Response, error) {
	set, err := c.header()
	if err != nil {
		return nil, &fault.Error{Reason: fault.Forbidden, Message: "credentials cannot be read", Err: err}
	}
	req = req.Clone(req.Context()) // a round tripper must not change its argument
	set(req)
	return c.next.RoundTrip(req)
}

func (c *credentials) header() (func(*http.Request), error) {
	switch {
	case c.tokenFile != "":
		token, err := c.secret("bearer token", c.tokenFile)
		return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }, err
	case c.user != "":
		password, err := c.secret("password", c.passwordFile)
		return func(r *http.Request) { r.SetBasicAuth(c.user, password) }, err
	default:
		return func(*http.Request) {}, nil
	}
}

// clean takes out of a text of the server what it echoes of ours, and what else looks like
// a credential.
func (c *credentials) clean(text string) string {
	c.mu.Lock()
	sent := c.sent
	c.mu.Unlock()
	for _, s := range sent {
		if s == "" {
			continue
		}
		if c.user != "" {
			text = strings.ReplaceAll(text, base64.StdEncoding.EncodeToString([]byte(c.user+":"+s)), credential.Redacted)
		}
		text = strings.ReplaceAll(text, s, credential.Redacted)
	}
	return credential.Redact(text)
}

// secret reads a secret that is about to be sent.
func (c *credentials) secret(what, file string) (string, error) {
	text, err := outbound.ReadSecret(file)
	if err != nil {
		return "", fmt.Errorf("prometheus %s file: %w", what, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if text != c.sent[0] {
		c.sent = [2]string{text, c.sent[0]}
	}
	return text, nil
}
