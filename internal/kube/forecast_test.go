package kube

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func list(pairs ...string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

func gpuNode(name string, gpus string, edit ...func(*corev1.Node)) corev1.Node {
	n := corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name, "gpu": "h100"}},
		Status:     corev1.NodeStatus{Allocatable: list("nvidia.com/gpu", gpus, "cpu", "64", "memory", "512Gi", "pods", "110")},
	}
	for _, e := range edit {
		e(&n)
	}
	return n
}

func gpuPod(namespace, node, gpus string, priority int32) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Labels: map[string]string{"app": "chat"}},
		Spec: corev1.PodSpec{
			NodeName: node, Priority: &priority,
			Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: list("cpu", "8", "nvidia.com/gpu", gpus), Limits: list("nvidia.com/gpu", gpus)}}},
		},
	}
}

// TestCapacity: whether a further replica would run, as somebody on call would look
// it up by hand before adding one.
func TestCapacity(t *testing.T) {
	taint := func(effect corev1.TaintEffect) func(*corev1.Node) {
		return func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "dedicated", Value: "batch", Effect: effect}}
		}
	}
	apart := func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
			{TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "chat"}}},
		}}}
	}
	type others []*corev1.Pod
	for name, tt := range map[string]struct {
		nodes  []corev1.Node
		edit   func(*corev1.Pod) // the template
		own    others
		others others
		quotas []corev1.ResourceQuota
		want   Capacity
	}{
		"an idle node takes as many as it has GPUs": {
			nodes: []corev1.Node{gpuNode("a", "4")},
			want:  Capacity{Fits: 4, Free: 4, Room: []Room{{"a", 4}}},
		},
		"what runs there counts, of this workload and of others": {
			nodes: []corev1.Node{gpuNode("a", "4"), gpuNode("b", "4")},
			own:   others{gpuPod("serving", "a", "1", 0)}, others: others{gpuPod("train", "a", "3", 0), gpuPod("train", "b", "1", 0)},
			want: Capacity{Fits: 3, Free: 3, Room: []Room{{"b", 3}}, Refusals: []Refusal{{"too few free nvidia.com/gpu", 1}}},
		},
		"replicas that wait come first": {
			nodes: []corev1.Node{gpuNode("a", "2")}, own: others{gpuPod("serving", "", "1", 0)},
			want: Capacity{Fits: 1, Free: 2, Waiting: 1, Room: []Room{{"a", 2}}},
		},
		"a limit without a request is one": {
			nodes: []corev1.Node{gpuNode("a", "4")},
			edit:  func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = nil },
			want:  Capacity{Needs: "1 nvidia.com/gpu", Fits: 4, Free: 4, Room: []Room{{"a", 4}}},
		},
		"processors run out before GPUs": {
			nodes: []corev1.Node{gpuNode("a", "8")},
			edit:  func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse("40") },
			want:  Capacity{Needs: "1 nvidia.com/gpu, 40 cpu", Fits: 1, Free: 8, Room: []Room{{"a", 1}}},
		},
		"taints, selectors and cordons": {
			nodes: []corev1.Node{
				gpuNode("tainted", "8", taint(corev1.TaintEffectNoSchedule)), gpuNode("rather not", "8", taint(corev1.TaintEffectPreferNoSchedule)),
				gpuNode("other", "8", func(n *corev1.Node) { n.Labels["gpu"] = "a10" }), gpuNode("out", "8", func(n *corev1.Node) {
					n.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}}
				}),
			},
			edit: func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"gpu": "h100"} },
			want: Capacity{Fits: 8, Free: 8, Room: []Room{{"rather not", 8}}, Refusals: []Refusal{
				{"cordoned", 1}, {"not selected by its node selector or affinity", 1}, {"taint dedicated=batch:NoSchedule is not tolerated", 1},
			}},
		},
		"no two on one node": {
			nodes: []corev1.Node{gpuNode("a", "8"), gpuNode("b", "8"), gpuNode("c", "8")}, edit: apart,
			own:  others{gpuPod("serving", "a", "1", 0)},
			want: Capacity{Fits: 2, Free: 23, Room: []Room{{"b", 1}, {"c", 1}}, Refusals: []Refusal{{"runs a pod that it shares no node with", 1}}},
		},
		"the same labels in another namespace are others": {
			nodes: []corev1.Node{gpuNode("a", "8")}, edit: apart, others: others{gpuPod("staging", "a", "1", 0)},
			want: Capacity{Fits: 1, Free: 7, Room: []Room{{"a", 1}}},
		},
		"a new replica would evict a training job": {
			nodes: []corev1.Node{gpuNode("a", "2")}, own: others{gpuPod("serving", "a", "1", 1000)}, others: others{gpuPod("train", "a", "1", 0)},
			want: Capacity{Below: 1, Refusals: []Refusal{{"too few free nvidia.com/gpu", 1}}},
		},
		"a quota is nearly used up": {
			nodes: []corev1.Node{gpuNode("a", "8")},
			quotas: []corev1.ResourceQuota{{
				ObjectMeta: metav1.ObjectMeta{Name: "team"},
				Status:     corev1.ResourceQuotaStatus{Hard: list("requests.nvidia.com/gpu", "4", "pods", "500", "limits.cpu", "1"), Used: list("requests.nvidia.com/gpu", "3", "pods", "10")},
			}},
			want: Capacity{Fits: 1, Free: 8, Room: []Room{{"a", 8}}, Quotas: []Exceeded{{"team", "requests.nvidia.com/gpu", "1", 1}}},
		},
		"a quota of some pods only, and spread over zones, are said to be ignored": {
			nodes:  []corev1.Node{gpuNode("a", "1")},
			edit:   func(p *corev1.Pod) { p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{}} },
			quotas: []corev1.ResourceQuota{{ObjectMeta: metav1.ObjectMeta{Name: "best"}, Spec: corev1.ResourceQuotaSpec{Scopes: []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeBestEffort}}, Status: corev1.ResourceQuotaStatus{Hard: list("pods", "0")}}},
			want:   Capacity{Fits: 1, Free: 1, Room: []Room{{"a", 1}}, Ignored: []string{"topology spread constraints", "quota best, which has scopes"}},
		},
		"no node at all": {},
	} {
		t.Run(name, func(t *testing.T) {
			template := gpuPod("serving", "", "1", 0)
			template.Spec.Priority = nil
			if tt.edit != nil {
				tt.edit(template)
			}
			f, err := newForecast(template)
			if err != nil {
				t.Fatal(err)
			}
			for i := range tt.nodes {
				if err := f.node(&tt.nodes[i]); err != nil {
					t.Fatal(err)
				}
			}
			for own, pods := range map[bool]others{true: tt.own, false: tt.others} {
				for _, p := range pods {
					f.add(p, own)
				}
			}
			tt.want.GPUs = 1
			if tt.want.Needs == "" {
				tt.want.Needs = "1 nvidia.com/gpu, 8 cpu"
			}
			if diff := cmp.Diff(tt.want, f.capacity(tt.quotas)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
