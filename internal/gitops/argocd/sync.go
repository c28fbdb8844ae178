package argocd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/argoproj/argo-cd/v2/pkg/apiclient/application"
	"github.com/argoproj/argo-cd/v2/pkg/apis/application/v1alpha1"

	"github.com/inference-responder/responder/internal/gitops"
)

// Refresh makes Argo CD look at Git and at the cluster now, and returns when it
// has: it polls Git only every few minutes. With hard, manifests are generated
// anew although nothing changed. An application with auto-sync then syncs by
// itself.
func (c *Client) Refresh(ctx context.Context, name string, hard bool) error {
	q, err := query(name)
	if err != nil {
		return err
	}
	kind := string(v1alpha1.RefreshTypeNormal)
	if hard {
		kind = string(v1alpha1.RefreshTypeHard)
	}
	q.Refresh = &kind
	r := request{verb: "refresh", name: name, right: "get", slow: true}
	_, err = read(ctx, c, r, func(ctx context.Context) (*v1alpha1.Application, error) {
		return named(c.apps.Get(ctx, q))
	})
	return err
}

// Sync asks Argo CD to bring the application to the commit, once. An operation
// with the same key that is there already is the answer, so a lost answer is
// asked for again without a second sync.
//
// It is refused when another operation runs ([gitops.Busy]), a sync window is
// closed ([gitops.Window]), or auto-sync is on ([gitops.Owned]): Argo CD then
// syncs its branch and nothing else, and a refresh makes it do so now.
func (c *Client) Sync(ctx context.Context, req gitops.SyncRequest) (gitops.SyncStarted, error) {
	namespace, name, err := check(req)
	if err != nil {
		return gitops.SyncStarted{}, err
	}
	app, err := c.Application(ctx, req.Name)
	if err != nil {
		return gitops.SyncStarted{}, err
	}
	if began(app, req) {
		return gitops.SyncStarted{Already: true}, nil
	}
	if err := mayOperate(app); err != nil {
		return gitops.SyncStarted{}, err
	}
	if app.Automated && !req.DryRun {
		return gitops.SyncStarted{}, &gitops.Error{Reason: gitops.Owned, Message: fmt.Sprintf(
			"argo cd: sync application %s to %s: auto-sync is on, so Argo CD syncs only to its branch: push there and refresh", app.Name, req.Revision)}
	}
	if req.Source < 0 || req.Source >= len(app.Sources) {
		return gitops.SyncStarted{}, invalid("argo cd: sync application %s: source %d: it has %d, counted from 0", app.Name, req.Source, len(app.Sources))
	}
	started := gitops.SyncStarted{Whole: whole(app, req.Resources)}
	message := &application.ApplicationSyncRequest{
		Name: &name, AppNamespace: namespace, Project: &app.Project, DryRun: &req.DryRun,
		Infos: []*v1alpha1.Info{{Name: gitops.TrailerEffect, Value: req.Key}},
	}
	if len(app.Sources) == 1 {
		message.Revision = &req.Revision
	} else {
		message.SourcePositions, message.Revisions = []int64{int64(req.Source) + 1}, []string{req.Revision}
	}
	if started.Whole == "" {
		message.Resources = selected(req.Resources)
	}
	r := request{verb: "sync", name: app.Name, right: "sync", write: true}
	_, err = once(ctx, c, r, func(ctx context.Context) (*v1alpha1.Application, error) {
		return named(c.apps.Sync(ctx, message))
	})
	return c.resolve(ctx, req, started, err)
}

// resolve looks whether a sync began whose answer was lost.
func (c *Client) resolve(ctx context.Context, req gitops.SyncRequest, started gitops.SyncStarted, err error) (gitops.SyncStarted, error) {
	e := new(gitops.Error)
	if err == nil || !errors.As(err, &e) || !e.Unknown {
		return started, err
	}
	app, lookErr := c.Application(ctx, req.Name)
	if lookErr == nil && began(app, req) {
		return started, nil
	}
	return gitops.SyncStarted{}, err // it may still arrive
}

// began reports whether the application's operation is the one asked for.
func began(app gitops.Application, req gitops.SyncRequest) bool {
	return app.Operation.Key == req.Key && app.Operation.DryRun == req.DryRun && slices.Contains(app.Operation.Revisions, req.Revision)
}

