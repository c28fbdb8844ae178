package cli

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/cli/client"
)

// A file that comes into being while the copy is made is replaced with force
// only, and a link by what it leads to.
func TestExportKeepsWhatIsThere(t *testing.T) {
	for _, c := range []struct {
		name         string
		force        bool
		before, then string // file's contents before, and made while the copy is; empty: none
		want         string
		fails        string
	}{
		{"new", false, "", "", "journal", ""},
		{"meanwhile", false, "", "theirs", "theirs", "exists; name another file"},
		{"meanwhile, with force", true, "", "theirs", "journal", ""},
		{"before, with force", true, "old", "", "journal", ""},
		{"before", false, "old", "", "old", "exists; name another file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "copy.db")
			write := func(contents string) {
				if contents == "" {
					return
				}
				if err := os.WriteFile(file, []byte(contents), 0o600); err != nil {
					t.Error(err)
				}
			}
			write(c.before)
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				write(c.then)
				w.Header().Set("Content-Type", "application/octet-stream")
				io.WriteString(w, "journal") //nolint:errcheck // the copy is not whole without it
			}))
			defer s.Close()
			_, err := exportJournal(t.Context(), &client.Client{Process: testProcess(), Server: s.URL}, file, c.force)
			if (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
				t.Errorf("got %v", err)
			}
			if got, err := os.ReadFile(file); err != nil || string(got) != c.want {
				t.Errorf("it holds %q, %v; want %q", got, err, c.want)
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}

func TestExportThroughLink(t *testing.T) {
	dir := t.TempDir()
	kept, link := filepath.Join(dir, "kept.db"), filepath.Join(dir, "link.db")
	if err := os.WriteFile(kept, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(kept, link); err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/octet-stream")
		io.WriteString(w, "journal") //nolint:errcheck // the copy is not whole without it
	}))
	defer s.Close()
	if _, err := exportJournal(t.Context(), &client.Client{Process: testProcess(), Server: s.URL}, link, true); err != nil {
		t.Fatal(err)
	}
	if to, err := os.Readlink(link); err != nil || to != kept {
		t.Errorf("the link leads to %q, %v", to, err)
	}
	if got, err := os.ReadFile(kept); err != nil || string(got) != "journal" {
		t.Errorf("it holds %q, %v", got, err)
	}
}
