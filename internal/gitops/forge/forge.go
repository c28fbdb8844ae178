// Package forge opens pull requests on GitHub, GitLab and Gitea, and follows them
// to their end: merged (and as which commit of the base branch), closed, or not
// mergeable. It pushes nothing: package repository pushes the branch.
//
// A pull request is identified by its branch and by the line Responder-Effect of
// its text. Opening it twice returns the existing one. It is merged only on
// request, and only while its branch is at the given commit.
//
// The three protocols are a handful of JSON requests each. Written by hand instead
// of with three client libraries, answers are limited in size, redirects are not
// followed, and no error holds the token.
package forge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/outbound"
)

// Kind is the forge's protocol.
type Kind string

// The kinds. Forgejo uses Gitea's.
const (
	GitHub Kind = "github"
	GitLab Kind = "gitlab"
	Gitea  Kind = "gitea"
)

// Method is how a pull request becomes commits of the base branch.
type Method string

// The methods. In GitLab the project's own setting decides about rebasing, so
// MethodRebase is refused there.
const (
	MethodMerge  Method = "merge" // the default
	MethodSquash Method = "squash"
	MethodRebase Method = "rebase"
)

// Options select a repository of a forge.
type Options struct {
	Kind       Kind
	API        string // base of the API; empty: https://api.github.com, https://gitlab.com/api/v4. Required for Gitea
	Repository string // owner/name; on GitLab group/subgroup/name
	TokenFile  string // read for every request, so that it may be rotated
	CAFile     string // PEM, in place of the system's
	Method     Method
	Timeout    time.Duration // of one request; 0: 15 s
}

// State is the state of a pull request.
type State string

// The states.
const (
	Open   State = "open"
	Merged State = "merged"
	Closed State = "closed" // and not merged
)

// Pull is one pull request.
type Pull struct {
	Number int64
	URL    string // for people
	Branch string
	Base   string
	Head   string // commit that the branch is at, as the forge knows it
	Title  string
	Effect string // of its text; empty: it is not ours
	Commit string // of its text: ours, which its branch was at when it was opened; empty: not known
	Digest string // of its text: of the plan that it was opened for; empty: not known

	State    State
	Merged   string // commit of the base branch that it became; empty: not merged
	MergedBy string
	Blocked  string // why it cannot be merged now, in the forge's words; empty: nothing is known to be in the way
	Conflict bool   // because of the base branch: only a new change helps
}

// Request is a pull request to open.
type Request struct {
	Branch string // pushed already
	Base   string
	Head   string // commit that the branch is at
	Title  string
	Plan   string // shown as it is, in a fixed-width block: no markup, no mentions
	Digest string // of the plan; empty: it is not named
	Effect string // the idempotency key, one word
}

// Client talks to one repository of one forge. It is safe for concurrent use.
type Client struct {
	o    Options
	http *caller
	api  api
}

// api is one forge's protocol.
type api interface {
	open(context.Context, Request) (Pull, error)
	// list returns the pull requests of the branch into any base, in any state, newest
	// first; false: there are more than requested.
	list(ctx context.Context, base, branch string) ([]Pull, bool, error)
	get(ctx context.Context, number int64) (Pull, error)
	merge(ctx context.Context, p Pull, m Method, title, text string) error
	close(ctx context.Context, number int64) error

	protection(ctx context.Context, branch string) (Protection, error)
	// needs returns what keeps an open pull request from being merged, as far as it is
	// known.
	needs(ctx context.Context, p Pull) ([]string, error)
	// of returns the pull requests, in any state, that a commit of a base branch came
	// with.
	of(ctx context.Context, sha string) ([]Pull, error)
}

