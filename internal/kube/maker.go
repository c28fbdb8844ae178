package kube

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// This file holds the objects that make a workload and set its replicas by fields of
// their own. Whoever scales the workload itself is overruled by them.

// Kinds of such objects, beside [InferenceService].
const (
	LeaderWorkerSet = "LeaderWorkerSet"
	// DynamoAdapter has the replicas of one component of a Dynamo graph, where the graph enables it.
	DynamoAdapter = "DynamoGraphDeploymentScalingAdapter"
)

// Labels that Dynamo's operator puts on what it makes of a component.
const (
	dynamoGraphLabel     = "nvidia.com/dynamo-graph-deployment-name"
	dynamoComponentLabel = "nvidia.com/dynamo-component"
)

// Makes reports whether an object of a kind makes workloads whose replicas are changed
// on the object, or on its adapter.
func Makes(kind string) bool {
	switch kind {
	case InferenceService, LeaderWorkerSet, "DynamoComponentDeployment":
		return true
	}
	return false
}

// Named reports whether the operator of a kind gives what it makes of the owner the kind
// and the name of a workload. An ownerReference alone proves nothing: whoever creates the
// workload writes it.
func Named(by Owner, workload Ref) bool {
	rest, begins := strings.CutPrefix(workload.Name, by.Name)
	switch by.Kind {
	case InferenceService:
		return begins && workload.Kind == "Deployment" && (rest == "-predictor" || rest == "-predictor-default")
	case "LLMInferenceService":
		return begins && workload.Kind == "Deployment" && (rest == "-kserve" || rest == "-kserve-prefill")
	case LeaderWorkerSet:
		return begins && workload.Kind == "StatefulSet" && rest == "" // that of its leaders
	case "DynamoComponentDeployment", "VLLMRuntime", "NIMService":
		return begins && rest == ""
	}
	return false
}

// maker returns the object that has the replicas of a workload; the zero value: none that
// is known has. The component is that of a graph of Dynamo, as a [DynamoGraph] is named.
func (c *Client) maker(ctx context.Context, of Ref) (ref, component Ref, err error) {
	meta, pods, err := c.metaOf(ctx, of)
	if err != nil {
		return Ref{}, Ref{}, err
	}
	by := metav1.GetControllerOf(&meta)
	if by == nil || !Named(Owner{Kind: by.Kind, Name: by.Name}, of) {
		return Ref{}, Ref{}, nil
	}
	group, _, _ := strings.Cut(by.APIVersion, "/")
	out := Ref{Kind: by.Kind, Namespace: of.Namespace, Name: by.Name}
	switch {
	case by.Kind == LeaderWorkerSet && group == "leaderworkerset.x-k8s.io":
	case by.Kind == InferenceService && group == "serving.kserve.io" && of.Name == by.Name+"-predictor":
	case by.Kind == "DynamoComponentDeployment" && group == "nvidia.com" && pods[dynamoGraphLabel] != "" && pods[dynamoComponentLabel] != "":
		// deploy/operator/internal/controller of ai-dynamo/dynamo, generateAdapterName
		out.Kind, out.Name = DynamoAdapter, pods[dynamoGraphLabel]+"-"+strings.ToLower(pods[dynamoComponentLabel])
		if by.Name != out.Name && !strings.HasPrefix(by.Name, out.Name+"-") { // anybody may write the labels
			return Ref{}, Ref{}, nil
		}
		component = Ref{Kind: DynamoGraph, Namespace: of.Namespace, Name: pods[dynamoGraphLabel] + "/" + pods[dynamoComponentLabel]}
	default:
		return Ref{}, Ref{}, nil
	}
	return out, component, nil
}

// metaOf reads a workload, without its pods and history.
func (c *Client) metaOf(ctx context.Context, ref Ref) (meta metav1.ObjectMeta, pods map[string]string, err error) {
	if ref.Kind == Rollout {
		o, err := c.loadRollout(ctx, ref)
		if err != nil {
			return meta, nil, err
		}
		return o.meta, o.template.Labels, nil
	}
	r := request{verb: "get", group: "apps", resource: "deployments", namespace: ref.Namespace, name: ref.Name}
	if ref.Kind == "StatefulSet" {
		r.resource = "statefulsets"
		s, err := c.typed.statefulSets(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		if err != nil {
			return meta, nil, r.fail(err)
		}
		return s.ObjectMeta, s.Spec.Template.Labels, nil
	}
	d, err := c.typed.deployments(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if err != nil {
		return meta, nil, r.fail(err)
	}
	return d.ObjectMeta, d.Spec.Template.Labels, nil
}

// inert returns why the bounds of a maker of workloads have no effect; empty: they have.
func (c *Client) inert(ctx context.Context, o *unstructured.Unstructured) (string, error) {
	switch o.GetKind() {
	case InferenceService:
		const class = "serving.kserve.io/autoscalerClass"
		if _, several, err := unstructured.NestedFieldNoCopy(o.Object, "spec", "predictor", "workerSpec"); several || err != nil {
			return "it spans several nodes (spec.predictor.workerSpec), and KServe does not scale it", nil
		}
		if o.GetAnnotations()[class] == "external" {
			return "its annotation " + class + " is external, so that KServe leaves the replicas to an autoscaler that is not there", nil
		}
	case DynamoAdapter:
		name, _, _ := unstructured.NestedString(o.Object, "spec", "dgdRef", "name")
		graph, err := c.scaler(ctx, Ref{Kind: DynamoGraph, Namespace: o.GetNamespace(), Name: name})
		if err != nil {
			return "", err
		}
		by, err := planner(graph)
		if err != nil {
			return err.Error(), nil
		}
		if by != "" {
			return fmt.Sprintf("the planner %s of %s %s sets the replicas of its components", by, DynamoGraph, name), nil
		}
	}
	return "", nil
}
