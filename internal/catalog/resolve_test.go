package catalog

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/yamldoc"
)

func testCatalog(t *testing.T) *Catalog {
	t.Helper()
	matched := func(text string) (m Match) {
		var problems yamldoc.Problems
		doc := yamldoc.Single("c.yaml", []byte(text), yamldoc.MaxFile, &problems)
		if m.DecodeYAML(doc, doc.Root, "match"); len(problems) > 0 {
			t.Fatal(problems)
		}
		return m
	}
	entries := Entries([]Declaration{
		{Namespace: "serving", Workload: Workload{Name: "chat"}, Model: "llama-70b"},
		{Namespace: "serving", Workload: Workload{Name: "embed"}, Model: "bge"},
		{Namespace: "serving", Workload: Workload{Name: "embed-canary"}, Model: "bge"},
		{Namespace: "batch", Workload: Workload{Kind: "StatefulSet", Name: "chat"}, Model: "llama-70b"},
		{Name: "routed", Namespace: "edge", Workload: Workload{Name: "gateway"}, Match: matched(`['{team="edge"}']`)},
		{Name: "mapped", Namespace: "edge", Workload: Workload{Name: "router"}, Match: matched(`{team: net, tier: "1"}`)},
	}, Defaults{}, func(i int) string { return fmt.Sprintf("c.yaml:%d", i+1) })
	return New(Options{Entries: entries})
}

func TestResolve(t *testing.T) {
	tests := []struct {
		name   string
		labels map[string]string
		want   []string
		why    string
	}{
		{"service", map[string]string{"namespace": "serving", "service": "chat"}, []string{"serving/chat"}, ""},
		{"same name elsewhere", map[string]string{"namespace": "batch", "service": "chat"}, []string{"batch/chat"}, ""},
		{"matchers win", map[string]string{"namespace": "serving", "service": "chat", "team": "edge"}, []string{"routed"}, ""},
		{"label map", map[string]string{"team": "net", "tier": "1"}, []string{"mapped"}, ""},
		{"half a label map", map[string]string{"team": "net"}, nil, "the alert names no service"},
		{"deployment pod", map[string]string{"namespace": "serving", "pod": "embed-6d5f9-abcde"}, []string{"serving/embed"}, ""},
		{"longer name's pod", map[string]string{"namespace": "serving", "pod": "embed-canary-6d5f9-abcde"}, []string{"serving/embed-canary"}, ""},
		{"statefulset pod", map[string]string{"namespace": "batch", "pod": "chat-0"}, []string{"batch/chat"}, ""},
		{"model alone", map[string]string{"namespace": "serving", "model_name": "llama-70b"}, []string{"serving/chat"}, ""},
		{"model of another service", map[string]string{"namespace": "serving", "service": "other", "model_name": "llama-70b"}, nil, `no service fits service="other", model_name="llama-70b"; candidates: serving/chat`},
		{"model of another pod", map[string]string{"namespace": "serving", "pod": "other-6d5f9-abcde", "model_name": "llama-70b"}, nil, `no service fits pod="other-6d5f9-abcde"`},
		{"pod of another scrape", map[string]string{"namespace": "serving", "service": "scrape", "pod": "embed-6d5f9-abcde", "model_name": "bge"}, []string{"serving/embed"}, ""},
		{"two of a model", map[string]string{"namespace": "serving", "model_name": "bge"}, []string{"serving/embed", "serving/embed-canary"}, "2 services fit"},
		{"narrowed", map[string]string{"namespace": "serving", "deployment": "embed", "model_name": "bge"}, []string{"serving/embed"}, ""},
		{"no namespace, two", map[string]string{"model_name": "llama-70b"}, []string{"serving/chat", "batch/chat"}, "2 services fit"},
		{"contradiction", map[string]string{"namespace": "serving", "service": "chat", "deployment": "embed"}, nil, `deployment="embed" fits none of serving/chat`},
		{"other namespace", map[string]string{"namespace": "kube-system", "service": "dns"}, nil, `no service of the catalog is in namespace "kube-system"`},
		{"no clue", map[string]string{"namespace": "serving", "severity": "page"}, nil, "the alert names no service"},
		{"no fit", map[string]string{"namespace": "serving", "service": "other"}, nil, `no service fits service="other"; candidates: serving/chat`},
	}
	c := testCatalog(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			services, why, err := c.Resolve(playbook.Alert{Labels: tt.labels})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, s := range services {
				got = append(got, s.Name)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("services (-want +got):\n%s", diff)
			}
			if !strings.Contains(why, tt.why) || tt.why == "" && why != "" {
				t.Errorf("why = %q, want %q", why, tt.why)
			}
		})
	}
}

type lister struct {
	marked  []kube.Marked
	err     error
	refuses string   // a namespace that it may not list
	asked   []string // the namespaces that were listed
}

func (l *lister) Marked(_ context.Context, namespace, _ string) ([]kube.Marked, error) {
	if l.asked = append(l.asked, namespace); namespace != "" && namespace == l.refuses {
		return nil, errors.New("forbidden")
	}
	return slices.DeleteFunc(slices.Clone(l.marked), func(m kube.Marked) bool { return namespace != "" && m.Ref.Namespace != namespace }), l.err
}

