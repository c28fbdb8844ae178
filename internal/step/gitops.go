package step

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
)

// Manifests reads what Git says of a service and computes changes of it. It
// writes nothing. Every answer is of the branch's head at the time of asking.
type Manifests interface {
	// Places gives where each variable stands, in the order they were asked.
	Places(ctx context.Context, src gitops.Source, t gitops.Target, vs []gitops.Variable) ([]gitops.Place, error)
	// Propose computes the one edit that gives the variables their values.
	Propose(ctx context.Context, w gitops.Want) (gitops.Proposal, error)
	// Reverting computes the change that takes these commits back, as far as
	// they touch the target's manifests, and nothing that came later. Lines that
	// were changed again since are a conflict.
	Reverting(ctx context.Context, src gitops.Source, t gitops.Target, shas []string) (gitops.Proposal, error)
}

// Commits writes to the branch of a source: directly, or by a pull request.
type Commits interface {
	// Commit makes one commit of a proposal whose base is still the head, the way
	// the request says. It is idempotent under the request's key. A base that
	// moved is a conflict; a push that is refused because the branch is protected
	// has [gitops.ErrProtected] in its error, and from then on Way says so.
	Commit(ctx context.Context, r gitops.Request) (gitops.Landing, error)
	// Find tells what became of the commit with that key.
	Find(ctx context.Context, src gitops.Source, key string) (gitops.Landing, error)
}

// Pulls steers the pull requests that commits may wait in.
type Pulls interface {
	// Way tells how a change of the source's branch is made now: pushed, or by a
	// pull request. What cannot be found out is an error.
	Way(ctx context.Context, src gitops.Source) (gitops.Way, error)
	// Withdraw closes that of the commit with that key, if it is open.
	Withdraw(ctx context.Context, src gitops.Source, key string) (gitops.Landing, error)
	// Merge merges it, as soon as no review or check is missing; what is missing
	// is the error. It is called where that is ours to do.
	Merge(ctx context.Context, src gitops.Source, key string) error
}

// History tells who changed what in Git.
type History interface {
	// Changes gives the commits since then that touched the manifests of the
	// target, newest first. A history that does not reach back that far is an error.
	Changes(ctx context.Context, src gitops.Source, t gitops.Target, since time.Time) ([]gitops.Touched, error)
	// Since gives those that came after a commit; with an empty target, those of
	// every workload. Those of ours are known as such, whoever merged them.
	Since(ctx context.Context, src gitops.Source, t gitops.Target, sha string) ([]gitops.Touched, error)
	// Contains tells whether a commit is in the history of another one.
	Contains(ctx context.Context, src gitops.Source, ancestor, descendant string) (bool, error)
}

// Applications knows the applications of Argo CD.
type Applications interface {
	// Application gives the state of one, by namespace/name or name.
	Application(ctx context.Context, name string) (gitops.Application, error)
	// Refresh asks for a fresh comparison with Git.
	Refresh(ctx context.Context, name string) error
	// Lacks says which right to sync it is missing, for people; empty: none.
	Lacks(ctx context.Context, name string) (string, error)
	// Sync begins a sync of an application at these revisions, one for each
	// source, older ones too. One that runs already is throttled.
	Sync(ctx context.Context, s gitops.Sync) error
	// Stop has Argo CD end the operation with that key, if it is under way; what
	// it did stays. It ends a moment later.
	Stop(ctx context.Context, name, key string) error
}

// Objects reads live objects of any kind and has the API server judge
// manifests: the cluster.
type Objects interface {
	// Object gives an object as it is now, as JSON. One that is not there is NotFound.
	Object(ctx context.Context, id kube.ObjectID) ([]byte, error)
	// Try asks whether the server would take a manifest, and stores nothing. It
	// gives the object as it would be, as JSON. The namespace is for manifests
	// that name none. Invalid: it is refused, with the server's words; Forbidden:
	// we may not ask.
	Try(ctx context.Context, namespace string, manifest []byte) ([]byte, error)
}

// LastGood knows what was last verified.
type LastGood interface {
	// LastGood gives the value of a variable of a service, and the commit, that
	// a run last proved to be good. An empty variable asks for the commit alone.
	LastGood(service, variable string) (value, sha string, ok bool)
}

// SourceOf is where a service's manifests are: as its catalog entry says or,
// where it names no repository, its application.
func SourceOf(svc playbook.Service, app gitops.Application) (gitops.Source, error) {
	src, _, err := source(svc, app)
	return src, err
}

// ManifestOf is the object that Git holds for a service, as far as its catalog
// entry tells.
func ManifestOf(svc playbook.Service) gitops.Target { return manifestOf(svc, kube.Workload{}) }

