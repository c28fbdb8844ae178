package repository

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/gitops/gittest"
)

const canary = "canary-7c1e94d0b2"

func secretFile(t testing.TB, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func change192(base string) CommitRequest {
	return CommitRequest{Base: base, Files: []gitops.File{{Path: "a.yaml", Data: []byte(lower(manifest))}}, Message: message("e")}
}

func TestTokenRotation(t *testing.T) {
	for _, bearer := range []bool{false, true} {
		s := gittest.NewServer(t)
		s.Push("first", map[string]string{"a.yaml": manifest})
		s.SetToken("", "one")
		file := secretFile(t, "one\n")
		r := open(t, s, func(o *Options) { o.Auth.TokenFile, o.Auth.Bearer = file, bearer })
		base := head(t, r)
		s.SetToken("", "two")
		_, err := r.Head(t.Context())
		wantError(t, err, fault.Forbidden, "token")
		if err := os.WriteFile(file, []byte("two"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Commit(t.Context(), change192(base)); err != nil {
			t.Error(err)
		}
	}
}

// failing is a server that misbehaves at one request.
type failing struct {
	on      string // part of the request's path and query
	handler func(w http.ResponseWriter, r *http.Request, next http.Handler)
}

func echo(code int) func(http.ResponseWriter, *http.Request, http.Handler) {
	return func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		user, password, _ := r.BasicAuth()
		w.WriteHeader(code)
		fmt.Fprintf(w, "no: %s %s:%s\n%s %s", r.Header.Get("Authorization"), user, password, r.URL, strings.Repeat("x", 5000))
	}
}

type outcome struct {
	failing
	read, write fault.Reason
	unknown     bool
}

func faults() map[string]outcome {
	cut := func(w http.ResponseWriter, r *http.Request, next http.Handler) { // does it, and loses the answer
		next.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	}
	empty := func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		next.ServeHTTP(httptest.NewRecorder(), r)
	}
	garbage := func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		_, _ = io.WriteString(w, "<html>"+canary+"</html>")
	}
	away := func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		http.Redirect(w, r, "http://other.example.com"+r.URL.Path+"?"+r.URL.RawQuery, http.StatusFound)
	}
	return map[string]outcome{
		"refs 401":      {failing{"/info/refs", echo(401)}, fault.Forbidden, fault.Forbidden, false},
		"refs 403":      {failing{"/info/refs", echo(403)}, fault.Forbidden, fault.Forbidden, false},
		"refs 404":      {failing{"/info/refs", echo(404)}, fault.NotFound, fault.NotFound, false},
		"refs 429":      {failing{"/info/refs", echo(429)}, fault.Throttled, fault.Throttled, false},
		"refs 500":      {failing{"/info/refs", echo(500)}, fault.ServerError, fault.ServerError, false},
		"refs garbage":  {failing{"/info/refs", garbage}, fault.Unreachable, fault.Unreachable, false},
		"refs cut":      {failing{"/info/refs", cut}, fault.Unreachable, fault.Unreachable, false},
		"refs away":     {failing{"/info/refs", away}, fault.Invalid, fault.Invalid, false},
		"write only":    {failing{"service=git-receive-pack", echo(403)}, "", fault.Forbidden, false},
		"push 401":      {failing{"/git-receive-pack", echo(401)}, "", fault.Forbidden, false},
		"push 413":      {failing{"/git-receive-pack", echo(413)}, "", fault.OutOfBounds, false},
		"push 500":      {failing{"/git-receive-pack", echo(500)}, "", fault.ServerError, true},
		"push cut":      {failing{"/git-receive-pack", cut}, "", fault.Unreachable, true},
		"push empty":    {failing{"/git-receive-pack", empty}, "", fault.Unreachable, true},
		"push garbage":  {failing{"/git-receive-pack", garbage}, "", fault.Unreachable, true},
		"push away":     {failing{"/git-receive-pack", away}, "", fault.Invalid, false},
		"fetch 500":     {failing{"/git-upload-pack", echo(500)}, fault.ServerError, fault.ServerError, false},
		"fetch garbage": {failing{"/git-upload-pack", garbage}, fault.Unreachable, fault.Unreachable, false},
		"fetch cut":     {failing{"/git-upload-pack", cut}, fault.Unreachable, fault.Unreachable, false},
	}
}

