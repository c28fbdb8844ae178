//go:build e2e && levers

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/test/e2e/rig"
)

// everyLever is the table: each lever that writes to the cluster, with what it is for.
func everyLever() []*leverRun {
	return slices.Concat(replicaLevers(), rolloutLevers(), podLevers(), trafficLevers(), []*leverRun{{
		name: "job", lever: "job.run", with: "template: good, parameters: {model: llama}",
		shows: []string{"get", "jobs", "-o", "name"}, keeps: true, lacks: `resources: ["jobs"], verbs: ["get"]`,
	}})
}

// replicaLevers change a number of replicas, wherever it stands.
func replicaLevers() []*leverRun {
	bounds := func(object, low, high string) []string {
		return []string{"get", object, "-o", fmt.Sprintf("jsonpath={.spec.%s}..{.spec.%s}", low, high)}
	}
	scaled := func(file string, n int) []string {
		return []string{"patch", file, "--type=merge", "-p", fmt.Sprintf(`{"spec":{"replicas":%d}}`, n)}
	}
	return []*leverRun{
		{
			name: "more", lever: "kube.scale", with: "by: 1", shows: []string{"get", "deployment/NAME", "-o", "jsonpath={.spec.replicas}"},
			meddle: []string{"scale", "deployment/NAME", "--replicas=4"}, lacks: `resources: ["deployments/scale"], verbs: ["patch"]`,
		},
		{
			name: "hpa", lever: "kube.autoscaler", with: "by: 1", manifests: rename(autoscaler(2, 2)),
			shows: bounds("hpa/NAME-autoscaler", "minReplicas", "maxReplicas"), lacks: `resources: ["horizontalpodautoscalers"], verbs: ["patch"]`,
			meddle: []string{"patch", "hpa/NAME-autoscaler", "--type=merge", "-p", `{"spec":{"minReplicas":1,"maxReplicas":4}}`},
		},
		{
			name: "keda", lever: "kube.autoscaler", with: "by: 1", manifests: rename(scaledObject), stand: followNumber(scaledObjects, "NAME-autoscaler", "minReplicaCount"),
			shows: bounds("scaledobject/NAME-autoscaler", "minReplicaCount", "maxReplicaCount"), lacks: `resources: ["scaledobjects"], verbs: ["patch"]`,
			meddle: []string{"patch", "scaledobject/NAME-autoscaler", "--type=merge", "-p", `{"spec":{"minReplicaCount":1,"maxReplicaCount":4}}`},
		},
		{
			name: "keep", lever: "kube.autoscaler", with: "keep: true", manifests: rename(autoscaler(1, 4)),
			shows: bounds("hpa/NAME-autoscaler", "minReplicas", "maxReplicas"), lacks: `resources: ["horizontalpodautoscalers"], verbs: ["patch"]`,
			meddle: []string{"patch", "hpa/NAME-autoscaler", "--type=merge", "-p", `{"spec":{"minReplicas":3,"maxReplicas":5}}`},
		},
		{
			name: "pause", lever: "kube.autoscaler", with: "keep: true", manifests: strings.NewReplacer("minReplicaCount: 2", "minReplicaCount: 1", "maxReplicaCount: 2", "maxReplicaCount: 4").Replace(rename(scaledObject)),
			shows: []string{"get", "scaledobject/NAME-autoscaler", "-o", `jsonpath={.spec.minReplicaCount}..{.spec.maxReplicaCount}{.metadata.annotations.autoscaling\.keda\.sh/paused-scale-in}`}, lacks: `resources: ["scaledobjects"], verbs: ["patch"]`,
			meddle: []string{"annotate", "scaledobject/NAME-autoscaler", "autoscaling.keda.sh/paused-scale-in-"},
		},
		{
			name: "kserve", lever: "kube.scale", needs: "kube.autoscaler", with: "by: 1", workload: "kserve-predictor", ready: owned("inferenceservice/NAME", "deployment/NAME-predictor"),
			manifests: strings.ReplaceAll(inference("kserve-predictor", "vllm:v1", 2), "app: kserve-predictor", "app: kserve") + inferenceServices,
			stand:     followNumber(isvcs, "NAME", "predictor", "minReplicas"),
			shows:     bounds("inferenceservice/NAME", "predictor.minReplicas", "predictor.maxReplicas"), lacks: `resources: ["inferenceservices"], verbs: ["patch"]`,
			meddle: []string{"patch", "inferenceservice/NAME", "--type=merge", "-p", `{"spec":{"predictor":{"minReplicas":1,"maxReplicas":4}}}`},
		},
		{
			name: "lws", lever: "kube.scale", needs: "kube.autoscaler", with: "by: 1", kind: "StatefulSet", workload: "lws", manifests: leaderWorkerSet, ready: owned("leaderworkerset/NAME", "statefulset/NAME"),
			stand: followGroups, shows: scaledNow("leaderworkerset/NAME"), meddle: scaled("leaderworkerset/NAME", 4), lacks: `resources: ["leaderworkersets"], verbs: ["patch"]`,
		},
		{
			name: "dynamo", lever: "kube.scale", needs: "kube.autoscaler", with: "by: 1", manifests: dynamoGraph, workload: "dynamo-decode", ready: owned("dynamocomponentdeployment/NAME-decode", "deployment/NAME-decode"),
			stand: followNumber(adapters, "NAME-decode", "replicas"), shows: scaledNow("dynamographdeploymentscalingadapter/NAME-decode"),
			meddle: scaled("dynamographdeploymentscalingadapter/NAME-decode", 4), lacks: `resources: ["dynamographdeploymentscalingadapters"], verbs: ["patch"]`,
		},
		{
			name: "planner", lever: "kube.scale", needs: "kube.autoscaler", with: "by: 1", manifests: dynamoPlanned(), workload: "planner-decode", ready: owned("dynamocomponentdeployment/NAME-decode", "deployment/NAME-decode"),
			stand: followPlanner, shows: []string{"get", "dynamographdeployment/NAME", "-o", "jsonpath={.spec.services.Planner}"},
			meddle: []string{"patch", "dynamographdeployment/NAME", "--type=merge", "-p", `{"spec":{"services":{"Planner":{"extraPodSpec":{"mainContainer":{"args":["--config","{\"mode\": \"agg\", \"min_endpoint\": 4}"]}}}}}}`},
			lacks:  `resources: ["dynamographdeployments"], verbs: ["patch"]`,
		},
	}
}

