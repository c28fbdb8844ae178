package kube

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	requests "k8s.io/component-helpers/resource"
	scheduling "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/inference-responder/responder/internal/fault"
)

// forecast gathers what the nodes have left for one more pod.
type forecast struct {
	pod      *corev1.Pod
	needs    corev1.ResourceList
	apart    []labels.Selector // pods that it shares no node with
	ignored  []string
	priority int32 // of the workload's pods
	waiting  int
	places   map[string]*place
}

// place is a node that the pod's own rules allow, or why they do not.
type place struct {
	why   string // empty: they allow it
	left  corev1.ResourceList
	taken bool          // by a pod that the pod shares no node with
	gpus  map[int32]int // pods of others with GPUs, by priority
}

func newForecast(pod *corev1.Pod) (*forecast, error) {
	f := &forecast{pod: pod, needs: requestsOf(pod), places: map[string]*place{}}
	if p := pod.Spec.Priority; p != nil {
		f.priority = *p
	}
	f.needs[corev1.ResourcePods] = *resource.NewQuantity(1, resource.DecimalSI)
	if err := f.affinity(); err != nil {
		return nil, err
	}
	return f, nil
}

// node adds a node that the pod may go to, or why it may not.
func (f *forecast) node(n *corev1.Node) error {
	at := &place{left: n.Status.Allocatable.DeepCopy(), gpus: map[int32]int{}}
	f.places[n.Name] = at
	ok, err := nodeaffinity.GetRequiredNodeAffinity(f.pod).Match(n)
	if err != nil {
		return &fault.Error{Reason: fault.Invalid, Message: "node affinity of " + f.pod.Namespace + "/" + f.pod.Name, Err: cause{err}}
	}
	if !ok {
		at.why = "not selected by its node selector or affinity"
		return nil
	}
	refuses := func(t *corev1.Taint) bool { return t.Effect != corev1.TaintEffectPreferNoSchedule }
	if taint, found := scheduling.FindMatchingUntoleratedTaint(n.Spec.Taints, f.pod.Spec.Tolerations, refuses); found {
		at.why = "taint " + taint.ToString() + " is not tolerated"
		if taint.Key == corev1.TaintNodeUnschedulable {
			at.why = "cordoned"
		}
	}
	return nil
}

// affinity reads the rules about other pods. Only "no two on one node" is computed.
func (f *forecast) affinity() error {
	if len(f.pod.Spec.TopologySpreadConstraints) > 0 {
		f.ignored = append(f.ignored, "topology spread constraints")
	}
	a := f.pod.Spec.Affinity
	if a == nil {
		return nil
	}
	if a.PodAffinity != nil && len(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0 {
		f.ignored = append(f.ignored, "pod affinity")
	}
	if a.PodAntiAffinity == nil {
		return nil
	}
	for _, term := range a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
		if term.TopologyKey != corev1.LabelHostname || len(term.Namespaces) > 0 || term.NamespaceSelector != nil {
			f.ignored = append(f.ignored, "pod anti-affinity by "+term.TopologyKey)
			continue
		}
		s, err := metav1.LabelSelectorAsSelector(term.LabelSelector)
		if err != nil {
			return &fault.Error{Reason: fault.Invalid, Message: "pod anti-affinity of " + f.pod.Namespace + "/" + f.pod.Name, Err: cause{err}}
		}
		f.apart = append(f.apart, s)
	}
	return nil
}

// add takes what a pod requests from its node. own is set for the workload's pods.
func (f *forecast) add(p *corev1.Pod, own bool) {
	priority := int32(0)
	if p.Spec.Priority != nil {
		priority = *p.Spec.Priority
	}
	if own {
		f.priority = max(f.priority, priority)
	}
	at := f.places[p.Spec.NodeName]
	if at == nil {
		if own && p.Spec.NodeName == "" && p.DeletionTimestamp == nil {
			f.waiting++
		}
		return
	}
	gpus := 0
	for name, q := range requestsOf(p) {
		left := at.left[name]
		left.Sub(q)
		at.left[name] = left
		if isGPU(name) {
			gpus += int(q.Value())
		}
	}
	count := at.left[corev1.ResourcePods]
	count.Sub(*resource.NewQuantity(1, resource.DecimalSI))
	at.left[corev1.ResourcePods] = count
	if gpus > 0 && !own {
		at.gpus[priority]++
	}
	at.taken = at.taken || p.Namespace == f.pod.Namespace && slices.ContainsFunc(f.apart, func(s labels.Selector) bool { return s.Matches(labels.Set(p.Labels)) })
}

