//go:build e2e

package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/gitops/argocd"
	"github.com/inference-responder/responder/test/e2e/rig"
)

// The client of Argo CD speaks gRPC-Web to a real one, as it does through a
// proxy that passes no HTTP/2 on.
func TestArgoClientWeb(t *testing.T) {
	t.Parallel()
	w := newArgoWorld(t, rig.ApplicationOptions{})
	o := w.options
	o.GRPCWeb = true
	client, err := argocd.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	w.client = client
	w.app.AwaitSynced(t, w.git.Head(t), time.Minute)
	report, err := client.Check(t.Context(), w.app.Name)
	if err != nil || !strings.HasPrefix(report.Version, "v2.14.21") || report.Account != "responder" {
		t.Errorf("check: %+v, %v", report, err)
	}
	sha := w.git.Edit(t, "Serve fewer", manifestPath, "--max-num-seqs=64", "--max-num-seqs=32")
	w.watch(t, sha)
	if got := liveSeqs(t, w.cp, w.ns, "chat"); got != "--max-num-seqs=32" {
		t.Errorf("watched to the end, and the Deployment has %s", got)
	}
}
