package kube

import (
	"context"
	"fmt"
	"maps"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/inference-responder/responder/internal/credential"
)

// Workload returns the state of one workload, its pods, its warnings and who
// owns its fields. When any of that cannot be read it is a [*fault.Error]: half an
// answer would look healthier than the truth.
func (c *Client) Workload(ctx context.Context, ref Ref) (Workload, error) {
	o, err := c.load(ctx, ref)
	if err != nil {
		return Workload{}, err
	}
	w := o.describe()
	pods, err := c.pods(ctx, o)
	if err != nil {
		return Workload{}, err
	}
	for _, p := range pods {
		w.Pods = append(w.Pods, describePod(p, o.revisionByOwner()))
	}
	if ref, _ := o.leads(); ref != (Ref{}) {
		w.groups(ref, pods)
	}
	if w.Events, err = c.events(ctx, o, pods); err != nil {
		return Workload{}, err
	}
	if w.Owners, err = c.owners(ctx, o); err != nil {
		return Workload{}, err
	}
	return w, nil
}

func (o *object) describe() Workload {
	w := Workload{
		Ref: o.ref, APIVersion: "apps/v1", UID: string(o.meta.UID), Generation: o.meta.Generation,
		Revision: o.revision(), Labels: maps.Clone(o.meta.Labels), Annotations: maps.Clone(o.meta.Annotations),
		ScaledBy: scaledBy(o.meta),
	}
	if o.selector != nil {
		w.Selector = maps.Clone(o.selector.MatchLabels)
	}
	// It repeats the whole object, values of secret variables included.
	delete(w.Annotations, corev1.LastAppliedConfigAnnotation)
	if d := o.deployment; d != nil {
		w.Observed = d.Status.ObservedGeneration
		w.Replicas = replicas(d.Spec.Replicas)
		w.Ready, w.Updated = int(d.Status.ReadyReplicas), int(d.Status.UpdatedReplicas)
		w.Available, w.Unavailable = int(d.Status.AvailableReplicas), int(d.Status.UnavailableReplicas)
		w.Paused, w.PausedBy, w.Template = d.Spec.Paused, o.pausedBy(), o.templateSet()
		if w.Held = o.held(); w.Held != "" {
			w.HoldOver = o.holdIsOver(w.Held)
		}
		w.Stuck = o.stuck()
		w.Strategy = deploymentStrategy(d)
		if o.rollout != nil {
			o.describeRollout(&w)
		}
		return w
	}
	s := o.statefulSet
	w.Observed = s.Status.ObservedGeneration
	w.Replicas = replicas(s.Spec.Replicas)
	w.Ready, w.Updated = int(s.Status.ReadyReplicas), int(s.Status.UpdatedReplicas)
	w.Available = int(s.Status.AvailableReplicas)
	w.Unavailable = max(w.Replicas-w.Available, 0)
	if s.Status.UpdateRevision == s.Status.CurrentRevision {
		// updatedReplicas is not kept up once a rollout is complete.
		w.Updated = int(s.Status.Replicas)
	}
	w.Strategy = statefulSetStrategy(s)
	return w
}

// replicas is a number whose absence means one.
func replicas(n *int32) int {
	if n == nil {
		return 1
	}
	return int(*n)
}

// stuck returns why the controller gave a rollout up. A condition that names
// another ReplicaSet is left over from an earlier rollout.
func (o *object) stuck() string {
	for _, cond := range o.deployment.Status.Conditions {
		switch {
		case cond.Type == appsv1.DeploymentProgressing && cond.Status == corev1.ConditionFalse:
			if name := o.currentReplicaSet(); name == "" || !strings.Contains(cond.Message, `"`) || strings.Contains(cond.Message, `"`+name+`"`) {
				return cond.Reason + ": " + clip(cond.Message)
			}
		case cond.Type == appsv1.DeploymentReplicaFailure && cond.Status == corev1.ConditionTrue:
			return cond.Reason + ": " + clip(cond.Message)
		}
	}
	return ""
}

func (o *object) currentReplicaSet() string {
	for _, rs := range o.replicaSets {
		if n := revisionOf(rs.Annotations); n != 0 && n == o.revision() {
			return rs.Name
		}
	}
	return ""
}

// deploymentStrategy resolves the strategy as the deployment controller does:
// surge is rounded up, unavailability down, and both cannot be nothing.
func deploymentStrategy(d *appsv1.Deployment) Strategy {
	s := Strategy{Type: string(d.Spec.Strategy.Type)}
	ru := d.Spec.Strategy.RollingUpdate
	if s.Type != "RollingUpdate" || ru == nil {
		return s
	}
	n := replicas(d.Spec.Replicas)
	s.MaxSurge = resolve(ru.MaxSurge, n, true)
	s.MaxUnavailable = resolve(ru.MaxUnavailable, n, false)
	if s.MaxSurge == 0 && s.MaxUnavailable == 0 {
		s.MaxUnavailable = 1
	}
	return s
}

func statefulSetStrategy(set *appsv1.StatefulSet) Strategy {
	s := Strategy{Type: string(set.Spec.UpdateStrategy.Type), MaxUnavailable: 1}
	if ru := set.Spec.UpdateStrategy.RollingUpdate; ru != nil {
		if ru.Partition != nil {
			s.Partition = int(*ru.Partition)
		}
		if ru.MaxUnavailable != nil {
			s.MaxUnavailable = max(resolve(ru.MaxUnavailable, replicas(set.Spec.Replicas), false), 1)
		}
	}
	return s
}

// resolve turns 25% into a number of n; -1 when it is neither.
func resolve(v *intstr.IntOrString, n int, up bool) int {
	if v == nil {
		return 0
	}
	out, err := intstr.GetScaledValueFromIntOrPercent(v, n, up)
	if err != nil {
		return -1
	}
	return out
}

// Nodes returns the conditions of the nodes that the workload's pods run on.
func (c *Client) Nodes(ctx context.Context, ref Ref) ([]Node, error) {
	o, err := c.load(ctx, ref)
	if err != nil {
		return nil, err
	}
	pods, err := c.pods(ctx, o)
	if err != nil {
		return nil, err
	}
	return c.nodesOf(ctx, pods)
}

// clip keeps messages of the cluster to a length that fits evidence, without credentials.
func clip(s string) string {
	const most = 300
	s = strings.Join(strings.Fields(credential.Redact(s)), " ")
	if len(s) <= most {
		return s
	}
	return fmt.Sprintf("%s...", strings.ToValidUTF8(s[:most], ""))
}
