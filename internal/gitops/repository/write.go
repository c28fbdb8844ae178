package repository

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/storer"
	"github.com/go-git/go-git/v5/storage/memory"
	"github.com/go-git/go-git/v5/storage/transactional"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
)

// CommitRequest is one change of the branch.
type CommitRequest struct {
	Base    string // the commit that the change was made for: the branch must still be there
	Branch  string // empty: the configured branch; else a branch that is made from Base, for a pull request
	Files   []gitops.File
	Deleted []string // files to remove
	Message Message

	TakesBack []string // commits whose values it sets back: the message says that it reverts them
}

// Commit makes one commit on Base and pushes it. If the branch moved, nothing is
// pushed and the error is a Conflict whose cause is a [*gitops.Divergence]. If a commit
// with the message's effect is on the branch already, Commit returns it and pushes
// nothing.
func (r *Repository) Commit(ctx context.Context, q CommitRequest) (done gitops.Commit, err error) {
	var reverts []string
	for _, sha := range q.TakesBack {
		h, err := parseSHA(sha)
		if err != nil {
			return done, err
		}
		reverts = append(reverts, revertsLine(h))
	}
	text, err := q.Message.format(reverts...)
	if err != nil {
		return done, err
	}
	changes := map[string]change{}
	size := int64(0)
	for _, f := range q.Files {
		p, err := cleanPath(f.Path)
		if err != nil {
			return done, err
		}
		if _, twice := changes[p]; twice || p == "" {
			return done, invalid("commit: file %q is named twice, or has no name", p)
		}
		changes[p] = change{data: f.Data}
		size += int64(len(f.Data))
	}
	for _, name := range q.Deleted {
		p, err := cleanPath(name)
		if err != nil {
			return done, err
		}
		changes[p] = change{deleted: true}
	}
	switch {
	case len(changes) == 0:
		return done, invalid("commit: no file is named")
	case size > r.o.Limits.Changes:
		return done, bounded("commit: %d bytes of new content are more than the %d that are pushed (limits.changes)", size, r.o.Limits.Changes)
	}
	w := write{base: q.Base, branch: q.Branch, effect: q.Message.Effect, text: text}
	if err := r.writable(w); err != nil {
		return done, err
	}
	err = r.do(ctx, "commit", func(ctx context.Context) error {
		done, err = r.write(ctx, w, func(*commit) (map[string]change, error) { return changes, nil })
		return err
	})
	return done, err
}

// write is one commit to make.
type write struct {
	base   string // empty: whatever the branch is at
	branch string // empty: the configured one
	effect string
	text   string
}

// change is the new state of one path.
type change struct {
	data    []byte        // new content, unless one of the next is set
	deleted bool          // nothing stands there any more
	hash    plumbing.Hash // this very object, of this mode
	mode    filemode.FileMode
}

func (r *Repository) writable(w write) error {
	if r.o.Author.Name == "" {
		return invalid("repository %s: an author (name and email) is required to commit", r.at)
	}
	if w.branch != "" {
		return validBranch(w.branch)
	}
	return nil
}

// write builds and pushes a commit. changes returns what to change on the base.
func (r *Repository) write(ctx context.Context, w write, changes func(base *commit) (map[string]change, error)) (done gitops.Commit, err error) {
	t, err := r.aim(ctx, w)
	if err != nil {
		return done, err
	}
	if t.done != nil {
		return r.describe(t.done)
	}
	want, err := changes(t.base)
	if err != nil {
		return done, err
	}
	if t.moved {
		return done, r.conflict(ctx, t.base.Hash, t.old, want)
	}
	next, err := r.build(t.base, want, w.text)
	if err != nil {
		return done, err
	}
	lost, err := r.push(ctx, t, next)
	if err != nil {
		return done, err
	}
	if lost {
		c, err := r.lostRace(ctx, w, t, want)
		if err != nil {
			return done, err
		}
		return r.describe(c)
	}
	r.pushed(w, next)
	return next.summary, nil
}

