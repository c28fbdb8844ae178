package podresources

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	kubelet "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/inference-responder/responder/internal/gpu"
)

// holdings are the pods that hold devices, by the device's UUID.
type holdings map[string][]gpu.Pod

// maxName limits names, in bytes, like Kubernetes.
const maxName = 253

// holdingsOf reads an answer of the kubelet. An error means that a pod holds a GPU
// that cannot be identified.
func holdingsOf(list *kubelet.ListPodResourcesResponse) (holdings, error) {
	held := holdings{}
	for _, pod := range list.GetPodResources() {
		for _, c := range pod.GetContainers() {
			one := gpu.Pod{Namespace: pod.GetNamespace(), Name: pod.GetName(), Container: c.GetName()}
			for _, d := range c.GetDevices() {
				if err := held.devices(one, d); err != nil {
					return nil, err
				}
			}
			for _, claim := range c.GetDynamicResources() {
				for _, r := range claim.GetClaimResources() {
					if driver := r.GetDriverName(); ofNVIDIA(driver) {
						return nil, fmt.Errorf("pod %s/%s holds %s of driver %s by a claim without its UUID", one.Namespace, one.Name, r.GetDeviceName(), driver)
					}
				}
			}
		}
	}
	return held, nil
}

// devices records the devices of one resource that a container holds.
func (h holdings) devices(one gpu.Pod, d *kubelet.ContainerDevices) error {
	for _, id := range d.GetDeviceIds() {
		uuid, _, _ := strings.Cut(id, "::") // GPU-…::3 is a share of it
		switch {
		case !strings.HasPrefix(uuid, "GPU-") && !isMIG(uuid):
			if isGPU(d.GetResourceName()) {
				return fmt.Errorf("pod %s/%s holds %s %q, which is not the UUID of a GPU", one.Namespace, one.Name, d.GetResourceName(), id)
			}
			continue // another vendor's, or no GPU
		case !named(one):
			return fmt.Errorf("the pod that holds %s has an invalid name: %.60q in namespace %.60q, container %.60q", uuid, one.Name, one.Namespace, one.Container)
		}
		if isMIG(uuid) {
			one.Instance = uuid
		}
		if !slices.Contains(h[uuid], one) { // a container may hold several shares of one GPU
			h[uuid] = append(h[uuid], one)
		}
		one.Instance = ""
	}
	return nil
}

// named reports whether the pod's names are valid.
func named(p gpu.Pod) bool {
	for _, name := range []string{p.Namespace, p.Name, p.Container} {
		if name == "" || len(name) > maxName || printable(name) != name {
			return false
		}
	}
	return true
}

func isMIG(uuid string) bool { return strings.HasPrefix(uuid, "MIG-") }

// isGPU reports whether devices of a resource are GPUs or parts of them.
func isGPU(resource string) bool {
	return strings.HasPrefix(resource, "nvidia.com/gpu") || strings.HasPrefix(resource, "nvidia.com/mig-")
}

// ofNVIDIA reports whether a driver of dynamic resources allocates GPUs.
func ofNVIDIA(driver string) bool { return driver == "gpu.nvidia.com" }

// into adds the pods to GPUs. A GPU that is not in the snapshot is one that the
// driver does not list: its pods are left out. An instance of no known GPU is an
// error, because it may be part of any.
func (h holdings) into(s *gpu.Snapshot) error {
	if len(s.GPUs) == 0 {
		return nil // nothing was read yet
	}
	placed := map[string]bool{}
	all := make([][]gpu.Pod, len(s.GPUs))
	for i, g := range s.GPUs {
		pods := slices.Clone(h[g.UUID])
		for _, m := range g.MIG.Instances {
			pods = append(pods, h[m.UUID]...)
			placed[m.UUID] = true
		}
		if len(pods) > gpu.MaxPods {
			return errTooMany
		}
		slices.SortFunc(pods, func(a, b gpu.Pod) int {
			return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name), strings.Compare(a.Container, b.Container), strings.Compare(a.Instance, b.Instance))
		})
		all[i] = pods
	}
	for uuid, pods := range h {
		if isMIG(uuid) && !placed[uuid] {
			return fmt.Errorf("pod %s/%s holds %s, which no GPU of the node has", pods[0].Namespace, pods[0].Name, uuid)
		}
	}
	for i := range s.GPUs {
		s.GPUs[i].Pods = gpu.Known(all[i])
	}
	return nil
}