func marked(name string, annotations map[string]string, cs ...kube.Container) kube.Marked {
	return kube.Marked{Ref: kube.Ref{Kind: "Deployment", Namespace: "serving", Name: name}, Annotations: annotations, Containers: cs}
}

func TestDiscovery(t *testing.T) {
	l := &lister{marked: []kube.Marked{
		marked("chat", map[string]string{
			annotationAutonomy: "auto", annotationOwners: "user:ada, group:sre", annotationMaxScale: "6",
		}, kube.Container{Name: "proxy", Image: "envoy:1"}, kube.Container{Name: "engine", Image: "registry/vllm-openai:v0.11", Args: []string{"--model", "meta/llama", "--served_model_name=llama-70b"}}),
		marked("broken", map[string]string{annotationMinReady: "two"}),
		marked("prober", map[string]string{annotationEndpoint: "http://vault.security:8200"}),
		marked("twin", map[string]string{annotationName: "serving/chat"}),
	}}
	squatter := marked("squatter", map[string]string{annotationName: "serving/chat"})
	squatter.Ref.Namespace = "attic"
	l.marked = append([]kube.Marked{squatter}, l.marked...) // it comes first, as its namespace does
	l.marked[1].Application = "argocd_chat"
	c := New(Options{Lister: l, Ceiling: playbook.Suggest})
	if err := c.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []playbook.Service{{
		Name: "serving/chat", Namespace: "serving", Workload: playbook.Workload{Kind: "Deployment", Name: "chat"},
		Container: "engine", Engine: "vllm", Model: "llama-70b", Owners: []string{"user:ada", "group:sre"},
		Autonomy: playbook.Suggest, // an annotation cannot raise the ceiling
		MaxScale: 6, Selector: `namespace="serving",service="chat"`, GitOps: playbook.GitOps{Application: "argocd_chat"},
	}}
	if diff := cmp.Diff(want, c.Services()); diff != "" {
		t.Errorf("services (-want +got):\n%s", diff)
	}
	if len(c.notes) != 4 || !strings.Contains(c.notes[0], `responder.dev/name: "serving/chat" is not a name of the namespace: begin it with "attic/"`) ||
		!strings.Contains(c.notes[1], `"two" is not a number of replicas`) ||
		!strings.Contains(c.notes[2], "is not a Service of the namespace") || !strings.Contains(c.notes[3], annotationName) {
		t.Errorf("notes = %q", c.notes)
	}
}

// endpoints are annotations, with whether they lead to a Service of the namespace serving.
var endpoints = map[string]bool{
	"http://chat.serving:8000":                        true,
	"https://chat.serving.svc":                        true,
	"http://chat.serving.svc.cluster.local:8000/base": true,
	"http://vault.security:8200":                      false,
	"http://chat":                                     false,
	"http://a.chat.serving":                           false,
	"http://chat.serving.":                            false,
	"http://.serving":                                 false,
	"http://10.1.2.3":                                 false,
	"http://[fe80::1%25x.serving]:8000":               false, // a zone that looks like the namespace
	"http://[fd00:ec2::254%25.serving]":               false,
	"http://[::ffff:169.254.169.254%25x.serving]":     false,
	"http://[64:ff9b::a9fe:a9fe]":                     false,
	"http://169.254.169.254.serving":                  false,
	"http://0xa9fea9fe.serving":                       false,
	"http://2852039166.serving":                       false,
	"http://chat%2eevil.serving":                      false,
	"http://-chat.serving":                            false,
	"http://chat.serving@evil.example":                false,
}

// An endpoint of an annotation is a Service of the workload's namespace, by its name.
func TestEndpointAnnotation(t *testing.T) {
	for endpoint, want := range endpoints {
		l := &lister{marked: []kube.Marked{marked("chat", map[string]string{annotationEndpoint: endpoint})}}
		c := New(Options{Lister: l})
		if err := c.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := len(c.Services()) == 1; got != want {
			t.Errorf("%s: accepted %v, want %v: %v", endpoint, got, want, c.notes)
		}
	}
	for endpoint, namespace := range map[string]string{
		"http://127.1": "1", "gopher://chat.serving": "serving", "//chat.serving": "serving", "http://ada:secret@chat.serving": "serving",
	} {
		if got, err := inNamespace(endpoint, namespace); err == nil {
			t.Errorf("%s leads to %s", endpoint, got)
		}
	}
	// A namespace may be called like a domain of the internet.
	for endpoint, want := range map[string]string{
		"http://evil.dev:8000/v1": "http://evil.dev.svc:8000/v1", "https://evil.dev.svc": "https://evil.dev.svc", "http://evil.dev.svc.cluster.local:80": "http://evil.dev.svc.cluster.local:80",
	} {
		if got, err := inNamespace(endpoint, "dev"); err != nil || got != want {
			t.Errorf("%s leads to %s, want %s: %v", endpoint, got, want, err)
		}
	}
}

