package manifests

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/inference-responder/responder/internal/gitops"
)

// TestReadDirBelow: of a checkout counts what is below the source, what that is
// built of, and who else builds; nothing else is read, whatever it is.
func TestReadDirBelow(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, data []byte) {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("apps/chat/kustomization.yaml", []byte("resources: [../../base, https://example.com/remote]\n"))
	write("base/kustomization.yaml", []byte("resources: [deployment.yaml, ../parts/hpa.yaml]\n"))
	write("base/deployment.yaml", []byte("kind: Deployment\n"))
	write("parts/hpa.yaml", []byte("kind: HorizontalPodAutoscaler\n"))
	write("parts/other.yaml", []byte("kind: Other\n"))
	write("apps/code/kustomization.yaml", []byte("resources: [../../base]\n"))
	write("models/weights.json", make([]byte, maxFileBytes+1))
	files, err := ReadDir(dir, "apps/chat/")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range files {
		got = append(got, f.Path)
	}
	want := []string{"apps/chat/kustomization.yaml", "apps/code/kustomization.yaml", "base/deployment.yaml", "base/kustomization.yaml", "parts/hpa.yaml"}
	if !slices.Equal(got, want) {
		t.Errorf("read %q, want %q", got, want)
	}
	for source, tt := range map[string]struct {
		reason gitops.Reason
		words  string
	}{
		"":             {gitops.Invalid, "models/weights.json has more than 8 MiB"},
		"models":       {gitops.Invalid, "--source"},
		"apps/nothing": {gitops.NotFound, "has no apps/nothing"},
		"../elsewhere": {gitops.Invalid, "not below the checkout"},
		"/etc":         {gitops.Invalid, "not below the checkout"},
	} {
		if _, err := ReadDir(dir, source); !reasonIs(err, tt.reason, tt.words) {
			t.Errorf("source %q: %v, want %s ...%s...", source, err, tt.reason, tt.words)
		}
	}
	// What it is built of has to be readable, wherever it stands.
	write("base/kustomization.yaml", []byte("resources: [deployment.yaml, ../models]\n"))
	if _, err := ReadDir(dir, "apps/chat"); !reasonIs(err, gitops.Invalid, "models/weights.json") {
		t.Errorf("a base that is too large: %v", err)
	}
}
