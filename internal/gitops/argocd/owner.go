package argocd

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
)

// Owner returns the application that manages the object, and verifies it: the mark
// on the object is only a hint, and marks are copied. instance is the name in the
// mark: NAME, or NAMESPACE_NAME outside Argo CD's own namespace.
func (c *Client) Owner(ctx context.Context, instance string, object gitops.Resource) (gitops.Application, error) {
	app, err := c.Application(ctx, strings.Replace(instance, "_", "/", 1)) // no Kubernetes name holds "_"
	if err != nil {
		return gitops.Application{}, err
	}
	if err := Owns(app, object); err != nil {
		return gitops.Application{}, err
	}
	return app, nil
}

// Owns returns an error if the application does not list the object.
func Owns(app gitops.Application, object gitops.Resource) error {
	i := slices.IndexFunc(app.Resources, object.Same)
	if i < 0 {
		return &fault.Error{Reason: fault.Owned, Message: fmt.Sprintf(
			"argo cd: application %s does not list %s, so it is not its owner: the tracking mark was copied, or it is of another Argo CD", app.Name, object)}
	}
	if app.Resources[i].Prune {
		return &fault.Error{Reason: fault.Owned, Message: fmt.Sprintf(
			"argo cd: %s is no longer among the manifests of application %s: a change in Git has no effect", object, app.Name)}
	}
	return nil
}