func scaledNow(object string) []string {
	return []string{"get", object, "-o", "jsonpath={.spec.replicas}"}
}

// rolloutLevers change how and which pods are rolled out.
func rolloutLevers() []*leverRun {
	image := func(tag string) []string { return []string{"set", "image", "deployment/NAME", "engine=" + tag} }
	released := func(t *testing.T, w *leverRuns, r *leverRun) {
		w.cp.Kubectl(t, w.args(r, image("vllm:v2"))...)
		w.cp.AwaitRollout(t, w.ns, r.name, time.Minute)
	}
	return []*leverRun{
		{
			name: "rollback", lever: "kube.rollout_undo", slow: true, shows: []string{"get", "deployment/NAME", "-o", "jsonpath={.spec.template.spec.containers[0].image}"},
			ready:  released,
			meddle: image("vllm:v3"), lacks: `resources: ["deployments"], verbs: ["patch"]`,
		},
		{
			name: "release", lever: "service.rollback", slow: true, shows: []string{"get", "deployment/NAME", "-o", "jsonpath={.spec.template.spec.containers[0].image}"},
			ready: released, meddle: image("vllm:v3"), lacks: `resources: ["deployments"], verbs: ["patch"]`,
		},
		{
			name: "restart", lever: "kube.restart", slow: true, shows: []string{"get", "deployment/NAME", "-o", "jsonpath={.spec.template.metadata.annotations}"},
			meddle: image("vllm:v3"), lacks: `resources: ["deployments"], verbs: ["patch"]`, keeps: true, // of one that is over nothing is put back
		},
		{
			name: "hold", lever: "rollout.hold", shows: []string{"get", "deployment/NAME", "-o", "jsonpath={.spec.paused}"}, keeps: true, ends: machine.OutcomeEscalated,
			ready: func(t *testing.T, w *leverRuns, r *leverRun) {
				w.cp.Kubectl(t, w.args(r, []string{"patch", "deployment/NAME", "-p", nowhere})...)
				rig.Await(t, 30*time.Second, "a rollout that has come half way", func(ctx context.Context) (bool, string) {
					d, err := w.cp.Client.AppsV1().Deployments(w.ns).Get(ctx, r.name, metav1.GetOptions{})
					return err == nil && d.Status.ObservedGeneration >= d.Generation && d.Status.UpdatedReplicas == 1, fmt.Sprint(d.Status, err)
				})
			},
			lacks: `resources: ["deployments"], verbs: ["patch"]`,
		},
	}
}

