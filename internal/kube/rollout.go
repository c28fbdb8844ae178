package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/inference-responder/responder/internal/fault"
)

// Rollout is the kind of workload of Argo Rollouts. Only documented fields of it are read:
// its Go module would bring the clients of all its traffic routers.
const Rollout = "Rollout"

var rollouts = schema.GroupVersionResource{Group: "argoproj.io", Version: "v1alpha1", Resource: "rollouts"}

// Marks of Argo Rollouts, which stand beside those of the deployment controller.
const (
	rolloutRevision = "rollout.argoproj.io/revision" // annotation of the Rollout and its ReplicaSets
	rolloutHash     = "rollouts-pod-template-hash"   // label of ReplicaSets and pods
)

// storedRollout is a Rollout as the server has it. Where it has fields of a Deployment, they
// mean the same, but for those that are repeated here.
type storedRollout struct {
	metav1.ObjectMeta `json:"metadata"`

	Spec struct {
		appsv1.DeploymentSpec

		Strategy struct {
			Canary *struct {
				MaxUnavailable *intstr.IntOrString `json:"maxUnavailable"`
				TrafficRouting *struct{}           `json:"trafficRouting"`
			} `json:"canary"`
		} `json:"strategy"`
		WorkloadRef *struct {
			Kind string `json:"kind"`
			Name string `json:"name"`
		} `json:"workloadRef"`
	} `json:"spec"`
	Status struct {
		appsv1.DeploymentStatus

		ObservedGeneration string       `json:"observedGeneration"` // a number
		CurrentPodHash     string       `json:"currentPodHash"`
		StableRS           string       `json:"stableRS"` // the hash of it
		Abort              bool         `json:"abort"`
		AbortedAt          *metav1.Time `json:"abortedAt"` // set once the controller carries the abort out
	} `json:"status"`
}

// rollout is what a Rollout has and a Deployment has not.
type rollout struct {
	current, stable string // hashes of the pod templates
	aborted, seen   bool   // seen: the controller has seen the abort, or its end
	strategy        Strategy
}

func readRollout(o any) (r storedRollout, err error) {
	data, err := json.Marshal(o)
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	if err != nil {
		return r, &fault.Error{Reason: fault.Invalid, Message: fmt.Sprintf("Rollout %s/%s cannot be read", r.Namespace, r.Name), Err: cause{err}}
	}
	return r, nil
}

