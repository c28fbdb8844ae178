package nvml

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/inference-responder/responder/internal/gpu"
)

// HostProc is the directory of processes: the host's if the agent shares the
// host's process namespace, otherwise its own.
const HostProc = "/proc"

// podCgroup matches a pod's UID in a cgroup's path as the kubelet writes it: with
// dashes under cgroupfs, with underscores under systemd, without either for a
// static pod.
var podCgroup = regexp.MustCompile(`pod([0-9a-f]{8}[-_]?[0-9a-f]{4}[-_]?[0-9a-f]{4}[-_]?[0-9a-f]{4}[-_]?[0-9a-f]{12})(?:\.slice)?(?:/|$)`)

// podsOf returns the pods that the processes of a GPU belong to, by their cgroups.
// A process outside of all pods holds the GPU for none. If a cgroup cannot be
// read, the pods are unknown.
func podsOf(proc string, g gpu.GPU, processes []process) gpu.Reading[[]gpu.Pod] {
	pods := []gpu.Pod{}
	at := map[[2]string]int{} // by UID and instance
	for _, p := range processes {
		text, err := os.ReadFile(filepath.Join(proc, strconv.FormatInt(p.pid, 10), "cgroup"))
		if err != nil {
			return gpu.Unknown[[]gpu.Pod](gpu.Failed)
		}
		found := podCgroup.FindSubmatch(text)
		if found == nil {
			continue
		}
		pod := gpu.Pod{UID: strings.ReplaceAll(string(found[1]), "_", "-"), Instance: instanceOf(g, p), PID: p.pid, UsedBytes: p.usedBytes}
		key := [2]string{pod.UID, pod.Instance}
		if i, seen := at[key]; seen {
			pods[i].UsedBytes += pod.UsedBytes
			continue
		}
		if len(pods) == gpu.MaxPods {
			return gpu.Unknown[[]gpu.Pod](gpu.Implausible)
		}
		at[key] = len(pods)
		pods = append(pods, pod)
	}
	return gpu.Known(pods)
}

// instanceOf returns the UUID of the MIG instance that a process uses; empty: the
// GPU is not divided.
func instanceOf(g gpu.GPU, p process) string {
	for _, m := range g.MIG.Instances {
		if m.GI == p.gi && m.CI == p.ci {
			return m.UUID
		}
	}
	return ""
}
