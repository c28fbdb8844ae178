package kinds_test

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/step"
)

// TestProbeStaysHome: a probe goes to the service's endpoint and nowhere else.
func TestProbeStaysHome(t *testing.T) {
	var elsewhere int
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere++ }))
	defer other.Close()
	home := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, other.URL, http.StatusFound)
		case "/down":
			w.WriteHeader(503)
		}
	}))
	defer home.Close()
	probe := func(endpoint, path string) (out struct {
		OK     bool
		Status int
		Error  string
	}, o machine.Outcome,
	) {
		svc := service("Deployment")
		svc.Endpoint = endpoint
		o = do(t, step.Deps{}, machine.Effect{Action: machine.ActionCheck, Step: "http.probe", Service: svc, With: map[string]any{"path": path}})
		if o.Status == machine.StatusOK {
			if err := json.Unmarshal(o.Data, &out); err != nil {
				t.Fatal(err)
			}
		}
		return out, o
	}
	if out, _ := probe(home.URL, "/health"); !out.OK || out.Status != 200 {
		t.Errorf("healthy: %+v", out)
	}
	if out, o := probe(home.URL, "/down"); out.OK || out.Status != 503 || !strings.Contains(o.Facts[0], "503") {
		t.Errorf("down: %+v %v", out, o.Facts)
	}
	if out, _ := probe(home.URL, "/away"); out.OK || out.Status != 302 || elsewhere > 0 {
		t.Errorf("redirected: %+v, %d requests elsewhere", out, elsewhere)
	}
	for _, endpoint := range []string{"http://169.254.169.254", "http://[fe80::1]:80", "http://[fd00:ec2::254]", "http://[::ffff:169.254.169.254]"} {
		if out, o := probe(endpoint, "/latest/meta-data"); out.OK || !strings.Contains(out.Error, "never asked") {
			t.Errorf("%s: %+v %s", endpoint, out, o.Message)
		}
	}
	for _, path := range []string{"http://evil/", "//evil/x", "health", ""} {
		if _, o := probe(home.URL, path); o.Status != machine.StatusFailed || o.Reason != fault.Invalid {
			t.Errorf("path %q: %s %s", path, o.Status, o.Message)
		}
	}
	if _, o := probe("", "/health"); o.Reason != fault.Invalid || !strings.Contains(o.Message, "catalog") {
		t.Errorf("no endpoint: %s %s", o.Reason, o.Message)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_ = l.Close() // so that nothing listens there
	if out, o := probe("http://"+addr, "/health"); out.OK || out.Status != 0 || out.Error == "" {
		t.Errorf("nothing listens: %+v %s", out, o.Message)
	}
}
