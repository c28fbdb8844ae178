package kube

import (
	"slices"
	"strings"
)

// troubles are the conditions by which somebody on a node says that it is not fit,
// as their own documents name them (looked up in mid-2026). Other conditions may
// mean anything, and nothing is concluded from them:
//
//   - the kubelet's and the cloud's: Kubernetes' own node conditions; the control plane taints for them.
//   - node-problem-detector's, in its own configuration (config/ of its repository).
//   - EKS' node monitoring agent: ...Ready, False where something is wrong.
//   - AKS' node-problem-detector on nodes with GPUs, besides those that name GPUs.
var troubles = []string{
	"MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable",
	"KernelDeadlock", "ReadonlyFilesystem", "CorruptDockerOverlay2", "FrequentKubeletRestart", "FrequentDockerRestart", "FrequentContainerdRestart",
	"FrequentUnregisterNetDevice", "KubeletUnhealthy", "ContainerRuntimeUnhealthy", "KubeletProblem", "ContainerRuntimeProblem", "FilesystemCorruptionProblem",
	"AcceleratedHardwareReady", "KernelReady", "NetworkingReady", "StorageReady", "ContainerRuntimeReady", "IBLinkFlapping",
}

// ofGPUs is what a condition about GPUs has in its name, whoever sets it: GPUMissing,
// GPUXIDErrors, NVLinkStatusInactive, AcceleratedHardwareReady, ...
var ofGPUs = []string{"gpu", "xid", "nvlink", "nvswitch", "nvidia", "dcgm", "accelerat"}

// Troubles returns those of a node's bad conditions by which a neighbour on the node,
// such as node-problem-detector, says that it is not fit.
func Troubles(conditions []string) []string {
	return slices.DeleteFunc(slices.Clone(conditions), func(c string) bool {
		name, _, _ := strings.Cut(c, "=")
		return !slices.Contains(troubles, name) && !ofGPU(name)
	})
}

// GPUTroubles returns those of a node's bad conditions that are about its GPUs.
func GPUTroubles(conditions []string) []string {
	return slices.DeleteFunc(slices.Clone(conditions), func(c string) bool {
		name, _, _ := strings.Cut(c, "=")
		return !ofGPU(name)
	})
}

func ofGPU(condition string) bool {
	return slices.ContainsFunc(ofGPUs, func(part string) bool { return strings.Contains(strings.ToLower(condition), part) })
}
