package sandbox

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// Do answers a request to a service's endpoint as the first ready pod would:
// /health says 200 however slow the engine is, as a real one does. Without a
// ready pod, and for a host that is no service's, nothing answers. A pod's own
// address shows the metrics of its engine.
func (w *World) Do(req *http.Request) (*http.Response, error) {
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.advanceLocked()
	if f, p := w.addressed(req.URL.Host); p != nil && req.URL.Path == "/metrics" {
		var text strings.Builder
		if err := writeMetrics(&text, f, p); err != nil {
			return nil, err
		}
		return respond(req, http.StatusOK, text.String()), nil
	}
	for _, f := range w.fleets {
		u, err := url.Parse(f.spec.service.Endpoint)
		if err != nil || u.Host != req.URL.Host {
			continue
		}
		if len(f.serving()) == 0 {
			return nil, fmt.Errorf("dial tcp %s: connect: connection refused", req.URL.Host)
		}
		switch req.URL.Path {
		case "/health", "/ping":
			return respond(req, http.StatusOK, ""), nil
		case "/v1/models":
			return respond(req, http.StatusOK, fmt.Sprintf(`{"object":"list","data":[{"id":%q,"object":"model"}]}`, f.spec.service.Model)), nil
		default:
			return respond(req, http.StatusNotFound, `{"detail":"Not Found"}`), nil
		}
	}
	return nil, fmt.Errorf("dial tcp: lookup %s: no such host", req.URL.Hostname())
}

func respond(req *http.Request, status int, body string) *http.Response {
	return &http.Response{
		StatusCode: status, Status: fmt.Sprintf("%d %s", status, http.StatusText(status)),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}}, ContentLength: int64(len(body)),
		Body: io.NopCloser(strings.NewReader(body)), Request: req,
	}
}
