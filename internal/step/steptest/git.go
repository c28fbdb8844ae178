package steptest

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
)

// Git is a repository with one branch and one file of manifests, and the Argo
// CD application that deploys it, in memory. Its manifests are lines of
// variable=value; what package gitops does with YAML is not of interest here.
//
// It is not safe for concurrent use.
type Git struct {
	Commits []Commit // oldest first
	App     gitops.Application
	Now     func() time.Time

	Protected bool // commits become pull requests
	Silent    bool // Protected, and only a refused push tells
	Merged    int  // pull requests that were merged by us
	Needs     []string
	Foreign   string         // somebody changed the pull requests: what
	Left      string         // what withdrawing a pull request leaves behind
	NotMade   error          // why the workload is not known to be what its HelmRelease makes
	Down      error          // answer of every request to the repository; nil: it is up
	ArgoDown  error          // of every request to Argo CD
	NoSync    string         // right to sync that is missing
	Stays     []gitops.Touch // what the commits of a release moved besides, and what stays
	Tangled   bool           // lines beside those of all commits were changed since, so that none is reverted line by line
	Stuck     bool           // syncs do not come to an end
	Fails     string
	Syncs     []gitops.Sync
	Pushed    func() // called when a commit of ours is on the branch

	Live        map[string]string // values that the cluster has of its own, whatever is synced
	Form        string            // how the values are written, as of a place; empty: as arguments
	Container   string            // that Git sets the values in, as of a place; empty: not told
	ClusterDown error             // of every look at a live object
	Chart       bool              // the file is not deployed as it is: the API server is not asked about it
	Tried       []string          // manifests that the API server was asked about

	// Admits is what the API server makes of a manifest; nil: it takes each as it is.
	Admits func(manifest string) ([]byte, error)

	requests []pull
	BoundAt  string // path of the replicas in Git, where they are a bound; empty: they are the number itself
}

// Commit is a commit of the branch.
type Commit struct {
	gitops.Commit

	Values map[string]string // after it
}

// pull is a pull request.
type pull struct {
	url    string
	commit Commit
	state  string // open, merged, closed
}

// File is the one file.
const File = "apps/chat/values.yaml"

// NewGit makes a repository whose head is deployed. Its object is Deployment
// serving/chat.
func NewGit(now func() time.Time, automated bool, values ...map[string]string) *Git {
	g := &Git{Now: now}
	for i, v := range values {
		g.Push("ada", fmt.Sprintf("release %d", i+1), v)
	}
	g.App = gitops.Application{
		Name: "argocd/chat", Project: "serving", Automated: automated, SelfHeal: automated, Sync: "Synced", Health: "Healthy",
		Sources:   []gitops.Source{{Repository: "https://git.example/ml/serving.git", Branch: "main", Path: "apps/chat"}},
		Target:    []string{"main"},
		Resources: []gitops.Resource{{Group: "apps", Kind: "Deployment", Namespace: "serving", Name: "chat", Sync: "Synced", Health: "Healthy"}},
	}
	for _, c := range g.Commits {
		g.deployed(c.SHA)
	}
	return g
}

// Push lets somebody change values.
func (g *Git) Push(by, subject string, change map[string]string) string {
	return g.push(gitops.Commit{Author: gitops.Person{Name: by}, Subject: subject}, change).SHA
}

func (g *Git) push(c gitops.Commit, change map[string]string) Commit {
	values := map[string]string{}
	if n := len(g.Commits); n > 0 {
		maps.Copy(values, g.Commits[n-1].Values)
		c.Parents = []string{g.Commits[n-1].SHA}
	}
	for k, v := range change {
		if values[k] = v; v == "" {
			delete(values, k)
		}
	}
	c.At, c.Files = g.Now(), []string{File}
	sum := sha1.Sum(fmt.Append(nil, len(g.Commits), c.Subject, values))
	c.SHA = hex.EncodeToString(sum[:])
	out := Commit{c, values}
	g.Commits = append(g.Commits, out)
	return out
}

// Head is the newest commit.
func (g *Git) Head() Commit { return g.Commits[len(g.Commits)-1] }

// Text is the file at the head.
func (g *Git) Text() string { return text(g.Head().Values) }

func text(values map[string]string) string {
	var b strings.Builder
	for _, k := range slices.Sorted(maps.Keys(values)) {
		fmt.Fprintf(&b, "%s=%s\n", k, values[k])
	}
	return b.String()
}

// MergeAll merges the pull requests that are open, as a person would.
func (g *Git) MergeAll() {
	for i := range g.requests {
		if r := &g.requests[i]; r.state == "open" {
			change := map[string]string{}
			maps.Copy(change, r.commit.Values)
			r.commit = g.push(r.commit.Commit, change)
			r.state = "merged"
		}
	}
}

// Close closes the pull requests that are open without merging them.
func (g *Git) Close() {
	for i := range g.requests {
		if r := &g.requests[i]; r.state == "open" {
			r.state = "closed"
		}
	}
}

// at is the index of a commit; -1: it is not there.
func (g *Git) at(sha string) int {
	return slices.IndexFunc(g.Commits, func(c Commit) bool { return c.SHA == sha })
}

