package slo

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/fault"
)

// transport is the HTTP transport the options ask for. Files that can be read
// now are read now, so that a wrong path is found at the start and not in an
// incident.
func (o Options) transport() (http.RoundTripper, error) {
	t := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout:   5 * time.Second,
		ForceAttemptHTTP2:     true,
		MaxIdleConns:          16,
		MaxIdleConnsPerHost:   16,
		IdleConnTimeout:       90 * time.Second,
		ResponseHeaderTimeout: defaulted(o.Timeout, 10*time.Second),
		TLSClientConfig: &tls.Config{
			MinVersion:         tls.VersionTLS12,
			ServerName:         o.ServerName,
			InsecureSkipVerify: o.InsecureSkipVerify, //nolint:gosec // the operator asked for it by that name
		},
	}
	if o.CAFile != "" {
		pem, err := os.ReadFile(o.CAFile)
		if err != nil {
			return nil, fmt.Errorf("prometheus ca file: %w", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("prometheus ca file %s: holds no PEM certificate", o.CAFile)
		}
		t.TLSClientConfig.RootCAs = pool
	}
	if (o.CertFile == "") != (o.KeyFile == "") {
		return nil, errors.New("prometheus: a client certificate needs both the certificate and the key file")
	}
	if o.CertFile != "" {
		load := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			cert, err := tls.LoadX509KeyPair(o.CertFile, o.KeyFile)
			if err != nil {
				return nil, fmt.Errorf("prometheus client certificate: %w", err)
			}
			return &cert, nil
		}
		if _, err := load(nil); err != nil {
			return nil, err
		}
		t.TLSClientConfig.GetClientCertificate = load
	}
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
		token, err := secret("bearer token", c.tokenFile)
		return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }, err
	case c.user != "":
		password, err := secret("password", c.passwordFile)
		return func(r *http.Request) { r.SetBasicAuth(c.user, password) }, err
	default:
		return func(*http.Request) {}, nil
	}
}

func secret(what, file string) (string, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("prometheus %s file: %w", what, err)
	}
	s := strings.TrimSpace(string(b))
	if s == "" {
		return "", fmt.Errorf("prometheus %s file %s is empty", what, file)
	}
	return s, nil
}
