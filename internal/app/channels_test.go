package app

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/config"
	"github.com/inference-responder/responder/internal/notify"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step/kinds"
)

func tempFile(t testing.TB, name, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func testNotice() notify.Notice {
	return notify.Notice{
		Key: "r-1/tell#1/notify#1", Run: "r-1", Playbook: "bad-rollout", State: "tell", Text: "scaling did not help",
		At: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Service: playbook.Service{Name: "serving/chat", Namespace: "serving"},
		Alert: playbook.Alert{Fingerprint: "00000000deadbeef", Status: playbook.Firing, Labels: map[string]string{"alertname": "InferenceTTFTFastBurn"}},
	}
}

// channelsOf opens the channels that a configuration describes.
func channelsOf(t *testing.T, yaml string) *notify.Router {
	t.Helper()
	c, err := config.Parse(filepath.Join(t.TempDir(), "f.yaml"), []byte("auth: {insecure: true}\n"+yaml))
	if err != nil {
		t.Fatal(err)
	}
	all, err := openChannels(c, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// A playbook that tells a channel nobody configured is not put in force.
func TestPlaybooksNameConfiguredChannels(t *testing.T) {
	dir := t.TempDir()
	good, err := os.ReadFile(rollbackPlaybook)
	if err != nil {
		t.Fatal(err)
	}
	doc := strings.Replace(string(good), "next: [{to: rollback}]", "next: hear\n    hear: {notify: hello, to: [oncall, nobody], next: rollback}", 1)
	if err := os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(doc), 0o600); err != nil {
		t.Fatal(err)
	}
	set, err := playbook.LoadDir(dir, kinds.Declarations())
	if err != nil {
		t.Fatal(err)
	}
	all := channelsOf(t, "channels: [{name: oncall, default: true, webhook: {url: http://h}}]")
	if err := playbooksTell(all)(set); err == nil || strings.Contains(err.Error(), "oncall") || !strings.Contains(err.Error(), `channel "nobody"`) {
		t.Errorf("allows: %v", err)
	}
	if err := playbooksTell(nil)(set); err == nil {
		t.Error("without channels nothing is named, yet it is allowed")
	}
}
