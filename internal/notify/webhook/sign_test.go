package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/notify/notifytest"
)

// The example of the specification, so that its libraries verify what is sent.
func TestSignatureOfTheSpecification(t *testing.T) {
	key, err := base64.StdEncoding.DecodeString("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	got := signed([][]byte{key}, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`))
	if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got["webhook-signature"] != want || got["webhook-timestamp"] != "1614265330" {
		t.Errorf("headers are %v, want the signature %s", got, want)
	}
}

// verifies is what a receiver does with a message.
func verifies(ev notifytest.CloudEvent, secret []byte, now time.Time) bool {
	h := ev.Header
	seconds, err := strconv.ParseInt(h.Get("webhook-timestamp"), 10, 64)
	if err != nil || now.Sub(time.Unix(seconds, 0)).Abs() > 5*time.Minute {
		return false
	}
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(h.Get("webhook-id") + "." + h.Get("webhook-timestamp") + "." + string(ev.Raw)))
	want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	for _, s := range strings.Fields(h.Get("webhook-signature")) {
		if hmac.Equal([]byte(s), []byte(want)) {
			return true
		}
	}
	return false
}

// A receiver that knows one of the secrets verifies a message, through a rotation too,
// and neither a changed nor an old one.
func TestMessagesAreSigned(t *testing.T) {
	receiver := notifytest.StartReceiver(t)
	older, newer := []byte(strings.Repeat("o", 32)), []byte(strings.Repeat("n", 32))
	line := func(key []byte) string { return "whsec_" + base64.StdEncoding.EncodeToString(key) + "\n" }
	file := notifytest.SecretFile(t, line(older))
	w, err := NewClient(Config{URL: receiver.URL, SecretFile: file})
	if err != nil {
		t.Fatal(err)
	}
	for _, content := range []string{line(older), line(newer) + line(older), line(newer)} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := w.Send(t.Context(), testEvent()); err != nil {
			t.Fatal(err)
		}
	}
	events := receiver.Events()
	if len(events) != 3 {
		t.Fatalf("%d events arrived; refused: %v", len(events), receiver.Refused())
	}
	now := time.Now()
	for i, want := range []struct{ older, newer bool }{{true, false}, {true, true}, {false, true}} {
		if got := verifies(events[i], older, now); got != want.older {
			t.Errorf("message %d verifies with the older secret: %v", i, got)
		}
		if got := verifies(events[i], newer, now); got != want.newer {
			t.Errorf("message %d verifies with the newer secret: %v", i, got)
		}
	}
	if verifies(events[2], newer, now.Add(time.Hour)) {
		t.Error("an old message verifies")
	}
	events[2].Raw = append(events[2].Raw, ' ')
	if verifies(events[2], newer, now) {
		t.Error("a changed message verifies")
	}
}

// What is no secret is refused at the start and repeated nowhere.
func TestBadSigningSecrets(t *testing.T) {
	good := "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 32))
	for what, content := range map[string]string{
		"no prefix": "aHVudGVyMmh1bnRlcjJodW50ZXIyaHVudGVyMg==", "not base64": "whsec_hunter2!", "short": "whsec_aHVudGVyMg==",
		"empty": "\n", "three": good + "\n" + good + "\n" + good,
	} {
		file := notifytest.SecretFile(t, content)
		_, err := NewClient(Config{URL: "https://hooks.example", SecretFile: file})
		if err == nil || !strings.Contains(err.Error(), file) || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "aHVudGVy") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := NewClient(Config{URL: "https://hooks.example", SecretFile: filepath.Join(t.TempDir(), "none")}); err == nil {
		t.Error("a missing file is accepted")
	}
}

func FuzzSigningSecrets(f *testing.F) {
	f.Add([]byte("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n"))
	f.Add([]byte("whsec_ whsec_"))
	f.Fuzz(func(t *testing.T, content []byte) {
		file := filepath.Join(t.TempDir(), "s")
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		keys, err := signers(file)
		if err == nil && (len(keys) == 0 || len(keys) > maxSecrets) {
			t.Errorf("%q holds %d keys", content, len(keys))
		}
		for _, k := range keys {
			if len(k) < 24 {
				t.Errorf("%q is accepted as a key of %d bytes", content, len(k))
			}
		}
	})
}
