package cli

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/inference-responder/responder/internal/config"
)

func testProcess() *command.Process {
	return &command.Process{Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard, Getenv: func(string) string { return "" }, Temp: &command.Temporary{}}
}

// The committed reference is what this program is.
func TestReferenceIsUpToDate(t *testing.T) {
	for name, want := range referencePages(newRootCommand(testProcess())) {
		got, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", name))
		if err != nil {
			t.Errorf("%v; run make generate", err)
			continue
		}
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("docs/reference/%s is out of date; run make generate\n%s", name, diff)
		}
	}
}

// The committed runbooks are what the shipped playbooks do.
func TestRunbooksAreUpToDate(t *testing.T) {
	pages, err := runbookPages()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join("..", "..", "docs", "runbooks")
	for name, want := range pages {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Errorf("%v; run make generate", err)
			continue
		}
		if diff := cmp.Diff(want, string(got)); diff != "" {
			t.Errorf("docs/runbooks/%s is out of date; run make generate\n%s", name, diff)
		}
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if _, ok := pages[f.Name()]; !ok {
			t.Errorf("docs/runbooks/%s is of no shipped playbook: remove it", f.Name())
		}
	}
}

// Whoever reads the help of a command finds out how it is used.
func TestEveryCommandHasAnExample(t *testing.T) {
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		if c.Name() == "help" {
			return
		}
		if c.Example == "" {
			t.Errorf("%s has no example", c.CommandPath())
		}
		if c.Short == "" {
			t.Errorf("%s has no description", c.CommandPath())
		}
		for line := range strings.Lines(c.Example) {
			line = strings.TrimSpace(line)
			if strings.HasPrefix(line, "responder ") && !strings.HasPrefix(line, "responder "+strings.TrimPrefix(c.CommandPath(), "responder ")) &&
				c.HasParent() && !c.HasSubCommands() && !strings.HasPrefix(line, "responder audit verify") {
				t.Errorf("an example of %s shows another command: %s", c.CommandPath(), line)
			}
		}
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(newRootCommand(testProcess()))
}

// The example of the reference is a configuration that is accepted.
func TestCatalogReference(t *testing.T) {
	c, err := config.Parse("example.yaml", []byte("auth: {insecure: true}\n"+catalogExample))
	if err != nil || len(c.Services) != 1 {
		t.Errorf("the example in the reference is refused: %v", err)
	}
}
