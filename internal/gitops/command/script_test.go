package command

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
		s, err := split(script)
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

// TestLineGoesOnInQuotes: a backslash before the end of a line joins the lines,
// also where the quoted text ends there.
func TestLineGoesOnInQuotes(t *testing.T) {
	s, err := split("a \"b\\\n\" '\"a 'b\"a\\\n\"")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, w := range s.words {
		got = append(got, w.text)
	}
	if diff := cmp.Diff([]string{"a", "b", `"a ba`}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestAssigned: a variable that a script sets is known as such, unless it keeps
// what it has.
func TestAssigned(t *testing.T) {
	for script, want := range map[string]bool{
		"X=1": true, "X=1 a": true, "export X=1": true, "export X": false, "X=(a b)": true, "X+=a": true, "X+=$X": true, "X[0]=a": true,
		"X=$X": false, "X=${X}": false, "X=\"$X\"": false, "X=${X:-a b}": false, "X=\"${X-a}\"": false,
		"X=${X:+a}": true, "X=${X:=a}": true, "X=${X%a}": true, "X=${X/a/b}": true, "X=${#X}": true, "X=$Y": true, "X=${X}a": true, "X=${X:1}": true,
		"for X in a; do b; done": true, "read X": true, "read -r Y X": true, "unset X": true, "printf -v X a": true, "((X = 1))": true, "let X=1": true,
		"for ((X = 0; X < 1; X++)); do a; done": true, "echo X": false, "X=1; X=$X": true, "if a; then X=1; fi": true, "f() { X=1; }": true,
	} {
		s, err := split(script)
		if err != nil {
			t.Errorf("%q: %v", script, err)
		} else if s.assigned["X"] != want {
			t.Errorf("%q sets %v", script, s.assigned)
		}
	}
}

// TestScripts: operators, comments, redirections and expansions.
func TestScripts(t *testing.T) {
	for script, want := range map[string][]string{
		"a; b & c && d | e":                  {"0 a", "1 b", "2 c", "3 d", "4 e"},
		"a >x 2>&1 <y b":                     {"0 a", "0 x redirect", "0 1 redirect", "0 y redirect", "0 b"},
		"a # b c\nd":                         {"0 a", "1 d"},
		"a $X \"$Y\" ${Z:-\"a b\"}":          {"0 a", "0 $X bare", "0 $Y expands", "0 ${Z:-\"a b\"} bare"},
		"a $(b 'c)' \"d\") `e f` $((1 + 2))": {"0 a", "0 $(b 'c)' \"d\") bare", "0 `e f` bare", "0 $((1 + 2)) bare"},
		"a \\\n  b\\\nc":                     {"0 a", "0 bc"},
		"a '$X' \\$X $ \"$\"":                {"0 a", "0 $X", "0 $X", "0 $", "0 $"},
		"(a; b)":                             {"0 a", "1 b"},
		"a \\\n # b \\\n c":                  {"0 a", "1 c"},
		"a $'b\\n' $\"c\"":                   {"0 a", "0 $'b\\n' expands", "0 $\"c\" expands"},
		"if a; then b; else c; fi":           {"0 a", "1 b", "2 c"},
		"for x in a b; do c; done":           {"0 a", "0 b", "1 c"},
		"case a in b) c;; d) e;; esac":       {"0 a", "0 b", "1 c", "2 d", "3 e"},
		"X=1 a; export Y=\"b c\"":            {"0 X=1", "0 a", "1 export", "1 Y=b c"},
		"A=(b # c\n d); e":                   {"0 A=", "1 b", "1 d", "3 e"},
		"cat <<EOF >x\n$(a) b\nEOF\nc":       {"0 cat", "0 EOF redirect", "0 x redirect", "1 c"},
		"cat > x <<-'E O'\n\ta\n\tE O\nb c":  {"0 cat", "0 x redirect", "0 E O redirect", "1 b", "1 c"},
		"tee x <<< \"a b\"":                  {"0 tee", "0 x", "0 a b redirect"},
	} {
		s, err := split(script)
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
	for _, script := range []string{
		"a 'b", `a "b`, "a $(b", "a ${b", "a `b", `a \`, "a\r\nb", "a (b)", "fi", "cat <<EOF\na\n",
		"bash <<EOF\na\nEOF", "cat <<EOF | bash\na\nEOF", "cat <<EOF | tee x | bash\na\nEOF", "{ cat <<EOF; } | sh\na\nEOF", "bash <<< a", "<<EOF\na\nEOF", "while a; do b; done <<EOF\na\nEOF",
		strings.Repeat("(", 2000),
	} {
		if s, err := split(script); err == nil {
			t.Errorf("%q is read as %+v", script, s.words)
		}
	}
}
