package slo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/outbound"
)

// Options names the Prometheus server and the credential. URL alone is enough.
type Options struct {
	URL     string        // http(s)://host[:port][/prefix]
	Timeout time.Duration // for one query; 0: 10s
	MaxBody int64         // bytes of one answer; 0: 16 MiB

	BearerTokenFile string // read again for every request
	Username        string // basic authentication, with PasswordFile
	PasswordFile    string

	CAFile             string // read once, at the start
	CertFile, KeyFile  string // read again for every connection
	ServerName         string
	InsecureSkipVerify bool // for tests and self-signed laboratories only
}

// Prometheus asks one Prometheus (or anything that speaks its query API). It
// is safe for concurrent use.
type Prometheus struct {
	api     promv1.API
	where   string                   // for messages: the URL without credentials
	clean   func(text string) string // takes credentials out of what the server writes
	timeout time.Duration
}

// NewPrometheus checks the options. It does not connect: a Prometheus that is
// down when the service starts may be up when it is needed.
func NewPrometheus(o Options) (*Prometheus, error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, fmt.Errorf("prometheus url %q: want http://host:port or https://host:port", o.URL)
	}
	if u.User != nil {
		return nil, errors.New("prometheus url: holds credentials, which end up in logs: use a password or token file")
	}
	if o.BearerTokenFile != "" && o.Username != "" {
		return nil, errors.New("prometheus: both a bearer token file and a user name are set: use one")
	}
	transport, err := o.transport()
	if err != nil {
		return nil, err
	}
	client := outbound.Client(&boundary{next: transport, clean: transport.clean, maxBody: defaulted(o.MaxBody, 16<<20)})
	c, err := api.NewClient(api.Config{Address: o.URL, Client: client})
	if err != nil {
		return nil, fmt.Errorf("prometheus client: %w", err)
	}
	return &Prometheus{
		api:     promv1.NewAPI(c),
		where:   u.String(),
		clean:   transport.clean,
		timeout: defaulted(o.Timeout, 10*time.Second),
	}, nil
}

func defaulted[T int64 | time.Duration](v, otherwise T) T {
	if v > 0 {
		return v
	}
	return otherwise
}

// Instant evaluates expr at the given time. A scalar answers as one sample
// without labels. The error is a [*fault.Error].
func (p *Prometheus) Instant(ctx context.Context, expr string, at time.Time) (Vector, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	value, warnings, _, err := p.api.Query(ctx, expr, at, promv1.WithTimeout(p.timeout))
	if err != nil {
		return Vector{}, p.fail(expr, err)
	}
	v := Vector{Warnings: p.cleaned(warnings)}
	switch value := value.(type) {
	case model.Vector:
		for _, s := range value {
			if s.Histogram != nil {
				return Vector{}, p.fail(expr, errHistogram)
			}
			v.Samples = append(v.Samples, Sample{Labels: labelMap(s.Metric), Value: float64(s.Value), At: s.Timestamp.Time()})
		}
	case *model.Scalar:
		v.Samples = []Sample{{Value: float64(value.Value), At: value.Timestamp.Time()}}
	default:
		return Vector{}, p.fail(expr, fmt.Errorf("%w: a %s, not numbers", errKind, value.Type()))
	}
	return v, nil
}

// Range evaluates expr over [from, to]. The error is a [*fault.Error].
func (p *Prometheus) Range(ctx context.Context, expr string, from, to time.Time, step time.Duration) (Matrix, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	value, warnings, _, err := p.api.QueryRange(ctx, expr, promv1.Range{Start: from, End: to, Step: step}, promv1.WithTimeout(p.timeout))
	if err != nil {
		return Matrix{}, p.fail(expr, err)
	}
	matrix, ok := value.(model.Matrix)
	if !ok {
		return Matrix{}, p.fail(expr, fmt.Errorf("%w: a %s, not a matrix", errKind, value.Type()))
	}
	m := Matrix{Warnings: p.cleaned(warnings)}
	for _, stream := range matrix {
		if len(stream.Histograms) > 0 {
			return Matrix{}, p.fail(expr, errHistogram)
		}
		s := Series{Labels: labelMap(stream.Metric), Points: make([]Point, 0, len(stream.Values))}
		for _, v := range stream.Values {
			s.Points = append(s.Points, Point{At: v.Timestamp.Time(), Value: float64(v.Value)})
		}
		m.Series = append(m.Series, s)
	}
	return m, nil
}

