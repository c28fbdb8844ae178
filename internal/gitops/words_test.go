package gitops

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestWordsAsTheShellReads: scripts are split as sh splits them.
func TestWordsAsTheShellReads(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Fatalf("no sh to compare with: %v", err)
	}
	part := rapid.SampledFrom([]string{"a", "b", "--x=", "-", " ", "  ", "\t", "'", `"`, `\`, `\'`, `\"`, `\\`, "\\\n", "#", "'a b'", `"a 'b"`, `"\a"`, "é"})
	rapid.Check(t, func(t *rapid.T) {
		script := "printf '%s\\0' . " + strings.Join(rapid.SliceOfN(part, 0, 12).Draw(t, "parts"), "")
		s, err := shellWords(script)
		if err != nil {
			t.Skip(err)
		}
		if s.command > 0 {
			t.Skip("a comment ended, and with it the command")
		}
		var got []string
		for _, w := range s.words[2:] {
			got = append(got, w.text)
		}
		out, err := exec.Command(sh, "-c", script).Output()
		if err != nil {
			t.Fatalf("sh does not take %q: %v", script, err)
		}
		want := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%q (-sh +here):\n%s", script, diff)
		}
		for _, w := range s.words {
			for i := range w.text {
				if w.from[i] < w.begin || w.to[i] > w.end || w.to[i] <= w.from[i] {
					t.Fatalf("%q: byte %d of %q is written at %d to %d", script, i, w.text, w.from[i], w.to[i])
				}
			}
		}
	})
}

// TestScripts: operators, comments, redirections and expansions.
func TestScripts(t *testing.T) {
	for script, want := range map[string][]string{
		"a; b & c && d | e":                  {"0 a", "1 b", "2 c", "4 d", "5 e"},
		"a >x 2>&1 <y b":                     {"0 a", "0 x redirect", "0 2 redirect", "0 1 redirect", "0 y redirect", "0 b"},
		"a # b c\nd":                         {"0 a", "1 d"},
		"a $X \"$Y\" ${Z:-\"a b\"}":          {"0 a", "0 $X bare", "0 $Y expands", "0 ${Z:-\"a b\"} bare"},
		"a $(b 'c)' \"d\") `e f` $((1 + 2))": {"0 a", "0 $(b 'c)' \"d\") bare", "0 `e f` bare", "0 $((1 + 2)) bare"},
		"a \\\n  b\\\nc":                     {"0 a", "0 bc"},
		"a '$X' \\$X $ \"$\"":                {"0 a", "0 $X", "0 $X", "0 $", "0 $"},
		"(a; b)":                             {"1 a", "2 b"},
	} {
		s, err := shellWords(script)
		if err != nil {
			t.Errorf("%q: %v", script, err)
			continue
		}
		var got []string
		for _, w := range s.words {
			text := string(rune('0'+w.command)) + " " + w.text
			switch {
			case w.redirect:
				text += " redirect"
			case w.bare:
				text += " bare"
			case w.expands:
				text += " expands"
			}
			got = append(got, text)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", script, diff)
		}
	}
	for _, script := range []string{"a 'b", `a "b`, "a $(b", "a ${b", "a `b", "cat <<EOF\nEOF", `a \`} {
		if s, err := shellWords(script); err == nil {
			t.Errorf("%q is read as %+v", script, s.words)
		}
	}
}
