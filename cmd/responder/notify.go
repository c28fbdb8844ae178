package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
)

// httpNotifier posts messages to people to one address.
type httpNotifier struct {
	config notifyConfig
	client *http.Client
}

func newHTTPNotifier(c notifyConfig) *httpNotifier {
	return &httpNotifier{config: c, client: &http.Client{
		Timeout: 10 * time.Second,
		// A redirect would carry the message, and the token, elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// notice is the body that is posted.
type notice struct {
	Key      string         `json:"key"` // the same message has the same key
	Run      string         `json:"run"`
	Playbook string         `json:"playbook"`
	State    string         `json:"state"`
	Service  string         `json:"service"`
	Alert    playbook.Alert `json:"alert"`
	Text     string         `json:"text"`
}

// Notify posts one message. Everything but a 2xx answer is an error.
func (h *httpNotifier) Notify(ctx context.Context, n step.Notice) error {
	body, err := json.Marshal(notice{n.Key, n.Run, n.Playbook, n.State, n.Service.Name, n.Alert, n.Text})
	if err != nil {
		return fmt.Errorf("notify: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.config.URL, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("notify: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	if h.config.TokenFile != "" {
		token, err := os.ReadFile(h.config.TokenFile)
		if err != nil {
			return fmt.Errorf("notify: read token: %w", err)
		}
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	resp, err := h.client.Do(req)
	if err != nil {
		return fmt.Errorf("notify: %w", err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)); err != nil {
		return fmt.Errorf("notify: read the answer: %w", err)
	}
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("notify: %s answered %s", req.URL.Redacted(), resp.Status)
	}
	return nil
}
