package outbound

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSecrets(t *testing.T) {
	for content, want := range map[string]struct {
		secret, token bool
	}{
		"s3cret\n":                       {true, true},
		"two words":                      {true, false},
		"two\nlines":                     {true, false},
		"schlüssel":                      {true, false},
		" \n":                            {false, false},
		strings.Repeat("x", maxSecret+1): {false, false},
	} {
		file := filepath.Join(t.TempDir(), "secret")
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := ReadSecret(file)
		if (err == nil) != want.secret || err == nil && s != strings.TrimSpace(content) {
			t.Errorf("%.20q: %q, %v", content, s, err)
		}
		if _, err := ReadToken(file); (err == nil) != want.token || err != nil && (!strings.Contains(err.Error(), file) || strings.Contains(err.Error(), "two")) {
			t.Errorf("%.20q as a token: %v", content, err)
		}
	}
}
