package step

import (
	"net/http"
	"net/netip"

	"github.com/inference-responder/responder/internal/outbound"
)

// newNetProber returns an HTTP client for endpoints of the catalog and for pods. It follows
// redirects on the same host only, ignores proxies of the environment, and its dialer
// is guarded.
func newNetProber(networks []netip.Prefix) *http.Client {
	transport, err := outbound.Options{NoProxy: true, Guarded: true, Networks: networks}.Transport()
	if err != nil {
		panic(err) // unreachable unless the options name a file
	}
	transport.MaxIdleConns = 32
	return &http.Client{
		Transport: transport,
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			if len(via) > 3 || req.URL.Host != via[0].URL.Host || req.URL.Scheme != via[0].URL.Scheme {
				return http.ErrUseLastResponse
			}
			return nil
		},
	}
}
