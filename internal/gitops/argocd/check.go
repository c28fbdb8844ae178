package argocd

import (
	"context"
	"fmt"

	"github.com/argoproj/argo-cd/v2/pkg/apiclient/account"
	"github.com/argoproj/argo-cd/v2/pkg/apiclient/session"
	"github.com/argoproj/argo-cd/v2/pkg/apiclient/version"
	"github.com/argoproj/argo-cd/v2/pkg/apis/application/v1alpha1"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/inference-responder/responder/internal/fault"
)

// Report is the result of [Client.Check].
type Report struct {
	Version string   // of the server
	Account string   // whom the token belongs to
	Lacking []string // rights that are needed and missing, as policy lines without subject: applications, sync, inference/chat
	Excess  []string // rights that are never needed and given
}

// Check proves that the server answers, that the token is valid, and that it
// has the rights that are needed on the applications, and no others.
func (c *Client) Check(ctx context.Context, names ...string) (Report, error) {
	v, err := read(ctx, c, request{verb: "get version"}, func(ctx context.Context) (*version.VersionMessage, error) {
		return c.versions.Version(ctx, &emptypb.Empty{})
	})
	if err != nil {
		return Report{}, err
	}
	report := Report{Version: clean(v.GetVersion(), "")}
	user, err := read(ctx, c, request{verb: "get account"}, func(ctx context.Context) (*session.GetUserInfoResponse, error) {
		return c.sessions.GetUserInfo(ctx, &session.GetUserInfoRequest{})
	})
	if err != nil {
		return report, err
	}
	if !user.GetLoggedIn() {
		return report, &fault.Error{Reason: fault.Forbidden, Message: fmt.Sprintf(
			"argo cd at %s: the token of %s is not valid here: it expired, was revoked, or is another server's", c.server, c.tokens)}
	}
	report.Account = clean(user.GetUsername(), "")
	for _, name := range names {
		if err := c.rights(ctx, name, &report); err != nil {
			return report, err
		}
	}
	return report, nil
}

// Lacks returns the missing permission for syncs as text; empty: none.
func (c *Client) Lacks(ctx context.Context, name string) (string, error) {
	raw, err := c.get(ctx, name)
	if err != nil {
		return "", err
	}
	object := objectOf(raw)
	if sync, err := c.may(ctx, name, object, "applications", "sync"); err != nil || sync {
		return "", err
	}
	return fmt.Sprintf("the token for Argo CD lacks the right to sync application %s (a policy line: p, SUBJECT, applications, sync, %s, allow)", name, object), nil
}

// objectOf returns an application as policy lines name it.
func objectOf(raw *v1alpha1.Application) string {
	object := raw.Spec.GetProject() + "/"
	if raw.Status.ControllerNamespace != "" && raw.Namespace != raw.Status.ControllerNamespace {
		object += raw.Namespace + "/"
	}
	return object + raw.Name
}

// may asks whether the token has a permission.
func (c *Client) may(ctx context.Context, name, object, resource, action string) (bool, error) {
	r := request{verb: "get rights on", name: name}
	answer, err := read(ctx, c, r, func(ctx context.Context) (*account.CanIResponse, error) {
		return c.accounts.CanI(ctx, &account.CanIRequest{Resource: resource, Action: action, Subresource: object})
	})
	return answer.GetValue() == "yes", err
}

// rights adds the missing and the excessive permissions on one application to the
// report.
func (c *Client) rights(ctx context.Context, name string, report *Report) error {
	raw, err := c.get(ctx, name)
	if err != nil {
		return err
	}
	object := objectOf(raw)
	ask := func(resource, action string) (bool, error) { return c.may(ctx, name, object, resource, action) }
	sync, err := ask("applications", "sync")
	if err != nil {
		return err
	}
	if !sync {
		report.Lacking = append(report.Lacking, "applications, sync, "+object)
	}
	for _, never := range [][2]string{
		{"applications", "create"},
		{"applications", "update"},
		{"applications", "override"},
		{"applications", "delete"},
		{"exec", "create"},
	} {
		may, err := ask(never[0], never[1])
		if err != nil {
			return err
		}
		if may {
			report.Excess = append(report.Excess, fmt.Sprintf("%s, %s, %s", never[0], never[1], object))
		}
	}
	return nil
}
