package gittest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// Forge is a forge's API before a [Server]'s repository: what it merges is
// merged there. It speaks what the documentation of GitHub (2022-11-28),
// GitLab (v4) or Gitea (v1) says.
type Forge struct {
	*httptest.Server
	Kind string // github, gitlab or gitea

	git   *Server
	token string

	mu        sync.Mutex // guards the fields below
	pulls     []*Pull
	blocked   string
	protected map[string]bool   // branches that nobody pushes to
	reviews   [][2]string       // person, state in GitHub's words
	checks    map[string]string // state by name, in GitHub's words
	admin     bool
	requests  []string
	intercept func(w http.ResponseWriter, r *http.Request, next http.Handler)
}

// Pull is a pull request as the forge keeps it.
type Pull struct {
	Number             int
	Title, Text        string
	Branch, Base, Head string
	State              string // open, closed, merged
	Squashed           bool
	Merged, MergedBy   string
	Fork               bool // its branch is of another repository
}

// NewForge makes a forge that takes the token. Its repository is acme/fleet,
// on GitLab acme/inference/fleet.
func NewForge(tb testing.TB, s *Server, kind, token string) *Forge {
	tb.Helper()
	f := &Forge{Kind: kind, git: s, token: token}
	mux := http.NewServeMux()
	switch kind {
	case "github":
		f.serveGitHub(mux)
	case "gitlab":
		f.serveGitLab(mux)
	case "gitea":
		f.serveGitea(mux)
	default:
		tb.Fatalf("forge %q: want github, gitlab or gitea", kind)
	}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		f.requests = append(f.requests, r.Method+" "+r.URL.RequestURI())
		intercept := f.intercept
		f.mu.Unlock()
		if r.Header.Get("Authorization") != map[string]string{"github": "Bearer ", "gitlab": "Bearer ", "gitea": "token "}[kind]+token {
			answer(w, http.StatusUnauthorized, map[string]string{"message": "Bad credentials: " + r.Header.Get("Authorization")})
			return
		}
		api := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			f.mu.Lock()
			defer f.mu.Unlock()
			mux.ServeHTTP(w, r)
		})
		if intercept != nil {
			intercept(w, r, api)
			return
		}
		api.ServeHTTP(w, r)
	}))
	tb.Cleanup(f.Close)
	return f
}

// API is the base of the API's addresses.
func (f *Forge) API() string {
	return f.URL + map[string]string{"github": "", "gitlab": "/api/v4", "gitea": "/api/v1"}[f.Kind]
}

// Repository is the repository's name.
func (f *Forge) Repository() string {
	if f.Kind == "gitlab" {
		return "acme/inference/fleet"
	}
	return "acme/fleet"
}

// Intercept puts a handler before the forge's own; nil takes it away.
func (f *Forge) Intercept(h func(w http.ResponseWriter, r *http.Request, next http.Handler)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.intercept = h
}

// Block makes pull requests wait for something: a review. Empty: nothing.
func (f *Forge) Block(why string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.blocked = why
}

// Protect makes a branch one that the API says nobody may push to. Git itself
// refuses it by [Server.Hook] only.
func (f *Forge) Protect(branch string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.protected == nil {
		f.protected = map[string]bool{}
	}
	f.protected[branch] = true
}

// Unprotect takes that back: the API does not tell.
func (f *Forge) Unprotect(branch string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.protected, branch)
}

// Review is a person's review of every pull request, in GitHub's words:
// APPROVED or CHANGES_REQUESTED.
func (f *Forge) Review(person, state string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reviews = append(f.reviews, [2]string{person, state})
}

// Check sets the state of a check of every commit, in the words of GitHub's
// statuses: pending, success, failure.
func (f *Forge) Check(name, state string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.checks == nil {
		f.checks = map[string]string{}
	}
	f.checks[name] = state
}

// Bypass lets the token merge whatever is missing, as an administrator's does.
func (f *Forge) Bypass() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.admin = true
}

// refuses reports whether the forge does not merge yet.
func (f *Forge) refuses() bool {
	missing := f.blocked != ""
	for _, r := range f.reviews {
		missing = missing || r[1] == "CHANGES_REQUESTED"
	}
	for _, state := range f.checks {
		missing = missing || state != "success"
	}
	return missing && !f.admin
}

// Requests returns what was asked for so far.
func (f *Forge) Requests() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.requests...)
}

// Pulls returns the pull requests.
func (f *Forge) Pulls() []Pull {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []Pull
	for _, p := range f.pulls {
		f.refresh(p)
		all = append(all, *p)
	}
	return all
}

// Add puts a pull request that somebody else opened.
func (f *Forge) Add(p Pull) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p.Number, p.State = len(f.pulls)+1, "open"
	f.pulls = append(f.pulls, &p)
}

// Drop forgets all pull requests.
func (f *Forge) Drop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pulls = nil
}

// Edit changes the text of a pull request, as a person does.
func (f *Forge) Edit(number int, text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if p := f.find(number); p != nil {
		p.Text = text
	}
}

