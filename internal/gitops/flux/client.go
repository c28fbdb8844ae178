package flux

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
)

// Cluster is what the objects of Flux are read from.
type Cluster interface {
	// Custom returns an object as JSON, with its status. If it does not exist, the error is
	// NotFound, also where the API itself is not installed.
	Custom(ctx context.Context, r schema.GroupVersionResource, namespace, name string) ([]byte, error)
	// Annotate sets an annotation of an object.
	Annotate(ctx context.Context, r schema.GroupVersionResource, namespace, name, key, value string) error
}

// Client reads Kustomizations and HelmReleases. It is safe for concurrent use.
type Client struct{ cluster Cluster }

// New returns a client of the Flux that runs in a cluster.
func New(c Cluster) *Client { return &Client{c} }

// Application returns a Kustomization, by the name that [gitops.FluxName] made, or a
// HelmRelease with the Kustomization that deploys it, by that of [gitops.FluxHelmName].
// The error is Owned if the source is not a GitRepository, and for a HelmRelease that a
// commit does not change.
func (c *Client) Application(ctx context.Context, name string) (gitops.Application, error) {
	k, r, err := c.read(ctx, name)
	if err != nil {
		return gitops.Application{}, err
	}
	if gitops.HelmReleaseOf(name) == "" {
		return application(k, r), nil
	}
	// Read after the Kustomization: what that has applied is in the HelmRelease by now.
	h, err := c.helmRelease(ctx, name)
	if err != nil {
		return gitops.Application{}, err
	}
	return released(h, k, r)
}

// helmRelease reads a HelmRelease.
func (c *Client) helmRelease(ctx context.Context, name string) (helmRelease, error) {
	namespace, short, ok := gitops.FluxHelmRelease(name)
	if !ok {
		return helmRelease{}, &fault.Error{Reason: fault.Invalid, Message: fmt.Sprintf("flux: %q does not name a HelmRelease", name)}
	}
	data, err := c.cluster.Custom(ctx, helmReleases, namespace, short)
	if err != nil {
		return helmRelease{}, err
	}
	return decode[helmRelease](data, gitops.ApplicationTitle(name))
}

// read reads a Kustomization and its source. Of a HelmRelease they are those that deploy
// its manifest.
func (c *Client) read(ctx context.Context, name string) (kustomization, repository, error) {
	if gitops.HelmReleaseOf(name) != "" {
		h, err := c.helmRelease(ctx, name)
		if err == nil {
			name, err = h.deployedBy()
		}
		if err != nil {
			return kustomization{}, repository{}, err
		}
	}
	namespace, short, ok := gitops.FluxKustomization(name)
	if !ok {
		return kustomization{}, repository{}, &fault.Error{Reason: fault.Invalid, Message: fmt.Sprintf("flux: %q does not name a Kustomization", name)}
	}
	data, err := c.cluster.Custom(ctx, kustomizations, namespace, short)
	if err != nil {
		return kustomization{}, repository{}, err
	}
	k, err := decode[kustomization](data, gitops.ApplicationTitle(name))
	if err != nil {
		return kustomization{}, repository{}, err
	}
	ref := k.Spec.SourceRef
	if ref.Namespace == "" {
		ref.Namespace = namespace
	}
	if ref.Kind != "GitRepository" {
		return kustomization{}, repository{}, &fault.Error{Reason: fault.Owned, Message: fmt.Sprintf(
			"%s deploys from %s %s/%s, not from a GitRepository: a commit is not what it deploys", gitops.ApplicationTitle(name), ref.Kind, ref.Namespace, ref.Name)}
	}
	if data, err = c.cluster.Custom(ctx, repositories, ref.Namespace, ref.Name); err != nil {
		return kustomization{}, repository{}, err
	}
	r, err := decode[repository](data, "GitRepository "+ref.Namespace+"/"+ref.Name)
	return k, r, err
}

// Refresh asks Flux to fetch the branch and to apply it now, instead of after its
// intervals. It returns at once. What is suspended stays so. The right to ask is opt-in:
// without it Refresh does nothing, and Flux looks after its interval.
func (c *Client) Refresh(ctx context.Context, name string) error {
	k, r, err := c.read(ctx, name)
	if err != nil {
		return err
	}
	// First the source: a new commit there makes Flux apply the Kustomization by itself.
	if err := c.request(ctx, repositories, r.Metadata); err != nil {
		return err
	}
	if sha(r.Status.Artifact.Revision) == sha(k.Status.LastAttemptedRevision) && conditionOf(k.Status.Conditions, "Ready").Status == "True" {
		return nil // nothing to apply before the new commit is fetched
	}
	return c.request(ctx, kustomizations, k.Metadata)
}

// request asks Flux to reconcile an object, if Responder has the right to ask.
func (c *Client) request(ctx context.Context, r schema.GroupVersionResource, of meta) error {
	err := c.cluster.Annotate(ctx, r, of.Namespace, of.Name, requestedAt, time.Now().UTC().Format(time.RFC3339Nano))
	if e := new(fault.Error); errors.As(err, &e) && e.Reason == fault.Forbidden {
		return nil
	}
	return err
}

// Lacks returns nothing: Flux applies its branch by itself.
func (c *Client) Lacks(context.Context, string) (string, error) { return "", nil }

// Sync refuses: Flux applies what its branch says, and nothing else.
func (c *Client) Sync(_ context.Context, s gitops.Sync) error {
	return &fault.Error{Reason: fault.Owned, Message: gitops.ApplicationTitle(s.Application) + " applies only its branch: change, or revert, it there"}
}

// Stop does nothing: there is no sync of ours.
func (c *Client) Stop(context.Context, string, string) error { return nil }

// look is how often a Kustomization is read that is watched. A watch of the API would
// need the right to list all of them.
const look = 2 * time.Second

// Watch waits until the Kustomization is settled by a judge's rule, and calls progress on
// every change. The error of a failed sync has the reason [fault.Conflict]. If the
// context's deadline comes first, the reason is [fault.Timeout]. Watch keeps waiting
// while the server is unreachable.
func (c *Client) Watch(ctx context.Context, name string, judge func(gitops.Application) (gitops.Rollout, string), progress func(string)) (gitops.Application, error) {
	said := ""
	say := func(text string) {
		if text != said {
			said = text
			progress(text)
		}
	}
	for {
		app, err := c.Application(ctx, name)
		e := new(fault.Error)
		switch {
		case err == nil:
			state, why := judge(app)
			say(why)
			switch state {
			case gitops.RolloutSettled:
				return app, nil
			case gitops.RolloutFailed:
				return app, &fault.Error{Reason: fault.Conflict, Message: app.Title() + ": " + why}
			}
		case errors.As(err, &e) && (e.Reason == fault.NotFound || e.Reason == fault.Forbidden || e.Reason == fault.Owned):
			return app, err
		default:
			say(err.Error())
		}
		select {
		case <-ctx.Done():
			return app, &fault.Error{Reason: fault.Timeout, Message: fmt.Sprintf("%s did not settle in time: %s", gitops.ApplicationTitle(name), said), Err: ctx.Err()}
		case <-time.After(look):
		}
	}
}
