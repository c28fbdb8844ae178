package argocd

import (
	"context"
	"fmt"
	"strings"

	"github.com/argoproj/argo-cd/v2/pkg/apiclient/application"

	"github.com/inference-responder/responder/internal/gitops"
)

// window returns the sync window that keeps the application from being synced now,
// by its own auto-sync or, where there is none, by us; empty: none.
func (c *Client) window(ctx context.Context, app gitops.Application) (string, error) {
	namespace, name, err := split(app.Name)
	if err != nil {
		return "", err
	}
	r := request{verb: "get sync windows of", name: app.Name, right: "get"}
	windows, err := read(ctx, c, r, func(ctx context.Context) (*application.ApplicationSyncWindowsResponse, error) {
		return c.apps.GetApplicationSyncWindows(ctx, &application.ApplicationSyncWindowsQuery{
			Name: &name, AppNamespace: namespace, Project: &app.Project,
		})
	})
	if err != nil {
		return "", err
	}
	return closed(windows, app.Automated), nil
}

// closed applies Argo CD's own rules: an active deny window forbids; otherwise an
// active allow window allows; otherwise an inactive allow window forbids. The
// server reports whether a manual sync is possible in spite of that.
func closed(w *application.ApplicationSyncWindowsResponse, automated bool) string {
	if !automated && w.GetCanSync() {
		return ""
	}
	deny, open := ofKind(w.GetActiveWindows(), "deny"), ofKind(w.GetActiveWindows(), "allow")
	allow := ofKind(w.GetAssignedWindows(), "allow")
	switch {
	case len(deny) > 0:
		return "the deny window " + strings.Join(deny, ", ")
	case len(open) == 0 && len(allow) > 0:
		return "the allow window " + strings.Join(allow, ", ") + ", which is not open"
	case !automated:
		return "a sync window of its project"
	default:
		return ""
	}
}

func ofKind(windows []*application.ApplicationSyncWindow, kind string) []string {
	var out []string
	for _, w := range windows {
		if w.GetKind() == kind {
			out = append(out, clean(fmt.Sprintf("%q for %s", w.GetSchedule(), w.GetDuration()), ""))
		}
	}
	return out
}
