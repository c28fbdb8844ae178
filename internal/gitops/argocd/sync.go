package argocd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/argoproj/argo-cd/v2/pkg/apiclient/application"
	"github.com/argoproj/argo-cd/v2/pkg/apis/application/v1alpha1"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
)

// Refresh makes Argo CD look at Git and at the cluster now, and returns when it
// has, because Argo CD polls Git only every few minutes. An application with
// auto-sync then syncs by itself.
func (c *Client) Refresh(ctx context.Context, name string) error {
	q, err := query(name)
	if err != nil {
		return err
	}
	kind := string(v1alpha1.RefreshTypeNormal)
	q.Refresh = &kind
	r := request{verb: "refresh", name: name, right: "get", slow: true}
	_, err = read(ctx, c, r, func(ctx context.Context) (*v1alpha1.Application, error) {
		return named(c.apps.Get(ctx, q))
	})
	return err
}

// Argo CD then skips resources that match Git, but still runs hooks and keeps its
// history. A sync of named resources would do neither.
const onlyDiffering = "ApplyOutOfSyncOnly=true"

// Sync asks Argo CD once to bring the resources that differ to these revisions. If
// an operation with the same key exists, Sync returns it, so the request may be
// repeated after a lost answer.
//
// It is refused as [fault.Throttled] while another operation runs or a sync
// window is closed. It is refused as [fault.Owned] if auto-sync is on: Argo CD
// then syncs only its branch, and a refresh makes it do so now. An application
// with auto-sync is therefore rolled back in Git.
func (c *Client) Sync(ctx context.Context, s gitops.Sync) error {
	if s.Key == "" || strings.ContainsFunc(s.Key, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return invalid("argo cd: sync application %s: key %q: want one word, by which the sync is found again", s.Application, s.Key)
	}
	raw, err := c.get(ctx, s.Application)
	if err != nil {
		return err
	}
	app := convert(raw)
	if began(app, s) {
		return nil
	}
	if app.Window, err = c.window(ctx, app); err != nil {
		return err
	}
	if err := maySync(app, s); err != nil {
		return err
	}
	namespace, name, err := split(app.Name)
	if err != nil {
		return err
	}
	message := &application.ApplicationSyncRequest{
		Name: &name, AppNamespace: namespace, Project: &app.Project,
		Infos:       []*v1alpha1.Info{{Name: gitops.TrailerEffect, Value: s.Key}},
		SyncOptions: &application.SyncOptions{Items: options(raw)},
	}
	if raw.Spec.HasMultipleSources() {
		message.Revisions = s.Revisions
		for i := range s.Revisions {
			message.SourcePositions = append(message.SourcePositions, int64(i)+1)
		}
	} else {
		message.Revision = &s.Revisions[0]
	}
	r := request{verb: "sync", name: app.Name, right: "sync", write: true}
	_, err = once(ctx, c, r, func(ctx context.Context) (*v1alpha1.Application, error) {
		return named(c.apps.Sync(ctx, message))
	})
	return c.resolve(ctx, s, err)
}

// Stop ends our running operation with that key. Its effects stay. It is no error
// if there is none, or if the running one is somebody else's, which continues.
// Argo CD takes no key here, so an operation that begins right after the check
// would be stopped instead.
func (c *Client) Stop(ctx context.Context, name, key string) error {
	raw, err := c.get(ctx, name)
	if err != nil {
		return err
	}
	app := convert(raw)
	if op := app.Operation; key == "" || !op.Running || op.Key != key || op.Phase == "Terminating" {
		return nil
	}
	namespace, short, err := split(app.Name)
	if err != nil {
		return err
	}
	r := request{verb: "stop the sync of", name: app.Name, right: "sync"} // asked again when it is not known whether it arrived
	_, err = once(ctx, c, r, func(ctx context.Context) (*application.OperationTerminateResponse, error) {
		return c.apps.TerminateOperation(ctx, &application.OperationTerminateRequest{Name: &short, AppNamespace: namespace, Project: &app.Project})
	})
	if e := new(fault.Error); errors.As(err, &e) && e.Reason == fault.Invalid {
		return nil // it ended meanwhile, or has not begun
	}
	return err
}

// options returns the application's own options, which ours would replace,
// together with ours.
func options(raw *v1alpha1.Application) []string {
	var own v1alpha1.SyncOptions
	if raw.Spec.SyncPolicy != nil {
		own = slices.Clone(raw.Spec.SyncPolicy.SyncOptions)
	}
	own = slices.DeleteFunc(own, func(o string) bool { return strings.HasPrefix(o, "ApplyOutOfSyncOnly=") })
	return append(own, onlyDiffering)
}

// resolve checks whether a sync began whose answer was lost.
func (c *Client) resolve(ctx context.Context, s gitops.Sync, err error) error {
	e := new(fault.Error)
	if err == nil || !errors.As(err, &e) || !e.Unknown {
		return err
	}
	if raw, lookErr := c.get(ctx, s.Application); lookErr == nil && began(convert(raw), s) {
		return nil
	}
	return err // it may still arrive
}

// began reports whether the application's operation is the requested one.
func began(app gitops.Application, s gitops.Sync) bool {
	return app.Operation.Key == s.Key && slices.Equal(app.Operation.Revisions, s.Revisions)
}

// maySync returns an error if something forbids the sync.
func maySync(app gitops.Application, s gitops.Sync) error {
	refuse := func(reason fault.Reason, why string, args ...any) error {
		return &fault.Error{Reason: reason, Message: fmt.Sprintf("argo cd: sync application %s: ", app.Name) + fmt.Sprintf(why, args...)}
	}
	empty := func(revision string) bool { return strings.TrimSpace(revision) == "" }
	switch op := app.Operation; {
	case len(s.Revisions) == 0 || len(s.Revisions) != len(app.Sources) || slices.ContainsFunc(s.Revisions, empty):
		return refuse(fault.Invalid, "revisions %q: it has %d sources: want a revision for each", s.Revisions, len(app.Sources))
	case app.Deleting:
		return refuse(fault.Conflict, "it is being deleted")
	case app.Hydrated:
		return refuse(fault.Owned, "Argo CD's source hydrator writes what is synced; change what it reads")
	case app.Automated:
		return refuse(fault.Owned, "auto-sync is on, so Argo CD syncs only to its branch: change, or revert, it there and refresh")
	case op.Running:
		return refuse(fault.Throttled, "%s; wait until it is over", op.Describe())
	case app.Window != "":
		return refuse(fault.Throttled, "closed by %s; wait until it is open", app.Window)
	}
	return nil
}
