package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/inference-responder/responder/internal/dynamo"
	"github.com/inference-responder/responder/internal/fault"
)

// Kinds of autoscalers.
const (
	HPA          = "HorizontalPodAutoscaler"
	ScaledObject = "ScaledObject"
)

// Autoscaler is the object whose bounds limit the replicas of a workload: a
// HorizontalPodAutoscaler, the ScaledObject that KEDA makes one from, or the object that
// makes the workload: an InferenceService of KServe, a LeaderWorkerSet, or the adapter of a
// component of Dynamo; or else Dynamo's planner.
type Autoscaler struct {
	Ref         Ref // its Kind is [HPA], [ScaledObject], [InferenceService], [LeaderWorkerSet], [DynamoAdapter] or [DynamoGraph]
	APIVersion  string
	UID         string
	Bounds      Bounds
	Current     int               // replicas that the autoscaler last saw
	Desired     int               // replicas that it last asked for; 0: it has not asked yet
	Limited     string            // it wants more or fewer than its bounds allow: the message of its condition ScalingLimited
	Broken      string            // it cannot compute or set replicas: reason and message of its condition
	Paused      string            // annotation of KEDA that keeps it from adding replicas; empty: it has none
	Inert       string            // why its bounds have no effect; empty: they have
	Idle        *int              // replicas without traffic, which KEDA sets below the lower bound; nil: not set
	Annotations map[string]string // of the object
	Owners      []Owner           // of the object itself: who would change its bounds back
	Ceiling     *Ceiling          // what else limits the replicas; nil: nothing

	planner *dynamo.Planner // of a DynamoGraph
}

// Bounds are the bounds of an autoscaler as they are written in its spec; nil: not
// written, so that the default counts.
type Bounds struct {
	Min *int `json:"min,omitempty"`
	Max *int `json:"max,omitempty"`
	// Pause is KEDA's pause of scale-in, the annotation [PauseScaleIn], where it is ours. Versions
	// before 2.18 ignore it.
	Pause bool `json:"pause,omitempty"`
}

// pausedText is how a pause of scale-in stands behind the bounds in text.
const pausedText = " paused"

// String returns the form that [ParseBounds] reads: 2..8, or "2..8 paused"; a bound that
// is not written is left out.
func (b Bounds) String() string {
	text := func(n *int) string {
		if n == nil {
			return ""
		}
		return strconv.Itoa(*n)
	}
	out := text(b.Min) + ".." + text(b.Max)
	if b.Pause {
		out += pausedText
	}
	return out
}

// ParseBounds reads the form that [Bounds.String] writes.
func ParseBounds(s string) (Bounds, error) {
	numbers, pause := strings.CutSuffix(s, pausedText)
	low, high, ok := strings.Cut(numbers, "..")
	number := func(s string) *int {
		n, err := strconv.Atoi(s)
		ok = ok && (s == "" || err == nil && n >= 0)
		if s == "" {
			return nil
		}
		return &n
	}
	b := Bounds{Min: number(low), Max: number(high), Pause: pause}
	if !ok {
		return Bounds{}, &fault.Error{Reason: fault.Invalid, Message: fmt.Sprintf("bounds %q of an autoscaler: want MIN..MAX, such as 2..8", clip(s))}
	}
	return b, nil
}

// Min returns the lower bound that counts.
func (a Autoscaler) Min() int { return a.LowOf(a.Bounds) }

// Max returns the upper bound that counts.
func (a Autoscaler) Max() int { return a.HighOf(a.Bounds) }

// LowOf returns the lower bound that would count with other bounds.
func (a Autoscaler) LowOf(b Bounds) int {
	switch {
	case b.Min != nil && a.Ref.Kind == InferenceService:
		return max(*b.Min, 1) // as KServe's hpa_reconciler.go has it
	case b.Min != nil:
		return *b.Min
	case a.Ref.Kind == ScaledObject:
		return 0
	}
	return 1
}

