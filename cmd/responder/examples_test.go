package main

import (
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// placeholders are words of the examples that stand for something of the reader's. A
// script sets the variable with the value that it has there.
var placeholders = map[string]string{
	"r-01JDXYZ": "RUN", "run/r-01JD": "STREAM", "8c1f03d2": "ALERT", "sha256:5f2c...": "DIGEST",
	"serving/chat": "SERVICE", "https://responder.example:8443": "RESPONDER_SERVER",
	"https://responder.example": "RESPONDER_SERVER", "http://127.0.0.1:8080": "RESPONDER_SERVER", "127.0.0.1:8080": "ADDR",
	"/mnt/archive/1a2b3c4d-000000000000-000000065536.segment": "SEGMENT", "NAME": "NAME", "node=gpu-17": "NODE_LABEL", "PLAYBOOK": "PLAYBOOK", "SERVICE": "SERVICE", "LEVER": "LEVER", "TEXT": "TEXT",
	`"${fpath[1]}/_responder"`: "COMPLETION", "~/.config/fish/completions/responder.fish": "COMPLETION",
}

// elsewhere are directories of the examples, which a script has below its own.
var elsewhere = regexp.MustCompile(`^/(mnt|tmp|etc|keys)/`)

// examples are the examples of the scripts of testdata/examples.
type examples struct {
	mu  sync.Mutex
	run map[string]bool // by what words writes
}

// TestExamples runs the examples of the help and of the documentation. An example that
// no script of testdata/examples runs has to be in testdata/examples.not-run, with the reason.
// TestDocumentedCommands of test/e2e runs the commands of other programs.
func TestExamples(t *testing.T) {
	root := filepath.Join("..", "..")
	all := exampleLines(t, root)
	ran := &examples{run: map[string]bool{}}
	absolute, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	commands := scriptCommands(t)
	commands["example"], commands["fails"], commands["serves"], commands["hurried"] = ran.example, ran.fails, ran.serves, ran.hurried
	commands["setfirst"] = setFirst
	t.Run("scripts", func(t *testing.T) {
		testscript.Run(t, testscript.Params{
			Dir: filepath.Join("testdata", "examples"), RequireExplicitExec: true, Cmds: commands,
			Setup: func(e *testscript.Env) error {
				e.Setenv("ROOT", absolute)
				e.Setenv("HOME", e.WorkDir)
				e.Setenv("SERVICE", "serving/inference-chat")
				e.Setenv("COMPLETION", filepath.Join(e.WorkDir, "completion"))
				return nil
			},
		})
	})
	if t.Failed() || selectsSubtests() {
		return
	}
	skipped := notRun(t)
	for _, line := range slices.Sorted(maps.Keys(all)) {
		switch reason, listed := skipped[line]; {
		case ran.run[line] && listed:
			t.Errorf("%s: it is run, and examples.not-run says that it is not: %s", line, reason)
		case !ran.run[line] && !listed:
			t.Errorf("%s\nof %s is run by no script of testdata/examples, and examples.not-run has no reason", line, all[line])
		}
	}
	for line := range ran.run {
		if all[line] == "" {
			t.Errorf("%s: a script runs it as an example, but help and docs do not have it", line)
		}
	}
	for line := range skipped {
		if all[line] == "" {
			t.Errorf("%s: examples.not-run lists it, but help and docs do not have it", line)
		}
	}
}

// selectsSubtests reports whether -run names some of the scripts only.
func selectsSubtests() bool {
	return strings.Contains(flag.Lookup("test.run").Value.String(), "/")
}

// block is a shell block of a page.
var block = regexp.MustCompile("(?ms)^ *```sh\n(.*?)^ *```")

// exampleLines returns the examples of README.md and docs by their text, with the page
// that has each. docs/reference/cli.md is the help of all commands.
func exampleLines(t *testing.T, root string) map[string]string {
	t.Helper()
	out := map[string]string{}
	add := func(page string) {
		data, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range block.FindAllStringSubmatch(string(data), -1) {
			for line := range strings.Lines(strings.ReplaceAll(m[1], "\\\n", "")) {
				if w := inPod(words(line)); len(w) > 0 && strings.Contains(line, "responder ") && (w[0] == "responder" || w[0] == "source") {
					out[strings.Join(w, " ")] = page
				}
			}
		}
	}
	add(filepath.Join(root, "README.md"))
	if err := filepath.WalkDir(filepath.Join(root, "docs"), func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".md") && filepath.Base(filepath.Dir(path)) != "decisions" {
			add(path)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if len(out) < 200 {
		t.Fatalf("only %d examples were found", len(out))
	}
	return out
}

// words returns the words of a line without its comment. A word in quotes keeps them.
func words(line string) []string {
	var out []string
	for _, w := range word.FindAllString(line, -1) {
		if strings.HasPrefix(w, "#") {
			break
		}
		if bare := strings.Trim(w, "'"); !strings.ContainsAny(bare, special) {
			w = bare
		}
		if w == "RUN" { // as the help writes it
			w = "r-01JDXYZ"
		}
		out = append(out, w)
	}
	return out
}

// inPod returns the command that kubectl runs in the pod, or the words as they are.
func inPod(words []string) []string {
	if at := slices.Index(words, "--"); at > 0 && words[0] == "kubectl" && slices.Contains(words, "exec") {
		return words[at+1:]
	}
	return words
}

// special are the characters for which a word of an example is quoted.
const special = " |#'"

// word is a run of characters other than spaces, those in single quotes included.
var word = regexp.MustCompile(`(?:'[^']*'|[^\s'])+`)

// notRun returns the examples of testdata/examples.not-run, with the reason: the comment above.
func notRun(t *testing.T) map[string]string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "examples.not-run"))
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
				t.Errorf("examples.not-run has no reason for %s", line)
			}
			out[line] = reason
		}
	}
	return out
}

