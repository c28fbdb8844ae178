package kube

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/inference-responder/responder/internal/fault"
)

// ReplicaCount is how many replicas a workload should have, and how many of them are ready.
type ReplicaCount struct{ Wanted, Ready int }

// Replicas counts the replicas of Deployments, StatefulSets and Rollouts. It asks once for
// each kind in each namespace, and not a cache, which may lag. A workload that is not there
// is an error, as is one of another kind: [*fault.Error].
func (c *Client) Replicas(ctx context.Context, refs []Ref) (map[Ref]ReplicaCount, error) {
	out := map[Ref]ReplicaCount{}
	listed := map[Ref]bool{} // by kind and namespace
	for _, ref := range refs {
		if place := (Ref{Kind: ref.Kind, Namespace: ref.Namespace}); !listed[place] {
			listed[place] = true
			if err := c.countReplicas(ctx, place, out); err != nil {
				return nil, err
			}
		}
		if _, there := out[ref]; !there {
			return nil, &fault.Error{Reason: fault.NotFound, Message: fmt.Sprintf("count replicas: there is no %s %s/%s", ref.Kind, ref.Namespace, ref.Name)}
		}
	}
	return out, nil
}

func (c *Client) countReplicas(ctx context.Context, place Ref, out map[Ref]ReplicaCount) error {
	count := func(name string, wanted *int32, ready int32) {
		out[Ref{Kind: place.Kind, Namespace: place.Namespace, Name: name}] = ReplicaCount{Wanted: replicas(wanted), Ready: int(ready)}
	}
	switch place.Kind {
	case "Deployment":
		list, err := c.typed.deployments(place.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return request{verb: "list", group: "apps", resource: "deployments", namespace: place.Namespace}.fail(err)
		}
		for _, d := range list.Items {
			count(d.Name, d.Spec.Replicas, d.Status.ReadyReplicas)
		}
	case "StatefulSet":
		list, err := c.typed.statefulSets(place.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return request{verb: "list", group: "apps", resource: "statefulsets", namespace: place.Namespace}.fail(err)
		}
		for _, s := range list.Items {
			count(s.Name, s.Spec.Replicas, s.Status.ReadyReplicas)
		}
	case Rollout:
		list, err := c.dynamic.Resource(rollouts).Namespace(place.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return request{verb: "list", group: rollouts.Group, resource: rollouts.Resource, namespace: place.Namespace}.fail(err)
		}
		for i := range list.Items {
			r, err := readRollout(list.Items[i].Object)
			if err != nil {
				return err
			}
			count(r.Name, r.Spec.Replicas, r.Status.ReadyReplicas)
		}
	default:
		return &fault.Error{Reason: fault.Invalid, Message: fmt.Sprintf("count replicas: a %s has no replicas that could be counted", place.Kind)}
	}
	return nil
}
