package podresources

import (
	"testing"
	"time"

	kubelet "k8s.io/kubelet/pkg/apis/podresources/v1"
	"pgregory.net/rapid"

	"github.com/inference-responder/responder/internal/gpu"
	"github.com/inference-responder/responder/internal/gpu/podresources/kubelettest"
)

// Whatever a kubelet says, the snapshot can be passed on, and every pod that
// holds a GPU of the node by its UUID is there, or nothing is known.
func TestWhateverTheKubeletSays(t *testing.T) {
	id := rapid.OneOf(rapid.SampledFrom([]string{first, second, left, right, first + "::7", left + "::0", "GPU-", "MIG-", "::", "nvidia0"}), rapid.String())
	name := rapid.OneOf(rapid.StringMatching(`[a-z]{1,9}`), rapid.String())
	rapid.Check(t, func(t *rapid.T) {
		list := &kubelet.ListPodResourcesResponse{}
		holds := map[string]bool{} // GPUs
		for range rapid.IntRange(0, 8).Draw(t, "pods") {
			ids := rapid.SliceOfN(id, 0, 4).Draw(t, "ids")
			resource := rapid.SampledFrom([]string{"nvidia.com/gpu", "nvidia.com/mig-1g.10gb", "other/x"}).Draw(t, "resource")
			list.PodResources = append(list.PodResources, kubelettest.Pod(name.Draw(t, "namespace"), name.Draw(t, "name"), resource, ids...))
			for _, i := range ids {
				holds[i] = true
			}
		}
		p := &Pods{o: Options{Socket: "/s", Every: time.Hour}}
		held, err := holdingsOf(list)
		if err == nil {
			p.last = answer{at: time.Now(), held: held}
		} else {
			p.last = answer{at: time.Now(), why: gpu.Implausible, detail: p.detail(err)}
		}
		s := node()
		p.Into(&s)
		if _, err := gpu.Encode(s); err != nil {
			t.Fatal(err)
		}
		for i, uuids := range [][]string{{first, first + "::7"}, {second, left, right, left + "::0"}} {
			pods, ok := s.GPUs[i].Pods.Get()
			for _, u := range uuids {
				if ok && holds[u] && len(pods) == 0 {
					t.Fatalf("nobody holds GPU %d, and somebody holds %s", i, u)
				}
			}
		}
	})
}
