package agent

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/outbound"
)

// APIServer is the API server that checks callers' tokens.
type APIServer struct {
	URL       string // empty: the pod's own, by the environment
	CAFile    string // authorities that vouch for it
	TokenFile string // token to ask it with; read again when it changes
	Audience  string // that callers' tokens must be for; with Own: empty
	Own       bool   // they are for the API server itself, as every pod's usual token is
}

// maxReview bounds an API server's answer, in bytes.
const maxReview = 1 << 20

// review sends the only request that the agent makes. It does not use client-go,
// which registers every kind of Kubernetes at start: that costs as much memory as
// the rest of the agent.
type review struct {
	o      APIServer
	url    string
	client *http.Client
}

// tokenReview is the part of authentication.k8s.io/v1 TokenReview that the agent
// uses.
type tokenReview struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Spec       struct {
		Token     string   `json:"token"`
		Audiences []string `json:"audiences,omitempty"`
	} `json:"spec"`
	Status struct {
		Authenticated bool     `json:"authenticated"`
		Audiences     []string `json:"audiences"`
		User          struct {
			Username string `json:"username"`
		} `json:"user"`
	} `json:"status"`
}

// NewReviewer returns a Reviewer that asks an API server. It does not connect yet.
func NewReviewer(o APIServer, getenv func(string) string, log *slog.Logger) (Reviewer, error) {
	url := o.URL
	if url == "" {
		host, port := getenv("KUBERNETES_SERVICE_HOST"), getenv("KUBERNETES_SERVICE_PORT")
		if host == "" || port == "" {
			return nil, errors.New("agent: not running in a pod: name the API server that checks tokens with --api-server, --api-ca-file and --api-token-file")
		}
		url = "https://" + net.JoinHostPort(host, port)
	}
	if !strings.HasPrefix(url, "https://") {
		return nil, fmt.Errorf("agent: API server %q: it must be an https URL, for it is shown tokens", url)
	}
	if (o.Audience == "") != o.Own {
		return nil, errors.New("agent: missing audience: without one, whoever received a caller's token could use it here")
	}
	if _, err := os.Stat(o.TokenFile); err != nil {
		return nil, fmt.Errorf("agent: the token to ask the API server with: %w", err)
	}
	watched, err := outbound.Watch(func() (*tls.Config, error) {
		pool, err := outbound.Authorities(o.CAFile) // never the system's: it is shown tokens
		if err != nil {
			return nil, fmt.Errorf("agent: authorities of the API server: %w", err)
		}
		return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}, nil
	}, log, o.CAFile)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{
		MaxIdleConns: 1, MaxConnsPerHost: 2, IdleConnTimeout: idleTimeout,
		DialTLSContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return (&tls.Dialer{Config: watched.Fresh()}).DialContext(ctx, network, address)
		},
	}
	return &review{o: o, url: strings.TrimSuffix(url, "/") + "/apis/authentication.k8s.io/v1/tokenreviews", client: outbound.Client(transport)}, nil
}

// ReviewToken implements Reviewer.
func (r *review) ReviewToken(ctx context.Context, token string) (string, error) {
	own, err := os.ReadFile(r.o.TokenFile)
	if err != nil {
		return "", fmt.Errorf("read the token to ask the API server with: %w", err)
	}
	question := tokenReview{APIVersion: "authentication.k8s.io/v1", Kind: "TokenReview"}
	question.Spec.Token = token
	if !r.o.Own {
		question.Spec.Audiences = []string{r.o.Audience}
	}
	body, err := json.Marshal(question)
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url, bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(own)))
	resp, err := r.client.Do(req)
	if err != nil {
		return "", fmt.Errorf("check a token with the API server: %w", err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxReview))
	if err != nil {
		return "", fmt.Errorf("read the API server's answer: %w", err)
	}
	if resp.StatusCode != http.StatusCreated {
		hint := ""
		if resp.StatusCode == http.StatusForbidden || resp.StatusCode == http.StatusUnauthorized {
			hint = "; the agent's service account may not create TokenReviews: bind it to the ClusterRole responder-token-review, see deploy/agent/rbac.yaml"
		}
		return "", fmt.Errorf("the API server answers %d to a TokenReview%s", resp.StatusCode, hint)
	}
	var answer tokenReview
	if err := json.Unmarshal(data, &answer); err != nil {
		return "", errors.New("the API server answered a TokenReview with something else")
	}
	// An API server without audiences would answer for its own. That does not prove
	// that the token was meant for this agent.
	if !answer.Status.Authenticated || !r.o.Own && !slices.Contains(answer.Status.Audiences, r.o.Audience) {
		return "", nil
	}
	return answer.Status.User.Username, nil
}
