package cli

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/inference-responder/responder/internal/cli/command"
)

// mentioned is a command of ours within a sentence: in Markdown `responder …`, in messages
// 'responder …'. A line of a shell block is an example, which TestExamples runs.
var mentioned = map[string]*regexp.Regexp{
	".md": regexp.MustCompile("`responder ([^`\n]+)`"),
	".go": regexp.MustCompile(`'responder ([^'\n]+)'`),
}

// TestMentionedCommands: every command that a page or a message tells people to type
// exists, with its flags.
func TestMentionedCommands(t *testing.T) {
	root := newRootCommand(&command.Process{})
	found := 0
	for _, dir := range []string{"README.md", "CHANGELOG.md", "docs", "playbooks", "deploy", "internal", "cmd"} {
		err := filepath.WalkDir(filepath.Join("..", "..", dir), func(path string, e fs.DirEntry, err error) error {
			words := mentioned[filepath.Ext(path)]
			if err != nil || words == nil || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "/docs/decisions/") {
				return err
			}
			text, err := os.ReadFile(path)
			for _, m := range words.FindAllStringSubmatch(string(text), -1) {
				found++
				if why := mistake(root, m[1]); why != "" {
					t.Errorf("%s: responder %s: %s", path, m[1], why)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if found < 150 {
		t.Errorf("%d commands were found: the test no longer sees them", found)
	}
}

// mistake returns why a command cannot be typed so; empty: it can.
func mistake(root *cobra.Command, line string) string {
	if line == "..." || line == "run ID" { // the program itself; the comment of a silence
		return ""
	}
	cmd, rest, err := root.Find(strings.Fields(line))
	if err != nil {
		return err.Error()
	}
	if cmd.HasSubCommands() && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") && rest[0] != strings.ToUpper(rest[0]) {
		return "it has no command " + rest[0]
	}
	for _, word := range rest {
		name, long := strings.CutPrefix(word, "--")
		short, isShort := strings.CutPrefix(word, "-")
		name, _, _ = strings.Cut(name, "=")
		switch {
		case long && name != "help" && cmd.Flag(name) == nil:
			return "it has no flag --" + name
		case !long && isShort && len(short) == 1 && cmd.Flags().ShorthandLookup(short) == nil && cmd.InheritedFlags().ShorthandLookup(short) == nil:
			return "it has no flag -" + short
		}
	}
	return ""
}
