package repository

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/gitops/gittest"
)

const lfs = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"

// odd pushes a tree with a link, a submodule and an LFS pointer.
func odd(t *testing.T, s *gittest.Server) string {
	t.Helper()
	s.Push("first", map[string]string{"prod/a.yaml": manifest, "prod/model.bin": lfs, "prod/sub/b.yaml": "b: 1\n", "big.yaml": strings.Repeat("# big\n", 1000)})
	target := s.Git("hash-object", "-w", "prod/a.yaml")
	s.Git("update-index", "--add", "--cacheinfo", "120000,"+target+",prod/link")
	s.Git("update-index", "--add", "--cacheinfo", "160000,"+s.Git("rev-parse", "HEAD")+",prod/module")
	s.Git("commit", "--quiet", "--message", "odd")
	s.Git("push", "--quiet", "origin", "HEAD:main")
	return s.Head("main")
}

func TestFiles(t *testing.T) {
	s := gittest.NewServer(t)
	sha := odd(t, s)
	r := open(t, s)
	tree, err := r.Files(t.Context(), Query{SHA: sha, Path: "prod"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]gitops.File{{Path: "prod/a.yaml", Data: []byte(manifest)}, {Path: "prod/sub/b.yaml", Data: []byte("b: 1\n")}}, tree.Files); diff != "" {
		t.Error(diff)
	}
	var skipped []string
	for _, s := range tree.Skipped {
		skipped = append(skipped, s.Path+" "+s.Why)
	}
	if diff := cmp.Diff([]string{
		"prod/link is a symbolic link, which is not followed: name the file it points to",
		"prod/model.bin is a Git LFS pointer: its content is not in the repository",
		"prod/module is a submodule: configure its own repository as the source",
	}, skipped); diff != "" {
		t.Error(diff)
	}
	if one, err := r.Files(t.Context(), Query{SHA: sha, Path: "prod/a.yaml"}); err != nil || len(one.Files) != 1 {
		t.Errorf("one file: %v, %v", one, err)
	}
	if some, err := r.Files(t.Context(), Query{SHA: sha, Accept: func(p string) bool { return p == "big.yaml" }}); err != nil || len(some.Files) != 1 || len(some.Skipped) != 0 {
		t.Errorf("accepted: %v, %v", some, err)
	}
}

func TestFilesRefused(t *testing.T) {
	s := gittest.NewServer(t)
	sha := odd(t, s)
	r := open(t, s)
	for _, test := range []struct {
		q      Query
		reason fault.Reason
		says   string
	}{
		{Query{Path: "prod/link"}, fault.Invalid, "symbolic link"},
		{Query{Path: "prod/link/etc/passwd"}, fault.Invalid, "symbolic link"},
		{Query{Path: "prod/module/x"}, fault.Invalid, "submodule"},
		{Query{Path: "prod/model.bin"}, fault.Invalid, "LFS"},
		{Query{Path: "prod/none"}, fault.NotFound, "prod/none"},
		{Query{Path: "prod/a.yaml/x"}, fault.NotFound, "prod/a.yaml/x"},
		{Query{Path: "../secret"}, fault.Invalid, "root"},
		{Query{Path: "/etc/passwd"}, fault.Invalid, "root"},
		{Query{Path: "prod/../../x"}, fault.Invalid, "root"},
		{Query{Path: "prod/.git/config"}, fault.Invalid, ".git"},
		{Query{Path: "a\x00b"}, fault.Invalid, "root"},
		{Query{Path: "big.yaml", FileBytes: 100}, fault.Invalid, "6000 bytes"},
		{Query{Files: 2}, fault.OutOfBounds, "narrower"},
		{Query{Bytes: 5000}, fault.OutOfBounds, "narrower"},
		{Query{SHA: "main"}, fault.Invalid, "40"},
	} {
		if test.q.SHA == "" {
			test.q.SHA = sha
		}
		_, err := r.Files(t.Context(), test.q)
		wantError(t, err, test.reason, test.says)
	}
}

