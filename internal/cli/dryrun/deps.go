package dryrun

import (
	"context"
	"fmt"
	"net/http"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/step"
)

// readOnly returns the dependencies of a dry run: everything that could change
// something is refused before it reaches the world. Autonomy observe already
// keeps the executor from asking; this keeps a mistake from mattering.
func readOnly(d step.Deps) step.Deps {
	if d.Changer != nil {
		d.Changer = dryRunChanger{d.Changer}
	}
	if d.Pods != nil {
		d.Pods = dryRunPods{d.Pods}
	}
	if d.Routes != nil {
		d.Routes = dryRunRoutes{d.Routes}
	}
	if d.Scalers != nil {
		d.Scalers = dryRunScalers{d.Scalers}
	}
	if d.NodeChanger != nil {
		d.NodeChanger = dryRunNodes{d.NodeChanger}
	}
	if d.Prober != nil {
		d.Prober = readingProber{d.Prober}
	}
	if d.Commits != nil {
		d.Commits, d.Pulls = readingCommits{d.Commits}, readingPulls{d.Pulls}
	}
	if d.Applications != nil {
		d.Applications = readingApplications{d.Applications}
	}
	if d.Repairs != nil {
		d.Repairs = silentRepairs{d.Repairs}
	}
	d.Notifier = silentNotifier{}
	return d
}

// dryRunChanger lets only changes through that the server validates and forgets.
type dryRunChanger struct{ next step.Changer }

// Scale refuses everything but a server-side dry-run.
func (c dryRunChanger) Scale(ctx context.Context, change kube.ScaleChange) (kube.Applied, error) {
	if !change.DryRun {
		return kube.Applied{}, refuseWrite("scale", change.Ref)
	}
	return c.next.Scale(ctx, change)
}

// Undo refuses everything but a server-side dry-run.
func (c dryRunChanger) Undo(ctx context.Context, change kube.UndoChange) (kube.Applied, error) {
	if !change.DryRun {
		return kube.Applied{}, refuseWrite("roll back", change.Ref)
	}
	return c.next.Undo(ctx, change)
}

// Restart refuses everything but a server-side dry-run.
func (c dryRunChanger) Restart(ctx context.Context, change kube.RestartChange) (kube.Applied, error) {
	if !change.DryRun {
		return kube.Applied{}, refuseWrite("restart", change.Ref)
	}
	return c.next.Restart(ctx, change)
}

// Hold refuses everything but a server-side dry-run.
func (c dryRunChanger) Hold(ctx context.Context, change kube.HoldChange) (kube.Applied, error) {
	if !change.DryRun {
		return kube.Applied{}, refuseWrite("hold", change.Ref)
	}
	return c.next.Hold(ctx, change)
}

// dryRunPods does the same for pods.
type dryRunPods struct{ next step.Pods }

// Pod reads.
func (c dryRunPods) Pod(ctx context.Context, namespace, name string) (kube.PodState, error) {
	return c.next.Pod(ctx, namespace, name)
}

// ChangePod refuses everything but a server-side dry-run.
func (c dryRunPods) ChangePod(ctx context.Context, change kube.PodChange) (kube.PodState, error) {
	if !change.DryRun {
		return kube.PodState{}, refuseIn("change pod " + change.Namespace + "/" + change.Name)
	}
	return c.next.ChangePod(ctx, change)
}

// dryRunRoutes does the same for routes.
type dryRunRoutes struct{ next step.Routes }

// Route reads.
func (c dryRunRoutes) Route(ctx context.Context, ref kube.Ref) (kube.Route, error) {
	return c.next.Route(ctx, ref)
}

// SetRoute refuses everything but a server-side dry-run.
func (c dryRunRoutes) SetRoute(ctx context.Context, change kube.RouteChange) (kube.Route, error) {
	if !change.DryRun {
		return kube.Route{}, refuseWrite("split the requests of", change.Ref)
	}
	return c.next.SetRoute(ctx, change)
}

// dryRunScalers does the same for autoscalers.
type dryRunScalers struct{ step.Autoscalers }

// SetBounds refuses everything but a server-side dry-run.
func (c dryRunScalers) SetBounds(ctx context.Context, change kube.BoundsChange) (kube.Autoscaler, error) {
	if !change.DryRun {
		return kube.Autoscaler{}, refuseWrite("change the bounds of", change.Ref)
	}
	return c.Autoscalers.SetBounds(ctx, change)
}