// TestFaults sends every kind of bad answer, each echoing the credential, to
// reads and to writes: the reason is right, a write that may have happened is
// unknown, and no error holds the credential.
func TestFaults(t *testing.T) {
	for name, test := range faults() {
		t.Run(name, func(t *testing.T) {
			s := gittest.NewServer(t)
			base := s.Push("first", map[string]string{"a.yaml": manifest})
			s.SetToken("", canary)
			r := open(t, s, func(o *Options) { o.Auth.TokenFile = secretFile(t, canary) })
			if !strings.HasPrefix(name, "fetch") {
				head(t, r) // warm: only what is tested is asked
			}
			s.Intercept(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
				if !strings.Contains(req.URL.RequestURI(), test.on) || req.Method == "GET" && strings.HasPrefix(test.on, "/git-") {
					next.ServeHTTP(w, req)
					return
				}
				test.handler(w, req, next)
			})
			check := func(err error, reason fault.Reason, unknown bool) {
				t.Helper()
				if reason == "" {
					if err != nil {
						t.Errorf("error %v, want none", err)
					}
					return
				}
				if e := asError(t, err, reason); e.Unknown != unknown {
					t.Errorf("unknown is %v: %v", e.Unknown, e)
				}
				if text := fmt.Sprintf("%v %+v %#v", err, err, err.Error()); strings.Contains(text, canary) || strings.Contains(text, "Y2FuYXJ5") || strings.Contains(text, "LWFjY2Vzcy10b2tlbj") || len(text) > 3000 {
					t.Errorf("the error shows the credential, or too much: %s", text)
				}
			}
			_, err := r.Head(t.Context())
			check(err, test.read, false)
			_, err = r.Commit(t.Context(), change192(base))
			check(err, test.write, test.unknown)
			s.Intercept(nil)
			_, landed, err := r.Find(t.Context(), "", "e", time.Now())
			if err != nil {
				t.Fatal(err)
			}
			if want := name == "push cut" || name == "push empty"; landed != want {
				t.Errorf("found: %v, want %v", landed, want)
			}
			if _, err := r.Commit(t.Context(), change192(base)); err != nil {
				t.Errorf("afterwards: %v", err)
			}
			if got := s.GitBare("rev-list", "--count", "main"); got != "2" {
				t.Errorf("main has %s commits", got)
			}
		})
	}
}

// TestHung: a server that says nothing does not block for ever, nor past the
// caller's context.
func TestHung(t *testing.T) {
	s := gittest.NewServer(t)
	base := s.Push("first", map[string]string{"a.yaml": manifest})
	for _, on := range []string{"/info/refs", "/git-upload-pack", "/git-receive-pack"} {
		release, asked := make(chan struct{}), make(chan struct{}, 10)
		s.Intercept(func(w http.ResponseWriter, req *http.Request, next http.Handler) {
			if req.URL.Path != "/fleet.git"+on {
				next.ServeHTTP(w, req)
				return
			}
			asked <- struct{}{}
			<-release
		})
		if on != "/git-receive-pack" {
			r := open(t, s, func(o *Options) { o.Timeout = 300 * time.Millisecond })
			_, err := r.Commit(t.Context(), change192(base))
			if e := asError(t, err, fault.Timeout); e.Unknown {
				t.Errorf("%s: unknown", on)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			<-asked
			cancel()
		}()
		_, err := open(t, s).Commit(ctx, change192(base))
		if e := asError(t, err, fault.Timeout); e.Unknown != (on == "/git-receive-pack") {
			t.Errorf("%s: unknown is %v", on, e.Unknown)
		}
		close(release)
	}
}

func TestRedirectWithinHost(t *testing.T) {
	s := gittest.NewServer(t)
	s.Push("first", map[string]string{"a.yaml": manifest})
	s.SetToken("", canary)
	s.Intercept(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if rest, ok := strings.CutPrefix(r.URL.Path, "/old.git"); ok {
			http.Redirect(w, r, "/fleet.git"+rest+"?"+r.URL.RawQuery, http.StatusMovedPermanently)
			return
		}
		next.ServeHTTP(w, r)
	})
	r := open(t, s, func(o *Options) {
		o.URL, o.Auth.TokenFile = s.URL+"/old.git", secretFile(t, canary)
	})
	if _, err := r.Commit(t.Context(), change192(head(t, r))); err != nil {
		t.Error(err)
	}
}

