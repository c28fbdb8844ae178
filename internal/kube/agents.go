package kube

import (
	"context"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AgentPod is a running pod of the node agent, as the API server knows it.
type AgentPod struct {
	Name    string
	UID     string
	Node    string // that it was scheduled to
	Address string // its IP
	Account string // its service account, of its own namespace
	Started time.Time
}

// AgentPods lists the running pods with an address that a label selector selects
// in a namespace. The answer may be as old as the API server's cache.
func (c *Client) AgentPods(ctx context.Context, namespace, selector string) ([]AgentPod, error) {
	list, err := c.typed.pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector, ResourceVersion: "0"})
	if err != nil {
		return nil, request{verb: "list", resource: "pods", namespace: namespace}.fail(err)
	}
	var out []AgentPod
	for _, p := range list.Items {
		if p.Status.Phase != corev1.PodRunning || p.DeletionTimestamp != nil || p.Spec.NodeName == "" || p.Status.PodIP == "" {
			continue
		}
		a := AgentPod{Name: p.Name, UID: string(p.UID), Node: p.Spec.NodeName, Address: p.Status.PodIP, Account: p.Spec.ServiceAccountName}
		if p.Status.StartTime != nil {
			a.Started = p.Status.StartTime.Time
		}
		out = append(out, a)
	}
	return out, nil
}

// TokenOwner is the identity that the API server confirms for a token.
type TokenOwner struct {
	User   string // e.g. system:serviceaccount:responder:responder-agent
	PodUID string // of the pod that the token is bound to; empty: to none
	Node   string // of that pod; empty: the API server is older than 1.30
}

// The keys of a bound token in a review's extra fields; see
// k8s.io/apiserver/pkg/authentication/serviceaccount.
const (
	extraPodUID = "authentication.kubernetes.io/pod-uid"
	extraNode   = "authentication.kubernetes.io/node-name"
)

// ReviewToken asks the API server whose token it is. Good is false when the API
// server does not accept it for that audience.
func (c *Client) ReviewToken(ctx context.Context, token, audience string) (owner TokenOwner, good bool, err error) {
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: []string{audience}}}
	answer, err := c.typed.tokenReviews().Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return TokenOwner{}, false, request{verb: "create", group: "authentication.k8s.io", resource: "tokenreviews"}.fail(err)
	}
	// An API server without audiences would answer for its own. That does not prove
	// that the token was meant for us.
	if !answer.Status.Authenticated || !slices.Contains(answer.Status.Audiences, audience) {
		return TokenOwner{}, false, nil
	}
	u := answer.Status.User
	return TokenOwner{User: u.Username, PodUID: strings.Join(u.Extra[extraPodUID], ","), Node: strings.Join(u.Extra[extraNode], ",")}, true, nil
}
