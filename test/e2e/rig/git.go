//go:build e2e

package rig

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// Git is a real git server for one test: one bare repository behind
// `git http-backend`, with a token in front.
type Git struct {
	URL    string // of the repository, without credentials
	Branch string // the default branch
	Token  string // the password; any user name will do. Worth nothing outside the test
	Bare   string // the repository on disk

	server *httptest.Server
	work   string // a person's clone

	working sync.Mutex    // one commit at a time; guards age
	age     time.Duration // of the next commits
	mu      sync.Mutex    // guards faults
	faults  gitFaults
}

// gitFaults is what the network does to the server's clients.
type gitFaults struct {
	token      string // the one accepted
	down       bool
	noPush     bool
	delay      time.Duration
	beforePush func() (letIn bool)
	afterPush  func()
	cutPushes  int
	pushes     int
}

// StartGit starts a git server whose repository holds these files, by their
// paths, in one commit on the branch main. It needs git.
func StartGit(t testing.TB, files map[string]string) *Git {
	t.Helper()
	path, err := exec.LookPath("git")
	if err != nil {
		t.Fatalf("no git here: run test/e2e/rig/packages.sh: %v", err)
	}
	dir := runDir(t, "git")
	g := &Git{Branch: "main", Token: "rig-git-token-of-no-worth", Bare: filepath.Join(dir, "serving.git"), work: filepath.Join(dir, "work")}
	g.faults.token = g.Token
	for _, args := range [][]string{
		{"init", "--quiet", "--bare", "--initial-branch=" + g.Branch, g.Bare},
		{"-C", g.Bare, "config", "http.receivepack", "true"},
		{"-C", g.Bare, "config", "uploadpack.allowAnySHA1InWant", "true"},
		{"clone", "--quiet", g.Bare, g.work},
	} {
		if _, err := git(t.Context(), args...); err != nil {
			t.Fatal(err)
		}
	}
	g.server = httptest.NewServer(g.behind(&cgi.Handler{
		Path: path, Args: []string{"http-backend"}, Dir: dir,
		Env: []string{
			"GIT_PROJECT_ROOT=" + dir, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=rig",
			"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull,
		},
	}))
	t.Cleanup(g.server.Close)
	g.URL = g.server.URL + "/serving.git"
	g.Backdate(8 * 24 * time.Hour) // so that it is in no window
	g.Commit(t, "Serve chat", files)
	g.Backdate(0)
	return g
}

// behind puts the token and the faults before the server.
func (g *Git) behind(backend http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		g.mu.Lock()
		f := g.faults
		g.mu.Unlock()
		push := strings.HasSuffix(req.URL.Path, "/git-receive-pack") || req.URL.Query().Get("service") == "git-receive-pack"
		if f.delay > 0 {
			select {
			case <-time.After(f.delay):
			case <-req.Context().Done():
				return
			}
		}
		if f.down || f.noPush && push {
			panic(http.ErrAbortHandler) // the connection ends without an answer
		}
		if _, password, ok := req.BasicAuth(); !ok || password != f.token {
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			http.Error(w, "no such token", http.StatusUnauthorized)
			return
		}
		// CGI knows no chunks, and a push has to be whole before it is counted.
		body, err := io.ReadAll(req.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		req.Body, req.ContentLength, req.TransferEncoding = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
		if !push || req.Method != http.MethodPost {
			backend.ServeHTTP(w, req)
			return
		}
		g.receive(w, req, backend)
	})
}

// receive lets one push in.
func (g *Git) receive(w http.ResponseWriter, req *http.Request, backend http.Handler) {
	g.mu.Lock()
	before, after := g.faults.beforePush, g.faults.afterPush
	g.faults.beforePush, g.faults.afterPush = nil, nil
	g.mu.Unlock()
	if before != nil && !before() {
		panic(http.ErrAbortHandler)
	}
	answer := httptest.NewRecorder()
	backend.ServeHTTP(answer, req)
	if after != nil {
		after()
	}

	g.mu.Lock()
	g.faults.pushes++
	cut := g.faults.cutPushes > 0
	if cut {
		g.faults.cutPushes--
	}
	g.mu.Unlock()
	if cut {
		panic(http.ErrAbortHandler)
	}
	for name, values := range answer.Header() {
		w.Header()[name] = values
	}
	w.WriteHeader(answer.Code)
	_, _ = w.Write(answer.Body.Bytes()) // a client that hangs up has no use for the error
}

func (g *Git) fault(set func(*gitFaults)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	set(&g.faults)
}

// SetDown makes every connection end without an answer, or ends that.
func (g *Git) SetDown(down bool) { g.fault(func(f *gitFaults) { f.down = down }) }

// SetPushable makes connections that push end without an answer, or ends that.
// Reading works all the time.
func (g *Git) SetPushable(pushable bool) { g.fault(func(f *gitFaults) { f.noPush = !pushable }) }

// SetDelay makes every request wait that long before it is looked at.
func (g *Git) SetDelay(d time.Duration) { g.fault(func(f *gitFaults) { f.delay = d }) }

// Revoke makes the server refuse the token it was started with, or accept it again.
func (g *Git) Revoke(revoked bool) {
	g.fault(func(f *gitFaults) {
		f.token = g.Token
		if revoked {
			f.token = "another"
		}
	})
}