// TestTokenStaysHome: another host never sees a request.
func TestTokenStaysHome(t *testing.T) {
	var asked atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer other.Close()
	s := gittest.NewServer(t)
	s.Intercept(func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		http.Redirect(w, r, other.URL+r.URL.Path+"?"+r.URL.RawQuery, http.StatusFound)
	})
	r := open(t, s, func(o *Options) { o.Auth.TokenFile = secretFile(t, canary) })
	_, err := r.Head(t.Context())
	wantError(t, err, fault.Invalid, "redirect")
	if asked.Load() != 0 {
		t.Error("the other host was asked")
	}
}

func TestRefused(t *testing.T) {
	for name, test := range map[string]struct {
		hook   string
		reason fault.Reason
		says   string
	}{
		"gitlab":  {"echo 'GitLab: You are not allowed to push code to protected branches on this project.' >&2; exit 1", fault.Forbidden, "the branch is protected"},
		"gitea":   {"echo 'Gitea: Not allowed to push to protected branch main' >&2; exit 1", fault.Forbidden, "the branch is protected"},
		"github":  {"echo 'error: GH006: Protected branch update failed for refs/heads/main.' >&2; exit 1", fault.Forbidden, "the branch is protected"},
		"another": {"echo 'commits want a ticket " + canary + "' >&2; exit 1", fault.Forbidden, "hook"},
	} {
		t.Run(name, func(t *testing.T) {
			s := gittest.NewServer(t)
			base := s.Push("first", map[string]string{"a.yaml": manifest})
			s.Hook("pre-receive", test.hook)
			r := open(t, s, func(o *Options) { o.Auth.TokenFile = secretFile(t, canary) })
			_, err := r.Commit(t.Context(), change192(base))
			if e := asError(t, err, test.reason, test.says); e.Unknown || strings.Contains(e.Error(), canary) {
				t.Errorf("error %v, unknown %v", e, e.Unknown)
			}
			if s.Head("main") != base {
				t.Error("main was moved")
			}
		})
	}
}

func TestBadRemotes(t *testing.T) {
	s := gittest.NewServer(t)
	r := open(t, s)
	_, err := r.Head(t.Context())
	wantError(t, err, fault.NotFound, "empty")
	base := s.Push("first", map[string]string{"a.yaml": manifest})
	_, err = open(t, s, func(o *Options) { o.Branch = "production" }).Head(t.Context())
	wantError(t, err, fault.NotFound, "no branch production")
	_, err = open(t, s, func(o *Options) { o.Limits.Pack = 100 }).Head(t.Context())
	wantError(t, err, fault.OutOfBounds, "limits.pack")
	var refs strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&refs, "%s refs/heads/branch-%d\n", base, i)
	}
	fmt.Fprintf(&refs, "%s refs/heads/main\n", base)
	if err := os.WriteFile(filepath.Join(s.Bare, "packed-refs"), []byte(refs.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := head(t, r); got != base {
		t.Errorf("head %s", got)
	}
	if _, err := r.Commit(t.Context(), change192(base)); err != nil {
		t.Errorf("among 10,000 branches: %v", err)
	}
	_, err = open(t, s, func(o *Options) { o.Limits.Refs = 10_000 }).Head(t.Context())
	wantError(t, err, fault.OutOfBounds, "limits.refs")
	if err := os.RemoveAll(s.Bare); err != nil {
		t.Fatal(err)
	}
	_, err = r.Head(t.Context())
	wantError(t, err, fault.NotFound, "no such repository")
	s.Close()
	_, err = r.Head(t.Context())
	wantError(t, err, fault.Unreachable)
}
