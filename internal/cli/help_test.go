package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/cli/command"
	"github.com/spf13/cobra"
)

// Help fits a terminal: but for examples, which are there to be copied, no line
// is wider than command.HelpWidth.
func TestHelpIsWrapped(t *testing.T) {
	var visit func(c *cobra.Command)
	seen := 0
	visit = func(c *cobra.Command) {
		var b bytes.Buffer
		c.SetOut(&b)
		if err := c.Help(); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(b.String()) {
			seen++
			line = strings.TrimRight(line, "\n")
			if len([]rune(line)) > command.HelpWidth && !strings.HasPrefix(line, "  responder ") {
				t.Errorf("%s: %d columns: %s", c.CommandPath(), len(line), line)
			}
		}
		for _, sub := range c.Commands() {
			visit(sub)
		}
	}
	visit(newRootCommand(&command.Process{Getenv: func(string) string { return "" }}))
	if seen < 500 {
		t.Errorf("only %d lines were seen", seen)
	}
}
