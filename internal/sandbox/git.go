package sandbox

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha1" //nolint:gosec // the names of Git's commits
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/gitops/proposal"
	"github.com/inference-responder/responder/internal/step"
)

// repositoryURL is where the simulated repository seems to be. Its services are in
// directories of their own, on one branch.
const (
	repositoryURL = "https://git.sandbox/serving/fleet.git"
	branchName    = "main"
)

// branch is the repository: the commits of its one branch, oldest first, without merges.
type branch []revision

// revision is a commit with all files as it left them.
type revision struct {
	gitops.Commit
	files []gitops.File // by path
}

// push is a commit as it is kept.
type push struct {
	Author   gitops.Person     `json:"author"`
	Subject  string            `json:"subject"`
	Files    []gitops.File     `json:"files"` // new contents of those that change
	Trailers map[string]string `json:"trailers,omitempty"`
	Reverts  []string          `json:"reverts,omitempty"`
}

// add appends a commit. Its name depends on what it holds alone, so that a world that is
// resumed has the same ones.
func (b *branch) add(p push, at time.Time) {
	c := revision{Commit: gitops.Commit{Author: p.Author, At: at, Subject: p.Subject, Trailers: p.Trailers, Reverts: p.Reverts}}
	sum := sha1.New() //nolint:gosec // as above
	if n := len(*b); n > 0 {
		c.Parents, c.files = []string{b.head().SHA}, slices.Clone(b.head().files)
	}
	fmt.Fprintln(sum, c.Parents, at.UnixNano(), p.Subject, p.Trailers[gitops.TrailerEffect])
	for _, f := range p.Files {
		c.Files = append(c.Files, f.Path)
		fmt.Fprintf(sum, "%s\n%s", f.Path, f.Data)
		if i, there := slices.BinarySearchFunc(c.files, f.Path, byPath); there {
			c.files[i] = f
		} else {
			c.files = slices.Insert(c.files, i, f)
		}
	}
	c.SHA = hex.EncodeToString(sum.Sum(nil))
	*b = append(*b, c)
}

func byPath(f gitops.File, path string) int { return cmp.Compare(f.Path, path) }

func (b branch) head() revision { return b[len(b)-1] }

// at returns the place of a commit.
func (b branch) at(sha string) (int, error) {
	i := slices.IndexFunc(b, func(c revision) bool { return c.SHA == sha })
	if i < 0 {
		return 0, &fault.Error{Reason: fault.NotFound, Message: fmt.Sprintf("%s has no commit %.10s", repositoryURL, sha)}
	}
	return i, nil
}

// find returns the commit with an idempotency key; nil: there is none.
func (b branch) find(effect string) *revision {
	i := slices.IndexFunc(b, func(c revision) bool { return effect != "" && c.Trailers[gitops.TrailerEffect] == effect })
	if i < 0 {
		return nil
	}
	return &b[i]
}

// file returns a file of a commit; nil: it has none of that path.
func (c revision) file(path string) []byte {
	if i, there := slices.BinarySearchFunc(c.files, path, byPath); there {
		return c.files[i].Data
	}
	return nil
}

// read returns what a source holds at a commit.
func (b branch) read(i int, src gitops.Source) proposal.Reading {
	r := proposal.Reading{Source: src, SHA: b[i].SHA}
	all := map[string][]byte{}
	for _, f := range b[i].files {
		if proposal.Under(f.Path, src.Path) {
			r.Files, all[f.Path] = append(r.Files, f), f.Data
		}
	}
	r.Digest = proposal.Digest(all)
	return r
}

// version returns the files of a commit before and after it.
func (b branch) version(i int) proposal.Version {
	v := proposal.Version{Commit: b[i].Commit}
	for _, p := range b[i].Files {
		v.After = append(v.After, gitops.File{Path: p, Data: b[i].file(p)})
		if i > 0 {
			if old := b[i-1].file(p); old != nil {
				v.Before = append(v.Before, gitops.File{Path: p, Data: old})
			}
		}
	}
	return v
}

