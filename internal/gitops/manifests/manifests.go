package manifests

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/gitops/forge"
	"github.com/inference-responder/responder/internal/gitops/proposal"
	"github.com/inference-responder/responder/internal/gitops/repository"
)

// Remote is one configured repository.
type Remote struct {
	Repository repository.Options // Branch and Dir are filled in
	Branch     string             // where a source names none; empty: the remote's default

	// Forge is where pull requests are opened; nil: commits are pushed directly.
	Forge    *forge.Client
	Delivery Mode          // with a forge; empty: Auto
	Within   time.Duration // what is not merged in that time is closed; 0: MergeWithin
}

// Mode is how changes of a repository are made.
type Mode string

// The modes.
const (
	Auto        Mode = "auto"         // pushed, and by pull request where the branch is protected
	Push        Mode = "push"         // pushed, whatever the forge says
	PullRequest Mode = "pull_request" // by pull request, always
)

// MergeWithin is how long a pull request may wait by default. The service is
// locked for other runs meanwhile.
const MergeWithin = time.Hour

// Options list the repositories.
type Options struct {
	Remotes []Remote
	Dir     string       // clones are kept below it
	Log     *slog.Logger // nil: none
}

// Manifests reads and changes the manifests of services in Git. It is safe for
// concurrent use.
type Manifests struct {
	o       Options
	remotes map[string]Remote // by gitops.RepositoryName

	mu   sync.Mutex // guards the fields below
	open map[string]*branch
}

// branch is one branch of one repository with its last read content.
type branch struct {
	repo   *repository.Repository
	src    gitops.Source // without its path
	remote Remote

	mu      sync.Mutex // guards the fields below
	last    map[string]reading
	refused time.Time         // when a push was last refused because the branch is protected
	known   map[string]string // effects of commits that lost their trailers; empty: it is none of ours
}

// New validates the options. It does not connect.
func New(o Options) (*Manifests, error) {
	m := &Manifests{o: o, remotes: map[string]Remote{}, open: map[string]*branch{}}
	for _, r := range o.Remotes {
		name := gitops.RepositoryName(r.Repository.URL)
		if _, twice := m.remotes[name]; twice {
			return nil, invalid("repository %s is configured twice", name)
		}
		// Opened once, to find mistakes at the start.
		b, err := m.dial(r, r.Branch)
		if err != nil {
			return nil, err
		}
		m.remotes[name] = r
		m.open[key(name, r.Branch)] = b
	}
	return m, nil
}

func key(name, branch string) string { return name + "\x00" + branch }

// dial opens one branch of a repository, in a directory of its own.
func (m *Manifests) dial(r Remote, name string) (*branch, error) {
	o := r.Repository
	sum := sha256.Sum256([]byte(gitops.RepositoryName(o.URL) + "\x00" + name))
	o.Branch, o.Dir = name, filepath.Join(m.o.Dir, hex.EncodeToString(sum[:8]))
	o.Log = m.o.Log
	repo, err := repository.New(o)
	if err != nil {
		return nil, err
	}
	return &branch{repo: repo, remote: r, src: gitops.Source{Repository: o.URL, Branch: name}, last: map[string]reading{}, known: map[string]string{}}, nil
}

// Close releases the clones.
func (m *Manifests) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var err error
	for _, b := range m.open {
		err = cmp.Or(err, b.repo.Close())
	}
	m.open = map[string]*branch{}
	return err
}

// branch returns the repository of a source.
func (m *Manifests) branch(src gitops.Source) (*branch, error) {
	name := gitops.RepositoryName(src.Repository)
	r, known := m.remotes[name]
	if !known {
		var names []string
		for n := range m.remotes {
			names = append(names, n)
		}
		slices.Sort(names)
		return nil, invalid("repository %s is not configured: add it under gitops.repositories (there: %s)", name, cmp.Or(strings.Join(names, ", "), "none"))
	}
	at := cmp.Or(src.Branch, r.Branch)
	m.mu.Lock()
	defer m.mu.Unlock()
	if b := m.open[key(name, at)]; b != nil {
		return b, nil
	}
	b, err := m.dial(r, at)
	if err == nil {
		m.open[key(name, at)] = b
	}
	return b, err
}