// HighOf returns the upper bound that would count with other bounds.
func (a Autoscaler) HighOf(b Bounds) int {
	switch {
	case a.Single(), a.Ref.Kind == InferenceService && (b.Max == nil || *b.Max == 0):
		return a.LowOf(b)
	case a.Ref.Kind == DynamoGraph:
		return math.MaxInt32 // its GPUs limit the replicas: see Ceiling
	case b.Max != nil:
		return *b.Max
	}
	return defaultMaxReplicaCount // an HPA without one is invalid
}

// Single reports whether one number is both bounds: nothing follows a load.
func (a Autoscaler) Single() bool {
	return a.Ref.Kind == LeaderWorkerSet || a.Ref.Kind == DynamoAdapter
}

// defaultMaxReplicaCount is KEDA's default of maxReplicaCount.
const defaultMaxReplicaCount = 100

// Fields returns the paths of the bounds in the object's spec; high is empty where one
// field is both, or the upper one is never changed.
func (a Autoscaler) Fields() (low, high string) {
	switch a.Ref.Kind {
	case ScaledObject:
		return "minReplicaCount", "maxReplicaCount"
	case InferenceService:
		return "predictor.minReplicas", "predictor.maxReplicas"
	case LeaderWorkerSet, DynamoAdapter:
		return "replicas", ""
	case DynamoGraph:
		if a.planner == nil || a.planner.Service == "" || a.planner.Name == "" {
			return "services", ""
		}
		return "services." + a.planner.Service + ".extraPodSpec.mainContainer.args." + a.planner.Name, ""
	}
	return "minReplicas", "maxReplicas"
}

// Stamp changes with every change of the bounds, and with every change of ours. The
// API server keeps no generation of a HorizontalPodAutoscaler, and its resource
// version moves with each look at the metrics.
func (a Autoscaler) Stamp() string {
	return strings.TrimSpace(a.Bounds.String() + " " + a.Annotations[AnnotationEffect])
}

// AutoscalerOf returns the autoscaler of a workload. The error is NotFound if it has
// none, and Ambiguous if it has several. What makes the workload is one if nothing else
// scales either of them.
func (c *Client) AutoscalerOf(ctx context.Context, workload Ref) (Autoscaler, error) {
	maker, component, err := c.maker(ctx, workload)
	if err != nil {
		return Autoscaler{}, err
	}
	what := workload.Kind + " " + workload.Namespace + "/" + workload.Name
	targets := []Ref{workload}
	if maker.Kind != "" {
		targets = append(targets, maker)
	}
	hpas, scaled, err := c.scalers(ctx, workload.Namespace, targets...)
	if err != nil {
		return Autoscaler{}, err
	}
	var found []Ref
	for _, s := range scaled {
		if !controlledByName(s.GetOwnerReferences(), maker) {
			found = append(found, Ref{Kind: ScaledObject, Namespace: workload.Namespace, Name: s.GetName()})
		}
	}
	for _, h := range hpas {
		if !madeBy(h, scaled) && !controlledByName(h.OwnerReferences, maker) {
			found = append(found, Ref{Kind: HPA, Namespace: workload.Namespace, Name: h.Name})
		}
	}
	if len(found) == 0 && component.Kind != "" {
		if maker, err = c.plannedBy(ctx, maker, component); err != nil {
			return Autoscaler{}, err
		}
	}
	if len(found) == 0 && maker.Kind != "" {
		return c.Autoscaler(ctx, maker)
	}
	switch len(found) {
	case 0:
		return Autoscaler{}, &fault.Error{Reason: fault.NotFound, Message: fmt.Sprintf("no autoscaler in the cluster names %s as its scaleTargetRef", what)}
	case 1:
		return c.Autoscaler(ctx, found[0])
	}
	var names []string
	for _, r := range found {
		names = append(names, r.Kind+" "+r.Name)
	}
	return Autoscaler{}, &fault.Error{Reason: fault.Ambiguous, Message: fmt.Sprintf(
		"%s is scaled by %s at once, which work against each other: remove all but one", what, strings.Join(names, " and "))}
}

