package kube

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// PendingCause is why a pod does not serve, by what the cluster says of it.
type PendingCause string

// Causes that end only when somebody acts, or when room is made.
const (
	PendingGPU       PendingCause = "gpu"       // no node has its GPUs free
	PendingResources PendingCause = "resources" // no node has its CPU, memory or another resource free
	PendingTaint     PendingCause = "taint"     // nodes have taints that it does not tolerate, as cordons are
	PendingAffinity  PendingCause = "affinity"  // nodes are not those that it asks for, or too near to other pods
	PendingVolume    PendingCause = "volume"    // a volume cannot be bound, attached or mounted
	PendingImage     PendingCause = "image"     // its image cannot be pulled
	PendingConfig    PendingCause = "config"    // a Secret, a ConfigMap or a field of its containers is wrong
	PendingCrash     PendingCause = "crash"     // its container ends again and again
	PendingNetwork   PendingCause = "network"   // it gets no network
	PendingQuota     PendingCause = "quota"     // it may not be created: a quota of the namespace
	PendingRefused   PendingCause = "refused"   // it may not be created for another reason
	PendingUnknown   PendingCause = "unknown"   // no node takes it, and nothing says why
)

// Causes that end by themselves.
const (
	PendingCreating PendingCause = "creating" // its containers are being made: its image is pulled, its volumes are mounted
	PendingDownload PendingCause = "download" // an init container fetches the model
	PendingInit     PendingCause = "init"     // another init container runs
	PendingLoading  PendingCause = "loading"  // its containers run and are not ready: an engine loads its model
	PendingNew      PendingCause = "new"      // it was just created
)

// Blocks reports whether a pod with this cause does not start by itself.
func (c PendingCause) Blocks() bool {
	return !slices.Contains([]PendingCause{PendingCreating, PendingDownload, PendingInit, PendingLoading, PendingNew}, c)
}

// PendingPod is a pod that does not serve yet, or one that is missing.
type PendingPod struct {
	Name  string // empty: it was never created
	Cause PendingCause
	Why   string
	Since time.Time // when the pod was created; zero: not known
}

// mostMissing bounds the pods that were never created of which one answer tells.
const mostMissing = 1000

// Pending returns the pods of a workload that do not serve, those first that do not
// start by themselves. Workers of a group, and pods that leave or have ended, are left out.
func (w Workload) Pending() []PendingPod {
	var out []PendingPod
	there := 0
	for _, p := range w.Pods {
		if p.Worker || p.Over() {
			continue
		}
		there++
		if !p.Ready {
			cause, why := p.pending(w.Events)
			out = append(out, PendingPod{p.Name, cause, why, p.Created})
		}
	}
	if missing := w.Replicas - there; missing > 0 {
		cause, why := w.missing()
		for range min(missing, mostMissing) {
			out = append(out, PendingPod{Cause: cause, Why: why})
		}
	}
	slices.SortStableFunc(out, func(a, b PendingPod) int {
		rank := func(p PendingPod) int {
			if p.Cause.Blocks() {
				return 0
			}
			return 1
		}
		return rank(a) - rank(b)
	})
	return out
}

// pending returns why a pod does not serve. Warnings about it tell what its status does
// not.
func (p Pod) pending(events []EventCount) (PendingCause, string) {
	warned := func(reasons ...string) *EventCount {
		i := slices.IndexFunc(events, func(e EventCount) bool {
			return !e.Normal && e.Object == "Pod/"+p.Name && slices.Contains(reasons, e.Reason)
		})
		if i < 0 {
			return nil
		}
		return &events[i]
	}
	switch {
	case p.Waiting != "":
		return waitingCause(p.Waiting), cmp.Or(p.Message, p.Waiting)
	case p.Node == "" && p.Message != "":
		return unschedulable(p.Message), p.Message
	case p.Node == "":
		return PendingNew, "the scheduler has not looked at it yet"
	case p.Phase == string(corev1.PodPending) && p.Init != "": // so its volumes and its network are there
		if fetches.MatchString(p.Init) {
			return PendingDownload, "init container " + p.Init + " runs"
		}
		return PendingInit, "init container " + p.Init + " runs"
	case p.Phase == string(corev1.PodPending):
		if e := warned("FailedMount", "FailedAttachVolume", "FailedMapVolume"); e != nil {
			return PendingVolume, e.Message
		}
		if e := warned("FailedCreatePodSandBox"); e != nil {
			return PendingNetwork, e.Message
		}
		return PendingCreating, "its containers are being made"
	}
	return PendingLoading, "its containers run, and it is not ready"
}

