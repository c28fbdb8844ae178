package kube

import (
	"context"
	"net/http"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/inference-responder/responder/internal/fault"
)

// Right is one that the API server may grant.
type Right struct {
	Verb        string
	Group       string // API group; empty: core
	Resource    string
	Subresource string // may be empty
	Namespace   string // empty: in all namespaces, or of an object that has none
}

// String returns the right for people: "patch deployments.apps in serving".
func (r Right) String() string {
	s := r.Verb + " " + r.Resource
	if r.Group != "" {
		s += "." + r.Group
	}
	if r.Subresource != "" {
		s += "/" + r.Subresource
	}
	if r.Namespace != "" {
		s += " in " + r.Namespace
	}
	return s
}

// May asks the API server whether it would grant us a right.
func (c *Client) May(ctx context.Context, r Right) (bool, error) {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: r.Namespace, Verb: r.Verb, Group: r.Group, Resource: r.Resource, Subresource: r.Subresource,
		},
	}}
	answer, err := c.typed.accessReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false, request{verb: "create", group: "authorization.k8s.io", resource: "selfsubjectaccessreviews"}.fail(err)
	}
	return answer.Status.Allowed, nil
}

// Clock returns how far the API server's clock is ahead of ours, give or take a
// second and half of the time that the answer took.
func (c *Client) Clock(ctx context.Context) (ahead, within time.Duration, err error) {
	rest, r := c.typed.core(), request{verb: "get", resource: "version"}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, rest.Get().AbsPath("/version").URL().String(), nil)
	if err != nil {
		return 0, 0, r.fail(err)
	}
	asked := time.Now()
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, 0, r.fail(err)
	}
	if err := resp.Body.Close(); err != nil {
		return 0, 0, r.fail(err)
	}
	took := time.Since(asked)
	at, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		return 0, 0, &fault.Error{Reason: fault.ServerError, Message: "the API server's answer has no date", Err: err}
	}
	// The date has whole seconds: on average it is half a second behind.
	return at.Add(time.Second / 2).Sub(asked.Add(took / 2)), took/2 + time.Second/2, nil
}
