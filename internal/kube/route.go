package kube

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/inference-responder/responder/internal/fault"
)

// Kinds of objects that split requests between revisions.
const (
	HTTPRoute        = "HTTPRoute"        // Gateway API: weights of backendRefs
	InferenceService = "InferenceService" // KServe: canaryTrafficPercent in Serverless mode, its bounds of replicas in RawDeployment mode
)

// routeGroup returns the API group of a kind of route; empty: it is none.
func routeGroup(kind string) string {
	return map[string]string{HTTPRoute: "gateway.networking.k8s.io", InferenceService: "serving.kserve.io"}[kind]
}

// Route is how an object splits requests between revisions.
type Route struct {
	Ref         Ref
	APIVersion  string
	UID         string
	Generation  int64
	Annotations map[string]string
	Owners      []Owner // who would change its weights back
	Rules       []RouteRule
	Waits       string // why the split of Rules is not in effect yet; empty: it is
	Refused     string // why whoever carries the route out refuses it; empty: it does not
}

// RouteRule is one rule of a route: the requests that it takes are split by weight.
// Plans keep it as JSON.
type RouteRule struct {
	Path     string    `json:"path"` // of the field that holds the backends: spec.rules[0].backendRefs
	Backends []Backend `json:"backends"`
}

// Backend is what a rule sends requests to.
type Backend struct {
	Name   string `json:"name"`            // of the Service or InferencePool; of the revision, in KServe
	Weight int64  `json:"weight"`          // its share is its weight by the sum of all; of 0 it gets nothing
	Unset  bool   `json:"unset,omitempty"` // no field holds the weight: KServe sends everything to the latest revision
}

// Total returns the sum of the weights.
func (r RouteRule) Total() int64 {
	var sum int64
	for _, b := range r.Backends {
		sum += b.Weight
	}
	return sum
}

// RouteChange asks for other weights of the same backends.
type RouteChange struct {
	Ref     Ref
	Pre     Precondition
	Rules   []RouteRule // with the backends that the route has, in their order
	Backend string      // whose share it is, for the mark
	DryRun  bool
	Run     string
	Key     string
}

// ShiftMark returns the annotation of a route that records who last set the share of a
// backend: several services may stand behind one route.
func ShiftMark(backend string) string {
	const longest = 63 // of a name of an annotation
	name := "shift-" + strings.ReplaceAll(backend, "/", ".")
	if len(name) > longest {
		sum := sha256.Sum256([]byte(backend))
		name = "shift-" + hex.EncodeToString(sum[:16])
	}
	return "responder.dev/" + name
}

// Route returns how an object splits requests. The error is a [*fault.Error].
func (c *Client) Route(ctx context.Context, ref Ref) (Route, error) {
	o, _, err := c.route(ctx, ref)
	if err != nil {
		return Route{}, err
	}
	return describeRoute(ref, o)
}