func FuzzEndpointAnnotation(f *testing.F) {
	for endpoint := range endpoints {
		f.Add(endpoint)
	}
	f.Fuzz(func(t *testing.T, endpoint string) {
		leads, refused := inNamespace(endpoint, "serving")
		if refused != nil || checkEndpoint(endpoint) != nil || endpoint == "" {
			return
		}
		u, err := url.Parse(leads)
		if err != nil {
			t.Fatal(err)
		}
		host := strings.TrimSuffix(u.Hostname(), ".cluster.local")
		if _, err := netip.ParseAddr(u.Hostname()); err == nil || !strings.HasSuffix(host, ".serving.svc") {
			t.Errorf("%q leads to %q", endpoint, u.Hostname())
		}
	})
}

// Of a selector in an annotation only its matchers reach a query.
func TestSelectorAnnotation(t *testing.T) {
	l := &lister{marked: []kube.Marked{
		marked("chat", map[string]string{annotationSelector: `namespace="serving"} #`}),
		marked("embed", map[string]string{annotationSelector: `x="y"} or up{a="b"`}),
	}}
	c := New(Options{Lister: l})
	if err := c.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := c.Services(); len(s) != 1 || s[0].Selector != `namespace="serving"` || len(c.notes) != 1 || !strings.Contains(c.notes[0], "not a list of label matchers") {
		t.Errorf("services are %+v, and refused %q", s, c.notes)
	}
}

func TestConfiguredWinsOverDiscovered(t *testing.T) {
	entries := Entries([]Declaration{{Name: "chat", Namespace: "serving", Workload: Workload{Name: "chat"}, MinReady: 4}}, Defaults{}, func(int) string { return "c.yaml:1" })
	c := New(Options{Entries: entries, Lister: &lister{marked: []kube.Marked{marked("chat", nil)}}})
	if err := c.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := c.Services(); len(got) != 1 || got[0].MinReady != 4 {
		t.Errorf("services = %+v, want the configured one alone", got)
	}
}

// Services are discovered in the namespaces that are named and in no other. Where one of
// them cannot be listed, nothing is concluded from the others.
func TestDiscoveryInNamespaces(t *testing.T) {
	elsewhere := marked("embed", nil)
	elsewhere.Ref.Namespace = "attic"
	batch := marked("embed", nil)
	batch.Ref.Namespace = "batch"
	l := &lister{marked: []kube.Marked{marked("chat", nil), elsewhere, batch}}
	c := New(Options{Lister: l, Namespaces: []string{"serving", "batch"}})
	if err := c.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := c.Services(); len(s) != 2 || s[0].Name != "batch/embed" || s[1].Name != "serving/chat" || !slices.Equal(l.asked, []string{"serving", "batch"}) {
		t.Errorf("services are %+v; %q were listed", s, l.asked)
	}
	l.refuses = "batch"
	if err := c.Refresh(t.Context()); err == nil || len(c.Services()) != 2 {
		t.Errorf("with one namespace that is not listed: %v, and %d services", err, len(c.Services()))
	}
}

// A cluster that does not answer keeps the last good catalog for a while, and
// then makes resolving an error: a service that may be gone is not acted on,
// and one that may be there is not called missing.
func TestStaleDiscoveryIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lister{marked: []kube.Marked{marked("chat", nil)}}
		c := New(Options{Lister: l})
		alert := playbook.Alert{Labels: map[string]string{"namespace": "serving", "service": "chat"}}
		if _, _, err := c.Resolve(alert); err == nil || len(c.Missing()) == 0 {
			t.Error("resolved before the first answer of the cluster")
		}
		if known, err := c.Known(); err == nil || len(known) != 0 {
			t.Errorf("before the first answer of the cluster %v is all that is known", known)
		}
		if err := c.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.err = errors.New("forbidden")
		time.Sleep(9 * time.Minute) // virtual
		if err := c.Refresh(t.Context()); err == nil {
			t.Fatal("a failed refresh said nothing")
		}
		if got, _, err := c.Resolve(alert); err != nil || len(got) != 1 {
			t.Errorf("after 9m: %v, %v; want the last good answer", got, err)
		}
		if known, err := c.Known(); err != nil || len(known) != 1 {
			t.Errorf("after 9m: %v, %v; want the last good answer", known, err)
		}
		time.Sleep(2 * time.Minute) // virtual
		if _, _, err := c.Resolve(alert); err == nil || !strings.Contains(err.Error(), "forbidden") {
			t.Errorf("after 11m: error = %v, want why", err)
		}
		if known, err := c.Known(); err == nil || len(known) != 1 {
			t.Errorf("after 11m: %v, %v; want what was known, and that some may be missing", known, err)
		}
	})
}

// TestSelectorMayBeAnothers: an annotation may name the series of another service: whoever
// annotates a workload chooses what it is judged by.
func TestSelectorMayBeAnothers(t *testing.T) {
	const others = `namespace="batch",service="embed"`
	c := New(Options{Lister: &lister{marked: []kube.Marked{marked("chat", map[string]string{annotationSelector: others})}}})
	if err := c.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s := c.Services(); len(s) != 1 || s[0].Selector != others {
		t.Errorf("services are %+v, and refused %q", s, c.notes)
	}
}
