package gitops

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestDiffApplies: git applies the difference that is shown.
func TestDiffApplies(t *testing.T) {
	numbered := strings.Repeat("a\nb\nc\nd\n", 10)
	for name, c := range map[string]struct{ path, before, after string }{
		"one line":              {"a.yaml", numbered, strings.Replace(numbered, "b\n", "x\n", 1)},
		"first line":            {"a.yaml", numbered, "x" + numbered},
		"last line":             {"a.yaml", numbered, numbered + "x\n"},
		"two hunks":             {"dir/a.yaml", numbered, "x\n" + numbered[2:len(numbered)-2] + "y\n"},
		"all of it goes":        {"a.yaml", "a\nb\n", "c\n"},
		"no newline before":     {"a.yaml", "a\nb", "a\nb\nc\n"},
		"no newline after":      {"a.yaml", "a\nb\n", "a\nc"},
		"no newline, untouched": {"a.yaml", "a\nb\nc", "x\nb\nc"},
		"carriage returns":      {"a.yaml", "a\r\nb\r\n", "a\r\nc\r\n"},
		"credentials around":    {"a.yaml", numbered + "password: x1234567\na\nb\nc\nd\ntoken: x1234567\n" + numbered, numbered + "password: x1234567\na\nb\nX\nd\ntoken: x1234567\n" + numbered},
		"space in the name":     {"my apps/a b.yaml", numbered, strings.Replace(numbered, "d\n", "", 1)},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if got := applied(t, dir, c.path, c.before, c.after); got != c.after {
				t.Errorf("applied, it is %q, want %q", got, c.after)
			}
		})
	}
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		text := func(label string) string {
			lines := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "- c: 1", "  d", "", "e\r"}), 1, 40).Draw(t, label)
			return strings.Join(lines, "\n") + rapid.SampledFrom([]string{"\n", "\n", "x"}).Draw(t, "end")
		}
		before, after := text("before"), text("after")
		if got := applied(t, dir, "a.yaml", before, after); got != after {
			t.Fatalf("applied, it is %q, want %q", got, after)
		}
	})
}

// A diff that hides a credential in a hunk names itself for reading only; any other
// one applies.
func TestDiffForReading(t *testing.T) {
	const token = "  HF_TOKEN: hf_abcdefghijklmnopqrstuvwxyzabcdefgh\n"
	diff := func(before, after string) string {
		return diffOf([]File{{"a.yaml", []byte(before)}}, []File{{"a.yaml", []byte(after)}})
	}
	beside := diff("data:\n  N: 1\n"+token, "data:\n  N: 2\n"+token)
	apart := diff(token+"data:\n  N: 1\n  M: 1\n", token+"data:\n  N: 2\n  M: 1\n")
	for _, env := range []string{"- name: LICENCE\n\n  value: %\n", "- value: %\n\n  # of the vendor\n  name: LICENCE\n"} {
		was, is := strings.Replace(env, "%", "hf_abc1", 1), strings.Replace(env, "%", "hf_abc2", 1)
		if d := diff("env:\n"+was, "env:\n"+is); strings.Contains(d, "hf_abc") || !strings.HasPrefix(d, readingOnly) {
			t.Errorf("%q: the credential is shown:\n%s", env, d)
		}
	}
	for name, d := range map[string]string{"beside": beside, "apart": apart} {
		if strings.Contains(d, "hf_abc") {
			t.Errorf("%s: the credential is shown:\n%s", name, d)
		}
	}
	if !strings.HasPrefix(beside, readingOnly+"\n--- a/a.yaml\n") {
		t.Errorf("it does not apply and does not say so:\n%s", beside)
	}
	if strings.Contains(apart, readingOnly) {
		t.Errorf("it applies and says that it does not:\n%s", apart)
	}
}

// applied returns what git makes of before with the difference to after.
func applied(t interface{ Fatalf(string, ...any) }, dir, path, before, after string) string {
	file := filepath.Join(dir, filepath.FromSlash(path))
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatalf("%v", err)
	}
	if err := os.WriteFile(file, []byte(before), 0o600); err != nil {
		t.Fatalf("%v", err)
	}
	patch := Proposal{Old: []File{{Path: path, Data: []byte(before)}}, Files: []File{{Path: path, Data: []byte(after)}}}.Diff()
	if patch == "" {
		return before
	}
	cmd := exec.Command("git", "apply", "--whitespace=nowarn", "-")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir))
	cmd.Stdin = strings.NewReader(patch)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git apply: %v\n%s\n%s", err, out, patch)
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return string(got)
}

// TestDiffOfAPrivateKey: no line of a private key is shown, in a manifest or alone.
func TestDiffOfAPrivateKey(t *testing.T) {
	for _, in := range []string{"data:\n  id_rsa: |\n    ", ""} {
		key := func(body string) string {
			return in + strings.ReplaceAll("-----BEGIN RSA PRIVATE KEY-----\ncanary\n"+body+"\n-----END RSA PRIVATE KEY-----\n", "\n", "\n"+strings.Repeat(" ", len(in)-len(strings.TrimRight(in, " "))))
		}
		s := newSide(key("canary2"))
		for i := range s.lines {
			if got := s.line(i); strings.Contains(got, "canary") {
				t.Errorf("shown: %q", got)
			}
		}
	}
}