// dryRunNodes does the same for nodes.
type dryRunNodes struct{ next step.NodeChanger }

// ChangeNode refuses everything but a server-side dry-run.
func (c dryRunNodes) ChangeNode(ctx context.Context, change kube.NodeChange) (kube.NodeState, error) {
	if !change.DryRun {
		return kube.NodeState{}, refuseIn("change node " + change.Name)
	}
	return c.next.ChangeNode(ctx, change)
}

// Evict refuses everything but a server-side dry-run.
func (c dryRunNodes) Evict(ctx context.Context, e kube.Eviction) (string, error) {
	if !e.DryRun {
		return "", refuseIn("evict pod " + e.Namespace + "/" + e.Name)
	}
	return c.next.Evict(ctx, e)
}

// silentRepairs tells who would be asked for a repair, and asks nobody.
type silentRepairs struct{ step.Repairs }

// Ask is refused.
func (silentRepairs) Ask(_ context.Context, r step.RepairRequest) (string, error) {
	return "", refuseIn("ask for a repair of node " + r.Node)
}

// readingCommits looks for commits and makes none.
type readingCommits struct{ next step.Commits }

// Commit is refused.
func (readingCommits) Commit(_ context.Context, r gitops.Request) (gitops.Landing, error) {
	return gitops.Landing{}, refuseIn("commit to " + r.Proposal.Source.Repository)
}

// Find looks.
func (c readingCommits) Find(ctx context.Context, src gitops.Source, key string) (gitops.Landing, error) {
	return c.next.Find(ctx, src, key)
}

// readingPulls asks which way a change would go and steers nothing.
type readingPulls struct{ next step.Pulls }

// Delivery asks.
func (p readingPulls) Delivery(ctx context.Context, src gitops.Source) (gitops.Delivery, error) {
	return p.next.Delivery(ctx, src)
}

// Withdraw is refused.
func (readingPulls) Withdraw(_ context.Context, src gitops.Source, _ string) (gitops.Landing, error) {
	return gitops.Landing{}, refuseIn("close a pull request of " + src.Repository)
}

// Merge is refused.
func (readingPulls) Merge(_ context.Context, src gitops.Source, _ string) error {
	return refuseIn("merge a pull request of " + src.Repository)
}

// readingApplications reads applications and syncs none.
type readingApplications struct{ next step.Applications }

// Application reads.
func (a readingApplications) Application(ctx context.Context, name string) (gitops.Application, error) {
	return a.next.Application(ctx, name)
}

// Refresh has Argo CD look at the branch of an application that is synced by
// hand. It is refused of one that syncs by itself: it would sync.
func (a readingApplications) Refresh(ctx context.Context, name string) error {
	app, err := a.next.Application(ctx, name)
	if err != nil {
		return err
	}
	if app.Automated {
		return refuseIn("refresh application " + name)
	}
	return a.next.Refresh(ctx, name)
}

// Lacks asks.
func (a readingApplications) Lacks(ctx context.Context, name string) (string, error) {
	return a.next.Lacks(ctx, name)
}

// Sync is refused.
func (readingApplications) Sync(_ context.Context, s gitops.Sync) error {
	return refuseIn("sync application " + s.Application)
}

// Stop is refused.
func (readingApplications) Stop(_ context.Context, name, _ string) error {
	return refuseIn("stop the sync of application " + name)
}

func refuseIn(what string) error {
	return &fault.Error{Reason: fault.Forbidden, Message: "dry run: refused to " + what + "; a dry run changes nothing, so this is a mistake in the program: please report it"}
}

func refuseWrite(what string, ref kube.Ref) error {
	return &fault.Error{
		Reason:  fault.Forbidden,
		Message: fmt.Sprintf("dry run: refused to %s %s %s/%s; a dry run changes nothing, so this is a mistake in the program: please report it", what, ref.Kind, ref.Namespace, ref.Name),
	}
}

// readingProber lets only requests through that ask for something.
type readingProber struct{ next step.Prober }

// Do refuses every method but GET and HEAD.
func (p readingProber) Do(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodGet && req.Method != http.MethodHead {
		return nil, fmt.Errorf("dry run: refused to %s %s", req.Method, req.URL.Redacted())
	}
	return p.next.Do(req)
}

// silentNotifier tells nobody: a dry run's messages are part of its output.
type silentNotifier struct{}

// Notify does nothing.
func (silentNotifier) Notify(context.Context, step.Notice) error { return nil }