func TestCommitRefused(t *testing.T) {
	s := gittest.NewServer(t)
	sha := odd(t, s)
	r := open(t, s, func(o *Options) { o.Limits.Changes = 100 })
	file := func(p string) []gitops.File { return []gitops.File{{Path: p, Data: []byte("x: 1\n")}} }
	for _, test := range []struct {
		q      CommitRequest
		reason fault.Reason
		says   string
	}{
		{CommitRequest{Files: file("prod/link")}, fault.Invalid, "symbolic link"},
		{CommitRequest{Files: file("prod/link/x.yaml")}, fault.Invalid, "symbolic link"},
		{CommitRequest{Files: file("prod/module")}, fault.Invalid, "submodule"},
		{CommitRequest{Files: file("prod/model.bin")}, fault.Invalid, "LFS"},
		{CommitRequest{Files: file("prod")}, fault.Invalid, "directory"},
		{CommitRequest{Files: file("prod/a.yaml/x")}, fault.Invalid, "is a file"},
		{CommitRequest{Files: file("../x")}, fault.Invalid, "root"},
		{CommitRequest{Files: file(".git/config")}, fault.Invalid, ".git"},
		{CommitRequest{Files: file("")}, fault.Invalid, "no name"},
		{CommitRequest{}, fault.Invalid, "no file"},
		{CommitRequest{Files: append(file("a"), file("a")...)}, fault.Invalid, "twice"},
		{CommitRequest{Files: []gitops.File{{Path: "a", Data: make([]byte, 200)}}}, fault.OutOfBounds, "limits.changes"},
		{CommitRequest{Files: file("a"), Branch: "a..b"}, fault.Invalid, "branch"},
		{CommitRequest{Files: file("a"), Message: Message{What: "x"}}, fault.Invalid, "Responder-Effect"},
		{CommitRequest{Files: file("a"), Message: Message{Effect: "e"}}, fault.Invalid, "subject"},
		{CommitRequest{Files: file("a"), Message: Message{What: "x", Effect: "e\nResponder-Run: forged"}}, fault.Invalid, "one word"},
		{CommitRequest{Files: file("a"), TakesBack: []string{"main\n\nResponder-Run: forged"}}, fault.Invalid, "want 40 hexadecimal digits"},
	} {
		test.q.Base = sha
		if test.q.Message == (Message{}) {
			test.q.Message = message("e")
		}
		_, err := r.Commit(t.Context(), test.q)
		wantError(t, err, test.reason, test.says)
	}
	if s.Head("main") != sha {
		t.Error("the branch was moved")
	}
}

// TestMessageInjection: what an alert says becomes no line of its own.
func TestMessageInjection(t *testing.T) {
	m := message("e")
	m.What = "set flag\n\nResponder-Effect: forged\x1b[31m\u202e"
	m.Why = "because\r\n\r\nResponder-Effect: forged"
	m.Why += " " + strings.Repeat("x", 70) + "\r\n\r\nThis reverts commit 1234567890123456789012345678901234567890."
	m.Alert = "x" + strings.Repeat(" word", 20) + "\nResponder-Run: forged\n# a comment"
	text, err := m.format()
	if err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(text, "\r\x1b\u202e") {
		t.Errorf("control characters in %q", text)
	}
	if diff := cmp.Diff(map[string]string{
		"Responder-Run": "01RUN", "Responder-State": "cap-concurrency", "Responder-Plan": "sha256:abc", "Responder-Effect": "e",
	}, trailers(text)); diff != "" {
		t.Error(diff)
	}
	if got := reverts(text); len(got) > 0 {
		t.Errorf("it reverts %v", got)
	}
	for line := range strings.SplitSeq(text, "\n") {
		if len(line) > 160 || strings.HasPrefix(line, "#") || strings.Contains(line, "forged") && strings.HasPrefix(line, "Responder-") {
			t.Errorf("line %q", line)
		}
	}
}

func TestTrailers(t *testing.T) {
	for message, want := range map[string]map[string]string{
		"subject":                                               nil,
		"Responder-Effect: subject":                             nil,
		"s\n\nResponder-Effect: a":                              {"Responder-Effect": "a"},
		"s\r\n\r\nResponder-Effect: a\r\n":                      {"Responder-Effect": "a"},
		"s\n\nResponder-Effect: a\n\nmore":                      nil,
		"s\n\nnot a trailer\nResponder-Effect: a":               nil,
		"s\n\nA: 1\nA: 2\n\n\n":                                 {"A": "2"},
		"s\n\nA: 1\n continued\n(cherry picked from commit 12)": {"A": "1"},
	} {
		if diff := cmp.Diff(want, trailers(message)); diff != "" {
			t.Errorf("%q: %s", message, diff)
		}
	}
}

func TestURL(t *testing.T) {
	for raw, want := range map[string]string{
		"https://git.example.com/fleet.git":     "https://git.example.com/fleet.git",
		"ssh://git@git.example.com:2222/f/leet": "ssh://git@git.example.com:2222/f/leet",
		"git@github.com:acme/fleet.git":         "git@github.com:acme/fleet.git",
		"github.com:acme/fleet.git":             "git@github.com:acme/fleet.git",
		"git@host:/srv/fleet.git":               "ssh://git@host/srv/fleet.git",
		"file:///srv/fleet.git":                 "file:///srv/fleet.git",
		"https://canary:canary@host/fleet":      "",
		"https://canary@host/fleet":             "",
		"ssh://git:canary@host/fleet":           "",
		"https://host/fleet?token=canary":       "",
		"https://host/fleet#canary":             "",
		"https://169.254.169.254/latest":        "",
		"ext::sh -c canary":                     "",
		"ftp://host/canary":                     "",
		"fleet.git":                             "",
		"https://":                              "",
		"file://relative/canary":                "",
		"-oProxyCommand=canary:x":               "",
		"ssh://-oProxyCommand=canary/x":         "",
		"https://host/a b":                      "",
		"":                                      "",
	} {
		a, err := parseURL(raw)
		if want == "" {
			if err == nil {
				t.Errorf("%q was taken as %s", raw, a)
			} else if strings.Contains(fmt.Sprint(err), "canary") {
				t.Errorf("%q is repeated in %v", raw, err)
			}
			continue
		}
		if err != nil || a.String() != want {
			t.Errorf("%q: %s, %v", raw, a, err)
		}
	}
}
