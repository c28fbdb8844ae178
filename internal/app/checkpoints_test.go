package app

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/config"
)

// TestCheckpointsArePublished: the newest checkpoint goes to the log, the directory and
// the server, each once, and a server that fails gets it later.
func TestCheckpointsArePublished(t *testing.T) {
	journal, err := audit.Open(filepath.Join(t.TempDir(), "journal.db"), audit.Options{CheckpointEvery: 1, NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer journal.Close()
	if _, err := journal.Append(t.Context(), audit.Append{Stream: "s", After: audit.Any, Records: []audit.Record{{Kind: "k"}}}); err != nil {
		t.Fatal(err)
	}
	var posted []string
	status := http.StatusServiceUnavailable
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body) // a body cut off is no checkpoint
		posted = append(posted, string(b))
		w.WriteHeader(status)
	}))
	defer server.Close()
	var log bytes.Buffer
	dir := t.TempDir()
	p, err := newCheckpoints(config.Checkpoints{Every: time.Hour, Dir: dir, URL: server.URL}, journal, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	if err := p.publish(t.Context()); err == nil {
		t.Error("a server that refuses is no error")
	}
	status = http.StatusOK
	for range 2 {
		if err := p.publish(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	last, _, err := journal.LastCheckpoint()
	if err != nil {
		t.Fatal(err)
	}
	if len(posted) != 2 || posted[1] != string(last.Note) {
		t.Errorf("posted %q, want the note twice, %q", posted, last.Note)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, files[0].Name())); err != nil || !bytes.Equal(b, last.Note) {
		t.Errorf("written %q, %v", b, err)
	}
	signature := strings.TrimSpace(string(last.Note[bytes.LastIndexByte(last.Note, ' '):]))
	if got := strings.Count(log.String(), signature); got != 1 {
		t.Errorf("the log has the checkpoint %d times:\n%s", got, log.String())
	}
}
