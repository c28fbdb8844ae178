// Package gittest runs a real Git server for tests: git http-backend behind
// net/http, on bare repositories of the test's own. It needs the git program,
// and fails without it.
package gittest

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Server serves one bare repository over HTTP, behind a credential.
type Server struct {
	*httptest.Server
	Bare string // the repository in the file system

	tb   testing.TB
	git  string // the program
	tree string // a work tree to commit from
	env  []string

	mu        sync.Mutex // guards the fields below
	user      string
	token     string
	intercept func(w http.ResponseWriter, r *http.Request, next http.Handler)
}

// NewServer makes a server with an empty repository named fleet.git whose
// default branch is main. Anybody may read and write until SetToken is called.
func NewServer(tb testing.TB) *Server {
	tb.Helper()
	git, err := exec.LookPath("git")
	if err != nil {
		tb.Fatal("git is missing: install it (Debian: apt-get install git)")
	}
	root := tb.TempDir()
	s := &Server{tb: tb, git: git, Bare: filepath.Join(root, "fleet.git"), tree: filepath.Join(root, "work"), env: environment(root)}
	s.run("", "init", "--quiet", "--bare", "--initial-branch=main", s.Bare)
	s.run("", "init", "--quiet", "--initial-branch=main", s.tree)
	s.Git("remote", "add", "origin", s.Bare)
	backend := &cgi.Handler{
		Path: git, Args: []string{"http-backend"}, Dir: root,
		Logger: log.New(io.Discard, "", 0), Stderr: io.Discard,
		Env: append(s.env, "GIT_PROJECT_ROOT="+root, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=tester"),
	}
	s.run(s.Bare, "config", "http.receivepack", "true")
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		user, token, intercept := s.user, s.token, s.intercept
		s.mu.Unlock()
		if token != "" && !authorized(r, user, token) {
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			http.Error(w, "bad credential: "+r.Header.Get("Authorization"), http.StatusUnauthorized)
			return
		}
		if intercept != nil {
			intercept(w, r, backend)
			return
		}
		backend.ServeHTTP(w, r)
	}))
	tb.Cleanup(s.Close)
	return s
}

// Existing is the repository of another git server, for [NewForge]. It serves
// nothing itself.
func Existing(tb testing.TB, bare string) *Server {
	tb.Helper()
	git, err := exec.LookPath("git")
	if err != nil {
		tb.Fatal("git is missing: install it (Debian: apt-get install git)")
	}
	return &Server{tb: tb, git: git, Bare: bare, env: environment(tb.TempDir())}
}

func authorized(r *http.Request, user, token string) bool {
	if r.Header.Get("Authorization") == "Bearer "+token {
		return true
	}
	u, p, ok := r.BasicAuth()
	return ok && p == token && (user == "" || u == user)
}

// environment keeps the tester's own git configuration out.
func environment(home string) []string {
	return []string{
		"HOME=" + home, "PATH=" + os.Getenv("PATH"), "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0",
		"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.com",
		"GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.com",
	}
}

// RepositoryURL is the address of the repository.
func (s *Server) RepositoryURL() string { return s.URL + "/fleet.git" }

// SetToken asks for a Basic password or Bearer token from now on. user empty:
// any name.
func (s *Server) SetToken(user, token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.user, s.token = user, token
}

// Intercept puts a handler before git's own; nil takes it away.
func (s *Server) Intercept(f func(w http.ResponseWriter, r *http.Request, next http.Handler)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.intercept = f
}

func (s *Server) run(dir string, args ...string) string {
	s.tb.Helper()
	return s.runEnv(dir, nil, args...)
}

func (s *Server) runEnv(dir string, env []string, args ...string) string {
	s.tb.Helper()
	out, err := s.try(dir, env, args...)
	if err != nil {
		s.tb.Fatal(err)
	}
	return out
}

// try is for other goroutines than the test's.
func (s *Server) try(dir string, env []string, args ...string) (string, error) {
	cmd := exec.CommandContext(context.Background(), s.git, args...)
	cmd.Dir, cmd.Env = dir, append(s.env[:len(s.env):len(s.env)], env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("git %s: %w\n%s", strings.Join(args, " "), err, out)
	}
	return strings.TrimRight(string(out), "\n"), nil
}

// Git runs git in the work tree and gives what it printed.
func (s *Server) Git(args ...string) string {
	s.tb.Helper()
	return s.run(s.tree, args...)
}

// GitEnv is Git with more environment: dates, authors.
func (s *Server) GitEnv(env []string, args ...string) string {
	s.tb.Helper()
	return s.runEnv(s.tree, env, args...)
}

// GitBare runs git in the bare repository.
func (s *Server) GitBare(args ...string) string {
	s.tb.Helper()
	return s.run(s.Bare, args...)
}

// GitIn runs git in the bare repository with an input.
func (s *Server) GitIn(input io.Reader, args ...string) {
	s.tb.Helper()
	cmd := exec.CommandContext(context.Background(), s.git, args...)
	cmd.Dir, cmd.Env, cmd.Stdin = s.Bare, s.env, input
	if out, err := cmd.CombinedOutput(); err != nil {
		s.tb.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// Write writes files of the work tree; an empty content removes the file.
func (s *Server) Write(files map[string]string) {
	s.tb.Helper()
	for name, content := range files {
		path := filepath.Join(s.tree, filepath.FromSlash(name))
		if content == "" {
			if err := os.Remove(path); err != nil {
				s.tb.Fatal(err)
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			s.tb.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			s.tb.Fatal(err)
		}
	}
}

// Push commits files on main, as a person does, pushes, and gives the commit.
func (s *Server) Push(message string, files map[string]string) string {
	s.tb.Helper()
	s.Pull()
	s.Write(files)
	s.Git("add", "--all")
	s.Git("commit", "--quiet", "--allow-empty", "--message", message)
	s.Git("push", "--quiet", "origin", "HEAD:main")
	return s.Git("rev-parse", "HEAD")
}

// Pull brings the work tree to what main is at.
func (s *Server) Pull() {
	s.tb.Helper()
	s.Git("fetch", "--quiet", "origin")
	if s.GitBare("for-each-ref", "refs/heads/main") != "" {
		s.Git("checkout", "--quiet", "-B", "main", "origin/main")
	}
}

// Head is the commit that a branch is at; empty: there is no such branch.
func (s *Server) Head(branch string) string {
	s.tb.Helper()
	return s.GitBare("for-each-ref", "--format=%(objectname)", "refs/heads/"+branch)
}

// Show returns a file's content at a revision.
func (s *Server) Show(revision, path string) string {
	s.tb.Helper()
	cmd := exec.CommandContext(context.Background(), s.git, "show", revision+":"+path)
	cmd.Dir, cmd.Env = s.Bare, s.env
	out, err := cmd.Output()
	if err != nil {
		s.tb.Fatalf("git show %s:%s: %v", revision, path, err)
	}
	return string(out)
}

// Hook installs a hook of the bare repository, a shell script.
func (s *Server) Hook(name, script string) {
	s.tb.Helper()
	path := filepath.Join(s.Bare, "hooks", name)
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		s.tb.Fatal(err)
	}
}