var repositoryName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*)+$`)

// New validates the options. It does not connect.
func New(o Options) (*Client, error) {
	o.Method = cmp.Or(o.Method, MethodMerge)
	o.Timeout = cmp.Or(o.Timeout, 15*time.Second)
	defaults := map[Kind]string{GitHub: "https://api.github.com", GitLab: "https://gitlab.com/api/v4", Gitea: ""}
	base, known := defaults[o.Kind]
	o.API = cmp.Or(o.API, base)
	parts := strings.Count(o.Repository, "/")
	switch {
	case !known:
		return nil, invalid("forge %q: want github, gitlab or gitea", o.Kind)
	case o.API == "":
		return nil, invalid("forge: gitea wants the address of its API, such as https://git.example.com/api/v1")
	case !repositoryName.MatchString(o.Repository), o.Kind != GitLab && parts != 1:
		return nil, invalid("forge: repository %q: want owner/name", outbound.Cut(o.Repository, 100))
	case o.TokenFile == "":
		return nil, invalid("forge: the token file is missing")
	case o.Timeout < 0:
		return nil, invalid("forge: timeout is negative")
	case !slices.Contains([]Method{MethodMerge, MethodSquash, MethodRebase}, o.Method):
		return nil, invalid("forge: method %q: want merge, squash or rebase", o.Method)
	case o.Kind == GitLab && o.Method == MethodRebase:
		return nil, invalid("forge: on gitlab the project's merge method decides about rebasing: set it there, and use merge or squash here")
	}
	c, err := newCaller(o)
	if err != nil {
		return nil, err
	}
	client := &Client{o: o, http: c}
	switch o.Kind {
	case GitHub:
		client.api = &github{c, "/repos/" + o.Repository}
	case GitLab:
		client.api = &gitlab{c, "/projects/" + url.PathEscape(o.Repository)}
	default:
		client.api = &gitea{c, "/repos/" + o.Repository}
	}
	return client, nil
}

// String returns the forge and the repository.
func (c *Client) String() string { return string(c.o.Kind) + " " + c.o.Repository }

// Find returns the newest pull request of a branch whose text carries the effect:
// into that base or, if somebody changed its base, into another one, which is in
// its Base. False means that there is certainly none. A pull request of the branch
// without our lines is a Conflict.
func (c *Client) Find(ctx context.Context, base, branch, effect string) (Pull, bool, error) {
	pulls, whole, err := c.api.list(ctx, base, branch)
	if err != nil {
		return Pull{}, false, err
	}
	pulls = slices.DeleteFunc(pulls, func(p Pull) bool { return p.Branch != branch })
	ours := func(p Pull) bool { return p.Effect == effect }
	i := slices.IndexFunc(pulls, func(p Pull) bool { return ours(p) && p.Base == base })
	if i < 0 {
		i = slices.IndexFunc(pulls, ours)
	}
	if i >= 0 {
		return pulls[i], true, nil
	}
	for _, p := range pulls {
		if p.Effect == "" {
			return Pull{}, false, conflict("find pull request of branch %s: the text of %s no longer has the line %s: somebody took it away; put %q at its end", branch, p.URL, gitops.TrailerEffect, gitops.TrailerEffect+": "+effect)
		}
	}
	if !whole {
		return Pull{}, false, &fault.Error{Reason: fault.OutOfBounds, Message: fmt.Sprintf("find pull request of branch %s: %s has more pull requests than Responder reads", branch, c)}
	}
	return Pull{}, false, nil
}

// Open opens a pull request. If one of the same branch and effect exists, open or
// not, Open returns it: what people closed is not opened again.
func (c *Client) Open(ctx context.Context, q Request) (Pull, error) {
	if q.Effect == "" || strings.ContainsFunc(q.Effect, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }) {
		return Pull{}, invalid("pull request: effect %q: want one word of printable characters", outbound.Cut(q.Effect, 80))
	}
	if q.Branch == "" || q.Base == "" || q.Branch == q.Base || outbound.OneLine(q.Title, 1) == "" {
		return Pull{}, invalid("pull request: want a branch, another one as its base, and a title")
	}
	p, found, err := c.Find(ctx, q.Base, q.Branch, q.Effect)
	if err != nil || found {
		return p, err
	}
	q.Title = outbound.OneLine(q.Title, 200)
	p, err = c.api.open(ctx, q)
	if err != nil {
		return Pull{}, err
	}
	if p.Number <= 0 {
		return Pull{}, &fault.Error{Reason: fault.ServerError, Unknown: true, Message: fmt.Sprintf("open pull request: %s answers without a number", c)}
	}
	return p, nil
}

// Get reads a pull request.
func (c *Client) Get(ctx context.Context, number int64) (Pull, error) { return c.api.get(ctx, number) }

// Merge merges a pull request into that base while its branch is at head, the
// approved commit. It does not merge later pushes, or into a changed base. title
// and text are the message of the merge or of the squashed commit; an empty title
// means that of the pull request. If it is merged already, Merge returns it.
//
// The error is a Conflict when the branch moved or does not fit the base. It is
// Forbidden while [Client.Needs] returns something, even if the forge would let
// this token bypass it, or if the forge's rules do not allow it.
func (c *Client) Merge(ctx context.Context, number int64, base, head, title, text string) (Pull, error) {
	p, needs, err := c.Needs(ctx, number)
	switch {
	case err != nil:
		return Pull{}, err
	case p.State == Merged:
		return p, nil
	case p.State == Closed:
		return p, conflict("merge: pull request %d of %s was closed", number, c)
	case p.Base != base:
		return p, conflict("merge: pull request %d of %s goes into %s, not into %s: somebody changed its base", number, c, p.Base, base)
	case p.Head != head:
		return p, conflict("merge: pull request %d of %s is at %.10s, not at %.10s: somebody pushed to its branch", number, c, p.Head, head)
	case p.Conflict:
		return p, conflict("merge: pull request %d of %s conflicts with the base branch", number, c)
	case len(needs) > 0:
		return p, &fault.Error{Reason: fault.Forbidden, Message: fmt.Sprintf("pull request %d of %s is not merged yet: %s", number, c, strings.Join(needs, "; "))}
	}
	if err := c.api.merge(ctx, p, c.o.Method, cmp.Or(outbound.OneLine(title, 200), outbound.OneLine(p.Title, 150)+fmt.Sprintf(" (#%d)", number)), text); err != nil {
		return p, err
	}
	p, err = c.api.get(ctx, number)
	if err != nil {
		return Pull{}, err
	}
	if p.State != Merged {
		return p, &fault.Error{Reason: fault.ServerError, Unknown: true, Message: fmt.Sprintf("merge: %s accepted the request, but pull request %d is still %s", c, number, p.State)}
	}
	return p, nil
}

// Close closes a pull request without merging it. Its branch stays:
// [repository.Repository.DeleteBranch] removes it if nobody pushed to it. A pull
// request that was merged meanwhile is a Conflict.
func (c *Client) Close(ctx context.Context, number int64) (Pull, error) {
	p, err := c.api.get(ctx, number)
	if err != nil || p.State == Closed {
		return p, err
	}
	if p.State == Open {
		if err := c.api.close(ctx, number); err != nil {
			return p, err
		}
		if p, err = c.api.get(ctx, number); err != nil {
			return p, err
		}
	}
	switch p.State {
	case Merged:
		return p, conflict("close: pull request %d of %s was merged as %.10s", number, c, p.Merged)
	case Open:
		return p, &fault.Error{Reason: fault.ServerError, Message: fmt.Sprintf("close: %s accepted the request, but pull request %d is still open", c, number)}
	}
	return p, nil
}

// body returns the text of a pull request. Text from alerts stands in a
// fixed-width block, so that it is neither markup nor a mention.
func body(q Request) string {
	plan := strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return -1
	}, strings.ToValidUTF8(q.Plan, ""))
	fence := "```"
	for strings.Contains(plan, fence) {
		fence += "`"
	}
	digest := ""
	if q.Digest != "" {
		digest = gitops.TrailerPlan + ": " + q.Digest + "\n"
	}
	return fmt.Sprintf("%s\n%s\n%s\n\n%s: %s\n%s%s: %s\n", fence, strings.TrimRight(outbound.Cut(plan, 50_000), "\n"), fence, commitLine, q.Head, digest, gitops.TrailerEffect, q.Effect)
}