// example COMMAND... runs an example, which must succeed.
func (x *examples) example(ts *testscript.TestScript, _ bool, args []string) {
	if err := x.shell(ts, args); err != nil {
		ts.Fatalf("%s: %v", strings.Join(args, " "), err)
	}
}

// hurried SPEED COMMAND... runs an example of a demo, at another speed than its own.
func (x *examples) hurried(ts *testscript.TestScript, fails bool, args []string) {
	line := strings.Replace(x.commandLine(ts, args[1:]), "responder demo", "responder demo --speed "+args[0], 1)
	if err := ts.Exec("timeout", "--foreground", "120", "bash", "-c", line); (err != nil) != fails {
		ts.Fatalf("%s: %v", line, err)
	}
}

// fails CODE COMMAND... runs an example that ends with an exit code other than 0 here,
// because what it asks is not there or has something wrong. The script then checks why.
func (x *examples) fails(ts *testscript.TestScript, _ bool, args []string) {
	err := x.shell(ts, args[1:])
	var exit *exec.ExitError
	if !errors.As(err, &exit) || fmt.Sprint(exit.ExitCode()) != args[0] {
		ts.Fatalf("%s: %v, want exit code %s", strings.Join(args[1:], " "), err, args[0])
	}
}

// shell runs an example in a shell, with something real for each placeholder.
func (x *examples) shell(ts *testscript.TestScript, args []string) error {
	return ts.Exec("timeout", "25", "bash", "-c", x.commandLine(ts, args))
}

// commandLine records an example as run, and returns it with something real for each
// placeholder.
func (x *examples) commandLine(ts *testscript.TestScript, args []string) string {
	documented, line := make([]string, len(args)), make([]string, len(args))
	for i, a := range args {
		documented[i] = a
		if strings.ContainsAny(a, special) {
			documented[i] = "'" + a + "'"
		}
		line[i] = documented[i]
		name, ok := placeholders[a]
		if !ok {
			line[i] = elsewhere.ReplaceAllString(line[i], ts.MkAbs(".")+"/$1/")
		} else if line[i] = ts.Getenv(name); line[i] == "" {
			ts.Fatalf("the script sets no %s, which %s stands for", name, a)
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.run[strings.Join(documented, " ")] = true
	return strings.Join(line, " ")
}

// serves EXTRA COMMAND... runs an example that serves until it is interrupted, with extra
// flags: it must become ready at $ADDR and end without an error.
func (x *examples) serves(ts *testscript.TestScript, _ bool, args []string) {
	c := exec.Command("bash", "-c", "exec "+x.commandLine(ts, args[1:])+" "+args[0])
	c.Dir = ts.MkAbs(".")
	c.Env = append(os.Environ(), "HOME="+c.Dir, "PATH="+ts.Getenv("PATH"))
	var out strings.Builder
	c.Stdout, c.Stderr = &out, &out
	ts.Check(c.Start())
	ready := func() bool {
		resp, err := http.Get("http://" + ts.Getenv("ADDR") + "/readyz")
		if err == nil {
			_ = resp.Body.Close()
		}
		return err == nil && resp.StatusCode == http.StatusOK
	}
	for deadline := time.Now().Add(patience); !ready() && time.Now().Before(deadline); {
		time.Sleep(50 * time.Millisecond) // another process is waited for; nothing here could signal it
	}
	was := ready()
	ts.Check(c.Process.Signal(syscall.SIGINT))
	if err := c.Wait(); err != nil || !was {
		ts.Fatalf("ready: %t, then %v\n%s", was, err, out.String())
	}
}

// setFirst NAME PATTERN sets a variable to what the pattern finds first in what was
// printed last: its first group.
func setFirst(ts *testscript.TestScript, _ bool, args []string) {
	m := regexp.MustCompile(args[1]).FindStringSubmatch(ts.ReadFile("stdout"))
	if len(m) < 2 {
		ts.Fatalf("setfirst: no %s in\n%s", args[1], ts.ReadFile("stdout"))
	}
	ts.Setenv(args[0], m[1])
}
