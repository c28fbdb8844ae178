package notifytest

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/fault"
)

// Golden compares a payload, indented, with testdata/NAME.json. With update it
// writes the file.
func Golden(t testing.TB, update bool, name string, body []byte) {
	t.Helper()
	var got bytes.Buffer
	if err := json.Indent(&got, body, "", "  "); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, body)
	}
	got.WriteByte('\n')
	file := filepath.Join("testdata", name+".json")
	if update {
		if err := os.WriteFile(file, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("%s, -want +got:\n%s", name, diff)
	}
}

// SecretFile returns a file with a secret.
func SecretFile(t testing.TB, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// WantReason checks an error's reason.
func WantReason(t testing.TB, what string, err error, want fault.Reason) {
	t.Helper()
	_ = ErrorFor(t, what, err, want)
}

// ErrorFor checks an error's reason and returns the error.
func ErrorFor(t testing.TB, what string, err error, want fault.Reason) *fault.Error {
	t.Helper()
	var e *fault.Error
	if !errors.As(err, &e) {
		t.Fatalf("%s: %v is no *fault.Error", what, err)
	}
	if e.Reason != want {
		t.Errorf("%s: reason %q, want %q (%v)", what, e.Reason, want, err)
	}
	return e
}
