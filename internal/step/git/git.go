package git

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
)

// ManifestOf returns the object that Git holds for a service, as far as its
// catalog entry tells.
func ManifestOf(svc playbook.Service) gitops.Target { return manifestOf(svc, kube.Workload{}) }

// ManifestIn returns the location of the manifests of a service and the object that Git
// holds for it, by its catalog entry and its application. If both differ it refuses.
func ManifestIn(svc playbook.Service, app gitops.Application) (gitops.Source, gitops.Target, error) {
	s := site{app: app, object: ManifestOf(svc)}
	err := s.locate(svc)
	return s.src, s.object, err
}

// source returns the location of a service's manifests from its catalog entry
// and its application. If both differ it refuses: a change of manifests that
// nobody deploys has no effect.
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
		return refuse("%s names no source", app.Title())
	case len(fits) == 0:
		return refuse("service %s keeps its manifests in %s %s, and %s deploys from %s: make gitops.repository and gitops.path of the catalog agree with it",
			svc.Name, step.OrNone(g.Repository), g.Path, app.Title(), sourcesText(app.Sources))
	case len(fits) > 1:
		return refuse("%s deploys from several sources, %s: set gitops.repository and gitops.path of service %s to the one that holds its manifests",
			app.Title(), sourcesText(app.Sources), svc.Name)
	}
	i := fits[0]
	src := app.Sources[i]
	if g.Repository != "" {
		src.Repository = g.Repository // reached the way it is configured: ssh here may be https there
	}
	target := followed(app, i)
	if strings.HasPrefix(target, "refs/") || isSHA(target) {
		return refuse("%s is pinned to %s, which is not a branch: a commit would not be deployed", app.Title(), target)
	}
	if g.Branch != "" && target != "" && g.Branch != target {
		return refuse("service %s names branch %s, and %s deploys %s: make gitops.branch agree with it", svc.Name, g.Branch, app.Title(), target)
	}
	src.Branch = target
	if src.Branch == "" {
		src.Branch = g.Branch
	}
	return src, i, nil
}

// followed returns the branch that an application names for one of its sources;
// empty: HEAD, the default branch of the remote. It may be a tag or a commit.
func followed(app gitops.Application, index int) string {
	if index >= len(app.Target) || app.Target[index] == "HEAD" {
		return ""
	}
	return strings.TrimPrefix(app.Target[index], "refs/heads/")
}

// referred reports whether a name that value files refer to is a source of the same
// repository as another source.
func referred(app gitops.Application, index int, name string) bool {
	i := slices.Index(app.Refs, name)
	return i >= 0 && sameRepository(app.Sources[i].Repository, app.Sources[index].Repository)
}

// releaseOf returns the name of the Helm release that an application makes of one of its
// sources. A source of value files alone belongs to the release of the chart.
func releaseOf(app gitops.Application, index int) string {
	return cmp.Or(named(app, index), app.Name[strings.LastIndexByte(app.Name, '/')+1:])
}

// named returns the name that an application gives the release of one of its sources;
// empty: its own.
func named(app gitops.Application, index int) string {
	if index < len(app.Releases) {
		return app.Releases[index]
	}
	return ""
}

// valueFiles returns the Helm value files of a source, as paths from the
// repository's root: those next to its chart, and those that another source
// takes from it.
func valueFiles(app gitops.Application, index int) []string {
	var out []string
	for i, files := range app.Values {
		for _, f := range files {
			ref, file, named := strings.Cut(f, "/")
			switch {
			case strings.HasPrefix(ref, "$") && named && len(app.Sources) > 1 && (i != index || referred(app, index, ref[1:])):
				out = append(out, file)
			case i == index && strings.HasPrefix(ref, "$"):
				out = append(out, f) // of another repository: it is not found, and the change is refused
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

// sameRepository reports whether two URLs are of one repository, by https or
// ssh, with or without .git.
func sameRepository(a, b string) bool { return gitops.RepositoryName(a) == gitops.RepositoryName(b) }

func samePath(a, b string) bool { return strings.Trim(a, "/.") == strings.Trim(b, "/.") }

// manifestOf returns the object that Git holds for the service: its workload,
// or the object that an operator makes the workload of.
func manifestOf(svc playbook.Service, w kube.Workload) gitops.Target {
	t := gitops.Target{Kind: svc.Workload.Kind, Namespace: svc.Namespace, Name: svc.Workload.Name, Container: svc.Container, Component: svc.GitOps.Component}
	for _, o := range w.Owners {
		if o.Field == "*" && !o.Deploys() && kube.Named(o, w.Ref) {
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

// Manages refuses an application that does not manage the object. Of a HelmRelease of Flux
// that does not list what it makes, [gitops.Made] tells.
func Manages(app gitops.Application, t gitops.Target) error {
	r, ok := listed(app, t)
	switch {
	case ok && r.Prune:
		return &fault.Error{Reason: fault.Owned, Message: fmt.Sprintf("%s %s/%s is not among the manifests of %s: a commit would not change it", t.Kind, t.Namespace, t.Name, app.Title())}
	case ok, unlisted(app):
		return nil
	}
	hint := ": set gitops.application to the one that does, or gitops.object to what makes it"
	if app.Deployer() == gitops.Flux {
		hint = ", or has not applied it yet"
	}
	return &fault.Error{Reason: fault.Owned, Message: fmt.Sprintf("%s does not manage %s %s/%s%s", app.Title(), t.Kind, t.Namespace, t.Name, hint)}
}

// unlisted reports whether an application is a HelmRelease that does not list what it makes.
func unlisted(app gitops.Application) bool {
	return gitops.HelmReleaseOf(app.Name) != "" && len(app.Made) == 0
}

// listed returns the object as an application lists it. Of a HelmRelease that is what it
// makes, and not what its Kustomization deploys.
func listed(app gitops.Application, t gitops.Target) (gitops.Resource, bool) {
	resources := app.Resources
	if gitops.HelmReleaseOf(app.Name) != "" {
		resources = app.Made
	}
	i := slices.IndexFunc(resources, func(r gitops.Resource) bool {
		return r.Kind == t.Kind && r.Name == t.Name && (r.Namespace == t.Namespace || r.Namespace == "")
	})
	if i < 0 {
		return gitops.Resource{}, false
	}
	return resources[i], true
}

// ApplicationOf returns the name of a service's application: from the catalog,
// or from the object itself.
func ApplicationOf(svc playbook.Service, w kube.Workload) (string, error) {
	for _, o := range w.Owners {
		if o.Kind != kube.Flux && o.Kind != kube.FluxHelm {
			continue
		}
		name := gitops.FluxName(o.Namespace, o.Name)
		if o.Kind == kube.FluxHelm {
			name = gitops.FluxHelmName(o.Namespace, o.Name)
		}
		if o.Namespace == "" {
			return "", &fault.Error{Reason: fault.Owned, Message: fmt.Sprintf("service %s: %s is not labelled with the namespace of %s", svc.Name, step.RefText(w.Ref), gitops.ApplicationTitle(name))}
		}
		return name, nil
	}
	if svc.GitOps.Application != "" {
		return svc.GitOps.Application, nil
	}
	for _, o := range w.Owners {
		if o.Kind == kube.ArgoCD {
			return o.Name, nil
		}
	}
	return "", &fault.Error{Reason: fault.Invalid, Message: fmt.Sprintf(
		"neither an Argo CD application nor a Kustomization of Flux is known for service %s: set gitops.application in its catalog entry", svc.Name)}
}

// short abbreviates a commit.
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
