package client

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gpu"
	"github.com/inference-responder/responder/internal/outbound"
)

// identityHeader carries an agent's own token.
const identityHeader = "Responder-Agent-Identity"

// maxMessage limits how much of an agent's message is passed on, in bytes.
const maxMessage = 200

// round is one call of Snapshots, with the current credentials.
type round struct {
	c      *Client
	token  string
	config *tls.Config
	query  string // of the URL
}

func (c *Client) newRound(back time.Duration) (*round, error) {
	r := &round{c: c, config: c.tls.Fresh()}
	if back > 0 {
		r.query = fmt.Sprintf("?minutes=%d", min(int(back/time.Minute)+2, gpu.MaxMinutes)) // the first one and the last are not whole
	}
	if c.o.TokenFile != "" {
		data, err := os.ReadFile(c.o.TokenFile)
		if err != nil {
			return nil, fmt.Errorf("gpu agents: read our token: %w", err)
		}
		r.token = strings.TrimSpace(string(data))
	}
	return r, nil
}

// answer asks the agent of a node, if there is one. It overwrites body.
func (r *round) answer(ctx context.Context, node string, pods map[string]Pod, body *bytes.Buffer) gpu.Answer {
	pod, ok := pods[node]
	if !ok {
		return gpu.Answer{Node: node, Err: noAgent{failure(fault.NoAgent, "no agent runs there; see the DaemonSet's pods, its nodeSelector and tolerations")}}
	}
	s, absent := r.ask(ctx, pod, body)
	if absent != nil {
		r.c.o.Log.Debug("no snapshot of a node's gpus", "node", node, "reason", absent.Reason, "text", absent.Message)
		return gpu.Answer{Node: node, Err: absent}
	}
	return gpu.Answer{Node: node, Snapshot: s}
}

// ask asks one agent. It closes the connection afterwards, so that a thousand
// agents cost nothing between calls.
func (r *round) ask(ctx context.Context, pod Pod, body *bytes.Buffer) (gpu.Snapshot, *fault.Error) {
	ctx, cancel := context.WithTimeout(ctx, r.c.o.Timeout)
	defer cancel()
	identity, absent := r.get(ctx, pod, body)
	if absent != nil {
		if absent.Reason == fault.Unreachable || absent.Reason == fault.Timeout {
			r.c.moved()
		}
		return gpu.Snapshot{}, absent
	}
	if absent := r.c.verify(ctx, pod, identity); absent != nil {
		return gpu.Snapshot{}, absent
	}
	s, err := gpu.Decode(body.Bytes())
	switch {
	case err != nil:
		return gpu.Snapshot{}, failure(fault.BadSnapshot, "%s; agents and responder must be of the same version", clip(err.Error()))
	case s.Node != pod.Node:
		return gpu.Snapshot{}, failure(fault.Impostor, "its agent claims to be on node %q and is refused; check NODE_NAME in the DaemonSet, and who else may run pods there", clip(s.Node))
	case s.Source == gpu.SourceExporter:
		return gpu.Snapshot{}, failure(fault.Impostor, "its agent claims to be dcgm-exporter, whose times are checked less, and is refused")
	}
	return s, nil
}

// get sends one request. It reads the body of a successful answer into body and
// returns the token that came with it.
func (r *round) get(ctx context.Context, pod Pod, body *bytes.Buffer) (identity string, _ *fault.Error) {
	config := r.config.Clone()
	config.ServerName = strings.ReplaceAll(r.c.o.ServerName, NodePlaceholder, pod.Node)
	transport := &http.Transport{
		DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: 64 << 10, TLSClientConfig: config,
		DialContext: outbound.Dialer(0).DialContext,
	}
	url := "https://" + net.JoinHostPort(pod.Address, strconv.Itoa(r.c.o.Port)) + "/v1/health" + r.query
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", failure(fault.Unreachable, "its agent has no usable address %q", clip(pod.Address))
	}
	if r.token != "" {
		req.Header.Set("Authorization", "Bearer "+r.token)
	}
	resp, err := outbound.Client(transport).Do(req)
	if err != nil {
		return "", r.c.unanswered(pod, err)
	}
	defer resp.Body.Close()
	body.Reset()
	if _, err := body.ReadFrom(io.LimitReader(resp.Body, gpu.MaxBytes+1)); err != nil {
		return "", r.c.unanswered(pod, err)
	}
	if resp.StatusCode != http.StatusOK {
		return "", failure(fault.Refused, "its agent answers %d: %s", resp.StatusCode, refusalText(body.Bytes()))
	}
	return resp.Header.Get(identityHeader), nil
}

