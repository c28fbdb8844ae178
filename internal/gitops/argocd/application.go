package argocd

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/argoproj/argo-cd/v2/pkg/apiclient/application"
	"github.com/argoproj/argo-cd/v2/pkg/apis/application/v1alpha1"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
)

// Application is the identity and the state of an application. The name is
// namespace/name; the namespace may be left out for Argo CD's own.
func (c *Client) Application(ctx context.Context, name string) (gitops.Application, error) {
	raw, err := c.get(ctx, name)
	if err != nil {
		return gitops.Application{}, err
	}
	app := convert(raw)
	app.Window, err = c.window(ctx, app)
	return app, err
}

func (c *Client) get(ctx context.Context, name string) (*v1alpha1.Application, error) {
	q, err := query(name)
	if err != nil {
		return nil, err
	}
	r := request{verb: "get", name: name, right: "get"}
	return read(ctx, c, r, func(ctx context.Context) (*v1alpha1.Application, error) {
		return named(c.apps.Get(ctx, q))
	})
}

// named refuses an answer without an application: a proxy may answer anything.
func named(app *v1alpha1.Application, err error) (*v1alpha1.Application, error) {
	if err == nil && (app == nil || app.Name == "") {
		return nil, &fault.Error{Reason: fault.ServerError, Message: "argo cd: the answer holds no application"}
	}
	return app, err
}

func query(name string) (*application.ApplicationQuery, error) {
	namespace, app, err := split(name)
	if err != nil {
		return nil, err
	}
	return &application.ApplicationQuery{Name: &app, AppNamespace: namespace}, nil
}

// split separates namespace and name; a nil namespace means Argo CD's own.
func split(name string) (namespace *string, app string, err error) {
	ns, app, qualified := strings.Cut(name, "/")
	if !qualified {
		ns, app = "", name
	}
	if app == "" || qualified && ns == "" || strings.ContainsAny(app, "/ \t\r\n*") {
		return nil, "", invalid("argo cd: application %q: want NAME or NAMESPACE/NAME", name)
	}
	if ns == "" {
		return nil, app, nil
	}
	return &ns, app, nil
}

// convert returns the parts of an application that we need. It cleans the server's
// texts.
func convert(raw *v1alpha1.Application) gitops.Application {
	app := gitops.Application{
		Name: raw.Namespace + "/" + raw.Name, Project: raw.Spec.GetProject(), UID: string(raw.UID),
		Sync: string(raw.Status.Sync.Status), Health: string(raw.Status.Health.Status),
		Message:   clean(raw.Status.Health.Message, ""),
		Revisions: revisions(raw.Status.Sync.Revision, raw.Status.Sync.Revisions),
		Hydrated:  raw.Spec.SourceHydrator != nil,
		Deleting:  raw.DeletionTimestamp != nil,
		Operation: operation(raw),
		Overrides: overrides(raw.Spec), Ignored: ignored(raw.Spec),
	}
	if raw.Status.ReconciledAt != nil {
		app.Compared = raw.Status.ReconciledAt.Time
	}
	if p := raw.Spec.SyncPolicy; p != nil && p.Automated != nil {
		app.Automated, app.SelfHeal, app.Prunes = true, p.Automated.SelfHeal, p.Automated.Prune
	}
	for _, o := range raw.OwnerReferences {
		if o.Kind == "ApplicationSet" {
			app.Generator = o.Name
		}
	}
	for _, s := range raw.Spec.GetSources() {
		app.Sources = append(app.Sources, gitops.Source{Repository: gitops.WithoutUser(s.RepoURL), Branch: s.TargetRevision, Path: s.Path})
		app.Chart = append(app.Chart, s.Chart)
		app.Target = append(app.Target, s.TargetRevision)
		var values []string
		release := ""
		if s.Helm != nil {
			values, release = slices.Clone(s.Helm.ValueFiles), s.Helm.ReleaseName
		}
		app.Values, app.Releases = append(app.Values, values), append(app.Releases, release)
		app.Refs = append(app.Refs, s.Ref)
	}
	for _, condition := range raw.Status.Conditions {
		if condition.IsError() {
			app.Problems = append(app.Problems, condition.Type+": "+clean(condition.Message, ""))
		}
	}
	for _, r := range raw.Status.Resources {
		app.Resources = append(app.Resources, resource(r))
	}
	for _, h := range raw.Status.History {
		d := gitops.Deployment{ID: h.ID, Revisions: revisions(h.Revision, h.Revisions), At: h.DeployedAt.Time, By: who(h.InitiatedBy), Differs: differs(h, raw.Spec)}
		if h.DeployStartedAt != nil {
			d.Started = h.DeployStartedAt.Time
		}
		app.History = append(app.History, d)
	}
	slices.SortFunc(app.History, func(a, b gitops.Deployment) int { return cmp.Compare(a.ID, b.ID) })
	return app
}

func resource(r v1alpha1.ResourceStatus) gitops.Resource {
	out := gitops.Resource{
		Group: r.Group, Kind: r.Kind, Namespace: r.Namespace, Name: r.Name,
		Sync: string(r.Status), Hook: r.Hook, Prune: r.RequiresPruning,
	}
	if r.Health != nil {
		out.Health, out.Message = string(r.Health.Status), clean(r.Health.Message, "")
	}
	return out
}

// operation returns the running operation, the requested one that has not begun,
// or the last one.
func operation(raw *v1alpha1.Application) gitops.Operation {
	state := raw.Status.OperationState
	if raw.Operation != nil && (state == nil || state.Phase.Completed()) {
		out := asked(*raw.Operation)
		out.Running = true
		return out
	}
	if state == nil {
		return gitops.Operation{}
	}
	out := asked(state.Operation)
	out.Running = raw.Operation != nil || !state.Phase.Completed()
	out.Phase, out.Message = string(state.Phase), clean(state.Message, "")
	out.Started = state.StartedAt.Time
	if state.FinishedAt != nil {
		out.Finished = state.FinishedAt.Time
	}
	if r := state.SyncResult; r != nil {
		if found := revisions(r.Revision, r.Revisions); len(found) > 0 {
			out.Revisions = found // what the branch or tag was found to be
		}
	}
	return out
}

// asked describes what an operation was asked to do.
func asked(o v1alpha1.Operation) gitops.Operation {
	out := gitops.Operation{By: who(o.InitiatedBy)}
	for _, info := range o.Info {
		if info != nil && info.Name == gitops.TrailerEffect {
			out.Key = info.Value
		}
	}
	if o.Sync == nil {
		return out
	}
	out.DryRun = o.Sync.DryRun
	out.Revisions = revisions(o.Sync.Revision, o.Sync.Revisions)
	return out
}

// revisions returns the revisions of all sources; applications with one source
// have one.
func revisions(one string, several []string) []string {
	if len(several) > 0 {
		return slices.Clone(several)
	}
	if one == "" {
		return nil
	}
	return []string{one}
}

func who(i v1alpha1.OperationInitiator) string {
	if i.Automated {
		return ""
	}
	if i.Username == "" {
		return "(unknown)"
	}
	return clean(i.Username, "")
}
