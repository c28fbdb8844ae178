package service

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
)

// RollbackKind declares service.rollback.
func RollbackKind() playbook.Kind {
	return playbook.Kind{
		Name: "service.rollback",
		Role: playbook.RoleLever, Class: playbook.ClassRollback,
		Doc: `Takes the service's last release back, through whoever owns its pod template. The plan names the lever that does it:

kube.rollout_undo where nobody else owns the pod template, to the revision that service.changes names; gitops.revert where Argo CD or Flux owns it and the service's catalog entry says where in Git it is:
the commits of the window that came after that revision go back as one; argocd.rollback where Responder may not write to that repository and the application does not sync by itself.
Refused where Flux, an operator or another controlling object owns it.`,
		Idempotent: true,
		With:       step.Fields[rollbackWith](),
	}
}

type rollbackWith struct {
	Window step.Duration `json:"window" doc:"In Git: commits that were made or deployed this short ago go back together, e.g. 1h or the window of service.changes; with to_revision, those that came after it. Unset: the last one that changed more than replicas. Argo CD goes back by one revision."`

	ToRevision   int64 `json:"to_revision" min:"0" doc:"Revision to go back to, e.g. the target of service.changes; what came after it goes back together. Unset or 0: in the cluster the one before the current, in Git all of the window."`
	FromRevision int64 `json:"from_revision" min:"0" doc:"Revision that was current when to_revision was chosen, e.g. the revision of service.changes. Refused when another one is, and in Git while a commit waits to be deployed. Unset or 0: any."`
}

// Owners are the levers that go back, one for each owner of a pod template.
type Owners struct {
	Cluster, Git, Argo step.Planner
	Repository         Repository
}

// Repository reports whether a service's manifests can be changed in Git.
type Repository interface {
	// Unwritable returns why Responder cannot change the repository at all; empty: it
	// can, as far as that is known without writing.
	Unwritable(ctx context.Context, in step.Input) (why string, err error)
}

type rollback struct {
	w      step.Workloads
	owners Owners
}

// NewRollback returns the lever service.rollback.
func NewRollback(d step.Deps, owners Owners) step.Planner { return rollback{d.Workloads, owners} }

// Plan implements [step.Planner].
func (l rollback) Plan(ctx context.Context, in step.Input) (machine.Plan, error) {
	with, err := step.Decode[rollbackWith](RollbackKind(), in.With)
	if err != nil {
		return machine.Plan{}, err
	}
	if l.w == nil {
		return machine.Plan{}, step.NotConfigured("cluster", "kubernetes")
	}
	w, err := l.w.Workload(ctx, step.RefOf(in.Service))
	if err != nil {
		return machine.Plan{}, err
	}
	owned := step.Owned("service.rollback", w, "spec.template")
	owns := func(kind string) bool {
		return slices.ContainsFunc(w.Owners, func(o kube.Owner) bool { return o.Kind == kind })
	}
	switch {
	case owned == nil:
		in.With = map[string]any{"to_revision": with.ToRevision, "from_revision": with.FromRevision}
		return l.owners.Cluster.Plan(ctx, in)
	case slices.ContainsFunc(w.Owners, kube.Owner.Deploys) && in.Service.GitOps == (playbook.GitOps{}):
		return machine.Plan{}, &fault.Error{Reason: fault.Owned, Message: step.AsError(owned).Message +
			"; set gitops in the service's catalog entry, so that it is rolled back there"}
	case owns(kube.Flux), owns(kube.FluxHelm):
		return l.throughGit(ctx, in, with, owned)
	case !owns(kube.ArgoCD):
		return machine.Plan{}, owned
	}
	return l.throughArgo(ctx, in, with, owned)
}

// throughArgo plans the rollback of what Argo CD deploys: in Git, else by Argo CD.
// A release that cannot be taken back for what it holds is refused: Argo CD would
// take more back than that.
func (l rollback) throughArgo(ctx context.Context, in step.Input, with rollbackWith, owned error) (machine.Plan, error) {
	unwritable, err := l.owners.Repository.Unwritable(ctx, in)
	if err != nil {
		return machine.Plan{}, err
	}
	if unwritable != "" {
		if err := l.fresh(ctx, in, with); err != nil {
			return machine.Plan{}, err
		}
		in.With = nil
		plan, err := l.owners.Argo.Plan(ctx, in)
		if err != nil {
			e := *step.AsError(err)
			e.Message = fmt.Sprintf("service.rollback: Git cannot be changed (%s), and Argo CD cannot go back: %s", unwritable, e.Message)
			return machine.Plan{}, &e
		}
		plan.Notes = append([]string{"Argo CD goes back, because Git cannot be changed: " + unwritable}, plan.Notes...)
		return plan, nil
	}
	return l.throughGit(ctx, in, with, owned)
}

// throughGit plans the rollback as a commit.
func (l rollback) throughGit(ctx context.Context, in step.Input, with rollbackWith, owned error) (machine.Plan, error) {
	in.With = map[string]any{"to": "previous"}
	if with.Window > 0 {
		in.With = map[string]any{"window": time.Duration(with.Window), "to_revision": with.ToRevision}
	}
	in.With["from_revision"] = with.FromRevision
	plan, err := l.owners.Git.Plan(ctx, in)
	if err != nil {
		return machine.Plan{}, err
	}
	plan.Notes = append([]string{"it goes back in Git: " + step.AsError(owned).Message}, plan.Notes...)
	return plan, nil
}

// fresh refuses a rollback whose evidence is stale.
func (l rollback) fresh(ctx context.Context, in step.Input, with rollbackWith) error {
	if with.FromRevision == 0 {
		return nil
	}
	ref := step.RefOf(in.Service)
	revisions, err := l.w.Revisions(ctx, ref)
	if err != nil {
		return err
	}
	current, _ := kube.Newest(revisions)
	return step.SameRevision("service.rollback", ref, current, with.FromRevision)
}