// touched returns the commits from a place on that a condition selects and that touched
// the target, newest first.
func (b branch) touched(from int, src gitops.Source, t gitops.Target, is func(revision) bool) []gitops.Touched {
	var out []gitops.Touched
	head := b.read(len(b)-1, src)
	for i := len(b) - 1; i >= from; i-- {
		if !is(b[i]) || !slices.ContainsFunc(b[i].Files, head.Concerns) {
			continue
		}
		if c := head.Touched(b.version(i), t); len(c.Touches) > 0 {
			out = append(out, c)
		}
	}
	return out
}

// Git is the repository of a simulated cluster, and its Argo CD: what levers that commit
// ask and change. Commits are pushed to the branch; there are no pull requests.
type Git struct{ w *World }

// Git returns the world's repository and Argo CD; nil: no service is in Git.
func (w *World) Git() *Git {
	if len(w.git) == 0 {
		return nil
	}
	return &Git{w}
}

// now locks the world, advances it to now, and returns the branch. The caller unlocks.
func (g *Git) now() branch {
	g.w.mu.Lock()
	g.w.advanceLocked()
	return g.w.git
}

// Places implements [step.Manifests].
func (g *Git) Places(_ context.Context, src gitops.Source, t gitops.Target, vs []gitops.Variable) ([]gitops.Place, error) {
	b := g.now()
	defer g.w.mu.Unlock()
	return b.read(len(b)-1, src).Places(t, vs)
}

// Made implements [step.Manifests]: nothing here is of a HelmRelease.
func (g *Git) Made(context.Context, gitops.Source, gitops.Target) error { return nil }

// Propose implements [step.Manifests].
func (g *Git) Propose(_ context.Context, want gitops.Want) (gitops.Proposal, error) {
	b := g.now()
	defer g.w.mu.Unlock()
	r, p := b.proposal(want.Source)
	var err error
	if len(want.TakeBack) > 0 {
		var versions []proposal.Version
		for _, sha := range want.TakeBack {
			i, err := b.at(sha)
			if err != nil {
				return gitops.Proposal{}, err
			}
			versions = append(versions, b.version(i))
		}
		slices.SortStableFunc(versions, func(x, y proposal.Version) int { return b.index(y) - b.index(x) })
		err = r.TakeBack(&p, want, versions)
	} else {
		err = r.Edit(&p, want)
	}
	if err != nil || want.Deployed == "" || want.Deployed == r.SHA {
		return p, err
	}
	i, err := b.at(want.Deployed)
	if err != nil {
		return p, err
	}
	if b.read(i, want.Source).Digest == r.Digest {
		return p, nil
	}
	for _, c := range b.touched(i+1, want.Source, gitops.Target{}, func(revision) bool { return true }) {
		p.Ahead = append(p.Ahead, c.Commit)
	}
	return p, nil
}

func (b branch) index(v proposal.Version) int {
	return slices.IndexFunc(b, func(c revision) bool { return c.SHA == v.Commit.SHA })
}

// proposal returns what a source holds at the head, and an empty proposal over it.
func (b branch) proposal(src gitops.Source) (proposal.Reading, gitops.Proposal) {
	src.Branch = cmp.Or(src.Branch, branchName)
	r := b.read(len(b)-1, src)
	return r, gitops.Proposal{Source: src, Base: r.SHA, Read: r.Digest}
}

// Reverting implements [step.Manifests].
func (g *Git) Reverting(_ context.Context, src gitops.Source, t gitops.Target, shas []string) (gitops.Proposal, error) {
	b := g.now()
	defer g.w.mu.Unlock()
	r, p := b.proposal(src)
	p.Reverts = shas
	now := map[string][]byte{}
	for _, sha := range shas {
		i, err := b.at(sha)
		if err != nil {
			return gitops.Proposal{}, err
		}
		for _, path := range b[i].Files {
			if now[path] == nil {
				now[path] = b.head().file(path)
			}
			var before []byte
			if i > 0 {
				before = b[i-1].file(path)
			}
			text, ok := proposal.Unpick(before, b[i].file(path), now[path])
			if !ok {
				return gitops.Proposal{}, &fault.Error{Reason: fault.Conflict, Message: fmt.Sprintf("%s: lines that commit %.9s changed were changed again", path, sha)}
			}
			now[path] = text
		}
	}
	for _, f := range r.Files {
		if text, changed := now[f.Path]; changed && !bytes.Equal(text, f.Data) {
			p.Files = append(p.Files, gitops.File{Path: f.Path, Data: text})
		}
	}
	return p, r.Revert(&p, t)
}

