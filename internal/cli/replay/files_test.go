package replay

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/playbook"
)

const (
	fired = `{"version":"4","status":"firing","alerts":[{"status":"firing","fingerprint":"a","labels":{"alertname":"Slow"},"startsAt":"2026-10-05T12:10:00Z","endsAt":"0001-01-01T00:00:00Z"}]}`
	ended = `{"version":"4","status":"resolved","alerts":[{"status":"resolved","fingerprint":"a","labels":{"alertname":"Slow"},"startsAt":"2026-10-05T12:10:00Z","endsAt":"2026-10-05T12:40:00Z"}]}`
	kept  = `{"version":"4","status":"firing","alerts":[{"status":"firing","fingerprint":"a","labels":{"alertname":"Slow"},"startsAt":"2026-10-05T12:10:00Z"}],"receivedAt":"2026-10-05T12:10:31Z"}`
)

// TestReadFiles: bodies are read from lines and from whole files; what cannot be read
// is told with its line, and the rest is read.
func TestReadFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("a.jsonl", fired+"\n\nnonsense\n"+ended+"\n{\"version\": \"4\", \"alerts\": 7}\n"+kept+"\n")
	write("b.json", "{\n  \"version\": \"4\",\n  \"status\": \"firing\",\n  \"alerts\": \"none\"\n}\n")
	write("c.json", strings.ReplaceAll(fired, ",", ",\n"))
	write("d.ndjson", fired+"\n"+fired[:60])
	write("note.txt", "nothing")
	got, err := ReadFiles(dir, playbook.DecodeNotification)
	if err != nil {
		t.Fatal(err)
	}
	var at []string
	for _, n := range got.Notifications {
		at = append(at, n.ReceivedAt.Format(time.TimeOnly))
	}
	if want := "12:10:00 12:40:00 12:10:31 12:10:00 12:10:00"; strings.Join(at, " ") != want || got.Guessed != 4 {
		t.Errorf("received at %v, %d without a time; want %s", at, got.Guessed, want)
	}
	want := []string{"a.jsonl:3: this is not JSON: invalid character", "a.jsonl:5: alerts: ", "b.json:4: alerts: ", "d.ndjson:2: the JSON breaks off"}
	if len(got.Problems) != len(want) {
		t.Fatalf("%q", got.Problems)
	}
	for i, p := range got.Problems {
		if !strings.HasPrefix(p, filepath.Join(dir, want[i])) {
			t.Errorf("%q, want %q", p, want[i])
		}
	}
	for _, path := range []string{filepath.Join(dir, "nowhere"), t.TempDir()} {
		if _, err := ReadFiles(path, playbook.DecodeNotification); err == nil || !strings.Contains(err.Error(), "Alertmanager posted") {
			t.Errorf("%s: %v", path, err)
		}
	}
}
