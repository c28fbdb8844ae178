package repository

import (
	"context"
	"io"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing/transport"
	githttp "github.com/go-git/go-git/v5/plumbing/transport/http"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/outbound"
)

// basicHeader matches an Authorization value that a server or a proxy echoes.
var basicHeader = regexp.MustCompile(`(?i)\b(basic|bearer|token) +[A-Za-z0-9+/_.=~-]{8,}`)

type httpCarrier struct {
	transport transport.Transport
	endpoint  *transport.Endpoint
}

func newHTTPCarrier(at address, o Options, s *secrets) (*httpCarrier, error) {
	ep, err := transport.NewEndpoint(at.String())
	if err != nil {
		return nil, invalid("repository %s: the address cannot be used", at)
	}
	next, err := outbound.Options{Connect: 10 * time.Second, CAFile: o.Auth.CAFile}.Transport()
	if err != nil {
		return nil, &fault.Error{Reason: fault.Invalid, Message: "repository " + at.String() + ": CA file", Err: err}
	}
	// Redirects within the host are followed: see leaves.
	client := &http.Client{Transport: &authorized{at: at, auth: o.Auth, secrets: s, limits: o.Limits, next: next}}
	return &httpCarrier{githttp.NewClient(client), ep}, nil
}

// fetch begins a session. It copies the endpoint, because a session changes it
// when it follows a renamed repository.
func (h *httpCarrier) fetch(context.Context) (fetching, error) {
	ep := *h.endpoint
	return h.transport.NewUploadPackSession(&ep, nil)
}

func (h *httpCarrier) push(context.Context) (pushing, error) {
	ep := *h.endpoint
	return h.transport.NewReceivePackSession(&ep, nil)
}

// authorized adds the credential to requests for our host and limits answers.
type authorized struct {
	at      address
	auth    Auth
	secrets *secrets
	limits  Limits
	next    http.RoundTripper
}

// RoundTrip sends one request.
func (a *authorized) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Host != a.at.host || req.URL.Scheme != a.at.scheme {
		return nil, errRedirect // leaves comes first: this is the second lock
	}
	if a.auth.TokenFile != "" {
		token, err := a.secrets.word("token file", a.auth.TokenFile)
		if err != nil {
			return nil, err
		}
		req = req.Clone(req.Context())
		if a.auth.Bearer {
			req.Header.Set("Authorization", "Bearer "+token)
		} else {
			req.SetBasicAuth(a.username(), token)
			a.secrets.remember(strings.TrimPrefix(req.Header.Get("Authorization"), "Basic "))
		}
	}
	resp, err := a.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	limit := a.limits.Pack
	switch {
	case a.leaves(req, resp):
		_ = resp.Body.Close()
		return nil, errRedirect
	case resp.StatusCode/100 != 2:
		outbound.SetBody(resp, io.LimitReader(resp.Body, 64<<10)) // an error's text: cut, not refused
		return resp, nil
	case strings.HasSuffix(req.URL.Path, "/info/refs"):
		limit = a.limits.Refs
	}
	outbound.SetBody(resp, outbound.Limit(resp.Body, limit, errTooLarge))
	return resp, nil
}

// leaves reports whether a redirect must not be followed. Within the host it is a
// renamed repository. Another host would receive what is meant for this one.
func (a *authorized) leaves(req *http.Request, resp *http.Response) bool {
	if resp.StatusCode/100 != 3 {
		return false
	}
	to, err := resp.Location()
	return err != nil || to.Host != a.at.host || to.Scheme != a.at.scheme || req.Method != http.MethodGet
}

func (a *authorized) username() string {
	if a.auth.Username != "" {
		return a.auth.Username
	}
	return "x-access-token" // GitHub's; GitLab and Gitea take any name with a token
}
