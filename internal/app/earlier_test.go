package app

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/audit"
	"github.com/inference-responder/responder/internal/config"
	"github.com/inference-responder/responder/internal/executor/dispatch"
	"github.com/inference-responder/responder/internal/webhook"
)

// A notification of alerts that no playbook matches is stored whole, and counts for its
// sender's share. What runs write, evidence above all, does not.
func TestWhatCountsForAShare(t *testing.T) {
	c := config.Default()
	dir := t.TempDir()
	c.Journal.Dir = filepath.Join(dir, "data")
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte("alertmanager-0123456789abcdef"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.Auth.Tokens = []config.Token{{Name: "alertmanager", File: filepath.Join(dir, "token"), Scopes: []string{"intake"}}}
	s, address, stop := runWaitingWorld(t, c, 1)
	defer stop()
	const note = "no playbook is about this"
	body := strings.ReplaceAll(madeUp(1, 8), `"annotations":{`, `"annotations":{"note":"`+note+`",`)
	if status, answer := deliverAs(t, address, "alertmanager", body); status != http.StatusOK {
		t.Fatalf("%d: %s", status, answer)
	}
	evidence := audit.Append{Stream: "run/r-1", After: audit.Any, Records: []audit.Record{{Kind: "evidence", Data: []byte(`"` + strings.Repeat("x", 1<<20) + `"`)}}}
	if _, err := s.journal.Append(t.Context(), evidence); err != nil {
		t.Fatal(err)
	}
	var stored []webhook.Stored
	for one, err := range s.earlier(t.Context(), time.Now().Add(-time.Hour)) {
		if err != nil {
			t.Fatal(err)
		}
		stored = append(stored, one)
	}
	if len(stored) != 1 || stored[0].Alerts != 1 || stored[0].Bytes < len(note) || stored[0].Bytes > 10<<10 {
		t.Errorf("counted are %+v", stored)
	}
	kept := false
	for rec, err := range s.journal.Stream(dispatch.StreamIntake, 0) {
		if err != nil {
			t.Fatal(err)
		}
		kept = kept || rec.Kind == dispatch.KindNotification && strings.Contains(string(rec.Data), note)
	}
	if !kept {
		t.Error("the notification is not stored whole")
	}
}
