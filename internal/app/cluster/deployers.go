package cluster

import (
	"context"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/gitops/argocd"
	"github.com/inference-responder/responder/internal/gitops/flux"
	"github.com/inference-responder/responder/internal/step"
)

// deployers asks Argo CD about its applications, and Flux about its Kustomizations. The
// name tells which it is.
type deployers struct {
	argocd *argocd.Client // nil: none is configured
	flux   *flux.Client   // nil: none is configured
}

// deployer is what both can do.
type deployer interface {
	step.Applications
	Watch(ctx context.Context, name string, judge func(gitops.Application) (gitops.Rollout, string), progress func(string)) (gitops.Application, error)
}

// configured reports whether there is anything to ask.
func (d deployers) configured() bool { return d.argocd != nil || d.flux != nil }

// Name returns what deploys, for people.
func (d deployers) Name() string {
	switch {
	case d.flux == nil:
		return gitops.ArgoCD
	case d.argocd == nil:
		return gitops.Flux
	}
	return gitops.ArgoCD + ", " + gitops.Flux
}

// of returns what deploys an application.
func (d deployers) of(name string) (deployer, error) {
	switch {
	case gitops.OfFlux(name) && d.flux != nil:
		return d.flux, nil
	case gitops.OfFlux(name):
		return nil, &fault.Error{Reason: fault.Invalid, Message: gitops.ApplicationTitle(name) + " deploys it, and gitops.flux.enabled is not set"}
	case d.argocd != nil:
		return d.argocd, nil
	}
	return nil, &fault.Error{Reason: fault.Invalid, Message: gitops.ApplicationTitle(name) + " deploys it, and gitops.argocd is not set"}
}

// Application implements [step.Applications], as do the methods below.
func (d deployers) Application(ctx context.Context, name string) (gitops.Application, error) {
	by, err := d.of(name)
	if err != nil {
		return gitops.Application{}, err
	}
	return by.Application(ctx, name)
}

// Refresh asks for a fresh comparison with Git.
func (d deployers) Refresh(ctx context.Context, name string) error {
	by, err := d.of(name)
	if err != nil {
		return err
	}
	return by.Refresh(ctx, name)
}

// Lacks describes the missing right to sync an application.
func (d deployers) Lacks(ctx context.Context, name string) (string, error) {
	by, err := d.of(name)
	if err != nil {
		return "", err
	}
	return by.Lacks(ctx, name)
}

// Sync starts a sync.
func (d deployers) Sync(ctx context.Context, s gitops.Sync) error {
	by, err := d.of(s.Application)
	if err != nil {
		return err
	}
	return by.Sync(ctx, s)
}

// Stop ends a sync of ours.
func (d deployers) Stop(ctx context.Context, name, key string) error {
	by, err := d.of(name)
	if err != nil {
		return err
	}
	return by.Stop(ctx, name, key)
}

// Watch waits until an application is settled.
func (d deployers) Watch(ctx context.Context, name string, judge func(gitops.Application) (gitops.Rollout, string), progress func(string)) (gitops.Application, error) {
	by, err := d.of(name)
	if err != nil {
		return gitops.Application{}, err
	}
	return by.Watch(ctx, name, judge, progress)
}