// capacity adds up what is left.
func (f *forecast) capacity(quotas []corev1.ResourceQuota) Capacity {
	out := Capacity{Needs: describeNeeds(f.needs), Waiting: f.waiting}
	preempts := f.pod.Spec.PreemptionPolicy == nil || *f.pod.Spec.PreemptionPolicy != corev1.PreemptNever
	refused := map[string]int{}
	for name, at := range f.places {
		if at.why != "" {
			refused[at.why]++
			continue
		}
		for r, q := range at.left {
			if isGPU(r) {
				out.Free += max(0, int(q.Value()))
			}
		}
		fits, why := f.fit(at)
		if fits > 0 {
			out.Fits += fits
			out.Room = append(out.Room, Room{Node: name, Fits: fits})
			continue
		}
		refused[why]++
		for priority, n := range at.gpus {
			if preempts && priority < f.priority {
				out.Below += n
			}
		}
	}
	for name, q := range f.needs {
		if isGPU(name) {
			out.GPUs += int(q.Value())
		}
	}
	for why, n := range refused {
		out.Refusals = append(out.Refusals, Refusal{Why: why, Nodes: n})
	}
	slices.SortFunc(out.Refusals, func(a, b Refusal) int { return cmp.Or(b.Nodes-a.Nodes, strings.Compare(a.Why, b.Why)) })
	slices.SortFunc(out.Room, func(a, b Room) int { return cmp.Or(b.Fits-a.Fits, strings.Compare(a.Node, b.Node)) })
	out.Fits = min(max(0, out.Fits-f.waiting), MaxFits)
	out.Quotas = f.exceeded(quotas)
	for _, q := range out.Quotas {
		out.Fits = min(out.Fits, q.Fits)
	}
	out.Ignored = f.ignored
	return out
}

// fit returns how many more pods a node takes, and why none.
func (f *forecast) fit(at *place) (int, string) {
	fits, short := MaxFits, []corev1.ResourceName(nil)
	for name, need := range f.needs {
		left := at.left[name]
		n := times(left, need)
		if fits = min(fits, n); n == 0 {
			short = append(short, name)
		}
	}
	switch {
	case len(short) > 0:
		// Without GPUs of the sort the rest does not matter.
		return 0, "too few free " + string(slices.MinFunc(short, gpusFirst))
	case len(f.apart) > 0 && at.taken:
		return 0, "runs a pod that it shares no node with"
	case f.excludesItself():
		return min(fits, 1), ""
	}
	return fits, ""
}

// excludesItself reports whether two of the pods share no node.
func (f *forecast) excludesItself() bool {
	return slices.ContainsFunc(f.apart, func(s labels.Selector) bool { return s.Matches(labels.Set(f.pod.Labels)) })
}

// exceeded returns the quotas that bound further pods. A quota with scopes may not
// apply to them and is left out.
func (f *forecast) exceeded(quotas []corev1.ResourceQuota) []Exceeded {
	var out []Exceeded
	for i := range quotas {
		q := &quotas[i]
		if len(q.Spec.Scopes) > 0 || q.Spec.ScopeSelector != nil {
			f.ignored = append(f.ignored, "quota "+q.Name+", which has scopes")
			continue
		}
		for name, hard := range q.Status.Hard {
			need, ok := f.needs[corev1.ResourceName(strings.TrimPrefix(string(name), "requests."))]
			if !ok || need.IsZero() {
				continue
			}
			left := hard.DeepCopy()
			left.Sub(q.Status.Used[name])
			if n := times(left, need); n < MaxFits {
				out = append(out, Exceeded{Quota: q.Name, Resource: string(name), Left: left.String(), Fits: n})
			}
		}
	}
	slices.SortFunc(out, func(a, b Exceeded) int {
		return cmp.Or(a.Fits-b.Fits, strings.Compare(a.Quota, b.Quota), strings.Compare(a.Resource, b.Resource))
	})
	return out
}

// times returns how often need goes into left, at most MaxFits.
func times(left, need resource.Quantity) int {
	if need.Sign() <= 0 {
		return MaxFits
	}
	if left.Sign() <= 0 {
		return 0
	}
	return int(min(left.AsApproximateFloat64()/need.AsApproximateFloat64()+1e-9, MaxFits))
}

// requestsOf returns what the scheduler counts for a pod. A limit without a request
// is one: the API server writes that into pods, not into templates.
func requestsOf(p *corev1.Pod) corev1.ResourceList {
	p = &corev1.Pod{ObjectMeta: p.ObjectMeta, Spec: *p.Spec.DeepCopy(), Status: p.Status}
	for _, containers := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range containers {
			r := &containers[i].Resources
			for name, limit := range r.Limits {
				if _, ok := r.Requests[name]; !ok {
					if r.Requests == nil {
						r.Requests = corev1.ResourceList{}
					}
					r.Requests[name] = limit
				}
			}
		}
	}
	out := requests.PodRequests(p, requests.PodResourcesOptions{UseStatusResources: true})
	if out == nil {
		out = corev1.ResourceList{}
	}
	return out
}

// describeNeeds returns requests in words, GPUs first.
func describeNeeds(needs corev1.ResourceList) string {
	var parts []string
	for _, name := range slices.SortedFunc(maps.Keys(needs), gpusFirst) {
		if q := needs[name]; name != corev1.ResourcePods && !q.IsZero() {
			parts = append(parts, fmt.Sprintf("%s %s", q.String(), name))
		}
	}
	return strings.Join(parts, ", ")
}

// gpusFirst orders resources by name, GPUs before the others.
func gpusFirst(a, b corev1.ResourceName) int {
	if isGPU(a) != isGPU(b) {
		if isGPU(a) {
			return -1
		}
		return 1
	}
	return strings.Compare(string(a), string(b))
}