// Made implements [step.Manifests].
func (g *Git) Made(context.Context, gitops.Source, gitops.Target) error { return g.NotMade }

// Places implements [step.Manifests].
func (g *Git) Places(_ context.Context, _ gitops.Source, _ gitops.Target, vs []gitops.Variable) ([]gitops.Place, error) {
	var out []gitops.Place
	for _, v := range vs {
		value, there := g.Head().Values[v.String()]
		path := v.String()
		if v.Replicas && g.BoundAt != "" {
			path = g.BoundAt
		}
		out = append(out, gitops.Place{File: File, Line: 7, Path: path, Value: value, Missing: !there})
	}
	return out, g.Down
}

// Propose implements [step.Manifests].
func (g *Git) Propose(_ context.Context, w gitops.Want) (gitops.Proposal, error) {
	if g.Down != nil {
		return gitops.Proposal{}, g.Down
	}
	if len(w.TakeBack) > 0 {
		return g.takeBack(w.TakeBack)
	}
	change := map[string]string{}
	for _, a := range w.Set {
		if g.Head().Values[a.Variable.String()] == a.Value {
			return gitops.Proposal{}, &fault.Error{Reason: fault.NothingToDo, Message: a.Variable.String() + " is " + a.Value + " already"}
		}
		change[a.Variable.String()] = a.Value
	}
	for _, v := range w.Unset {
		change[v.String()] = ""
	}
	p := g.proposal(change)
	if i := g.at(w.Deployed); w.Deployed != "" && i >= 0 {
		for _, c := range g.Commits[i+1:] {
			p.Ahead = append(p.Ahead, c.Commit)
		}
	}
	return p, nil
}

func (g *Git) proposal(change map[string]string) gitops.Proposal {
	head := g.Head()
	after := maps.Clone(head.Values)
	p := gitops.Proposal{Source: g.App.Sources[0], Base: head.SHA, Read: "sha256:" + hex.EncodeToString([]byte(text(head.Values)))}
	p.Source.Branch = "main"
	for _, k := range slices.Sorted(maps.Keys(change)) {
		p.Touches = append(p.Touches, g.touch(k, head.Values[k], change[k]))
		if after[k] = change[k]; change[k] == "" {
			delete(after, k)
		}
	}
	p.Files = []gitops.File{{Path: File, Data: []byte(text(after))}}
	if p.Plain = !g.Chart; p.Plain {
		p.Manifests = []gitops.Manifest{{File: File, Line: 1, Object: "Deployment serving/chat", Data: deployment(after), Before: deployment(head.Values)}}
	}
	return p
}

// Reverting implements [step.Manifests].
func (g *Git) Reverting(_ context.Context, _ gitops.Source, _ gitops.Target, shas []string) (gitops.Proposal, error) {
	if g.Down == nil && g.Tangled {
		return gitops.Proposal{}, &fault.Error{Reason: fault.Conflict, Message: File + ": lines beside it were changed"}
	}
	p, err := g.back(shas, false)
	p.Reverts = shas
	return p, err
}

// takeBack is Reverting but for replicas, which stay as they were scaled since.
func (g *Git) takeBack(shas []string) (gitops.Proposal, error) {
	p, err := g.back(shas, true)
	p.TakesBack, p.Stays = shas, g.Stays
	return p, err
}

func (g *Git) back(shas []string, scaled bool) (gitops.Proposal, error) {
	if g.Down != nil {
		return gitops.Proposal{}, g.Down
	}
	change, values := map[string]string{}, maps.Clone(g.Head().Values)
	for i := len(g.Commits) - 1; i > 0; i-- {
		c, before := g.Commits[i], g.Commits[i-1].Values
		if !slices.Contains(shas, c.SHA) {
			continue
		}
		for k := range union(c.Values, before) {
			switch {
			case c.Values[k] == before[k], scaled && k == "replicas" && values[k] != c.Values[k]:
				continue
			case values[k] != c.Values[k]:
				return gitops.Proposal{}, &fault.Error{Reason: fault.Conflict, Message: fmt.Sprintf("%s: %s was changed again to %s", File, k, values[k])}
			}
			change[k], values[k] = before[k], before[k]
		}
	}
	if len(change) == 0 {
		return gitops.Proposal{}, &fault.Error{Reason: fault.NothingToDo, Message: "nothing of it is left"}
	}
	return g.proposal(change), nil
}

