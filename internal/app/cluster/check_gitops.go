package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/inference-responder/responder/internal/app"
	"github.com/inference-responder/responder/internal/config"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/gitops/manifests"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/runview"
	"github.com/inference-responder/responder/internal/step/git"
)

// CheckGitops asks every configured repository, Argo CD and Flux whether they can be
// used for services as the configuration says. It writes nothing.
func CheckGitops(ctx context.Context, c config.Config, services []playbook.Service, temp app.TempDir) (out []app.Finding, err error) {
	g, err := OpenGitOnce(c, temp, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	if g.Manifests != nil {
		for _, r := range g.Manifests.Check(ctx) {
			way := "changes are pushed"
			if r.Delivery.PullRequest {
				way = fmt.Sprintf("changes go by pull request on %s, because %s", r.Delivery.Forge, r.Delivery.Why)
			}
			out = append(out, found("repository "+r.Repository, "at "+runview.ShortCommit(r.Head)+"; "+way, r.Err, repositoryFix(r)))
		}
	}
	var names []string
	for _, s := range services {
		if app := s.GitOps.Application; app != "" && !gitops.OfFlux(app) {
			names = append(names, app)
		}
	}
	argo, answers := g.checkArgoCD(ctx, names)
	out = append(out, argo...)
	for _, s := range services {
		if s.GitOps != (playbook.GitOps{}) {
			detail, err := g.checkService(ctx, s, answers)
			fix := "correct gitops of the service in the catalog"
			if errors.Is(err, errNoArgoCD) {
				fix = "check again once Argo CD answers"
			}
			out = append(out, found("service "+s.Name, detail, err, fix))
		}
	}
	return out, nil
}

// repositoryFix reports what helps against an error of a repository, or of the
// forge that it is on: they are asked with credentials of their own.
func repositoryFix(r manifests.Checked) string {
	reason := reasonOf(r.Err)
	switch {
	case r.Forge && (reason == fault.Unreachable || reason == fault.Timeout):
		return "see that gitops.repositories[].forge.api is right, and that it answers from here (DNS, firewall, proxy); the repository itself does"
	case r.Forge && reason == fault.Forbidden:
		return "see that gitops.repositories[].forge.token_file holds a token that may read the repository and its protected branches, and open pull requests; " +
			"it is another one than auth, and its file is read anew each time"
	case r.Forge && reason == fault.NotFound:
		return "see that gitops.repositories[].forge.repository is right; a forge also says so of what the token of forge.token_file may not see"
	case reason == fault.Unreachable || reason == fault.Timeout:
		return "see that the address in gitops.repositories is right, and that the server answers from here (DNS, firewall, proxy)"
	case reason == fault.Forbidden:
		return "see that gitops.repositories[].auth is a credential that may read and push; its file is read anew each time"
	case reason == fault.NotFound:
		return "see that the address and the branch in gitops.repositories are right; a forge also says so of what the credential may not see"
	default:
		return "see the message; a token or key file is read anew each time"
	}
}

// reasonOf is the reason of an error of Git or Argo CD; empty: it has none.
func reasonOf(err error) fault.Reason {
	if e := new(fault.Error); errors.As(err, &e) {
		return e.Reason
	}
	return ""
}

// errNoArgoCD is why an application was not looked at.
var errNoArgoCD = errors.New("its application was not looked at, since Argo CD does not answer")

// found is the result of one check.
func found(name, detail string, err error, fix string) app.Finding {
	if err != nil {
		return app.Finding{Name: name, Detail: err.Error(), Fix: fix}
	}
	return app.Finding{Name: name, OK: true, Detail: detail}
}

// checkService looks up what is said of a service. Where Argo CD does not answer
// it looks at what Git alone tells. Flux is asked in the cluster.
func (g *GitOps) checkService(ctx context.Context, svc playbook.Service, answers bool) (string, error) {
	ofFlux := gitops.OfFlux(svc.GitOps.Application)
	asks := ofFlux || g.by.argocd != nil && svc.GitOps.Application != ""
	answers = answers || ofFlux
	switch {
	case asks && !answers && svc.GitOps.Repository == "":
		return "", errNoArgoCD
	case asks && answers:
		app, err := g.by.Application(ctx, svc.GitOps.Application)
		if err != nil {
			return "", err
		}
		if err := git.Manages(app, git.ManifestOf(svc)); err != nil {
			return "", err
		}
		if _, _, err := git.ManifestIn(svc, app); err != nil {
			return "", err
		}
	}
	src, target, err := g.Manifest(ctx, svc)
	if err == nil {
		err = g.Manifests.Made(ctx, src, target)
	}
	if err != nil {
		return "", err
	}
	places, err := g.Manifests.Places(ctx, src, target, []gitops.Variable{{Replicas: true}})
	if err != nil {
		return "", err
	}
	detail := fmt.Sprintf("%s:%d is its number of replicas", places[0].File, places[0].Line)
	if asks && !answers {
		return "", fmt.Errorf("%s; %w", detail, errNoArgoCD)
	}
	return detail, nil
}
