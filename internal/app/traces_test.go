package app

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/api"
	"github.com/inference-responder/responder/internal/executor"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/trace"
)

// TestTraces: the trace of a run is sent when it has ended, metrics count it, and the
// API and the page lead to it.
func TestTraces(t *testing.T) {
	posted := make(chan []byte, 10)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // one that is cut off is not what is waited for
		posted <- body
	}))
	defer receiver.Close()
	c := SandboxConfig()
	c.Autonomy = playbook.Observe
	c.Tracing.Endpoint, c.Tracing.Link = receiver.URL+"/v1/traces", "https://tempo.example/trace/${trace}"
	s, server := startService(t, c)
	until(t, "that it follows the journal", func() bool { at, err := s.journal.Meta("trace/next"); return err == nil && at != nil })
	alert := playbook.Alert{
		Fingerprint: "f", Status: playbook.Firing, StartsAt: time.Now().Add(-time.Minute),
		Labels: map[string]string{"alertname": "InferenceTTFTFastBurn", "namespace": "serving", "service": "inference-chat", "severity": "page"},
	}
	resp, err := http.Post(server+alertmanagerPath, "application/json", bytes.NewReader(webhookBody([]playbook.Alert{alert})))
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Error(err)
	}
	until(t, "the trace", func() bool { return len(posted) == 1 })
	if body := <-posted; !bytes.Contains(body, []byte("InferenceTTFTFastBurn")) {
		t.Errorf("posted %d bytes without the alert's name", len(body))
	}
	until(t, "the metric", func() bool { return scrape(t, s.metrics)["responder_traces_sent_total"] == "1" })
	runs := s.executor.Runs(executor.Filter{})
	if len(runs) != 1 {
		t.Fatalf("%d runs", len(runs))
	}
	id := runs[0].Start.Run
	want := "https://tempo.example/trace/" + trace.ID(id)
	var detail api.RunDetail
	if err := json.Unmarshal(got(t, server+"/api/v1/runs/"+id), &detail); err != nil || detail.Run.Trace != want {
		t.Errorf("the API has the trace %q, want %s: %v", detail.Run.Trace, want, err)
	}
	if page := string(got(t, server+"/runs/"+id)); !strings.Contains(page, `href="`+want+`"`) {
		t.Error("the page of the run does not lead to its trace")
	}
}

// got is what a GET answers.
func got(t *testing.T, url string) []byte {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %v: %s", url, resp.Status, err, body)
	}
	return body
}