// source is where a service's manifests are, as its catalog entry and its
// application say. Both saying different things is refused: a change of a place
// that nobody deploys would be no change.
func source(svc playbook.Service, app gitops.Application) (gitops.Source, int, error) {
	g := svc.GitOps
	refuse := func(format string, args ...any) (gitops.Source, int, error) {
		return gitops.Source{}, 0, &fault.Error{Reason: fault.Owned, Message: fmt.Sprintf(format, args...)}
	}
	var fits []int
	for i, s := range app.Sources {
		if i < len(app.Chart) && app.Chart[i] != "" {
			continue // a chart repository; its values may be in Git
		}
		if s.Repository != "" && (g.Repository == "" || sameRepository(g.Repository, s.Repository)) && (g.Path == "" || samePath(g.Path, s.Path)) {
			fits = append(fits, i)
		}
	}
	switch {
	case len(app.Sources) == 0:
		return refuse("Argo CD application %s names no source", app.Name)
	case len(fits) == 0:
		return refuse("service %s keeps its manifests in %s %s, and Argo CD application %s deploys from %s: make gitops.repository and gitops.path of the catalog agree with it",
			svc.Name, orNone(g.Repository), g.Path, app.Name, sourcesText(app.Sources))
	case len(fits) > 1:
		return refuse("Argo CD application %s deploys from several sources, %s: set gitops.repository and gitops.path of service %s to the one that holds its manifests",
			app.Name, sourcesText(app.Sources), svc.Name)
	}
	i := fits[0]
	src := app.Sources[i]
	if g.Repository != "" {
		src.Repository = g.Repository // reached the way it is configured: ssh here may be https there
	}
	target := followed(app, i)
	if strings.HasPrefix(target, "refs/") || isSHA(target) {
		return refuse("Argo CD application %s is pinned to %s, which is no branch: a commit would not be deployed", app.Name, target)
	}
	if g.Branch != "" && target != "" && g.Branch != target {
		return refuse("service %s names branch %s, and Argo CD application %s deploys %s: make gitops.branch agree with it", svc.Name, g.Branch, app.Name, target)
	}
	src.Branch = target
	if src.Branch == "" {
		src.Branch = g.Branch
	}
	return src, i, nil
}

// followed is the branch that an application names for one of its sources; empty:
// HEAD, which is whatever branch the remote has as its default. It may be no
// branch at all: a tag or a commit.
func followed(app gitops.Application, index int) string {
	if index >= len(app.Target) || app.Target[index] == "HEAD" {
		return ""
	}
	return strings.TrimPrefix(app.Target[index], "refs/heads/")
}

// valueFiles are the Helm value files that a source's manifests are made of,
// from the repository's root: those beside its chart, and those that another
// source takes from it.
func valueFiles(app gitops.Application, index int) []string {
	var out []string
	for i, files := range app.Values {
		for _, f := range files {
			ref, file, named := strings.Cut(f, "/")
			switch {
			case strings.HasPrefix(ref, "$") && named && len(app.Sources) > 1 && i != index:
				out = append(out, file)
			case i == index && !strings.HasPrefix(f, "$") && !strings.Contains(f, "://"):
				out = append(out, path.Join(app.Sources[i].Path, f))
			}
		}
	}
	return out
}

func isSHA(s string) bool { return len(s) == 40 && strings.Trim(s, "0123456789abcdef") == "" }

func sourcesText(ss []gitops.Source) string {
	var out []string
	for _, s := range ss {
		out = append(out, strings.TrimSpace(s.Repository+" "+s.Path))
	}
	return strings.Join(out, ", ")
}

// sameRepository compares two addresses of one repository as people write them:
// https and ssh, with and without .git.
func sameRepository(a, b string) bool { return gitops.RepositoryName(a) == gitops.RepositoryName(b) }

func samePath(a, b string) bool { return strings.Trim(a, "/.") == strings.Trim(b, "/.") }

// manifestOf is the object that Git holds for the service: its workload, or the
// object that makes the workload.
func manifestOf(svc playbook.Service, w kube.Workload) gitops.Target {
	t := gitops.Target{Kind: svc.Workload.Kind, Namespace: svc.Namespace, Name: svc.Workload.Name, Container: svc.Container}
	for _, o := range w.Owners {
		if o.Field == "*" && o.Kind != "ArgoCD" && o.Kind != "Flux" {
			t.Kind, t.Name = o.Kind, o.Name
		}
	}
	if o := svc.GitOps.Object; o.Kind != "" {
		t.Kind, t.Name = o.Kind, o.Name
	}
	if t.Kind != svc.Workload.Kind || t.Name != svc.Workload.Name {
		t.Workload = svc.Workload.Name
	}
	return t
}

// Manages refuses an application that does not manage the object.
func Manages(app gitops.Application, t gitops.Target) error { return managed(app, t) }

// managed refuses an application that does not manage the object.
func managed(app gitops.Application, t gitops.Target) error {
	if slices.ContainsFunc(app.Resources, func(r gitops.Resource) bool {
		return r.Kind == t.Kind && r.Name == t.Name && (r.Namespace == t.Namespace || r.Namespace == "")
	}) {
		return nil
	}
	return &fault.Error{Reason: fault.Owned, Message: fmt.Sprintf(
		"Argo CD application %s does not manage %s %s/%s: set gitops.application to the one that does", app.Name, t.Kind, t.Namespace, t.Name)}
}

// applicationOf names the application of a service: the catalog's, or the one
// that the object itself declares.
func applicationOf(svc playbook.Service, w kube.Workload) (string, error) {
	for _, o := range w.Owners {
		if o.Kind == "Flux" {
			return "", &fault.Error{Reason: fault.Owned, Message: fmt.Sprintf(
				"service %s: %s belongs to %s (%s): %s", svc.Name, place(w.Ref), ownerName(o), o.Why, byFlux)}
		}
	}
	if svc.GitOps.Application != "" {
		return svc.GitOps.Application, nil
	}
	for _, o := range w.Owners {
		if o.Kind == "ArgoCD" {
			return o.Name, nil
		}
	}
	return "", &fault.Error{Reason: fault.Invalid, Message: fmt.Sprintf(
		"no Argo CD application is known for service %s: set gitops.application in its catalog entry", svc.Name)}
}

// short is a commit as people write it.
func short(sha string) string {
	if isSHA(sha) {
		return sha[:9]
	}
	return sha
}

func shorts(shas []string) []string {
	var out []string
	for _, s := range shas {
		out = append(out, short(s))
	}
	return out
}