// madeBy reports whether KEDA made the HPA from one of these objects.
func madeBy(h autoscalingv2.HorizontalPodAutoscaler, scaled []unstructured.Unstructured) bool {
	for _, s := range scaled {
		if controlledBy(h.OwnerReferences, s.GetUID()) {
			return true
		}
	}
	return false
}

// controlledByName reports whether the controlling owner is that object.
func controlledByName(owners []metav1.OwnerReference, ref Ref) bool {
	for _, o := range owners {
		if o.Controller != nil && *o.Controller && o.Kind == ref.Kind && o.Name == ref.Name {
			return true
		}
	}
	return false
}

// scalers returns the autoscalers whose scaleTargetRef names one of the objects.
func (c *Client) scalers(ctx context.Context, namespace string, of ...Ref) ([]autoscalingv2.HorizontalPodAutoscaler, []unstructured.Unstructured, error) {
	all, err := c.typed.autoscalers(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, nil, request{verb: "list", group: "autoscaling", resource: "horizontalpodautoscalers", namespace: namespace}.fail(err)
	}
	var hpas []autoscalingv2.HorizontalPodAutoscaler
	for _, h := range all.Items {
		if slices.Contains(of, Ref{Kind: h.Spec.ScaleTargetRef.Kind, Namespace: namespace, Name: h.Spec.ScaleTargetRef.Name}) {
			hpas = append(hpas, h)
		}
	}
	objects, err := c.scaledObjects(ctx, namespace)
	if err != nil {
		return nil, nil, err
	}
	var scaled []unstructured.Unstructured
	for _, s := range objects {
		kind, _, _ := unstructured.NestedString(s.Object, "spec", "scaleTargetRef", "kind")
		name, _, _ := unstructured.NestedString(s.Object, "spec", "scaleTargetRef", "name")
		if slices.Contains(of, Ref{Kind: cmp.Or(kind, "Deployment"), Namespace: namespace, Name: name}) { // KEDA's default kind
			scaled = append(scaled, s)
		}
	}
	return hpas, scaled, nil
}

// Autoscaler returns an autoscaler by its name.
func (c *Client) Autoscaler(ctx context.Context, ref Ref) (Autoscaler, error) {
	o, err := c.scaler(ctx, ref)
	if err != nil {
		return Autoscaler{}, err
	}
	a, err := describeAutoscaler(ref, o)
	if err != nil || ref.Kind == HPA || ref.Kind == DynamoGraph {
		return a, err
	}
	if a.Inert, err = c.inert(ctx, o); err != nil {
		return Autoscaler{}, err
	}
	name, _, _ := unstructured.NestedString(o.Object, "status", "hpaName")
	if ref.Kind == InferenceService {
		name = ref.Name + "-predictor"
	}
	if name == "" {
		return a, nil // KEDA has not made it yet, or nothing makes one
	}
	h, err := c.scaler(ctx, Ref{Kind: HPA, Namespace: ref.Namespace, Name: name})
	var missing *fault.Error
	if errors.As(err, &missing) && missing.Reason == fault.NotFound {
		return a, nil
	}
	if err != nil {
		return Autoscaler{}, err
	}
	err = a.judge(h)
	return a, err
}

// scalerResource returns the resource of a kind of autoscaler.
func scalerResource(ref Ref) (schema.GroupVersionResource, error) {
	switch ref.Kind {
	case HPA:
		return autoscalingv2.SchemeGroupVersion.WithResource("horizontalpodautoscalers"), nil
	case ScaledObject:
		return schema.GroupVersionResource{Group: "keda.sh", Version: "v1alpha1", Resource: "scaledobjects"}, nil
	case InferenceService:
		return schema.GroupVersionResource{Group: "serving.kserve.io", Version: "v1beta1", Resource: "inferenceservices"}, nil
	case LeaderWorkerSet:
		return schema.GroupVersionResource{Group: "leaderworkerset.x-k8s.io", Version: "v1", Resource: "leaderworkersets"}, nil
	case DynamoAdapter:
		return schema.GroupVersionResource{Group: "nvidia.com", Version: "v1alpha1", Resource: "dynamographdeploymentscalingadapters"}, nil
	case DynamoGraph:
		return schema.GroupVersionResource{Group: "nvidia.com", Version: "v1alpha1", Resource: "dynamographdeployments"}, nil
	}
	return schema.GroupVersionResource{}, &fault.Error{Reason: fault.Invalid, Message: fmt.Sprintf("autoscaler %s/%s: kind %q is not supported: use %s, %s, %s, %s, %s or %s",
		ref.Namespace, ref.Name, ref.Kind, HPA, ScaledObject, InferenceService, LeaderWorkerSet, DynamoAdapter, DynamoGraph)}
}