// Rollback brings the application back to an entry of its history. It is
// refused when auto-sync is on, since Argo CD would bring the later commit
// back: such an application is rolled back in Git.
func (c *Client) Rollback(ctx context.Context, name string, id int64) (gitops.Deployment, error) {
	app, err := c.Application(ctx, name)
	if err != nil {
		return gitops.Deployment{}, err
	}
	if app.Automated {
		return gitops.Deployment{}, &gitops.Error{Reason: gitops.Owned, Message: fmt.Sprintf(
			"argo cd: roll back application %s: auto-sync is on, so it would be synced forward again: revert the commit in Git", app.Name)}
	}
	if err := mayOperate(app); err != nil {
		return gitops.Deployment{}, err
	}
	i := slices.IndexFunc(app.History, func(d gitops.Deployment) bool { return d.ID == id })
	if i < 0 {
		return gitops.Deployment{}, &gitops.Error{Reason: gitops.NotFound, Message: fmt.Sprintf(
			"argo cd: roll back application %s: its history has no entry %d", app.Name, id)}
	}
	namespace, short, err := split(app.Name)
	if err != nil {
		return gitops.Deployment{}, err
	}
	r := request{verb: "roll back", name: app.Name, right: "sync", write: true}
	_, err = once(ctx, c, r, func(ctx context.Context) (*v1alpha1.Application, error) {
		return named(c.apps.Rollback(ctx, &application.ApplicationRollbackRequest{
			Name: &short, AppNamespace: namespace, Project: &app.Project, Id: &id,
		}))
	})
	return app.History[i], err
}

// Terminate ends the running operation if it is the one with the key: nobody
// else's is touched.
func (c *Client) Terminate(ctx context.Context, name, key string) error {
	app, err := c.Application(ctx, name)
	if err != nil {
		return err
	}
	if op := app.Operation; !op.Running || key == "" || op.Key != key {
		return &gitops.Error{Reason: gitops.NothingToDo, Message: fmt.Sprintf(
			"argo cd: end the operation of application %s: the one we started does not run", app.Name)}
	}
	namespace, short, err := split(app.Name)
	if err != nil {
		return err
	}
	r := request{verb: "end the operation of", name: app.Name, right: "sync", write: true}
	_, err = once(ctx, c, r, func(ctx context.Context) (*application.OperationTerminateResponse, error) {
		return c.apps.TerminateOperation(ctx, &application.OperationTerminateRequest{
			Name: &short, AppNamespace: namespace, Project: &app.Project,
		})
	})
	return err
}

// mayOperate says what forbids an operation on the application now.
func mayOperate(app gitops.Application) error {
	refuse := func(reason gitops.Reason, why string) error {
		return &gitops.Error{Reason: reason, Message: fmt.Sprintf("argo cd: application %s: %s", app.Name, why)}
	}
	switch op := app.Operation; {
	case app.Deleting:
		return refuse(gitops.Conflict, "it is being deleted")
	case app.Hydrated:
		return refuse(gitops.Owned, "Argo CD's source hydrator writes what is synced; change what it reads")
	case op.Running:
		return refuse(gitops.Busy, op.Describe())
	case app.Window != "":
		return refuse(gitops.Window, "closed by "+app.Window)
	}
	return nil
}

// check refuses what Argo CD would take and understand differently.
func check(req gitops.SyncRequest) (namespace *string, name string, err error) {
	namespace, name, err = split(req.Name)
	if err != nil {
		return nil, "", err
	}
	if len(req.Revision) != 40 || strings.Trim(req.Revision, "0123456789abcdef") != "" {
		return nil, "", invalid("argo cd: sync application %s to %q: want a commit of 40 hexadecimal digits", req.Name, req.Revision)
	}
	if req.Key == "" || strings.ContainsFunc(req.Key, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return nil, "", invalid("argo cd: sync application %s: key %q: want one word, by which the sync is found again", req.Name, req.Key)
	}
	return namespace, name, nil
}

// whole says why the resources cannot be synced alone; empty: they can, or none
// were named. A partial sync runs no hooks, and leaves what Git no longer has.
func whole(app gitops.Application, only []gitops.Resource) string {
	if len(only) == 0 {
		return ""
	}
	for _, r := range app.Resources {
		if r.Hook {
			return fmt.Sprintf("%s is a hook, which a partial sync would not run", r)
		}
		if r.Prune {
			return fmt.Sprintf("%s is no longer in Git, which a partial sync would not tell", r)
		}
	}
	for _, r := range only {
		if !slices.ContainsFunc(app.Resources, r.Same) {
			return fmt.Sprintf("%s is not one of its resources yet", r)
		}
	}
	return ""
}

func selected(only []gitops.Resource) []*v1alpha1.SyncOperationResource {
	out := make([]*v1alpha1.SyncOperationResource, len(only))
	for i, r := range only {
		out[i] = &v1alpha1.SyncOperationResource{Group: r.Group, Kind: r.Kind, Namespace: r.Namespace, Name: r.Name}
	}
	return out
}