// Commit implements [step.Commits].
func (g *Git) Commit(_ context.Context, r gitops.Request) (gitops.Landing, error) {
	b := g.now()
	defer g.w.mu.Unlock()
	if c := b.find(r.Effect); c != nil {
		return landed(c), nil
	}
	p := r.Proposal
	switch {
	case r.PullRequest || len(p.Deleted) > 0 || r.Effect == "":
		return gitops.Landing{}, &fault.Error{Reason: fault.Invalid, Message: "the simulated repository takes pushes of changed files, under a key"}
	case p.Base != b.head().SHA:
		return gitops.Landing{}, &fault.Error{Reason: fault.Conflict, Message: fmt.Sprintf("branch %s moved from %.10s to %.10s", branchName, p.Base, b.head().SHA)}
	}
	trailers := map[string]string{}
	for name, value := range map[string]string{
		gitops.TrailerRun: r.Run, gitops.TrailerState: r.State, gitops.TrailerPlan: r.Digest, gitops.TrailerEffect: r.Effect, gitops.TrailerDrift: r.Drift,
	} {
		if value != "" {
			trailers[name] = value
		}
	}
	made := push{Author: gitops.Person{Name: "Responder", Email: "responder@sandbox"}, Subject: r.What, Files: p.Files, Trailers: trailers, Reverts: slices.Concat(p.Reverts, p.TakesBack)}
	if err := g.w.commit(change{At: g.w.clock.Now(), Push: &made, Run: r.Run, Key: r.Effect}); err != nil {
		return gitops.Landing{}, err
	}
	return landed(g.w.git.find(r.Effect)), nil
}

// Find implements [step.Commits].
func (g *Git) Find(_ context.Context, _ gitops.Source, key string) (gitops.Landing, error) {
	b := g.now()
	defer g.w.mu.Unlock()
	return landed(b.find(key)), nil
}

// landed returns what became of a commit; nil stands for none.
func landed(c *revision) gitops.Landing {
	if c == nil {
		return gitops.Landing{}
	}
	return gitops.Landing{SHA: c.SHA, Plan: c.Trailers[gitops.TrailerPlan], Drift: c.Trailers[gitops.TrailerDrift]}
}

// Delivery implements [step.Pulls]: everything is pushed.
func (g *Git) Delivery(context.Context, gitops.Source) (gitops.Delivery, error) {
	return gitops.Delivery{}, nil
}

// Withdraw implements [step.Pulls]. No pull request is ever open.
func (g *Git) Withdraw(ctx context.Context, src gitops.Source, key string) (gitops.Landing, error) {
	return g.Find(ctx, src, key)
}

// Merge implements [step.Pulls].
func (g *Git) Merge(context.Context, gitops.Source, string) error {
	return &fault.Error{Reason: fault.NotFound, Message: "the simulated repository has no pull requests"}
}

// Changes implements [step.History].
func (g *Git) Changes(_ context.Context, src gitops.Source, t gitops.Target, since time.Time) ([]gitops.Touched, error) {
	b := g.now()
	defer g.w.mu.Unlock()
	return b.touched(0, src, t, func(c revision) bool { return !c.At.Before(since) }), nil
}

// Since implements [step.History].
func (g *Git) Since(_ context.Context, src gitops.Source, t gitops.Target, sha string) ([]gitops.Touched, error) {
	b := g.now()
	defer g.w.mu.Unlock()
	i, err := b.at(sha)
	if err != nil {
		return nil, err
	}
	return b.touched(i+1, src, t, func(revision) bool { return true }), nil
}

// Contains implements [step.History].
func (g *Git) Contains(_ context.Context, _ gitops.Source, ancestor, descendant string) (bool, error) {
	b := g.now()
	defer g.w.mu.Unlock()
	i, err := b.at(ancestor)
	if err != nil {
		return false, err
	}
	k, err := b.at(descendant)
	return err == nil && i <= k, err
}

var (
	_ step.Manifests    = (*Git)(nil)
	_ step.Commits      = (*Git)(nil)
	_ step.Pulls        = (*Git)(nil)
	_ step.History      = (*Git)(nil)
	_ step.Applications = (*Git)(nil)
)
