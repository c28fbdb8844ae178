// Package engine holds the check http.probe, which sends one HTTP request to a
// service's own endpoint. The address comes from the catalog only. Redirects to
// another host are not followed, and link-local and metadata addresses are refused.
package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
)

// ProbeKind declares http.probe.
func ProbeKind() playbook.Kind {
	return playbook.Kind{
		Name: "http.probe",
		Role: playbook.RoleCheck,
		Doc: `Asks the service's own endpoint over HTTP, once. The address comes from the catalog only, never from an alert or a playbook; redirects to another
host are not followed, and link-local and metadata addresses are refused. A hung engine may well answer ` + "`/health`" + ` with 200: this proves that
the server listens, not that it makes progress.`,
		With: step.Fields[probeWith](),
		Out:  step.Fields[probeOut](),
	}
}

// probeBody is how many bytes of a response are read, so that the connection
// can be reused. The content is not used.
const probeBody = 64 << 10

type httpProbe struct {
	p   step.Prober
	now func() time.Time
}

// NewProbe returns the check http.probe.
func NewProbe(d step.Deps) step.Check {
	return httpProbe{d.Prober, d.Now}
}

type probeWith struct {
	Path         string        `json:"path" default:"/health" doc:"Path and query below the service's endpoint."`
	Method       string        `json:"method" default:"GET" enum:"GET,HEAD" doc:"HTTP method. Only safe ones: a check changes nothing."`
	ExpectStatus int           `json:"expect_status" default:"200" min:"100" max:"599" doc:"Status code that counts as well."`
	Timeout      step.Duration `json:"timeout" default:"5s" doc:"For the whole exchange."`
}

type probeOut struct {
	OK             bool    `json:"ok" doc:"It answered in time with the expected status."`
	Status         int     `json:"status" doc:"HTTP status code; 0 when there was no answer."`
	LatencySeconds float64 `json:"latency_seconds" unit:"seconds" doc:"Until the header of the answer, or until giving up."`
	Error          string  `json:"error" doc:"Why there was no answer; empty otherwise."`
}

// Run implements [step.Check]. No answer is a finding, not an error.
func (c httpProbe) Run(ctx context.Context, in step.Input) (step.Finding, error) {
	with, err := step.Decode[probeWith](ProbeKind(), in.With)
	if err != nil {
		return step.Finding{}, err
	}
	target, err := probeURL(in.Service.Name, in.Service.Endpoint, with.Path)
	if err != nil {
		return step.Finding{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(with.Timeout))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, with.Method, target, nil)
	if err != nil {
		return step.Finding{}, step.Invalid("http.probe: %v", err)
	}
	req.Header.Set("User-Agent", "responder")
	began := c.now()
	resp, err := c.p.Do(req)
	out := probeOut{LatencySeconds: c.now().Sub(began).Seconds()}
	if err != nil {
		out.Error = probeError(err)
		return step.Finding{Out: out, Facts: []string{fmt.Sprintf("%s %s: no answer after %.2fs: %s", with.Method, target, out.LatencySeconds, out.Error)}}, nil
	}
	defer func() { _ = resp.Body.Close() }() // only read; nothing is lost
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, probeBody))
	out.Status = resp.StatusCode
	out.OK = out.Status == with.ExpectStatus
	fact := fmt.Sprintf("%s %s: %d in %.2fs", with.Method, target, out.Status, out.LatencySeconds)
	if !out.OK {
		fact += fmt.Sprintf(", wanted %d", with.ExpectStatus)
	}
	return step.Finding{Out: out, Facts: []string{fact}}, nil
}

// probeURL joins a path below the endpoint. The host comes from the catalog.
func probeURL(service, endpoint, path string) (string, error) {
	base, err := url.Parse(endpoint)
	if endpoint == "" || err != nil || base.Host == "" || (base.Scheme != "http" && base.Scheme != "https") {
		return "", step.Invalid("http.probe: service %s has the endpoint %q: set it to http://host:port in the catalog", service, endpoint)
	}
	ref, err := url.Parse(path)
	if err != nil || ref.Host != "" || ref.Scheme != "" || !strings.HasPrefix(ref.Path, "/") {
		return "", step.Invalid("http.probe: path %q must begin with a slash and name no host", path)
	}
	u := base.JoinPath(ref.Path)
	u.RawQuery, u.User = ref.RawQuery, nil
	return u.String(), nil
}

// probeError describes the cause without the URL, which the fact names already.
func probeError(err error) string {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "timeout"
	}
	return err.Error()
}