func labelMap(m model.Metric) map[string]string {
	out := make(map[string]string, len(m))
	for k, v := range m {
		out[string(k)] = string(v)
	}
	return out
}

var (
	errHistogram = errors.New("the answer holds native histograms: take a number from them, e.g. with histogram_quantile or histogram_count")
	errKind      = errors.New("the answer is of another kind")
	errTooLarge  = errors.New("the answer is too large: aggregate in the query")
)

// fail turns whatever went wrong into a [*fault.Error] with a reason and a remedy.
func (p *Prometheus) fail(expr string, err error) error {
	reason, hint := classify(err)
	msg := fmt.Sprintf("query %s at %s: %s", clip(expr, 200), p.where, hint)
	return &fault.Error{Reason: reason, Message: msg, Err: cleanError{err, p.clean(err.Error())}}
}

// cleanError is what went wrong, without credentials that the server wrote.
type cleanError struct {
	error
	text string
}

// Error returns the text.
func (e cleanError) Error() string { return e.text }

// Unwrap returns what went wrong.
func (e cleanError) Unwrap() error { return e.error }

// cleaned returns warnings of the server without credentials.
func (p *Prometheus) cleaned(warnings []string) []string {
	for i := range warnings {
		warnings[i] = p.clean(warnings[i])
	}
	return warnings
}

func classify(err error) (fault.Reason, string) {
	var own *fault.Error
	var status *statusError
	var answer *promv1.Error
	var network net.Error
	switch {
	case errors.Is(err, errTooLarge), errors.Is(err, errHistogram), errors.Is(err, errKind):
		return fault.Invalid, "not usable"
	case errors.As(err, &own):
		return own.Reason, "not asked"
	case errors.As(err, &status):
		return status.reason()
	case errors.As(err, &answer):
		switch answer.Type {
		case promv1.ErrBadData, promv1.ErrExec:
			return fault.Invalid, "refused by Prometheus"
		case promv1.ErrTimeout, promv1.ErrCanceled:
			return fault.Timeout, "took too long; make the query cheaper or raise prometheus.timeout"
		case promv1.ErrClient:
			return fault.Forbidden, "refused; check the credentials and the path"
		default:
			return fault.ServerError, "the answer is not Prometheus's; check the address"
		}
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return fault.Timeout, "no answer in time"
	case errors.Is(err, context.Canceled):
		return fault.Timeout, "given up"
	default:
		return fault.Unreachable, "cannot be reached; check the address and that Prometheus runs"
	}
}

// boundary bounds the answer's size and gives failures a type before the API
// client forgets the status code.
type boundary struct {
	next    http.RoundTripper
	clean   func(text string) string
	maxBody int64
}

// RoundTrip implements [http.RoundTripper].
func (b *boundary) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := b.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	switch code := resp.StatusCode; {
	case code/100 == 2, code == http.StatusBadRequest, code == http.StatusUnprocessableEntity:
	case req.Method == http.MethodPost && (code == http.StatusForbidden || code == http.StatusMethodNotAllowed || code == http.StatusNotImplemented):
		// The API client asks again with GET: some proxies allow only that.
	default:
		defer func() { _ = resp.Body.Close() }()                 // nothing more is read from it
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10)) // only for the message, which is cut when it is clean
		return nil, &statusError{code: code, text: clip(strings.TrimSpace(b.clean(string(text))), 512)}
	}
	outbound.SetBody(resp, outbound.Limit(resp.Body, b.maxBody, errTooLarge))
	return resp, nil
}

type statusError struct {
	code int
	text string
}

// Error returns the status and the beginning of the body.
func (e *statusError) Error() string {
	return fmt.Sprintf("HTTP %d %s: %s", e.code, http.StatusText(e.code), clip(e.text, 200))
}

func (e *statusError) reason() (fault.Reason, string) {
	switch {
	case e.code == http.StatusUnauthorized, e.code == http.StatusForbidden:
		return fault.Forbidden, "refused; check the token or password file"
	case e.code == http.StatusTooManyRequests:
		return fault.Throttled, "too many requests"
	case e.code == http.StatusGatewayTimeout, strings.Contains(e.text, `"errorType":"timeout"`):
		return fault.Timeout, "took too long; make the query cheaper or raise prometheus.timeout"
	case e.code >= 500:
		return fault.ServerError, "the server failed"
	case e.code/100 == 3:
		return fault.NotFound, "redirected elsewhere, which is not followed; set the final address"
	default:
		return fault.NotFound, "no Prometheus API there; check the address and its path prefix"
	}
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "..."
}
