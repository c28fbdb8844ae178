package app

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/config"
)

// One sender that floods with alerts that it makes up, large ones and many small ones,
// fills no more than its share of the journal's volume: the other one is served
// afterwards, also after a restart.
func TestOneSenderFillsItsShare(t *testing.T) {
	const volume, minFree = int64(192 << 20), int64(64 << 20)
	for name, body := range map[string]func() string{
		"large alerts": func() string { return madeUp(10, 60<<10) },
		"small alerts": func() string { return madeUp(5000, 8) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			c := config.Default()
			c.Journal.Dir, c.Journal.MinFree = filepath.Join(dir, "data"), config.ByteSize(minFree)
			for _, sender := range []string{"alertmanager", "other"} {
				if err := os.WriteFile(filepath.Join(dir, sender), []byte(sender+"-0123456789abcdef"), 0o600); err != nil {
					t.Fatal(err)
				}
				c.Auth.Tokens = append(c.Auth.Tokens, config.Token{Name: sender, File: filepath.Join(dir, sender), Scopes: []string{"intake"}})
			}
			var s *Service
			var address string
			var stop func()
			used := func() int64 {
				info, err := os.Stat(s.journal.Path())
				if err != nil {
					t.Fatal(err)
				}
				return info.Size() - s.room.inFile()
			}
			begin := func() {
				s, address, stop = runWaitingWorld(t, c, 1)
				s.room.mu.Lock()
				s.room.free = func() (int64, error) {
					info, err := os.Stat(s.journal.Path())
					if err != nil {
						return 0, err
					}
					return volume - info.Size(), nil
				}
				s.room.until = time.Time{}
				s.room.mu.Unlock()
			}
			begin()
			before, refused := used(), ""
			for range 10_000 {
				status, answer := deliverAs(t, address, "alertmanager", body())
				if status == http.StatusServiceUnavailable && strings.Contains(answer, "share of the room") {
					refused = answer
					break
				}
				for undecided(t, s.journal) {
					time.Sleep(time.Millisecond) // the dispatcher tells nobody how far it is
				}
			}
			share := (volume - minFree - before) / 4
			if grown := used() - before; refused == "" || grown > share+share/10 || grown < share/4 {
				t.Errorf("the flood filled %d MiB, its share is %d MiB; refused: %q", grown>>20, share>>20, refused)
			}
			if status, answer := deliverAs(t, address, "other", madeUp(1, 8)); status != http.StatusOK {
				t.Errorf("the other sender: %d %s", status, answer)
			}
			stop()
			begin()
			defer stop()
			if status, answer := deliverAs(t, address, "other", madeUp(1, 8)); status != http.StatusOK {
				t.Errorf("the other sender after a restart: %d %s", status, answer)
			}
			// The journal is read again beside the first notifications, which may be let in.
			refused = ""
			for range 20 {
				status, answer := deliverAs(t, address, "alertmanager", body())
				if status == http.StatusServiceUnavailable && strings.Contains(answer, "share of the room") {
					refused = answer
					break
				}
				for undecided(t, s.journal) {
					time.Sleep(time.Millisecond)
				}
			}
			if refused == "" {
				t.Error("a restart gives the flood's sender its share again")
			}
		})
	}
}

// madeUp is a notification of alerts that nobody has seen, with a text of so many bytes
// that does not compress.
func madeUp(alerts, text int) string {
	var b strings.Builder
	for range alerts {
		random := make([]byte, text/2)
		_, _ = rand.Read(random) // never fails
		fmt.Fprintf(&b, `,{"status":"firing","startsAt":"2026-11-21T02:28:04Z","labels":{"alertname":"MadeUp","x":"%s"},"annotations":{"text":"%x"}}`, rand.Text(), random)
	}
	return `{"version":"4","status":"firing","alerts":[` + b.String()[1:] + `]}`
}

// deliverAs posts a notification and returns the status and the answer.
func deliverAs(t *testing.T, address, sender, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+address+"/", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+sender+"-0123456789abcdef")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err.Error() // refused before it was read, and the connection closed
	}
	var answer bytes.Buffer
	_, err = answer.ReadFrom(resp.Body)
	if cerr := resp.Body.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, answer.String()
}
