package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/flowcontrol"
)

// FieldManager is the name under which the API server records our fields.
const FieldManager = "responder"

// Options selects the cluster and limits the load on it.
type Options struct {
	Kubeconfig string        // path; empty: the pod's own service account
	Context    string        // in the kubeconfig; empty: the current one
	QPS        float32       // requests per second, on average, over everything the client asks; 0: 200
	Burst      int           // requests let through at once before that; 0: twice QPS
	Timeout    time.Duration // of one request; 0: 15s
}

// Client reads and changes workloads of one cluster. It is safe for concurrent use.
type Client struct {
	typed   typed
	dynamic dynamic.Interface
	http    *http.Client // the same connection, for what the others do not show
	now     func() time.Time
}

// New makes a client. It does not connect.
func New(o Options) (*Client, error) {
	config, err := o.config()
	if err != nil {
		return nil, err
	}
	return NewForConfig(config, o)
}

// NewForConfig returns a client for a cluster that the caller describes. The
// options' Kubeconfig and Context are ignored.
func NewForConfig(config *rest.Config, o Options) (*Client, error) {
	config = rest.CopyConfig(config)
	// One limiter for both clients below. It protects API servers without priority and
	// fairness, or with a wide share for us. Where there is priority and fairness, it
	// protects the server better than a client can, and waiting here hurts most in an
	// outage of many services.
	qps := cmp.Or(o.QPS, 200)
	config.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(qps, cmp.Or(o.Burst, int(2*qps)))
	config.Timeout = 15 * time.Second
	if o.Timeout > 0 {
		config.Timeout = o.Timeout
	}
	config.UserAgent = FieldManager
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json" // fewer bytes and less work for large lists
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return once{next} })
	shared, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("kubernetes client: %w", err)
	}
	typed, err := newTyped(config, shared)
	if err != nil {
		return nil, fmt.Errorf("kubernetes client: %w", err)
	}
	dyn, err := dynamic.NewForConfigAndClient(config, shared)
	if err != nil {
		return nil, fmt.Errorf("kubernetes client: %w", err)
	}
	return &Client{typed: typed, dynamic: dyn, http: shared, now: time.Now}, nil
}

func (o Options) config() (*rest.Config, error) {
	if o.Kubeconfig == "" {
		if o.Context != "" {
			return nil, errors.New("kubernetes: a context needs a kubeconfig")
		}
		config, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("kubernetes: outside a cluster a kubeconfig is needed: %w", err)
		}
		return config, nil
	}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: o.Kubeconfig},
		&clientcmd.ConfigOverrides{CurrentContext: o.Context},
	).ClientConfig()
	if clientcmd.IsEmptyConfig(err) { // its own words advise an environment variable that is not read
		return nil, fmt.Errorf("kubeconfig %s: it has no cluster", o.Kubeconfig)
	}
	if err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", o.Kubeconfig, err)
	}
	return config, nil
}

// Ping asks the API server for its version, for readiness.
func (c *Client) Ping(ctx context.Context) error {
	r := request{verb: "get", resource: "version"}
	_, err := c.typed.core().Get().AbsPath("/version").DoRaw(ctx)
	return r.fail(err)
}

// once keeps client-go from repeating a write by itself. It does so when a failed
// answer carries Retry-After. But a 5xx may come after the write was made, and the
// conflict of the second attempt would hide the success of the first. A disruption
// budget's 429 is an answer, not a failure.
type once struct{ next http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (o once) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := o.next.RoundTrip(req)
	blocked := err == nil && resp.StatusCode == http.StatusTooManyRequests && strings.HasSuffix(req.URL.Path, "/eviction")
	if err == nil && (resp.StatusCode >= 500 || blocked) && req.Method != http.MethodGet {
		resp.Header.Del("Retry-After")
	}
	return resp, err
}

// WrappedRoundTripper returns the wrapped transport for client-go.
func (o once) WrappedRoundTripper() http.RoundTripper { return o.next }
