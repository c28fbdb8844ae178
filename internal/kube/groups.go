package kube

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// union describes how a controller marks pods that work as one: they serve
// together or not at all.
type union struct {
	kind  string // of the object that makes them
	name  string // label with its name
	group string // label that tells its groups apart; empty: all of its pods are one, or nothing tells
	size  string // annotation with the pods of a group; empty: none says it
}

const lwsName = "leaderworkerset.sigs.k8s.io/name"

// unions are those that labels alone identify. KServe's LLMInferenceService
// creates LeaderWorkerSets; for its InferenceService see [kserveUnion].
func unions() []union {
	const lws, grove = "leaderworkerset.sigs.k8s.io/", "grove.io/podcliquescalinggroup"
	return []union{
		// kubernetes-sigs/lws, api/leaderworkerset/v1: a group is made anew when any pod of it goes.
		{kind: "LeaderWorkerSet", name: lwsName, group: lws + "group-key", size: lws + "size"},
		// ai-dynamo/grove, operator/api/common/labels.go: a replica of a scaling group is a leader's and
		// its workers' PodCliques, as Dynamo has them for an engine over several nodes. A PodClique of no
		// scaling group is of pods that serve each by itself.
		{kind: "PodCliqueScalingGroup", name: grove, group: grove + "-replica-index"},
		// ray-project/kuberay, ray-operator/controllers/ray/utils/constant.go: which of a cluster's pods an
		// engine spans, no label says. While one is not ready, which an autoscaler may have asked for and
		// never gets, the others may serve or not. Those that serve end with their head, unless its state is
		// kept outside of it (docs.ray.io, GCS fault tolerance).
		{kind: "RayCluster", name: "ray.io/cluster"},
	}
}

// unionOf returns the union and the group that a pod belongs to.
func unionOf(p *corev1.Pod) (u union, name, group string) {
	for _, u := range unions() {
		if name := p.Labels[u.name]; name != "" {
			return u, name, cmp.Or(p.Labels[u.group], name)
		}
	}
	if u, name := kserveUnion(p.Labels, p.Spec.Containers); name != "" {
		return u, name, cmp.Or(p.Labels[u.group], name)
	}
	return union{}, "", ""
}

// leadsGroup reports whether a pod is the head of its group: ray.io/node-type
// marks it in KubeRay, and in KServe every pod that is not a worker is one.
func leadsGroup(podLabels map[string]string) bool {
	app := podLabels[kserveApp]
	return podLabels["ray.io/node-type"] == "head" || strings.HasPrefix(app, kservePrefix) && !strings.HasSuffix(app, kserveWorker)
}

// sizeOf returns the required number of pods of a group as one of its pods
// declares it; 0: not declared.
func (u union) sizeOf(p *corev1.Pod) int {
	if u.name == kserveApp {
		return max(0, rayNodes(p.Spec.Containers))
	}
	size, err := strconv.Atoi(p.Annotations[u.size])
	if err != nil {
		return 0
	}
	return size
}

// Labels and variables that KServe's predictor.go and deployment_reconciler.go put
// on the pods of an InferenceService.
const (
	kserveApp        = "app" // isvc.NAME-predictor, and with -worker at its end
	kserveService    = "serving.kserve.io/inferenceservice"
	kserveGeneration = "isvc.generation" // of those over several nodes alone; not in each version
	kservePrefix     = "isvc."
	kserveWorker     = "-worker"
)

// kserveUnion is the predictor of an InferenceService with a workerSpec. One
// Deployment creates its heads and another its workers, NAME-predictor and
// NAME-predictor-worker; the heads' Deployment stands for both. An engine spans
// all pods of one generation, RAY_NODE_COUNT in number.
func kserveUnion(podLabels map[string]string, containers []corev1.Container) (union, string) {
	app, ours := strings.CutPrefix(podLabels[kserveApp], kservePrefix)
	if !ours || podLabels[kserveService] == "" {
		return union{}, ""
	}
	head, worker := strings.CutSuffix(app, "-predictor"+kserveWorker)
	nodes := rayNodes(containers)
	switch {
	case worker:
		app = head + "-predictor"
	case nodes == 1, nodes == 0 && podLabels[kserveGeneration] == "":
		return union{}, "" // it serves by itself
	}
	u := union{kind: "Deployment", name: kserveApp}
	if podLabels[kserveGeneration] != "" {
		u.group = kserveGeneration
	}
	return u, app
}

// rayNodes returns how many pods KServe declares for one engine, its head
// included; 0: not declared; -1: not a number.
func rayNodes(containers []corev1.Container) int {
	for _, c := range containers {
		at := slices.IndexFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == "RAY_NODE_COUNT" })
		if at < 0 || c.Name != "kserve-container" && c.Name != "worker-container" {
			continue
		}
		if n, err := strconv.Atoi(c.Env[at].Value); err == nil && n > 0 {
			return n
		}
		return -1
	}
	return 0
}

// Leaders returns the object whose replicas are the workload's: of a
// LeaderWorkerSet the StatefulSet of its name, which makes a leader for each
// replica (kubernetes-sigs/lws, docs) and stands for it in the catalog.
func (r Ref) Leaders() Ref {
	if r.Kind == "LeaderWorkerSet" {
		r.Kind = "StatefulSet"
	}
	return r
}

// leads returns the workload whose pods the object leads, as an owner, and the
// labels that all these groups share. The zero values mean none.
func (o *object) leads() (Ref, labels.Set) {
	if ref := metav1.GetControllerOf(&o.meta); ref != nil && ref.Kind == "LeaderWorkerSet" && o.statefulSet != nil {
		return Ref{Kind: ref.Kind, Namespace: o.ref.Namespace, Name: ref.Name}, labels.Set{lwsName: ref.Name}
	}
	l := o.template.Labels
	if _, name := kserveUnion(l, o.template.Spec.Containers); name == o.ref.Name && o.deployment != nil {
		return o.ref, labels.Set{kserveService: l[kserveService]}
	}
	return Ref{}, nil
}

// workers lists the pods of the groups that the object leads, without the leaders.
func (c *Client) workers(ctx context.Context, o *object, leaders []corev1.Pod) ([]corev1.Pod, error) {
	ref, common := o.leads()
	list, err := c.typed.pods(o.ref.Namespace).List(ctx, metav1.ListOptions{LabelSelector: common.String()})
	if err != nil {
		return nil, request{verb: "list", resource: "pods", namespace: o.ref.Namespace}.fail(err)
	}
	leads := map[string]bool{}
	for i := range leaders {
		leads[leaders[i].Name] = true
	}
	return slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return leads[p.Name] || ownerOf(&p) != ref }), nil
}

// groups sets the workload's replica counts to its groups: a ready leader counts
// only if all of its workers are ready, too.
func (w *Workload) groups(of Ref, pods []corev1.Pod) {
	ready := len(readyGroups(pods)[of].ready)
	w.Ready, w.Available = min(w.Ready, ready), min(w.Available, ready)
}
