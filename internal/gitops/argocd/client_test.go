package argocd

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/argoproj/argo-cd/v2/pkg/apis/application/v1alpha1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
)

func TestApplication(t *testing.T) {
	app := chat()
	at := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	app.OwnerReferences = []metav1.OwnerReference{{Kind: "ApplicationSet", Name: "fleet"}}
	app.Spec.Source = nil
	app.Spec.Sources = v1alpha1.ApplicationSources{
		{RepoURL: "https://charts.example", Chart: "vllm", TargetRevision: "1.x", Helm: &v1alpha1.ApplicationSourceHelm{ValueFiles: []string{"$values/chat.yaml"}}},
		{RepoURL: "https://bot:hunter2@git.example/fleet", Path: "serving", TargetRevision: "main", Ref: "values"},
	}
	app.Spec.SyncPolicy = &v1alpha1.SyncPolicy{Automated: &v1alpha1.SyncPolicyAutomated{SelfHeal: true}}
	app.Status.ReconciledAt = &at
	app.Status.Sync = v1alpha1.SyncStatus{Status: "OutOfSync", Revisions: []string{"1.2.3", wanted}}
	app.Status.Health = v1alpha1.HealthStatus{Status: "Degraded", Message: "one\nline"}
	app.Status.Conditions = []v1alpha1.ApplicationCondition{{Type: "SyncError", Message: "failed"}, {Type: "OrphanedResourceWarning", Message: "never mind"}}
	app.Status.Resources = []v1alpha1.ResourceStatus{{Kind: "Job", Namespace: "serving", Name: "migrate", Status: "OutOfSync", Hook: true, RequiresPruning: true}}
	then := app.Spec.Sources.DeepCopy() // pinned, as a sync to commits leaves them
	then[0].TargetRevision, then[1].TargetRevision = "1.2.3", before
	other := then.DeepCopy()
	other[0].Helm, other[1].Path = &v1alpha1.ApplicationSourceHelm{Parameters: []v1alpha1.HelmParameter{{Name: "image.tag", Value: "v1"}}}, "prod"
	app.Status.History = v1alpha1.RevisionHistories{
		{ID: 4, Revisions: []string{"1.2.3", before}, DeployedAt: at, InitiatedBy: v1alpha1.OperationInitiator{Automated: true}, Sources: then},
		{ID: 3, Revisions: []string{"1.2.2", before}, DeployedAt: at, InitiatedBy: v1alpha1.OperationInitiator{Username: "ada"}, Sources: other},
		{ID: 2, Revision: before, DeployedAt: at, Source: v1alpha1.ApplicationSource{RepoURL: "https://git.example/fleet"}},
	}
	app.Status.OperationState = &v1alpha1.OperationState{
		Phase: "Failed", Message: "denied", StartedAt: at, FinishedAt: &at,
		Operation:  v1alpha1.Operation{Sync: &v1alpha1.SyncOperation{Revisions: []string{"1.x", "main"}, DryRun: true}},
		SyncResult: &v1alpha1.SyncOperationResult{Revisions: []string{"1.2.3", wanted}},
	}
	s := start(t, app)
	got, err := s.client(t).Application(t.Context(), "chat")
	if err != nil {
		t.Fatal(err)
	}
	want := gitops.Application{
		Name: "argocd/chat", Project: "inference", UID: "u1",
		Sources: []gitops.Source{
			{Repository: "https://charts.example", Branch: "1.x"},
			{Repository: "https://git.example/fleet", Branch: "main", Path: "serving"},
		},
		Chart: []string{"vllm", ""}, Target: []string{"1.x", "main"}, Values: [][]string{{"$values/chat.yaml"}, nil},
		Refs: []string{"", "values"}, Releases: []string{"", ""},
		Revisions: []string{"1.2.3", wanted}, Sync: "OutOfSync", Health: "Degraded", Message: "one line",
		Compared: at.Time, Automated: true, SelfHeal: true, Generator: "fleet", Problems: []string{"SyncError: failed"},
		Operation: gitops.Operation{
			DryRun: true, Phase: "Failed", Message: "denied", Revisions: []string{"1.2.3", wanted}, By: "(unknown)", Started: at.Time, Finished: at.Time,
		},
		Resources: []gitops.Resource{{Kind: "Job", Namespace: "serving", Name: "migrate", Sync: "OutOfSync", Hook: true, Prune: true}},
		History: []gitops.Deployment{
			{ID: 2, Revisions: []string{before}, At: at.Time, By: "(unknown)", Differs: "spec.sources"},
			{ID: 3, Revisions: []string{"1.2.2", before}, At: at.Time, By: "ada", Differs: "spec.sources[0].helm, spec.sources[1].path"},
			{ID: 4, Revisions: []string{"1.2.3", before}, At: at.Time},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("application (-want +got):\n%s", diff)
	}
}

func TestRepositoryWithoutPassword(t *testing.T) {
	for in, want := range map[string]string{
		"https://bot:hunter2@git.example/fleet": "https://git.example/fleet",
		"https://hunter2@git.example/fleet":     "https://git.example/fleet",
		"ssh://git:hunter2@git.example/fleet":   "ssh://git@git.example/fleet",
		"git@git.example:fleet.git":             "git@git.example:fleet.git",
		"https://bot:hunt%er2@git.example/x":    "(a URL that cannot be read)",
	} {
		if got := gitops.WithoutUser(in); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
}

// A server that accepts and stays silent costs a timeout, not the process.
func TestSilentServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	s := &server{address: l.Addr().String()}
	c := s.client(t, func(o *Options) { o.Timeout = 50 * time.Millisecond })
	if _, err := c.Application(t.Context(), "chat"); reason(t, err) != fault.Timeout && reason(t, err) != fault.Unreachable {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Application(ctx, "chat"); !errors.Is(err, context.Canceled) {
		t.Errorf("given up: got %v", err)
	}
}

func TestUnreachable(t *testing.T) {
	s := start(t, chat())
	s.stop()
	if _, err := s.client(t).Application(t.Context(), "chat"); reason(t, err) != fault.Unreachable || !strings.Contains(err.Error(), s.address) {
		t.Errorf("got %v", err)
	}
}

// A server that needs TLS, or does not, is not mistaken for one that is away.
func TestNoTLS(t *testing.T) {
	s := start(t, chat())
	if _, err := s.client(t, func(o *Options) { o.Plaintext = false }).Application(t.Context(), "chat"); !strings.Contains(err.Error(), "see plaintext") {
		t.Errorf("got %v", err)
	}
}

func TestReadsAreRepeated(t *testing.T) {
	s := start(t, chat())
	s.onGet = func(n int) error {
		if n < tries {
			return status.Error(codes.Unavailable, "not yet")
		}
		return nil
	}
	if _, err := s.client(t).Application(t.Context(), "chat"); err != nil || s.gets != tries {
		t.Errorf("after %d times: %v", s.gets, err)
	}
}

func TestToken(t *testing.T) {
	s := start(t, chat())
	var file string
	c := s.client(t, func(o *Options) { file = o.TokenFile })
	if _, err := c.Application(t.Context(), "chat"); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	s.token = "rotated"
	s.mu.Unlock()
	if _, err := c.Application(t.Context(), "chat"); reason(t, err) != fault.Forbidden || !strings.Contains(err.Error(), "expired, was revoked") {
		t.Errorf("revoked: got %v", err)
	}
	for content, says := range map[string]string{
		"":                       "is empty",
		canary + " " + canary:    "want one line without spaces",
		canary + "\x00":          "want one line without spaces",
		strings.Repeat("x", 1e5): "at most 64 KiB",
	} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Application(t.Context(), "chat"); reason(t, err) != fault.Forbidden || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), canary) {
			t.Errorf("got %v, want %s", err, says)
		}
	}
	if err := os.WriteFile(file, []byte("rotated"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Application(t.Context(), "chat"); err != nil {
		t.Errorf("rotated: %v", err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Application(t.Context(), "chat"); reason(t, err) != fault.Forbidden || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("gone: got %v", err)
	}
}

// A server may quote our token back; nobody else hears of it.
func TestTokenStaysSecret(t *testing.T) {
	s := start(t, chat())
	s.onGet = func(int) error {
		return status.Errorf(codes.Internal, "cannot use %s\nnor %s, said the %s", canary, strings.Repeat("x", 2000), canary)
	}
	_, err := s.client(t).Application(t.Context(), "chat")
	if err == nil || strings.Contains(err.Error(), canary) || !strings.Contains(err.Error(), "(redacted) nor") || len(err.Error()) > 1000 {
		t.Errorf("got %v", err)
	}
	for e := err; e != nil; e = errors.Unwrap(e) {
		if strings.Contains(e.Error(), canary) {
			t.Errorf("in the chain: %v", e)
		}
	}
}

// Argo CD's own client would take these.
func TestEnvironmentDoesNotCount(t *testing.T) {
	s := start(t, chat())
	t.Setenv("ARGOCD_SERVER", s.address)
	t.Setenv("ARGOCD_AUTH_TOKEN", canary)
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
	t.Setenv("ALL_PROXY", "socks5://127.0.0.1:1")
	if _, err := New(Options{TokenFile: "x"}); reason(t, err) != fault.Invalid {
		t.Errorf("no server: %v", err)
	}
	if _, err := New(Options{Server: s.address}); reason(t, err) != fault.Invalid {
		t.Errorf("no token: %v", err)
	}
	c := s.client(t, func(o *Options) { o.TokenFile = filepath.Join(t.TempDir(), "none") })
	if _, err := c.Application(t.Context(), "chat"); reason(t, err) != fault.Forbidden {
		t.Errorf("no file: %v", err)
	}
	if _, err := s.client(t).Application(t.Context(), "chat"); err != nil {
		t.Errorf("through a proxy? %v", err)
	}
}

func TestOptions(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]Options{
		"a URL":              {Server: "https://argo.example"},
		"a user":             {Server: "bot:hunter2@argo.example"},
		"a port too high":    {Server: "argo.example:70000"},
		"no host":            {Server: ":443"},
		"plaintext and CA":   {Server: "argo.example", Plaintext: true, CAFile: empty},
		"unchecked and CA":   {Server: "argo.example", SkipVerify: true, CAFile: empty},
		"no certificates":    {Server: "argo.example", CAFile: empty},
		"no such file":       {Server: "argo.example", CAFile: empty + "?"},
		"a root without web": {Server: "argo.example", Root: "/argo"},
		"a timeout before 0": {Server: "argo.example", Timeout: -1},
		"spaces":             {Server: "argo .example"},
		"several colons":     {Server: "a:b:c"},
	} {
		o.TokenFile = "token"
		_, err := New(o)
		if e := new(fault.Error); !errors.As(err, &e) || e.Reason != fault.Invalid || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	for server, want := range map[string]string{"argo.example": "argo.example:443", "::1": "", "[::1]": "[::1]:443", "argo.example:8443": "argo.example:8443"} {
		got, err := Options{Server: server}.address()
		if want == "" {
			if err != nil && got == "" {
				continue
			}
			want = "[::1]:443"
		}
		if got != want || err != nil {
			t.Errorf("%s: got %s, %v", server, got, err)
		}
	}
	if got, _ := (Options{Server: "argo", Plaintext: true}).address(); got != "argo:80" {
		t.Errorf("plaintext: got %s", got)
	}
}

func TestCheck(t *testing.T) {
	s := start(t, chat())
	c := s.client(t)
	s.rights = []string{"applications, sync, inference/chat"}
	got, err := c.Check(t.Context(), "chat")
	if diff := cmp.Diff(Report{Version: "v2.14.21", Account: "responder"}, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if lacks, err := c.Lacks(t.Context(), "chat"); lacks != "" || err != nil {
		t.Errorf("lacks %q, %v", lacks, err)
	}
	s.rights = []string{"applications, delete, inference/chat"}
	if lacks, err := c.Lacks(t.Context(), "chat"); !strings.Contains(lacks, "applications, sync, inference/chat") || err != nil {
		t.Errorf("lacks %q, %v", lacks, err)
	}
	got, err = c.Check(t.Context(), "chat")
	want := Report{
		Version: "v2.14.21", Account: "responder",
		Lacking: []string{"applications, sync, inference/chat"}, Excess: []string{"applications, delete, inference/chat"},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if _, err := c.Lacks(t.Context(), "nope"); reason(t, err) != fault.Forbidden {
		t.Errorf("rights on no application: %v", err)
	}
	if _, err := c.Check(t.Context(), "nope"); reason(t, err) != fault.Forbidden {
		t.Errorf("no application: %v", err)
	}
	s.mu.Lock()
	s.token = "another"
	s.mu.Unlock()
	if got, err := c.Check(t.Context()); reason(t, err) != fault.Forbidden || got.Version == "" {
		t.Errorf("token: %+v, %v", got, err)
	}
}

func TestOwner(t *testing.T) {
	s := start(t, chat())
	s.set(func(app *v1alpha1.Application) { app.Namespace = "team" })
	c := s.client(t)
	deployment := gitops.Resource{Group: "apps", Kind: "Deployment", Namespace: "serving", Name: "chat"}
	if app, err := c.Owner(t.Context(), "team_chat", deployment); err != nil || app.Name != "team/chat" {
		t.Errorf("got %s, %v", app.Name, err)
	}
	copied := deployment
	copied.Name = "chat-2"
	if _, err := c.Owner(t.Context(), "team_chat", copied); reason(t, err) != fault.Owned || !strings.Contains(err.Error(), "does not list apps/Deployment serving/chat-2") {
		t.Errorf("a copy: %v", err)
	}
	s.set(func(app *v1alpha1.Application) { app.Status.Resources[0].RequiresPruning = true })
	if _, err := c.Owner(t.Context(), "team_chat", deployment); reason(t, err) != fault.Owned {
		t.Errorf("no longer in Git: %v", err)
	}
}

// TestTextsShowNoCredential: an application's conditions repeat what a repository or a
// hook says, and reach evidence.
func TestTextsShowNoCredential(t *testing.T) {
	if got := clean("ComparisonError: https://ada:canary@git.example.com/x: HF_TOKEN=canary", ""); strings.Contains(got, "canary") || !strings.Contains(got, "git.example.com") {
		t.Error(got)
	}
}