// commitLine names our commit in the text of a pull request. It shows what people
// push on top of it, even when the branch is gone.
const commitLine = "Responder-Commit"

var ourLines = regexp.MustCompile(`(?m)(?:^` + commitLine + `: ([0-9a-f]{40})[ \t]*\n)?(?:^` + gitops.TrailerPlan + `: (\S+)[ \t]*\n)?^` + gitops.TrailerEffect + `: (\S+)[ \t]*$`)

// own sets what the text holds: our commit, the plan's digest and the effect. The
// last such lines count, because earlier ones may come from an alert. Text that
// people and tools append does not matter.
func (p *Pull) own(text string) {
	all := ourLines.FindAllStringSubmatch(strings.ReplaceAll(text, "\r\n", "\n"), -1)
	if len(all) > 0 {
		m := all[len(all)-1]
		p.Commit, p.Digest, p.Effect = m[1], m[2], m[3]
	}
}

func conflict(format string, args ...any) *fault.Error {
	return &fault.Error{Reason: fault.Conflict, Message: fmt.Sprintf(format, args...)}
}

func invalid(format string, args ...any) *fault.Error {
	return &fault.Error{Reason: fault.Invalid, Message: fmt.Sprintf(format, args...)}
}

// refusedMerge explains a merge that was refused.
func refusedMerge(err error, code int, why string) error {
	var e *fault.Error
	if !errors.As(err, &e) {
		return err
	}
	switch code {
	case http.StatusConflict:
		e.Reason = fault.Conflict
	case http.StatusMethodNotAllowed, http.StatusUnprocessableEntity, http.StatusNotAcceptable:
		e.Reason = fault.Forbidden
		e.Message += why
	}
	return e
}