// fetches matches the names of init containers that fetch a model, such as KServe's
// storage-initializer.
var fetches = regexp.MustCompile(`(?i)storage-init|model|weights|download|fetch|pull|hf-|huggingface`)

// waitingCause returns the cause behind the reason for which the kubelet does not start
// a container.
func waitingCause(reason string) PendingCause {
	switch reason {
	case "ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable", "ImageInspectError", "SignatureValidationFailed":
		return PendingImage
	case "CrashLoopBackOff", "RunContainerError", "PostStartHookError":
		return PendingCrash
	}
	return PendingConfig // CreateContainerConfigError, CreateContainerError
}

// missing returns why pods of the workload are not there at all.
func (w Workload) missing() (PendingCause, string) {
	why := w.Stuck
	var newest time.Time // a refusal from before a pod was created is over
	for _, p := range w.Pods {
		if p.Created.After(newest) {
			newest = p.Created
		}
	}
	for _, e := range w.Events {
		if e.Reason == "FailedCreate" && !e.Last.Before(newest) {
			why = e.Message
			break
		}
	}
	switch {
	case strings.Contains(why, "exceeded quota"):
		return PendingQuota, why
	case why != "":
		return PendingRefused, why
	case w.Paused:
		return PendingRefused, "rollouts of the workload are paused"
	}
	return PendingNew, "it is not created yet"
}

// unschedulable returns the cause that holds for most nodes, by the message of the
// scheduler: "0/8 nodes are available: 5 Insufficient nvidia.com/gpu, 3 node(s) had
// untolerated taint {...}. preemption: ..."
func unschedulable(message string) PendingCause {
	text, _, _ := strings.Cut(message, "preemption:")
	_, text, _ = strings.Cut(text, "nodes are available:")
	if text == "" {
		return refusalCause(message) // such as an unbound claim: of the pod, not of nodes
	}
	best, most := PendingUnknown, -1
	for _, m := range nodesRefuse.FindAllStringSubmatch(text, -1) {
		n, err := strconv.Atoi(m[1])
		cause := refusalCause(m[2])
		if err == nil && cause != PendingUnknown && n > most {
			best, most = cause, n
		}
	}
	if most < 0 {
		return refusalCause(text)
	}
	return best
}

var nodesRefuse = regexp.MustCompile(`(\d+) ([^,.][^,]*)`)

func refusalCause(text string) PendingCause {
	text = strings.ToLower(text)
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(text, w) })
	}
	switch {
	case has("insufficient") && has("gpu", "/mig-", "neuron", "tpu", "gaudi"):
		return PendingGPU
	case has("insufficient", "too many pods"):
		return PendingResources
	case has("volume", "persistentvolumeclaim"):
		return PendingVolume
	case has("taint", "unschedulable"):
		return PendingTaint
	case has("affinity", "selector", "topology", "free ports"):
		return PendingAffinity
	}
	return PendingUnknown
}

// PendingText returns pending pods in one sentence for people, the cause of most first.
func PendingText(pods []PendingPod) string {
	count, first := map[PendingCause]int{}, map[PendingCause]PendingPod{}
	var causes []PendingCause
	for _, p := range pods {
		if count[p.Cause]++; count[p.Cause] == 1 {
			causes, first[p.Cause] = append(causes, p.Cause), p
		}
	}
	slices.SortStableFunc(causes, func(a, b PendingCause) int { return count[b] - count[a] })
	var parts []string
	for _, c := range causes {
		parts = append(parts, fmt.Sprintf("%dx %s (%s)", count[c], pendingWords[c], first[c].Why))
	}
	return strings.Join(parts, "; ")
}

var pendingWords = map[PendingCause]string{
	PendingGPU: "no node with free GPUs", PendingResources: "no node with enough CPU or memory", PendingTaint: "only nodes with taints or cordons",
	PendingAffinity: "no node that its rules allow", PendingVolume: "a volume is missing", PendingImage: "the image cannot be pulled",
	PendingConfig: "its configuration is wrong", PendingCrash: "it crashes", PendingNetwork: "it gets no network", PendingQuota: "the quota is used up",
	PendingRefused: "it may not be created", PendingUnknown: "no node takes it", PendingCreating: "being created", PendingDownload: "fetching its model",
	PendingInit: "initializing", PendingLoading: "loading", PendingNew: "just begun",
}