// pushed stores the commit in the clone. A failure here changes nothing: it is
// pushed, and a later operation fetches it.
func (r *Repository) pushed(w write, next *pack) {
	if err := r.keep(bytes.NewReader(next.bytes)); err != nil {
		r.o.Log.Warn("a pushed commit was not kept in the clone", "repository", r.at.String(), "error", err.Error())
		return
	}
	if w.branch == "" {
		if err := r.remember(next.commit); err != nil {
			r.o.Log.Warn("a pushed commit was not kept in the clone", "repository", r.at.String(), "error", err.Error())
		}
	}
	r.tidy()
}

// pack is a commit that is built but not pushed.
type pack struct {
	commit  plumbing.Hash
	bytes   []byte
	summary gitops.Commit
	store   storer.EncodedObjectStorer
}

// build makes the commit's objects.
func (r *Repository) build(base *commit, changes map[string]change, text string) (*pack, error) {
	b := &builder{r: r, store: transactional.NewObjectStorage(r.store, memory.NewStorage())}
	root, err := r.tree(base)
	if err != nil {
		return nil, err
	}
	if err := r.allowed(root, changes); err != nil {
		return nil, err
	}
	treeHash, err := b.tree(root, changes)
	if err != nil {
		return nil, err
	}
	if treeHash == base.TreeHash {
		return nil, &fault.Error{Reason: fault.NothingToDo, Message: fmt.Sprintf("repository %s: the files already have the wanted content at commit %.10s", r.at, base.Hash)}
	}
	now := time.Now().UTC().Truncate(time.Second)
	c := &commit{
		Author:    object.Signature{Name: r.o.Author.Name, Email: r.o.Author.Email, When: now},
		Committer: object.Signature{Name: r.o.Committer.Name, Email: r.o.Committer.Email, When: now},
		Message:   text, TreeHash: treeHash, ParentHashes: []plumbing.Hash{base.Hash},
	}
	if err := r.signCommit(c); err != nil {
		return nil, err
	}
	h, err := b.put(c)
	if err != nil {
		return nil, err
	}
	p := &pack{commit: h, store: b.store}
	var out bytes.Buffer
	if _, err := packfile.NewEncoder(&out, b.store, false).Encode(unique(b.made), 0); err != nil {
		return nil, err
	}
	p.bytes = out.Bytes()
	p.summary = summary(c, h, changes)
	return p, nil
}

func unique(hashes []plumbing.Hash) []plumbing.Hash {
	plumbing.HashesSort(hashes)
	return slices.Compact(hashes)
}

func summary(c *commit, h plumbing.Hash, changes map[string]change) gitops.Commit {
	subject, _, _ := strings.Cut(c.Message, "\n")
	s := gitops.Commit{
		SHA: h.String(), Parents: []string{c.ParentHashes[0].String()}, At: c.Committer.When,
		Author: gitops.Person{Name: c.Author.Name, Email: c.Author.Email}, Subject: subject, Trailers: trailers(c.Message),
	}
	for p := range changes {
		s.Files = append(s.Files, p)
	}
	slices.Sort(s.Files)
	return s
}

func (r *Repository) signCommit(c *commit) error {
	o := &plumbing.MemoryObject{}
	if err := c.EncodeWithoutSignature(o); err != nil {
		return err
	}
	reader, err := o.Reader()
	if err != nil {
		return err
	}
	payload, err := io.ReadAll(reader)
	if err != nil {
		return err
	}
	c.PGPSignature, err = r.sign(payload)
	return err
}

// allowed refuses to overwrite anything but a plain file, and to write through
// links.
func (r *Repository) allowed(root *object.Tree, changes map[string]change) error {
	for p, ch := range changes {
		e, err := r.reach(root, p)
		if err != nil {
			return err
		}
		if ch.deleted || !ch.hash.IsZero() || e.Hash.IsZero() {
			continue
		}
		if why := special(e.Mode); why != "" {
			return invalid("%s of repository %s %s", p, r.at, why)
		}
		size, err := r.store.EncodedObjectSize(e.Hash)
		if err != nil {
			return &damaged{err}
		}
		if size >= 1024 {
			continue
		}
		old, err := r.blob(e.Hash)
		if err != nil {
			return err
		}
		if IsLFS(old) {
			return invalid("%s of repository %s is a Git LFS pointer: its content is not in the repository", p, r.at)
		}
	}
	return nil
}