// CutPushes takes in the next n pushes whole and cuts the connection instead of
// answering.
func (g *Git) CutPushes(n int) { g.fault(func(f *gitFaults) { f.cutPushes = n }) }

// BeforePush has a function called once, when the next push has arrived and
// git has not seen it: somebody else may be faster, or the push may get lost
// here. It runs concurrently with the test, so it must not end it: use [Git.TryCommit].
func (g *Git) BeforePush(do func() (letIn bool)) { g.fault(func(f *gitFaults) { f.beforePush = do }) }

// AfterPush has a function called once, when the next push is in and not yet
// answered. It runs concurrently with the test, as that of [Git.BeforePush] does.
func (g *Git) AfterPush(do func()) { g.fault(func(f *gitFaults) { f.afterPush = do }) }

// Pushes counts the pushes that arrived whole, the refused ones too.
func (g *Git) Pushes() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.faults.pushes
}

// Backdate makes the commits that follow say that they were made that long ago,
// as those of a branch do that was prepared and is pushed later.
func (g *Git) Backdate(age time.Duration) {
	g.working.Lock()
	defer g.working.Unlock()
	g.age = age
}

// Commit is a person's commit: it writes files, by their paths, on top of the
// branch and publishes them, past the server and its faults. It returns the SHA.
func (g *Git) Commit(t testing.TB, message string, files map[string]string) string {
	t.Helper()
	sha, err := g.TryCommit(context.Background(), message, files)
	if err != nil {
		t.Fatal(err)
	}
	return sha
}

// TryCommit is Commit for a function that is not the test's own.
func (g *Git) TryCommit(ctx context.Context, message string, files map[string]string) (sha string, err error) {
	g.working.Lock()
	defer g.working.Unlock()
	if _, err := git(ctx, "-C", g.work, "rev-parse", "HEAD"); err == nil {
		if _, err := git(ctx, "-C", g.work, "pull", "--quiet", "--ff-only"); err != nil {
			return "", err
		}
	}
	for name, content := range files {
		path := filepath.Join(g.work, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return "", err
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			return "", err
		}
	}
	at := time.Now().Add(-g.age).Format(time.RFC3339)
	for _, args := range [][]string{
		{"add", "--all"},
		{"-c", "user.name=Ada", "-c", "user.email=ada@example.com", "commit", "--quiet", "--message=" + message},
		{"push", "--quiet", "origin", "HEAD:" + g.Branch},
	} {
		if _, err := gitWith(ctx, []string{"GIT_AUTHOR_DATE=" + at, "GIT_COMMITTER_DATE=" + at}, append([]string{"-C", g.work}, args...)...); err != nil {
			return "", err
		}
	}
	return g.head(ctx)
}

// Edit is Commit of one file with a text of it, which has to be there once,
// replaced by another.
func (g *Git) Edit(t testing.TB, message, path, from, to string) string {
	t.Helper()
	content := g.File(t, g.Branch, path)
	if n := strings.Count(content, from); n != 1 {
		t.Fatalf("%s has %q %d times, want once:\n%s", path, from, n, content)
	}
	return g.Commit(t, message, map[string]string{path: strings.Replace(content, from, to, 1)})
}

// Head is the SHA of the branch's newest commit.
func (g *Git) Head(t testing.TB) string {
	t.Helper()
	sha, err := g.head(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return sha
}

func (g *Git) head(ctx context.Context) (string, error) {
	out, err := git(ctx, "-C", g.Bare, "rev-parse", g.Branch)
	return strings.TrimSpace(out), err
}

// File is a file's content at a revision.
func (g *Git) File(t testing.TB, revision, path string) string {
	t.Helper()
	return g.git(t, "show", revision+":"+path)
}

// Protect has the server refuse pushes to the branch, as a forge does with a
// protected one. What people commit here and what a forge merges is not pushed.
func (g *Git) Protect(t testing.TB) {
	t.Helper()
	const hook = "#!/bin/sh\nif [ \"$1\" = refs/heads/%s ] && [ -n \"$REMOTE_USER\" ]; then echo 'the branch is protected' >&2; exit 1; fi\n"
	if err := os.WriteFile(filepath.Join(g.Bare, "hooks", "update"), fmt.Appendf(nil, hook, g.Branch), 0o755); err != nil {
		t.Fatal(err)
	}
}

// Log lists the branch's commits, newest first, in a format of git log.
func (g *Git) Log(t testing.TB, format string) []string {
	t.Helper()
	return strings.Split(strings.TrimSpace(g.git(t, "log", "--format="+format, g.Branch)), "\n")
}

// Diff is what one commit changed, without context lines.
func (g *Git) Diff(t testing.TB, sha string) string {
	t.Helper()
	return g.git(t, "show", "--format=", "--unified=0", sha)
}

func (g *Git) git(t testing.TB, args ...string) string {
	t.Helper()
	out, err := git(context.Background(), append([]string{"-C", g.Bare}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// git runs git without the configuration of whoever runs the test.
func git(ctx context.Context, args ...string) (string, error) { return gitWith(ctx, nil, args...) }

func gitWith(ctx context.Context, env []string, args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Env = append(append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_TERMINAL_PROMPT=0"), env...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), errors.Join(err, errors.New("git "+strings.Join(args, " ")+": "+strings.TrimSpace(stderr.String())))
	}
	return stdout.String(), nil
}
