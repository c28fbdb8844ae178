//go:build e2e && levers

package rig

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Fate is what becomes of a request that changes something.
type Fate int

// What may become of it.
const (
	Passes       Fate = iota
	Throttled         // 429: the API server asks to slow down, and changes nothing
	Conflicts         // 409: somebody is said to have been first, and nothing changes
	NeverArrives      // the connection breaks before the API server has it
	AnswerIsLost      // it is carried out, and the connection breaks before the answer
)

// Change is a request that changes something in the cluster, for good: no dry-run.
type Change struct {
	Method, Path string
}

// Done is a change that the API server has carried out.
type Done struct {
	Change

	Status int
}

// Front stands before the API server, with a certificate of its own, and decides about each
// change of its clients. Their reads pass. The proxy before it can be shut.
type Front struct {
	*Proxy

	server *httptest.Server
	api    *httputil.ReverseProxy

	mu    sync.Mutex // guards what follows
	judge func(Change) (Fate, func())
	done  []Done
}

// StartFront starts one. All passes.
func StartFront(t testing.TB, cp *ControlPlane) *Front {
	t.Helper()
	target, err := url.Parse(cp.URL)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(rest.AnonymousClientConfig(cp.Config)) // with the API server's authority
	if err != nil {
		t.Fatal(err)
	}
	f := &Front{api: httputil.NewSingleHostReverseProxy(target)}
	f.api.Transport, f.api.FlushInterval = transport, -1
	f.api.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) } // the client is gone, or the server ends
	f.server = httptest.NewTLSServer(f)
	t.Cleanup(f.server.Close)
	f.Proxy = StartProxy(t, strings.TrimPrefix(f.server.URL, "https://"))
	return f
}

// Kubeconfig writes a kubeconfig for a user that leads here.
func (f *Front) Kubeconfig(t testing.TB, cp *ControlPlane, user string) string {
	t.Helper()
	path := cp.KubeconfigThrough(t, user, f.Proxy)
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		t.Fatal(err)
	}
	config.Clusters["rig"].CertificateAuthorityData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.server.Certificate().Raw})
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// Judge decides about each change from now on; nil: all pass. It may wait, and the change
// with it. What it returns besides is called once the API server has carried the change out,
// before the answer goes back; nil: nothing is.
func (f *Front) Judge(judge func(Change) (Fate, func())) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.judge = judge
}

// Done returns the changes that were carried out, oldest first.
func (f *Front) Done() []Done {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]Done(nil), f.done...)
}

// ServeHTTP implements [http.Handler].
func (f *Front) ServeHTTP(rw http.ResponseWriter, req *http.Request) {
	change, is := changeOf(req)
	if !is {
		f.api.ServeHTTP(rw, req)
		return
	}
	f.mu.Lock()
	judge := f.judge
	f.mu.Unlock()
	fate, then := Passes, (func())(nil)
	if judge != nil {
		fate, then = judge(change)
	}
	switch fate {
	case NeverArrives:
		panic(http.ErrAbortHandler)
	case Throttled, Conflicts:
		refuse(rw, fate)
		return
	}
	answer := httptest.NewRecorder()
	f.api.ServeHTTP(answer, req)
	f.mu.Lock()
	f.done = append(f.done, Done{change, answer.Code})
	f.mu.Unlock()
	if then != nil {
		then()
	}
	if fate == AnswerIsLost {
		panic(http.ErrAbortHandler)
	}
	for k, v := range answer.Header() {
		rw.Header()[k] = v
	}
	rw.WriteHeader(answer.Code)
	_, _ = rw.Write(answer.Body.Bytes()) // the client may be gone
}

// changeOf returns the change that a request asks for. Reviews and dry-runs are none; the
// dry-run of an eviction stands in its body.
func changeOf(req *http.Request) (Change, bool) {
	if req.Method == http.MethodGet || req.URL.Query().Has("dryRun") || strings.Contains(req.URL.Path, "/authorization.k8s.io/") {
		return Change{}, false
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		panic(http.ErrAbortHandler) // the client is gone
	}
	req.Body = io.NopCloser(bytes.NewReader(body))
	var options struct {
		DeleteOptions struct {
			DryRun []string `json:"dryRun"`
		} `json:"deleteOptions"`
	}
	if json.Unmarshal(body, &options) == nil && len(options.DeleteOptions.DryRun) > 0 {
		return Change{}, false
	}
	return Change{Method: req.Method, Path: req.URL.Path}, true
}

// refuse answers as the API server does.
func refuse(rw http.ResponseWriter, fate Fate) {
	status := metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure}
	switch fate {
	case Throttled:
		rw.Header().Set("Retry-After", "1")
		status.Code, status.Reason, status.Message = http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "too many requests, please try again later"
	default:
		status.Code, status.Reason, status.Message = http.StatusConflict, metav1.StatusReasonConflict, "the object has been modified; please apply your changes to the latest version and try again"
	}
	rw.Header().Set("Content-Type", "application/json")
	rw.WriteHeader(int(status.Code))
	if err := json.NewEncoder(rw).Encode(status); err != nil {
		panic(http.ErrAbortHandler) // the client is gone
	}
}

// String is the change in a test's message.
func (d Done) String() string { return fmt.Sprintf("%s %s -> %d", d.Method, d.Path, d.Status) }