// route reads the object of a route, and returns how to name it in a request.
func (c *Client) route(ctx context.Context, ref Ref) (*unstructured.Unstructured, request, error) {
	group := routeGroup(ref.Kind)
	if group == "" {
		return nil, request{}, &fault.Error{Reason: fault.Invalid, Message: fmt.Sprintf("route %s/%s: kind %q is not supported: use %s or %s", ref.Namespace, ref.Name, ref.Kind, HTTPRoute, InferenceService)}
	}
	gvr, err := c.resource(ctx, group, "", ref.Kind)
	if err != nil {
		return nil, request{}, err
	}
	r := request{verb: "get", group: gvr.Group, resource: gvr.Resource, namespace: ref.Namespace, name: ref.Name}
	o, err := c.dynamic.Resource(gvr).Namespace(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	return o, r, r.fail(err)
}

func describeRoute(ref Ref, o *unstructured.Unstructured) (Route, error) {
	meta := metav1.ObjectMeta{
		Labels: o.GetLabels(), Annotations: o.GetAnnotations(), OwnerReferences: o.GetOwnerReferences(), ManagedFields: o.GetManagedFields(),
	}
	out := Route{
		Ref: ref, APIVersion: o.GetAPIVersion(), UID: string(o.GetUID()), Generation: o.GetGeneration(),
		Annotations: o.GetAnnotations(), Owners: declaredOwners(ref, meta),
	}
	describe := describeHTTPRoute
	if ref.Kind == InferenceService {
		describe = describeKServe
	}
	if err := describe(&out, o.Object); err != nil {
		return Route{}, &fault.Error{Reason: fault.Invalid, Message: fmt.Sprintf("%s %s/%s: %v", ref.Kind, ref.Namespace, ref.Name, err)}
	}
	return out, nil
}

// describeHTTPRoute reads the rules of an HTTPRoute and what its gateways say of it
// (gateway.networking.k8s.io, HTTPBackendRef and RouteParentStatus).
func describeHTTPRoute(out *Route, o map[string]any) error {
	rules, _, err := unstructured.NestedSlice(o, "spec", "rules")
	if err != nil {
		return err
	}
	for i, rule := range rules {
		one := RouteRule{Path: fmt.Sprintf("spec.rules[%d].backendRefs", i)}
		fields, _ := rule.(map[string]any)
		refs, _, err := unstructured.NestedSlice(fields, "backendRefs")
		if err != nil {
			return err
		}
		for _, ref := range refs {
			fields, _ := ref.(map[string]any)
			name, _, _ := unstructured.NestedString(fields, "name")
			if ns, _, _ := unstructured.NestedString(fields, "namespace"); ns != "" && ns != out.Ref.Namespace {
				name = ns + "/" + name
			}
			weight, set, err := unstructured.NestedInt64(fields, "weight")
			if err != nil {
				return err
			}
			if !set {
				weight = 1 // the API's default
			}
			one.Backends = append(one.Backends, Backend{Name: name, Weight: weight})
		}
		out.Rules = append(out.Rules, one)
	}
	return out.gateways(o)
}

// gateways reads what the gateways of an HTTPRoute say of it.
func (r *Route) gateways(o map[string]any) error {
	parents, _, err := unstructured.NestedSlice(o, "status", "parents")
	if err != nil {
		return err
	}
	if len(parents) == 0 {
		r.Waits = "no gateway has taken the route"
	}
	for _, p := range parents {
		fields, _ := p.(map[string]any)
		gateway, _, _ := unstructured.NestedString(fields, "parentRef", "name")
		for _, kind := range []string{"Accepted", "ResolvedRefs"} {
			c := conditionOf(fields, kind)
			switch {
			case c.observed < r.Generation:
				r.Waits = fmt.Sprintf("gateway %s has not seen the change yet", gateway)
			case c.status != "True":
				r.Refused = fmt.Sprintf("gateway %s: %s is %s: %s", gateway, kind, cmp.Or(c.status, "not known"), cmp.Or(c.message, c.reason, "it does not say why"))
			}
		}
	}
	return nil
}

type condition struct {
	status, reason, message string
	observed                int64
}

// conditionOf returns a condition of a status; the zero value: it has none of that type.
func conditionOf(status map[string]any, kind string) condition {
	all, _, _ := unstructured.NestedSlice(status, "conditions")
	for _, c := range all {
		fields, _ := c.(map[string]any)
		if t, _, _ := unstructured.NestedString(fields, "type"); t != kind {
			continue
		}
		out := condition{}
		out.status, _, _ = unstructured.NestedString(fields, "status")
		out.reason, _, _ = unstructured.NestedString(fields, "reason")
		out.message, _, _ = unstructured.NestedString(fields, "message")
		out.message = clip(out.message)
		out.observed, _, _ = unstructured.NestedInt64(fields, "observedGeneration")
		return out
	}
	return condition{}
}

// canaryField is where KServe has the percentage of the latest revision.
const canaryField = "spec.predictor.canaryTrafficPercent"

// describeKServe reads a predictor's split: the latest revision that is ready gets
// canaryTrafficPercent, the one that was rolled out before gets the rest (kserve/kserve,
// ksvc_reconciler.go). Only Serverless mode has revisions.
func describeKServe(out *Route, o map[string]any) error {
	const modeField = "serving.kserve.io/deploymentMode"
	mode, _, _ := unstructured.NestedString(o, "status", "deploymentMode")
	if mode = cmp.Or(mode, out.Annotations[modeField]); mode != "" && mode != "Serverless" && mode != "Knative" {
		return fmt.Errorf("its deployment mode is %s: canaryTrafficPercent works in Serverless mode only", mode)
	}
	at := func(field string) string {
		v, _, _ := unstructured.NestedString(o, "status", "components", "predictor", field)
		return v
	}
	latest, before := at("latestReadyRevision"), at("latestRolledoutRevision")
	if before == latest {
		before = at("previousRolledoutRevision")
	}
	if latest == "" || before == "" {
		return fmt.Errorf("it has no revision to go back to: its status names latestReadyRevision %q and before it %q", latest, before)
	}
	canary, set, err := unstructured.NestedInt64(o, strings.Split(canaryField, ".")...)
	if err != nil {
		return err
	}
	if !set {
		canary = 100
	}
	out.Rules = []RouteRule{{Path: canaryField, Backends: []Backend{{Name: latest, Weight: canary, Unset: !set}, {Name: before, Weight: 100 - canary}}}}
	return out.knative(o)
}

// knative reads whether the split of an InferenceService is in effect: its status
// repeats the traffic that Knative carries out.
func (r *Route) knative(o map[string]any) error {
	traffic, _, err := unstructured.NestedSlice(o, "status", "components", "predictor", "traffic")
	if err != nil {
		return err
	}
	got := map[string]int64{}
	for _, t := range traffic {
		fields, _ := t.(map[string]any)
		name, _, _ := unstructured.NestedString(fields, "revisionName")
		percent, _, _ := unstructured.NestedInt64(fields, "percent")
		got[name] += percent
	}
	for _, b := range r.Rules[0].Backends {
		if got[b.Name] != b.Weight {
			r.Waits = fmt.Sprintf("revision %s gets %d %% of the requests so far", b.Name, got[b.Name])
			break
		}
	}
	status, _ := o["status"].(map[string]any)
	if c := conditionOf(status, "Ready"); c.status == "False" && r.Waits != "" {
		r.Refused = cmp.Or(c.message, c.reason, "it is not ready")
	}
	return nil
}

// SameBackends reports whether two routes send requests to the same backends, by
// whatever weights.
func SameBackends(a, b []RouteRule) bool {
	return slices.EqualFunc(a, b, func(x, y RouteRule) bool {
		return slices.EqualFunc(x.Backends, y.Backends, func(p, q Backend) bool { return p.Name == q.Name })
	})
}
