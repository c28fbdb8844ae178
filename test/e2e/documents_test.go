//go:build e2e

package e2e

import (
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/inference-responder/responder/test/e2e/rig"
)

// documentedCommand is a command of a shell block of a page.
type documentedCommand struct {
	page string // path in the repository
	text string // as the page has it, with all of its lines
}

// key is the command on one line, without comments.
func (c documentedCommand) key() string {
	text := strings.ReplaceAll(shellComment.ReplaceAllString(c.text, ""), "\\\n", " ")
	return strings.Join(strings.Fields(text), " ")
}

// shellComment is a comment of a command. None of the documented commands has a # after a space in quotes.
var shellComment = regexp.MustCompile(`(?m)(^|\s)#(\s.*)?$`)

// ofResponder reports whether a command is one of responder's own, which TestExamples of
// cmd/responder runs: there every flag and argument has a world that fits.
func (c documentedCommand) ofResponder() bool {
	first, rest, _ := strings.Cut(c.key(), " ")
	return first == "responder" || first == "source" && strings.Contains(rest, "responder ")
}

// TestDocumentedCommands runs the commands of the shell blocks of README.md and docs in
// order, as a reader does, on a control plane of its own: helm, kubectl and what else
// they need. A command that is not run has to be in testdata/documents.not-run, with the reason.
func TestDocumentedCommands(t *testing.T) {
	t.Parallel()
	skipped, all := listed(t, filepath.Join("testdata", "documents.not-run")), map[string]bool{}
	w := newReaderWorld(t)
	told := map[string]bool{}
	pages := documentedCommands(t)
	for _, page := range slices.Sorted(maps.Keys(pages)) {
		commands := pages[page]
		var run []documentedCommand
		for _, c := range commands {
			all[c.key()] = true
			if skipped[c.key()] == "" && !c.ofResponder() {
				run = append(run, c)
			}
		}
		if len(run) == 0 {
			continue
		}
		told[page] = true
		t.Run(page, func(t *testing.T) { readPage(t, w, readings[page], run) })
	}
	for page := range readings {
		if !told[page] {
			t.Errorf("%s has no command that is run", page)
		}
	}
	for line := range skipped {
		if !all[line] {
			t.Errorf("%s: documents.not-run lists it, but no page has it", line)
		}
	}
}

// readPage runs the commands of a page. Each step has to belong to one of them.
func readPage(t *testing.T, w *readerWorld, page reading, commands []documentedCommand) {
	r := w.reader(t)
	if page.world != nil {
		page.world(t, r)
	}
	steps := slices.Clone(page.steps)
	for _, c := range commands {
		at := pageStep{}
		if len(steps) > 0 && strings.HasPrefix(c.key(), steps[0].command) {
			at, steps = steps[0], steps[1:]
		} else if !strings.HasPrefix(c.key(), "export ") {
			t.Errorf("%s: no step checks it, and documents.not-run does not have it", c.key())
		}
		if at.before != nil {
			at.before(t, r)
		}
		out := r.run(t, c.text)
		if at.after != nil {
			at.after(t, r, out)
		}
	}
	for _, s := range steps {
		t.Errorf("the page has no command %q where it is expected", s.command)
	}
}

// documentedCommands returns the commands of the pages, in their order.
func documentedCommands(t *testing.T) map[string][]documentedCommand {
	t.Helper()
	out := map[string][]documentedCommand{}
	count := 0
	add := func(page string) {
		data, err := os.ReadFile(filepath.Join(rig.Repository(), page))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range shellBlock.FindAllStringSubmatch(string(data), -1) {
			for _, text := range shellCommands(t, page, strings.ReplaceAll(m[2], "\n"+m[1], "\n")) {
				out[page] = append(out[page], documentedCommand{page: page, text: text})
				count++
			}
		}
	}
	add("README.md")
	docs := filepath.Join(rig.Repository(), "docs")
	if err := filepath.WalkDir(docs, func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".md") && filepath.Base(filepath.Dir(path)) != "decisions" {
			rel, _ := filepath.Rel(rig.Repository(), path) // both are absolute
			add(rel)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if count < 250 {
		t.Fatalf("only %d commands were found", count)
	}
	return out
}

// shellBlock is a shell block of a page: its indent and its text.
var shellBlock = regexp.MustCompile("(?ms)^( *)```sh\n(.*?)^ *```")

// shellCommands splits a text into commands. Bash tells where one ends.
func shellCommands(t *testing.T, page, text string) []string {
	t.Helper()
	var out []string
	command := ""
	for line := range strings.Lines(text) {
		command += line
		if strings.HasSuffix(line, "\\\n") || exec.CommandContext(t.Context(), "bash", "-n", "-c", command).Run() != nil {
			continue
		}
		if (documentedCommand{text: command}).key() != "" {
			out = append(out, strings.TrimSpace(command))
		}
		command = ""
	}
	if command != "" {
		t.Errorf("%s: bash reads no command in\n%s", page, command)
	}
	return out
}

// listed returns the lines of a list, with the reason: the comment above.
func listed(t *testing.T, file string) map[string]string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	out, reason := map[string]string{}, ""
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if text, ok := strings.CutPrefix(line, "# "); ok {
			reason = text
		} else if line != "" {
			if reason == "" {
				t.Errorf("%s has no reason for %s", file, line)
			}
			out[line] = reason
		}
	}
	return out
}

// pageBlock returns the YAML block of a page that begins with a comment which names a file.
func pageBlock(t *testing.T, page, file string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(rig.Repository(), page))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile("(?ms)^```yaml\n(# " + regexp.QuoteMeta(file) + ".*?)^```").FindSubmatch(data)
	if m == nil {
		t.Fatalf("%s has no block for %s", page, file)
	}
	return string(m[1])
}