// Check verifies that each repository can be reached, read and, as far as possible
// without writing, written. It returns one line for each.
func (m *Manifests) Check(ctx context.Context) []Checked {
	var out []Checked
	for _, name := range sortedKeys(m.remotes) {
		b, err := m.branch(gitops.Source{Repository: m.remotes[name].Repository.URL})
		c := Checked{Repository: name, Branch: m.remotes[name].Branch}
		if err == nil {
			c.Head, err = b.repo.Head(ctx)
		}
		if err == nil {
			c.Delivery, err = m.Delivery(ctx, b.src)
			c.Forge = err != nil && b.remote.Forge != nil
		}
		c.Err = err
		out = append(out, c)
	}
	return out
}

// Checked is the result of checking one repository.
type Checked struct {
	Repository string
	Branch     string // empty: its default branch
	Head       string
	Delivery   gitops.Delivery // a change would be made
	Err        error
	Forge      bool // Err is of the forge's API; the repository itself was read
}

// Places returns where variables are set at the head.
func (m *Manifests) Places(ctx context.Context, src gitops.Source, t gitops.Target, vs []gitops.Variable) ([]gitops.Place, error) {
	b, err := m.branch(src)
	if err != nil {
		return nil, err
	}
	r, err := b.head(ctx, src)
	if err != nil {
		return nil, err
	}
	return r.Places(t, vs)
}

// Made returns an error unless the target is known to be what its HelmRelease makes.
func (m *Manifests) Made(ctx context.Context, src gitops.Source, t gitops.Target) error {
	b, err := m.branch(src)
	if err != nil {
		return err
	}
	r, err := b.head(ctx, src)
	if err != nil {
		return err
	}
	return r.Made(t)
}

// Propose computes an edit at the head.
func (m *Manifests) Propose(ctx context.Context, w gitops.Want) (gitops.Proposal, error) {
	b, err := m.branch(w.Source)
	if err != nil {
		return gitops.Proposal{}, err
	}
	r, err := b.head(ctx, w.Source)
	if err != nil {
		return gitops.Proposal{}, err
	}
	p := r.proposal(b)
	if len(w.TakeBack) > 0 {
		err = b.takeBack(ctx, &p, r, w)
	} else {
		err = r.Edit(&p, w)
	}
	if err != nil {
		return gitops.Proposal{}, err
	}
	if w.Deployed != "" && w.Deployed != r.SHA {
		p.Ahead, err = b.ahead(ctx, w, r)
	}
	return p, err
}

// takeBack fills in the proposal that takes commits back.
func (b *branch) takeBack(ctx context.Context, p *gitops.Proposal, r reading, w gitops.Want) error {
	commits, err := b.repo.Named(ctx, r.SHA, w.TakeBack)
	if err != nil {
		return err
	}
	var versions []proposal.Version
	for _, c := range commits {
		v, err := b.version(ctx, r, c)
		if err != nil {
			return err
		}
		versions = append(versions, v)
	}
	return r.TakeBack(p, w, versions)
}

// ahead returns the commits that change the source and are not deployed yet,
// including those for other workloads: a sync is of the whole application. There
// are none if the deployed files equal the head's.
func (b *branch) ahead(ctx context.Context, w gitops.Want, head reading) ([]gitops.Commit, error) {
	deployed, err := b.read(ctx, w.Source, w.Deployed)
	if err == nil && deployed.Digest == head.Digest {
		return nil, nil
	}
	changes, err := b.since(ctx, w.Source, gitops.Target{}, w.Deployed)
	if err != nil {
		return nil, err
	}
	var out []gitops.Commit
	for _, c := range changes {
		out = append(out, c.Commit)
	}
	return out, nil
}

// proposal returns an empty proposal.
func (r reading) proposal(b *branch) gitops.Proposal {
	src := r.Source
	src.Repository, src.Branch = b.src.Repository, cmp.Or(b.src.Branch, src.Branch)
	return gitops.Proposal{Source: src, Base: r.SHA, Read: r.Digest}
}

func invalid(format string, args ...any) error {
	return &fault.Error{Reason: fault.Invalid, Message: fmt.Sprintf(format, args...)}
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