func (c *Client) loadRollout(ctx context.Context, ref Ref) (*object, error) {
	stored, err := c.dynamic.Resource(rollouts).Namespace(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if err != nil {
		return nil, c.noRollout(ctx, request{verb: "get", group: rollouts.Group, resource: rollouts.Resource, namespace: ref.Namespace, name: ref.Name}.fail(err))
	}
	r, err := readRollout(stored.Object)
	if err != nil {
		return nil, err
	}
	if of := r.Spec.WorkloadRef; of != nil {
		return nil, &fault.Error{Reason: fault.OutOfBounds, Message: fmt.Sprintf(
			"Rollout %s/%s takes its pod template from %s %s (spec.workloadRef), which Responder does not follow: move the template into the Rollout", ref.Namespace, ref.Name, of.Kind, of.Name)}
	}
	d := &appsv1.Deployment{ObjectMeta: r.ObjectMeta, Spec: r.Spec.DeploymentSpec, Status: r.Status.DeploymentStatus}
	if d.Status.ObservedGeneration, err = strconv.ParseInt(r.Status.ObservedGeneration, 10, 64); err != nil {
		d.Status.ObservedGeneration = 0 // not reconciled yet
	}
	return c.withReplicaSets(ctx, &object{
		ref: ref, meta: d.ObjectMeta, selector: d.Spec.Selector, template: d.Spec.Template, deployment: d,
		rollout: &rollout{
			current: r.Status.CurrentPodHash, stable: r.Status.StableRS, strategy: r.strategy(),
			aborted: r.Status.Abort, seen: r.Status.Abort == (r.Status.AbortedAt != nil),
		},
	})
}

// noRollout tells a missing Rollout from a cluster without Argo Rollouts.
func (c *Client) noRollout(ctx context.Context, err error) error {
	var of, installed *fault.Error
	if !errors.As(err, &of) || of.Reason != fault.NotFound {
		return err
	}
	_, missing := c.resource(ctx, rollouts.Group, rollouts.Version, Rollout)
	if errors.As(missing, &installed) && installed.Reason == fault.NotFound {
		return &fault.Error{Reason: fault.NotFound, Message: of.Message + ": Argo Rollouts is not installed in this cluster, which serves no Rollout of argoproj.io/v1alpha1", Err: of.Err}
	}
	return err
}

// strategy resolves how many pods may be missing as Argo Rollouts does (utils/replicaset,
// MaxUnavailable). Where requests are routed, by the mesh or by two Services, the stable
// ReplicaSet has them all or keeps its size, and nothing bounds what else is missing.
func (r storedRollout) strategy() Strategy {
	n := replicas(r.Spec.Replicas)
	canary := r.Spec.Strategy.Canary
	switch {
	case canary == nil:
		return Strategy{Type: "BlueGreen", MaxUnavailable: n}
	case canary.TrafficRouting != nil:
		return Strategy{Type: "Canary", MaxUnavailable: n}
	case canary.MaxUnavailable == nil:
		quarter := intstr.FromString("25%")
		canary.MaxUnavailable = &quarter
	}
	return Strategy{Type: "Canary", MaxUnavailable: resolve(canary.MaxUnavailable, n, false)}
}

// describeRollout completes what a Rollout has in common with a Deployment.
func (o *object) describeRollout(w *Workload) {
	r := o.rollout
	w.APIVersion, w.Version = rollouts.GroupVersion().String(), o.meta.ResourceVersion
	w.Unavailable, w.Strategy = max(w.Replicas-w.Available, 0), r.strategy
	w.Template, w.Stable = o.setOf(r.current), o.setOf(r.stable)
	for _, by := range managersOf(o.meta, "status", "status", "abort") {
		w.AbortedBy = by
	}
	if r.aborted {
		w.Paused, w.PausedBy = true, w.AbortedBy
		if strings.HasPrefix(w.AbortedBy, FieldManager+"/") {
			w.PausedBy, w.Held = FieldManager, w.Template
		}
	}
	if !r.seen {
		w.Observed = min(w.Observed, w.Generation-1) // an abort moves no generation, and waits for the controller all the same
	}
}

// setOf returns the ReplicaSet with a hash; empty: there is none.
func (o *object) setOf(hash string) string {
	for _, rs := range o.replicaSets {
		if hash != "" && rs.Labels[rolloutHash] == hash {
			return rs.Name
		}
	}
	return ""
}

// abort aborts the rollout of a Rollout, or retries it, as the kubectl plugin of Argo
// Rollouts does. It writes the subresource status, with which no annotation can be written,
// and which moves no generation: the resource version of the caller's look stands in for it.
func (c *Client) abort(ctx context.Context, o *object, ch HoldChange) (Applied, error) {
	aborts := ch.Set != ""
	if o.rollout.aborted == aborts {
		return Applied{}, &fault.Error{Reason: fault.NothingToDo, Message: fmt.Sprintf("hold %s: status.abort is %t already", o, aborts)}
	}
	version := o.meta.ResourceVersion
	if ch.Pre.Version != "" {
		version = ch.Pre.Version
	}
	answer, err := c.patchPart(ctx, o, "status", []operation{
		{Op: "test", Path: "/metadata/uid", Value: ch.Pre.UID},
		{Op: "test", Path: "/metadata/generation", Value: ch.Pre.Generation},
		{Op: "test", Path: "/metadata/resourceVersion", Value: version},
		{Op: "add", Path: "/status/abort", Value: aborts},
	}, ch.Key, ch.DryRun)
	if err != nil {
		return Applied{}, err
	}
	return Applied{UID: string(answer.GetUID()), Generation: answer.GetGeneration(), Replicas: o.replicas()}, nil
}