func union(a, b map[string]string) map[string]string {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

// Commit implements [step.Commits].
func (g *Git) Commit(ctx context.Context, r gitops.Request) (gitops.Landing, error) {
	if g.Down != nil {
		return gitops.Landing{}, g.Down
	}
	if found, err := g.Find(ctx, r.Proposal.Source, r.Effect); err != nil || !found.None() {
		return found, err
	}
	if r.Proposal.Base != g.Head().SHA {
		return gitops.Landing{}, &fault.Error{Reason: fault.Conflict, Message: "the branch moved to " + g.Head().SHA}
	}
	c := gitops.Commit{Author: gitops.Person{Name: "responder"}, Subject: r.What, Reverts: append(slices.Clone(r.Proposal.Reverts), r.Proposal.TakesBack...), Trailers: map[string]string{
		gitops.TrailerRun: r.Run, gitops.TrailerState: r.State, gitops.TrailerPlan: r.Digest, gitops.TrailerEffect: r.Effect,
		gitops.TrailerDrift: r.Drift,
	}}
	change := map[string]string{}
	for _, t := range r.Proposal.Touches {
		change[t.Variable] = t.To
	}
	if g.Protected && !r.PullRequest {
		g.Silent = false
		return gitops.Landing{}, &fault.Error{Reason: fault.Forbidden, Message: "push refused", Err: gitops.ErrProtected}
	}
	if r.PullRequest {
		url := fmt.Sprintf("https://git.example/ml/serving/pull/%d", len(g.requests)+1)
		g.requests = append(g.requests, pull{url: url, commit: Commit{c, change}, state: "open"})
		return gitops.Landing{Waits: url}, nil
	}
	made := g.push(c, change)
	if g.Pushed != nil {
		g.Pushed()
	}
	return gitops.Landing{SHA: made.SHA, Plan: c.Trailers[gitops.TrailerPlan], Drift: r.Drift}, nil
}

// Committed implements [step.Journal]: the journal has what Commit made.
func (g *Git) Committed(run, sha string) (bool, error) {
	return slices.ContainsFunc(g.Commits, func(c Commit) bool {
		return c.SHA == sha && c.Author.Name == "responder" && c.Trailers[gitops.TrailerRun] == run
	}), nil
}

// Find implements [step.Commits].
func (g *Git) Find(_ context.Context, _ gitops.Source, key string) (gitops.Landing, error) {
	if g.Down != nil {
		return gitops.Landing{}, g.Down
	}
	for _, c := range g.Commits {
		if c.Trailers[gitops.TrailerEffect] == key {
			return gitops.Landing{SHA: c.SHA, Plan: c.Trailers[gitops.TrailerPlan], Drift: c.Trailers[gitops.TrailerDrift]}, nil
		}
	}
	for _, r := range g.requests {
		if r.commit.Trailers[gitops.TrailerEffect] == key && r.state == "open" {
			return gitops.Landing{Waits: r.url, Plan: r.commit.Trailers[gitops.TrailerPlan], Needs: g.Needs, Changed: g.Foreign}, nil
		}
		if r.commit.Trailers[gitops.TrailerEffect] == key {
			return gitops.Landing{Closed: r.url, Plan: r.commit.Trailers[gitops.TrailerPlan]}, nil
		}
	}
	return gitops.Landing{}, nil
}

// Withdraw implements [step.Pulls].
func (g *Git) Withdraw(ctx context.Context, src gitops.Source, key string) (gitops.Landing, error) {
	g.Close()
	l, err := g.Find(ctx, src, key)
	l.Left = g.Left
	return l, err
}

// Delivery implements [step.Pulls].
func (g *Git) Delivery(context.Context, gitops.Source) (gitops.Delivery, error) {
	if !g.Protected || g.Silent {
		return gitops.Delivery{}, g.Down
	}
	return gitops.Delivery{PullRequest: true, Why: "branch main is protected", Forge: "github ml/serving", Within: time.Hour}, g.Down
}

// Merge implements [step.Pulls].
func (g *Git) Merge(context.Context, gitops.Source, string) error {
	if len(g.Needs) > 0 {
		return &fault.Error{Reason: fault.Forbidden, Message: "not merged yet: " + strings.Join(g.Needs, "; ")}
	}
	g.Merged++
	g.MergeAll()
	return g.Down
}

// Changes implements [step.History].
func (g *Git) Changes(_ context.Context, _ gitops.Source, _ gitops.Target, since time.Time) ([]gitops.Touched, error) {
	return g.changes(func(_ int, c Commit) bool { return !c.At.Before(since) }), g.Down
}

// Since implements [step.History].
func (g *Git) Since(_ context.Context, _ gitops.Source, _ gitops.Target, sha string) ([]gitops.Touched, error) {
	at := g.at(sha)
	return g.changes(func(i int, _ Commit) bool { return i > at }), g.Down
}

func (g *Git) changes(counts func(int, Commit) bool) []gitops.Touched {
	var out []gitops.Touched
	for i := len(g.Commits) - 1; i > 0; i-- {
		c, before := g.Commits[i], g.Commits[i-1].Values
		if !counts(i, c) {
			continue
		}
		ch := gitops.Touched{Commit: c.Commit}
		for _, k := range slices.Sorted(maps.Keys(union(c.Values, before))) {
			if c.Values[k] != before[k] {
				ch.Touches = append(ch.Touches, gitops.Touch{Variable: k, File: File, Path: k, From: before[k], To: c.Values[k]})
			}
		}
		out = append(out, ch)
	}
	return out
}

// Contains implements [step.History].
func (g *Git) Contains(_ context.Context, _ gitops.Source, ancestor, descendant string) (bool, error) {
	a, d := g.at(ancestor), g.at(descendant)
	return a >= 0 && a <= d, g.Down
}
