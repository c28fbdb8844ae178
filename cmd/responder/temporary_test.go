package main

import (
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/kube/kubetest"
)

// Somebody who does not want to wait signals twice; nothing stays behind.
func TestTwoSignalsLeaveNothing(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var temp temporary
	kept, _, err := temp.dir("responder-test-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(kept, "token"), []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	gone, remove, err := temp.dir("responder-test-")
	if err != nil || gone == kept {
		t.Fatal(gone, err)
	}
	if err := errors.Join(remove(), remove()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(gone); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what was removed is there: %v", err)
	}
	signals, asked, over := make(chan os.Signal), make(chan bool, 2), make(chan bool)
	go func() {
		heed(signals, func() { asked <- true })
		temp.removeAll()
		close(over)
	}()
	signals <- syscall.SIGTERM
	<-asked
	if _, err := os.Stat(kept); err != nil {
		t.Errorf("one signal, and what the shutdown needs is gone: %v", err)
	}
	signals <- syscall.SIGTERM
	<-over
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}

// What a command that ends keeps for its time is among what two signals take away:
// the clones, and the journal of a dry run.
func TestOneShotCommandsLeaveNothing(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	repository := t.TempDir()
	c, err := parseConfig("r.yaml", []byte("auth: {insecure: true}\ngitops:\n  author: {name: a, email: a@b}\n"+
		"  argocd: {server: '127.0.0.1:1', token_file: t}\n  repositories: [{url: 'file://"+repository+"'}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	var temp temporary
	c.once = &temp
	g, err := openGitopsOnce(c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	temp.wantAll(t, "responder-git-")
	if err := g.close(); err != nil {
		t.Fatal(err)
	}
	temp.wantAll(t)

	api := kubetest.New(t)
	ref := kube.Ref{Kind: "Deployment", Namespace: "serving", Name: "chat"}
	api.Workload(t, ref, 3, kubetest.Template("chat", "vllm:v1"), kubetest.Template("chat", "vllm:v2"))
	var looked atomic.Bool
	p := testProcess()
	p.temp = &temp
	api.Fail(func(*http.Request) kubetest.Fault {
		if looked.CompareAndSwap(false, true) {
			temp.wantAll(t, "responder-dry-run-", "responder-git-")
		}
		return kubetest.Fault{}
	})
	if _, err := dryRun(t.Context(), p, dryRunFlags{
		config: clusterConfig(t, api, fakePrometheus(t), "observe"), timeout: time.Minute, playbook: filepath.Join("testdata", "fixtures", "rollback.yaml"),
		source: dryRunSource{labels: map[string]string{"alertname": "TestBreach", "namespace": "serving", "service": "chat"}},
	}); err != nil || !looked.Load() {
		t.Fatalf("looked %t: %v", looked.Load(), err)
	}
	temp.wantAll(t)
}

// wantAll wants nothing in the system's temporary directory but what begins
// with these, and all of it to be taken away with the process.
func (t *temporary) wantAll(tb testing.TB, prefixes ...string) {
	tb.Helper()
	t.mu.Lock()
	defer t.mu.Unlock()
	there, err := os.ReadDir(os.Getenv("TMPDIR"))
	if err != nil || len(there) != len(prefixes) || len(t.dirs) != len(prefixes) {
		tb.Errorf("%v is there and %v is known, want %v: %v", there, t.dirs, prefixes, err)
		return
	}
	for i, d := range there {
		if !strings.HasPrefix(d.Name(), prefixes[i]) || !t.dirs[filepath.Join(os.Getenv("TMPDIR"), d.Name())] {
			tb.Errorf("%s is there, want %s", d.Name(), prefixes[i])
		}
	}
}