// trafficLevers move requests to the release before.
func trafficLevers() []*leverRun {
	return []*leverRun{
		{
			name: "route", lever: "traffic.shift", with: "by: 40", manifests: inference("route-stable", "vllm:v1", 2) + strings.ReplaceAll(warmRoute, "chat", "NAME"),
			entry: "    warm: {route: {name: NAME}, backend: NAME-stable, workload: {name: NAME-stable}}\n", stand: acceptRoute, ready: warmed("NAME-stable"),
			shows:  []string{"get", "httproute/NAME", "-o", "jsonpath={.spec.rules[0].backendRefs[*].weight}"},
			meddle: []string{"patch", "httproute/NAME", "--type=json", "-p", `[{"op":"replace","path":"/spec/rules/0/backendRefs/1/weight","value":7}]`},
			lacks:  `resources: ["httproutes"], verbs: ["patch"]`,
		},
		{
			name: "canary", lever: "traffic.shift", with: "by: 40", entry: "    warm: {route: {kind: InferenceService, name: NAME}}\n", stand: splitCanary, ready: warmed("NAME-predictor-00001-deployment"),
			manifests: inference("canary-predictor-00001-deployment", "vllm:v1", 2) + "---\napiVersion: serving.kserve.io/v1beta1\nkind: InferenceService\nmetadata: {name: canary}\nspec: {predictor: {minReplicas: 2}}\n",
			shows:     []string{"get", "inferenceservice/NAME", "-o", "jsonpath={.spec.predictor.canaryTrafficPercent}"},
			meddle:    []string{"patch", "inferenceservice/NAME", "--type=merge", "-p", `{"spec":{"predictor":{"canaryTrafficPercent":7}}}`},
			lacks:     `resources: ["inferenceservices"], verbs: ["patch"]`,
		},
	}
}

// warmed waits for the warm revision.
func warmed(name string) func(*testing.T, *leverRuns, *leverRun) {
	return func(t *testing.T, w *leverRuns, r *leverRun) {
		t.Helper()
		w.cp.AwaitRollout(t, w.ns, strings.ReplaceAll(name, "NAME", r.name), time.Minute)
	}
}

// rename has the name of the service in the place of chat.
func rename(manifest string) string {
	return strings.TrimPrefix(strings.ReplaceAll(manifest, "chat", "NAME"), "\n---")
}

// inferenceServices is what KServe makes a Deployment and an autoscaler from, in
// RawDeployment mode.
const inferenceServices = `
---
apiVersion: serving.kserve.io/v1beta1
kind: InferenceService
metadata: {name: NAME, annotations: {serving.kserve.io/deploymentMode: RawDeployment}}
spec: {predictor: {minReplicas: 2, maxReplicas: 2}}
`

const leaderWorkerSet = `
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {name: NAME}
spec: {replicas: 2, leaderWorkerTemplate: {size: 1}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: NAME}
spec:
  replicas: 2
  serviceName: NAME
  podManagementPolicy: Parallel
  selector: {matchLabels: {app: NAME}}
  template:
    metadata: {labels: {app: NAME, leaderworkerset.sigs.k8s.io/name: NAME}, annotations: {leaderworkerset.sigs.k8s.io/size: "1"}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: engine, image: vllm:v1, args: [--model=NAME], resources: {limits: {nvidia.com/gpu: 1}}}]
`

