package dryrun

import (
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/app/cluster"
	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/config"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/kube/kubetest"
)

// What a command that ends keeps for its time is among what two signals take away:
// the clones, and the journal of a dry run.
func TestOneShotCommandsLeaveNothing(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	repository := t.TempDir()
	c, err := config.Parse("r.yaml", []byte("auth: {insecure: true}\ngitops:\n  author: {name: a, email: a@b}\n"+
		"  argocd: {server: '127.0.0.1:1', token_file: t}\n  repositories: [{url: 'file://"+repository+"'}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	var temp command.Temporary
	g, err := cluster.OpenGitOnce(c, temp.Dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	wantTemporary(t, "responder-git-")
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	wantTemporary(t)

	api := kubetest.New(t)
	ref := kube.Ref{Kind: "Deployment", Namespace: "serving", Name: "chat"}
	api.Workload(t, ref, 3, kubetest.Template("chat", "vllm:v1"), kubetest.Template("chat", "vllm:v2"))
	var looked atomic.Bool
	p := emptyProcess()
	p.Temp = &temp
	api.Fail(func(*http.Request) kubetest.Fault {
		if looked.CompareAndSwap(false, true) {
			wantTemporary(t, "responder-dry-run-", "responder-git-")
		}
		return kubetest.Fault{}
	})
	if _, err := Run(t.Context(), p, Options{
		Config: clusterConfig(t, api, fakePrometheus(t), "observe"), Timeout: time.Minute, Playbook: rollbackPlaybook,
		Source: Source{Labels: map[string]string{"alertname": "TestBreach", "namespace": "serving", "service": "chat"}},
	}); err != nil || !looked.Load() {
		t.Fatalf("looked %t: %v", looked.Load(), err)
	}
	wantTemporary(t)
}

// wantTemporary wants the system's temporary directory to hold exactly one
// entry for each prefix.
func wantTemporary(tb testing.TB, prefixes ...string) {
	tb.Helper()
	there, err := os.ReadDir(os.Getenv("TMPDIR"))
	if err != nil || len(there) != len(prefixes) {
		tb.Errorf("%v is there, want %v: %v", there, prefixes, err)
		return
	}
	for i, d := range there {
		if !strings.HasPrefix(d.Name(), prefixes[i]) {
			tb.Errorf("%s is there, want %s", d.Name(), prefixes[i])
		}
	}
}
