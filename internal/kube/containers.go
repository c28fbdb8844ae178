package kube

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/inference-responder/responder/internal/credential"
)

// podContainers returns the containers of a pod, without those that only prepare it.
func podContainers(p corev1.Pod) []PodContainer {
	out := make([]PodContainer, 0, len(p.Spec.Containers))
	for _, c := range p.Spec.Containers {
		one := PodContainer{Name: c.Name, Port: servingPort(c.Ports), Readiness: healthProbe(c, c.ReadinessProbe), Startup: healthProbe(c, c.StartupProbe)}
		for _, s := range p.Status.ContainerStatuses {
			if s.Name == c.Name && s.State.Running != nil {
				one.Since = s.State.Running.StartedAt.Time
			}
		}
		out = append(out, one)
	}
	return out
}

// servingPort returns the declared port named http, else the first of TCP.
func servingPort(ports []corev1.ContainerPort) int {
	first := 0
	for _, p := range ports {
		switch {
		case p.Protocol != "" && p.Protocol != corev1.ProtocolTCP:
		case p.Name == "http":
			return int(p.ContainerPort)
		case first == 0:
			first = int(p.ContainerPort)
		}
	}
	return first
}

func healthProbe(c corev1.Container, p *corev1.Probe) HealthProbe {
	switch {
	case p == nil:
		return HealthProbe{}
	case p.HTTPGet != nil:
		return HealthProbe{Kind: "http", Path: credential.Redact(p.HTTPGet.Path), Port: portNumber(c, p.HTTPGet.Port)}
	case p.TCPSocket != nil:
		return HealthProbe{Kind: "tcp", Port: portNumber(c, p.TCPSocket.Port)}
	case p.GRPC != nil:
		return HealthProbe{Kind: "grpc", Port: int(p.GRPC.Port)}
	default:
		return HealthProbe{Kind: "exec"}
	}
}

func portNumber(c corev1.Container, port intstr.IntOrString) int {
	if port.Type == intstr.Int {
		return port.IntValue()
	}
	for _, p := range c.Ports {
		if p.Name == port.StrVal {
			return int(p.ContainerPort)
		}
	}
	return 0
}

// worksForLeader reports whether a pod is of a group and not its leader, by the
// labels of LeaderWorkerSet, KubeRay and KServe.
func worksForLeader(podLabels map[string]string) bool {
	index := podLabels["leaderworkerset.sigs.k8s.io/worker-index"]
	return index != "" && index != "0" || podLabels["ray.io/node-type"] == "worker" ||
		podLabels[kserveService] != "" && strings.HasSuffix(podLabels[kserveApp], kserveWorker)
}