const dynamoGraph = `
apiVersion: nvidia.com/v1alpha1
kind: DynamoGraphDeployment
metadata: {name: NAME}
spec: {services: {Frontend: {componentType: frontend, replicas: 1}, Decode: {componentType: worker, replicas: 2, scalingAdapter: {enabled: true}}}}
---
apiVersion: nvidia.com/v1alpha1
kind: DynamoGraphDeploymentScalingAdapter
metadata: {name: NAME-decode}
spec: {replicas: 2, dgdRef: {name: NAME, serviceName: Decode}}
---
apiVersion: nvidia.com/v1alpha1
kind: DynamoComponentDeployment
metadata: {name: NAME-decode}
spec: {serviceName: Decode}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: NAME-decode}
spec:
  replicas: 2
  selector: {matchLabels: {app: NAME}}
  template:
    metadata: {labels: {app: NAME, nvidia.com/dynamo-graph-deployment-name: NAME, nvidia.com/dynamo-component: Decode}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: engine, image: vllm:v1, args: [--model=NAME], resources: {limits: {nvidia.com/gpu: 1}}}]
`

// dynamoPlanned is that graph with a planner, and without an adapter.
func dynamoPlanned() string {
	graph, rest, _ := strings.Cut(dynamoGraph, "---")
	_, rest, _ = strings.Cut(rest, "---")
	return strings.Replace(graph, "replicas: 2, scalingAdapter: {enabled: true}}", `replicas: 2, resources: {limits: {gpu: "1"}}},
  Planner: {componentType: planner, replicas: 1, extraPodSpec: {mainContainer: {args: [--config, '{"mode": "agg", "min_endpoint": 2}']}}}`, 1) + "---" + rest
}

// followPlanner does what Dynamo's planner does without a load: it sets its lower bound.
func followPlanner(ctx context.Context, w *leverRuns, r *leverRun) error {
	o, err := w.objects.Resource(graphs).Namespace(w.ns).Get(ctx, r.name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	args, _, err := unstructured.NestedStringSlice(o.Object, "spec", "services", "Planner", "extraPodSpec", "mainContainer", "args")
	if err != nil || len(args) != 2 {
		return fmt.Errorf("the planner has the arguments %q: %w", args, err)
	}
	var config struct {
		Floor int64 `json:"min_endpoint"`
	}
	if err := json.Unmarshal([]byte(args[1]), &config); err != nil {
		return err
	}
	return w.scale(ctx, r, config.Floor)
}

var (
	scaledObjects = schema.GroupVersionResource{Group: "keda.sh", Version: "v1alpha1", Resource: "scaledobjects"}
	isvcs         = schema.GroupVersionResource{Group: "serving.kserve.io", Version: "v1beta1", Resource: "inferenceservices"}
	lwss          = schema.GroupVersionResource{Group: "leaderworkerset.x-k8s.io", Version: "v1", Resource: "leaderworkersets"}
	adapters      = schema.GroupVersionResource{Group: "nvidia.com", Version: "v1alpha1", Resource: "dynamographdeploymentscalingadapters"}
	graphs        = schema.GroupVersionResource{Group: "nvidia.com", Version: "v1alpha1", Resource: "dynamographdeployments"}
	routes        = schema.GroupVersionResource{Group: "gateway.networking.k8s.io", Version: "v1", Resource: "httproutes"}
)

// owned makes an object the controlling owner of another one.
func owned(owner, object string) func(*testing.T, *leverRuns, *leverRun) {
	return func(t *testing.T, w *leverRuns, r *leverRun) {
		t.Helper()
		get := func(field string) string {
			return w.cp.Kubectl(t, w.args(r, []string{"get", owner, "-o", "jsonpath={" + field + "}"})...)
		}
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"ownerReferences": []any{map[string]any{
			"apiVersion": get(".apiVersion"), "kind": get(".kind"), "name": get(".metadata.name"), "uid": get(".metadata.uid"), "controller": true,
		}}}})
		if err != nil {
			t.Fatal(err)
		}
		w.cp.Kubectl(t, w.args(r, []string{"patch", object, "--type=merge", "-p", string(patch)})...)
	}
}

// followNumber sets the replicas of the service's Deployment to a number of an object, as
// its controller does.
func followNumber(of schema.GroupVersionResource, name string, field ...string) func(context.Context, *leverRuns, *leverRun) error {
	return func(ctx context.Context, w *leverRuns, r *leverRun) error {
		o, err := w.objects.Resource(of).Namespace(w.ns).Get(ctx, strings.ReplaceAll(name, "NAME", r.name), metav1.GetOptions{})
		if err != nil {
			return err
		}
		n, _, err := unstructured.NestedInt64(o.Object, append([]string{"spec"}, field...)...)
		if err != nil {
			return err
		}
		return w.scale(ctx, r, n)
	}
}