func (c *Client) scaler(ctx context.Context, ref Ref) (*unstructured.Unstructured, error) {
	gvr, err := scalerResource(ref)
	if err != nil {
		return nil, err
	}
	name, _, _ := strings.Cut(ref.Name, "/") // the object, without a component of it
	o, err := c.dynamic.Resource(gvr).Namespace(ref.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, request{verb: "get", group: gvr.Group, resource: gvr.Resource, namespace: ref.Namespace, name: name}.fail(err)
	}
	return o, nil
}

func describeAutoscaler(ref Ref, o *unstructured.Unstructured) (Autoscaler, error) {
	a := Autoscaler{Ref: ref, APIVersion: o.GetAPIVersion(), UID: string(o.GetUID()), Annotations: maps.Clone(o.GetAnnotations())}
	delete(a.Annotations, corev1.LastAppliedConfigAnnotation)
	if ref.Kind == DynamoGraph {
		a.plan(o)
		return a, nil
	}
	low, high := a.Fields()
	for at, n := range map[string]**int{low: &a.Bounds.Min, high: &a.Bounds.Max, "idleReplicaCount": &a.Idle} {
		v, found, err := unstructured.NestedInt64(o.Object, append([]string{"spec"}, strings.Split(at, ".")...)...)
		if err != nil {
			return a, &fault.Error{Reason: fault.ServerError, Message: fmt.Sprintf("%s %s/%s: spec.%s is no number", ref.Kind, ref.Namespace, ref.Name, at), Err: cause{err}}
		}
		if found {
			*n = new(int(v))
		}
	}
	meta := metav1.ObjectMeta{
		OwnerReferences: o.GetOwnerReferences(), Annotations: o.GetAnnotations(), Labels: o.GetLabels(), ManagedFields: o.GetManagedFields(),
	}
	if ref.Kind == DynamoAdapter {
		meta.OwnerReferences = nil // its graph made it, and takes the replicas from it
	}
	a.Owners = declaredOwners(ref, meta)
	if ref.Kind == HPA {
		err := a.judge(o)
		return a, err
	}
	if ref.Kind == ScaledObject {
		a.Paused = pausedBy(o.GetAnnotations())
		a.Bounds.Pause = ourPause(o.GetAnnotations())
	}
	return a, nil
}

// judge takes over what an HPA reports of its last look at the metrics.
func (a *Autoscaler) judge(o *unstructured.Unstructured) error {
	var h autoscalingv2.HorizontalPodAutoscaler
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &h); err != nil {
		return &fault.Error{Reason: fault.ServerError, Message: fmt.Sprintf("%s %s/%s cannot be read", HPA, o.GetNamespace(), o.GetName()), Err: cause{err}}
	}
	a.Current, a.Desired = int(h.Status.CurrentReplicas), int(h.Status.DesiredReplicas)
	for _, cond := range h.Status.Conditions {
		switch {
		case cond.Type == autoscalingv2.ScalingLimited && cond.Status == corev1.ConditionTrue:
			a.Limited = clip(cond.Message)
		case cond.Type != autoscalingv2.ScalingLimited && cond.Status == corev1.ConditionFalse:
			a.Broken = cond.Reason + ": " + clip(cond.Message)
		}
	}
	return nil
}
