package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/inference-responder/responder/internal/app"
	"github.com/inference-responder/responder/internal/config"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/gitops/flux"
	"github.com/inference-responder/responder/internal/gitops/forge"
	"github.com/inference-responder/responder/internal/gitops/manifests"
	"github.com/inference-responder/responder/internal/gitops/repository"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
	"github.com/inference-responder/responder/internal/step/git"
)

// GitOps is Git, and what deploys from it, as the configuration describes them.
type GitOps struct {
	Manifests *manifests.Manifests // nil: no repository is configured
	by        deployers            // what deploys from Git
	recovery  time.Duration        // see step.Deps
	remove    func() error         // takes the clones away, which go with it; nil: they stay
}

// openGit makes both. It connects to nobody. Nil: nothing is configured.
func openGit(c config.Config, log *slog.Logger) (_ *GitOps, err error) {
	if !c.Gitops.Configured() {
		return &GitOps{}, nil
	}
	g := &GitOps{}
	if c.Gitops.Flux.Enabled {
		api, err := Kubernetes(c.Kubernetes)
		if err != nil {
			return nil, err
		}
		g.by.flux = flux.New(api)
	}
	if a := c.Gitops.ArgoCD; a != nil {
		if g.by.argocd, err = openArgoCD(*a, log); err != nil {
			return nil, err
		}
		g.recovery = a.Recovery
	}
	if len(c.Gitops.Repositories) == 0 {
		return g, nil
	}
	o := manifests.Options{Dir: cmp.Or(c.Gitops.Dir, filepath.Join(c.Journal.Dir, "git")), Log: log}
	for _, r := range c.Gitops.Repositories {
		remote, err := remoteOf(r, c.Gitops)
		if err != nil {
			return nil, errors.Join(err, g.Close())
		}
		o.Remotes = append(o.Remotes, remote)
	}
	if g.Manifests, err = manifests.New(o); err != nil {
		return nil, errors.Join(err, g.Close())
	}
	return g, nil
}

// OpenGitOnce is openGit for a command that ends. Its clones are in a
// temporary directory, since a service beside it has its own locked.
func OpenGitOnce(c config.Config, temp app.TempDir, log *slog.Logger) (*GitOps, error) {
	dir, remove, err := temp("responder-git-")
	if err != nil {
		return nil, fmt.Errorf("make a directory for the clones: %w", err)
	}
	c.Gitops.Dir = dir
	g, err := openGit(c, log)
	if err != nil {
		return nil, errors.Join(err, remove())
	}
	g.remove = remove
	return g, nil
}

// remoteOf is a configured repository.
func remoteOf(r config.Repository, g config.Gitops) (manifests.Remote, error) {
	out := manifests.Remote{
		Branch: r.Branch,
		Repository: repository.Options{
			URL: r.URL, Auth: authOf(r.Auth), Author: gitops.Person(g.Author), Signing: repository.Signing(g.Signing), Timeout: r.Timeout,
		},
	}
	f := r.Forge
	if f == nil {
		return out, nil
	}
	client, err := forge.New(forge.Options{
		Kind: forge.Kind(f.Kind), API: f.API, Repository: r.ForgeRepository(), TokenFile: f.TokenFile, CAFile: f.CAFile, Method: forge.Method(f.Method),
	})
	out.Forge, out.Delivery, out.Within = client, manifests.Mode(r.Way), f.MergeWithin
	return out, err
}

// authOf is the credential of a configured repository.
func authOf(a config.GitAuth) repository.Auth {
	return repository.Auth{
		TokenFile: a.TokenFile, Username: a.Username, Bearer: a.Bearer, CAFile: a.CAFile,
		KeyFile: a.KeyFile, PassphraseFile: a.PassphraseFile, KnownHostsFile: a.KnownHostsFile,
	}
}

// Close releases the clones and the connection.
func (g *GitOps) Close() error {
	var err error
	if g.Manifests != nil {
		err = g.Manifests.Close()
	}
	if g.by.argocd != nil {
		err = errors.Join(err, g.by.argocd.Close())
	}
	if g.remove != nil {
		err = errors.Join(err, g.remove())
	}
	return err
}

// into hands what there is to the steps.
func (g *GitOps) into(d *step.Deps) {
	if g.Manifests != nil {
		d.Manifests, d.Commits, d.Pulls, d.History = g.Manifests, g.Manifests, g.Manifests, g.Manifests
	}
	if g.by.configured() {
		d.Applications, d.Recovery = g.by, g.recovery
	}
}

// Manifest returns where the manifests of a service are, and the object that they hold for it.
func (g *GitOps) Manifest(ctx context.Context, svc playbook.Service) (gitops.Source, gitops.Target, error) {
	o := svc.GitOps
	switch {
	case g.Manifests == nil:
		return gitops.Source{}, gitops.Target{}, errors.New("no Git repository is configured: set gitops.repositories")
	case o.Repository != "" && gitops.HelmReleaseOf(o.Application) == "":
		return gitops.Source{Repository: o.Repository, Branch: o.Branch, Path: o.Path}, git.ManifestOf(svc), nil
	case o.Application == "" || !g.by.configured():
		return gitops.Source{}, gitops.Target{}, errors.New("where its manifests are is not known: set gitops.repository of service " + svc.Name + ", or gitops.application and gitops.argocd or gitops.flux")
	}
	app, err := g.by.Application(ctx, o.Application)
	if err != nil {
		return gitops.Source{}, gitops.Target{}, err
	}
	return git.ManifestIn(svc, app)
}