func (w *leverRuns) scale(ctx context.Context, r *leverRun, n int64) error {
	apps := w.cp.Client.AppsV1()
	get, update := apps.Deployments(w.ns).GetScale, apps.Deployments(w.ns).UpdateScale
	if r.kind == "StatefulSet" {
		get, update = apps.StatefulSets(w.ns).GetScale, apps.StatefulSets(w.ns).UpdateScale
	}
	s, err := get(ctx, r.workload, metav1.GetOptions{})
	if err != nil || int64(s.Spec.Replicas) == n {
		return err
	}
	s.Spec = autoscalingv1.ScaleSpec{Replicas: int32(n)}
	_, err = update(ctx, r.workload, s, metav1.UpdateOptions{})
	return err
}

// followGroups does what LeaderWorkerSet's controller does of groups of one pod.
func followGroups(ctx context.Context, w *leverRuns, r *leverRun) error {
	list, err := w.cp.Client.CoreV1().Pods(w.ns).List(ctx, metav1.ListOptions{LabelSelector: "app=" + r.name + ",!leaderworkerset.sigs.k8s.io/group-key"})
	if err != nil {
		return err
	}
	for i := range list.Items {
		patch := fmt.Appendf(nil, `{"metadata":{"labels":{"leaderworkerset.sigs.k8s.io/group-key":%q}}}`, list.Items[i].Name)
		if _, err := w.cp.Client.CoreV1().Pods(w.ns).Patch(ctx, list.Items[i].Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return err
		}
	}
	return followNumber(lwss, "NAME", "replicas")(ctx, w, r)
}

// acceptRoute does what a gateway's controller does.
func acceptRoute(ctx context.Context, w *leverRuns, r *leverRun) error {
	o, err := w.objects.Resource(routes).Namespace(w.ns).Get(ctx, r.name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	generation := strconv.FormatInt(o.GetGeneration(), 10)
	if status, err := json.Marshal(o.Object["status"]); err == nil && strings.Contains(string(status), `"observedGeneration":`+generation) {
		return nil
	}
	_, err = w.objects.Resource(routes).Namespace(w.ns).Patch(ctx, r.name, types.MergePatchType, []byte(accepted(generation)), metav1.PatchOptions{}, "status")
	return err
}

// splitCanary does what KServe does once Knative splits the requests.
func splitCanary(ctx context.Context, w *leverRuns, r *leverRun) error {
	o, err := w.objects.Resource(isvcs).Namespace(w.ns).Get(ctx, r.name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	percent := int64(100)
	if n, set, err := unstructured.NestedInt64(o.Object, "spec", "predictor", "canaryTrafficPercent"); err != nil {
		return err
	} else if set {
		percent = n
	}
	status := strings.ReplaceAll(kserveSplit(percent), "chat-", r.name+"-")
	if now, err := json.Marshal(o.Object["status"]); err == nil && strings.Contains(string(now), fmt.Sprintf(`"percent":%d,"revisionName":"%s-predictor-00002"`, percent, r.name)) {
		return nil
	}
	_, err = w.objects.Resource(isvcs).Namespace(w.ns).Patch(ctx, r.name, types.MergePatchType, []byte(status), metav1.PatchOptions{}, "status")
	return err
}

// jobSettings are the templates of the platform team.
const jobSettings = `
jobs:
  - {name: good, manifest_file: jobs/work.yaml, parameters: [{name: model}], undo: back, autonomy: auto}
  - {name: back, manifest_file: jobs/work.yaml, parameters: [{name: model}], read_only: true, autonomy: auto}
`

func jobFiles() map[string]string {
	return map[string]string{"jobs/work.yaml": `
apiVersion: batch/v1
kind: Job
spec:
  template:
    metadata: {annotations: {rig.responder/complete-delay: 6s}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{name: work, image: "cachectl:v1", command: [cachectl, clear, --model], args: ["${model}"]}]
`}
}