// Rebase changes the base of a pull request, as a person does.
func (f *Forge) Rebase(number int, base string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if p := f.find(number); p != nil {
		p.Base = base
	}
}

// MergeAs merges as a person does. method is merge, squash or rebase.
func (f *Forge) MergeAs(tb testing.TB, person string, number int, method string) string {
	tb.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.find(number)
	if p == nil {
		tb.Fatalf("there is no pull request %d", number)
	}
	if err := f.merge(p, method, person, p.Title, ""); err != nil {
		tb.Fatal(err)
	}
	return p.Merged
}

// CloseAs closes as a person does.
func (f *Forge) CloseAs(number int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if p := f.find(number); p != nil {
		p.State = "closed"
	}
}

func (f *Forge) find(number int) *Pull {
	if number < 1 || number > len(f.pulls) {
		return nil
	}
	p := f.pulls[number-1]
	f.refresh(p)
	return p
}

func (f *Forge) head(branch string) string {
	sha, err := f.git.try(f.git.Bare, nil, "for-each-ref", "--format=%(objectname)", "refs/heads/"+branch)
	if err != nil {
		return ""
	}
	return sha
}

func (f *Forge) refresh(p *Pull) {
	if sha := f.head(p.Branch); sha != "" && p.State == "open" && !p.Fork {
		p.Head = sha
	}
}

// open makes a pull request, or says why not.
func (f *Forge) open(title, branch, base, text string) (*Pull, string) {
	head := f.head(branch)
	switch {
	case head == "" || f.head(base) == "":
		return nil, "invalid branch"
	case head == f.head(base):
		return nil, "No commits between " + base + " and " + branch
	}
	for _, p := range f.pulls {
		if p.State == "open" && p.Branch == branch && p.Base == base && !p.Fork {
			return nil, "A pull request already exists for acme:" + branch
		}
	}
	p := &Pull{Number: len(f.pulls) + 1, Title: title, Text: text, Branch: branch, Base: base, Head: head, State: "open"}
	f.pulls = append(f.pulls, p)
	return p, ""
}

// conflicts reports whether git cannot merge.
func (f *Forge) conflicts(p *Pull) bool {
	_, err := f.git.try(f.git.Bare, nil, "merge-tree", "--write-tree", f.head(p.Base), p.Head)
	return err != nil
}

func (f *Forge) merge(p *Pull, method, person, title, text string) error {
	base := f.head(p.Base)
	tree, err := f.git.try(f.git.Bare, nil, "merge-tree", "--write-tree", base, p.Head)
	if err != nil {
		return err
	}
	args := []string{"commit-tree", tree, "-p", base, "-m", title, "-m", text}
	switch method {
	case "merge":
		args = append(args, "-p", p.Head)
	case "rebase": // of one commit
		message, err := f.git.try(f.git.Bare, nil, "show", "--no-patch", "--format=%B", p.Head)
		if err != nil {
			return err
		}
		args = []string{"commit-tree", tree, "-p", base, "-m", message}
	}
	sha, err := f.git.try(f.git.Bare, nil, args...)
	if err != nil {
		return err
	}
	if _, err := f.git.try(f.git.Bare, nil, "update-ref", "refs/heads/"+p.Base, sha, base); err != nil {
		return err
	}
	p.State, p.Merged, p.MergedBy, p.Squashed = "merged", sha, person, method == "squash"
	return nil
}

func answer(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	if v != nil {
		_ = json.NewEncoder(w).Encode(v)
	}
}

// read decodes a request's body, strictly: a field that the forge does not
// know is a mistake of ours.
func read(w http.ResponseWriter, r *http.Request, v any) bool {
	d := json.NewDecoder(io.LimitReader(r.Body, 1<<20))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		answer(w, http.StatusBadRequest, map[string]string{"message": fmt.Sprint("Problems parsing JSON: ", err)})
		return false
	}
	return true
}

// numbered finds the pull request that a path names.
func (f *Forge) numbered(w http.ResponseWriter, r *http.Request) *Pull {
	var n int
	_, err := fmt.Sscan(r.PathValue("number"), &n)
	p := f.find(n)
	if err != nil || p == nil {
		answer(w, http.StatusNotFound, map[string]string{"message": "Not Found"})
		return nil
	}
	return p
}

// cameWith returns the pull request that a commit of the base came with; nil: none.
func (f *Forge) cameWith(sha string) *Pull {
	for _, p := range f.pulls {
		if p.State == "merged" && p.Merged == sha {
			return p
		}
	}
	return nil
}

// matching returns pull requests, newest first.
func (f *Forge) matching(branch, base string) []*Pull {
	var out []*Pull
	for i := len(f.pulls) - 1; i >= 0; i-- {
		p := f.pulls[i]
		if (branch == "" || p.Branch == strings.TrimPrefix(branch, "acme:")) && (base == "" || p.Base == base) {
			f.refresh(p)
			out = append(out, p)
		}
	}
	return out
}
