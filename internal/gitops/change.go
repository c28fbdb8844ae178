package gitops

import (
	"net/url"
	"strings"
	"time"
)

// Touch is one field of a manifest that a change moves.
type Touch struct {
	Variable string // as people name it: --max-num-seqs, replicas, image, or the field's path
	File     string
	Line     int    // from 1; 0: not known
	Path     string // spec.template.spec.containers[vllm].args[--max-num-seqs]
	From, To string // empty: was not, or is no longer there
	Unknown  string // From is empty: why it may have been set all the same; empty: it was not

	// The object that is made of it, as far as that is known: of a change that
	// was looked for, and of a document that is an object. Form is the place's.
	Kind, Name, Container, Form string
	Switch                      bool // as of a variable: false is to be without it
}

// Want asks for an edit that sets variables of one target.
type Want struct {
	Source Source
	Target Target
	Set    []Assignment
	Unset  []Variable

	// TakeBack are commits whose changes of the target are taken back, field by
	// field. It stands alone, without Set and Unset.
	TakeBack []string

	// Deployed is the commit that runs now. Empty: not known.
	Deployed string
}

// Proposal is a change computed on a commit and not made.
type Proposal struct {
	Source  Source  // with its branch filled in
	Base    string  // commit it was computed on, 40 hexadecimal digits
	Read    string  // digest of the manifests that were looked at: as long as it is the same, so is the proposal
	Touches []Touch // what changes, field by field
	Files   []File  // new contents of the files that change
	Old     []File  // what stood in Files, in the same order; of a proposal that reverts commits none: of those the touches tell
	Deleted []string

	// Manifests are the objects among the files that are deployed as they are
	// written. Plain: the change is in them alone.
	Manifests []Manifest
	Plain     bool

	// Rendered describes what changes in what a Helm chart renders, one field each.
	Rendered []string

	// Unbuilt tells why the kustomization or chart that deploys the edited files, or a part
	// of it, could not be built before and after the edit. Empty: it was, or there is none.
	Unbuilt string

	Reverts []string // commits that it takes back, line by line; empty: it is an edit
	Within  []string // paths that the reverts are limited to; empty: all

	// TakesBack are commits whose values an edit sets back: a release of which only
	// the target's fields go back, or a change whose lines Git cannot revert because
	// of later changes next to them. Its message says that it reverts them.
	TakesBack []string
	Stays     []Touch // what the commits of Want.TakeBack moved besides, which stays as it is

	// Ahead are commits that change the source's manifests, of whatever workload,
	// and are not deployed yet: a sync would carry them out along with this change. Filled in when
	// Want.Deployed was.
	Ahead []Commit
}

// Touched is a commit that touched the manifests of a target.
type Touched struct {
	Commit  Commit
	Touches []Touch
	Others  []string // files it changed that are not the target's
}

// BranchPrefix begins the names of the branches that we make for pull requests.
const BranchPrefix = "responder/"

// Request asks for a proposal to be committed to its branch.
type Request struct {
	Proposal Proposal
	What     string // one line: the subject. A revert's names the commits itself
	Why      string
	Alert    string // which alert, in words
	Plan     string // Markdown, for the people who look at a pull request

	PullRequest bool // on a branch of its own, for which a pull request is opened; false: on the branch

	// The commit's trailers. The effect is the idempotency key of the write.
	Run, State, Digest, Effect string

	Drift string // a trailer too, one word: which part of the drift in the plan still exists; empty: none
}

// WithoutUser removes the user part of a repository's address, because some are
// configured with a password there. The user of ssh stays: it is part of the address.
func WithoutUser(repository string) string {
	if !strings.Contains(repository, "://") {
		return repository // git@host:path holds no password
	}
	u, err := url.Parse(repository)
	if err != nil {
		return "(a URL that cannot be read)"
	}
	if u.User == nil {
		return repository
	}
	if u.Scheme == "ssh" {
		u.User = url.User(u.User.Username())
	} else {
		u.User = nil
	}
	return u.String()
}

// RepositoryName is an address without what differs between the ways to reach
// the same repository: https and ssh, a user name, .git.
func RepositoryName(address string) string {
	s := address
	if u, err := url.Parse(s); err == nil && u.Scheme != "" && (u.Host != "" || u.Scheme == "file") {
		host := u.Hostname()
		if p := u.Port(); p != "" && u.Scheme != "ssh" {
			host = u.Host
		}
		s = host + "/" + strings.Trim(u.Path, "/")
	} else if host, path, ok := strings.Cut(s, ":"); ok && !strings.Contains(host, "/") {
		if i := strings.LastIndexByte(host, '@'); i >= 0 {
			host = host[i+1:] // git@host:path
		}
		s = host + "/" + strings.Trim(path, "/")
	}
	return strings.ToLower(strings.TrimSuffix(strings.Trim(s, "/"), ".git"))
}

// Delivery is how a change of a branch is made.
type Delivery struct {
	PullRequest bool          // by a pull request; false: by pushing to the branch
	Why         string        // in words: "branch main is protected"; empty where it is pushed
	Forge       string        // where it is opened, for people: "github acme/fleet"
	Within      time.Duration // it is closed unless it is merged in that time
}

// Landing is what became of a commit. The zero value: it is nowhere.
type Landing struct {
	SHA    string // of the commit on the branch; empty: it is not there
	Plan   string // digest of the plan that it was made for: its trailer Responder-Plan, or the line of the pull request; empty: not known
	Drift  string // its trailer Responder-Beside; empty: not known
	Waits  string // pull request that is open, for people: its URL
	Closed string // pull request that was closed without being merged

	// Of a pull request.
	Needs   []string // what keeps it from being merged, in words; none: nothing that is known
	Left    string   // of one that we closed: its branch, which could not be deleted, and why, for people; empty: nothing is left
	Changed string   // somebody pushed to its branch, or changed its base, so that it is no longer what was planned: what, for people; empty: nobody did
}

// None reports whether the commit is nowhere.
func (l Landing) None() bool { return l.SHA == "" && l.Waits == "" && l.Closed == "" }

// Sync asks Argo CD to sync an application.
type Sync struct {
	Application string   // namespace/name or name
	Revisions   []string // one for each source
	Key         string   // idempotency key, recorded with the operation
}
