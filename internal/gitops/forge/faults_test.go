package forge

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/fault"
)

// TestFaults: reasons of answers, what is unknown, and no token in any error.
func TestFaults(t *testing.T) {
	status := func(code int, header ...string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, r *http.Request) {
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(code)
			fmt.Fprintf(w, `{"message": "no %s %s"}`, r.Header.Get("Authorization"), strings.Repeat("x", 2000))
		}
	}
	text := func(s string) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, s)
		}
	}
	reset := fmt.Sprint(time.Now().Add(time.Hour).Unix())
	for name, test := range map[string]struct {
		answer  func(http.ResponseWriter, *http.Request)
		reason  fault.Reason
		unknown bool // of a write
	}{
		"401":       {status(401), fault.Forbidden, false},
		"403":       {status(403), fault.Forbidden, false},
		"404":       {status(404), fault.NotFound, false},
		"422":       {status(422), fault.Invalid, false},
		"500":       {status(500), fault.ServerError, true},
		"302":       {status(302, "Location", "http://other.example.com/"), fault.Invalid, false},
		"429":       {status(429, "Retry-After", "30"), fault.Throttled, false},
		"secondary": {status(403, "Retry-After", "30"), fault.Throttled, false},
		"budget":    {status(403, "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", reset), fault.Throttled, false},
		"html":      {text("<html>" + canary), fault.ServerError, true},
		"huge":      {text("[" + strings.Repeat(" ", maxAnswer) + "]"), fault.OutOfBounds, true},
		"cut":       {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, fault.Unreachable, true},
	} {
		for _, kind := range kinds {
			for _, write := range []bool{false, true} {
				w := newWorld(t, kind)
				w.Intercept(func(rw http.ResponseWriter, r *http.Request, next http.Handler) {
					if (r.Method != http.MethodGet) == write {
						test.answer(rw, r)
						return
					}
					next.ServeHTTP(rw, r)
				})
				_, err := w.c.Open(t.Context(), w.request())
				if kind == Gitea && !write && name == "404" {
					wantError(t, err, fault.NotFound, false, "repository")
					continue
				}
				wantError(t, err, test.reason, test.unknown && write)
				before := len(w.Requests())
				_, err = w.c.Get(t.Context(), 1)
				if left := len(w.Requests()) == before; left != (test.reason == fault.Throttled) {
					t.Errorf("%s %s: left alone %v, %v", kind, name, left, err)
				}
			}
		}
	}
}

// TestLostAnswer: a pull request that was opened is found, whatever became of
// the answer.
func TestLostAnswer(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		w.Intercept(func(rw http.ResponseWriter, r *http.Request, next http.Handler) {
			if r.Method == http.MethodGet {
				next.ServeHTTP(rw, r)
				return
			}
			next.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		})
		_, err := w.c.Open(t.Context(), w.request())
		wantError(t, err, fault.Unreachable, true)
		p := w.open(t)
		if p.Number != 1 || len(w.Pulls()) != 1 {
			t.Errorf("%d pull requests, %+v", len(w.Pulls()), p)
		}
		_, err = w.c.Merge(t.Context(), 1, "main", w.head, "x", "")
		wantError(t, err, fault.Unreachable, true)
		if p, err = w.c.Merge(t.Context(), 1, "main", w.head, "x", ""); err != nil || p.Merged != w.git.Head("main") {
			t.Errorf("after a lost merge: %+v, %v", p, err)
		}
	})
}

func TestHung(t *testing.T) {
	each(t, func(t *testing.T, w *world) {
		release := make(chan struct{})
		defer close(release)
		w.Intercept(func(rw http.ResponseWriter, r *http.Request, next http.Handler) {
			if r.Method == http.MethodGet {
				next.ServeHTTP(rw, r)
				return
			}
			<-release
		})
		q := w.request()
		w.c.http.timeout = 200 * time.Millisecond
		_, err := w.c.api.open(t.Context(), q)
		wantError(t, err, fault.Timeout, true)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = w.c.Get(ctx, 1)
		wantError(t, err, fault.Timeout, false)
	})
}

func TestRefusedOptions(t *testing.T) {
	for says, o := range map[string]Options{
		"github, gitlab":  {Kind: "bitbucket"},
		"api/v1":          {Kind: Gitea, Repository: "a/b", TokenFile: "t"},
		"owner/name":      {Kind: GitHub, Repository: "a/b/c", TokenFile: "t"},
		`"../x"`:          {Kind: GitHub, Repository: "../x", TokenFile: "t"},
		"token file":      {Kind: GitHub, Repository: "a/b"},
		"merge, squash":   {Kind: GitHub, Repository: "a/b", TokenFile: "t", Method: "octopus"},
		"project's merge": {Kind: GitLab, Repository: "a/b", TokenFile: "t", Method: MethodRebase},
		"credentials":     {Kind: GitHub, API: "https://u:" + canary + "@host", Repository: "a/b", TokenFile: "t"},
		"want https":      {Kind: GitHub, API: "ftp://" + canary, Repository: "a/b", TokenFile: "t"},
		"never asked":     {Kind: GitHub, API: "http://169.254.169.254", Repository: "a/b", TokenFile: "t"},
		"CA file":         {Kind: GitHub, Repository: "a/b", TokenFile: "t", CAFile: "/nowhere"},
		"negative":        {Kind: GitHub, Repository: "a/b", TokenFile: "t", Timeout: -1},
	} {
		_, err := New(o)
		wantError(t, err, fault.Invalid, false, says)
	}
	w := newWorld(t, GitHub, func(o *Options) { o.TokenFile = "/nowhere/token" })
	_, err := w.c.Get(t.Context(), 1)
	wantError(t, err, fault.Forbidden, false, "/nowhere/token")
	for _, q := range []Request{{}, {Effect: "a b", Branch: "x", Base: "y", Title: "t"}, {Effect: "e", Branch: "x", Base: "x", Title: "t"}, {Effect: "e", Branch: "x", Base: "y"}} {
		_, err := w.c.Open(t.Context(), q)
		wantError(t, err, fault.Invalid, false)
	}
}