func failure(reason fault.Reason, format string, args ...any) *fault.Error {
	return &fault.Error{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// unanswered explains why a request failed.
func (c *Client) unanswered(pod Pod, err error) *fault.Error {
	var timeout net.Error
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	where := net.JoinHostPort(pod.Address, strconv.Itoa(c.o.Port))
	switch {
	case errors.As(err, &certificate), errors.As(err, new(x509.HostnameError)), errors.As(err, new(x509.UnknownAuthorityError)):
		return failure(fault.Untrusted, "its agent at %s has a certificate that is not trusted: %s; see the agents' certificate and gpu.agents.ca_file and server_name", where, clip(certificateText(err)))
	case errors.As(err, &record):
		return failure(fault.Untrusted, "the server at %s does not use TLS", where)
	case errors.As(err, &timeout) && timeout.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return failure(fault.Timeout, "its agent at %s did not answer within %s", where, c.o.Timeout)
	default:
		return failure(fault.Unreachable, "its agent at %s cannot be reached: %s; see the NetworkPolicy and the pod", where, clip(rootText(err)))
	}
}

// verify checks by its token that the answering agent is the pod.
func (c *Client) verify(ctx context.Context, pod Pod, token string) *fault.Error {
	if c.o.Reviewer == nil {
		return nil // its certificate was in the node's own name
	}
	if token == "" {
		return failure(fault.Impostor, "its agent presents no token of its own, so its pod cannot be verified; check --identity-file in the DaemonSet")
	}
	key := proof{sha256.Sum256([]byte(token)), pod.UID}
	if c.isProven(key) {
		return nil
	}
	owner, good, err := c.o.Reviewer.ReviewAgent(ctx, token)
	switch {
	case err != nil:
		return failure(fault.Unchecked, "the API server cannot check the token of its agent: %s", clip(err.Error()))
	case !good:
		return failure(fault.Impostor, "the API server does not accept the token of its agent; check the audience of the DaemonSet's projected token")
	case owner.User != pod.Account || owner.PodUID != pod.UID || owner.Node != "" && owner.Node != pod.Node:
		return failure(fault.Impostor, "its agent presents the token of another pod: %s, pod %s, node %s", clip(owner.User), clip(owner.PodUID), clip(owner.Node))
	}
	c.prove(key)
	return nil
}

func (c *Client) isProven(p proof) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Before(c.proven[p])
}

func (c *Client) prove(p proof) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	for old, until := range c.proven { // there is one for each agent, and old ones for some minutes
		if now.After(until) {
			delete(c.proven, old)
		}
	}
	c.proven[p] = now.Add(proofFor)
}

// refusalText returns the message of an agent's refusal.
func refusalText(body []byte) string {
	var no struct{ Message string }
	if err := json.Unmarshal(body, &no); err != nil || no.Message == "" {
		return "no reason given"
	}
	return clip(no.Message)
}

// rootText returns the innermost cause, without the URL that net/http adds.
func rootText(err error) string {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err.Error()
		}
		err = next
	}
}

func certificateText(err error) string {
	var certificate *tls.CertificateVerificationError
	if errors.As(err, &certificate) {
		return certificate.Err.Error()
	}
	return rootText(err)
}

// clip shortens text from outside and removes control characters.
func clip(s string) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
	if len(s) > maxMessage {
		return strings.ToValidUTF8(s[:maxMessage], "") + "…"
	}
	return s
}
