//go:build e2e

package rig

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sort"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// Profile is how one pod's engine behaves.
type Profile struct {
	Capacity   float64 // requests per second it can serve; 0: the fleet's
	TTFT       float64 // seconds to the first token when it has no queue
	TPOT       float64 // seconds per output token when it is not overloaded
	KVCache    float64 // share of the KV cache in use at full capacity; 1 and above: it preempts
	ErrorRatio float64 // share of requests that end in an error
	Hung       bool    // accepts requests, answers /health, finishes nothing
}

// Healthy is an engine well inside both SLOs, up to its capacity.
var Healthy = Profile{TTFT: 0.2, TPOT: 0.03, KVCache: 0.6}

// KVCacheFits is how many sequences the KV cache of a simulated engine holds.
const KVCacheFits = 64

// DefaultProfile is healthy, and slow to the first token for a pod whose image
// or one of whose arguments ends in "-bad", or whose --max-num-seqs lets in more
// sequences than [KVCacheFits]: such an engine preempts.
func DefaultProfile(pod *corev1.Pod) Profile {
	p := Healthy
	if seqs, err := strconv.Atoi(flagValue(pod, "--max-num-seqs", "")); err == nil && seqs > KVCacheFits {
		p.TTFT, p.KVCache = 3, 2
	}
	for _, c := range pod.Spec.Containers {
		for _, text := range append([]string{c.Image}, append(c.Command, c.Args...)...) {
			if strings.HasSuffix(text, "-bad") {
				p.TTFT = 3
			}
		}
	}
	return p
}

// Fleet simulates the engines of one Deployment. It watches the Deployment's
// real pods; the ready ones share the offered traffic evenly and the others get
// none. A pod that is offered more than its capacity grows a queue, so that its
// first tokens come late, and its tokens come slower.
//
// It serves, as vLLM does under the same names and buckets:
//
//	/metrics               all ready pods, with namespace, service and pod labels
//	/pods/NAME/metrics     one pod, with the engine's own labels only
//	/pods/NAME/health      200 while the pod runs, hung or not
//
// Time passes when somebody looks or when a pod changes.
type Fleet struct {
	Addr string // host:port, for [PrometheusOptions]
	URL  string

	namespace, deployment string

	mu       sync.Mutex // guards what follows
	warm     string     // another Deployment behind the same route; empty: none
	share    float64    // of the traffic that it gets
	traffic  float64
	capacity float64
	profile  func(*corev1.Pod) Profile
	pods     map[string]*enginePod
	last     time.Time
}

type enginePod struct {
	pod    *corev1.Pod
	engine *engine
}

// StartFleet starts the engines of a Deployment, which may come later. Traffic
// is 200 requests a second at first, and a pod's capacity 250: enough for a proof
// within seconds.
func StartFleet(t testing.TB, cp *ControlPlane, namespace, deployment string) *Fleet {
	t.Helper()
	f := &Fleet{
		namespace: namespace, deployment: deployment,
		traffic: 200, capacity: 250, profile: DefaultProfile,
		pods: map[string]*enginePod{}, last: time.Now(),
	}
	factory := informers.NewSharedInformerFactoryWithOptions(cp.Client, 0, informers.WithNamespace(namespace))
	informer := factory.Core().V1().Pods().Informer()
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { f.observe(o) },
		UpdateFunc: func(_, o any) { f.observe(o) },
		DeleteFunc: func(o any) { f.forget(o) },
	}); err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	factory.Start(stop)
	t.Cleanup(func() { close(stop); factory.Shutdown() })
	factory.WaitForCacheSync(stop)

	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	f.URL, f.Addr = server.URL, strings.TrimPrefix(server.URL, "http://")
	return f
}

// SetTraffic sets the requests per second offered to the service.
func (f *Fleet) SetTraffic(requestsPerSecond float64) {
	f.change(func() { f.traffic = requestsPerSecond })
}

// SetWarm lets another Deployment get a share of the traffic. Its pods have the series
// of the same service.
func (f *Fleet) SetWarm(deployment string, share float64) {
	f.change(func() { f.warm, f.share = deployment, share })
}

// SetCapacity sets the requests per second one pod can serve.
func (f *Fleet) SetCapacity(requestsPerSecond float64) {
	f.change(func() { f.capacity = requestsPerSecond })
}

// SetProfile sets how pods behave; [DefaultProfile] is there to build on. It is
// asked again whenever a pod changes.
func (f *Fleet) SetProfile(profile func(*corev1.Pod) Profile) {
	f.change(func() {
		f.profile = profile
		for _, p := range f.pods {
			p.engine.profile = profile(p.pod)
		}
	})
}

// Ready returns the names of the pods that take traffic.
func (f *Fleet) Ready() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var names []string
	for name, p := range f.pods {
		if takesTraffic(p.pod) {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	return names
}

// change lets the time up to now pass under the old conditions, then changes them.
func (f *Fleet) change(apply func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.advance(time.Now())
	apply()
}

func (f *Fleet) observe(object any) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return
	}
	f.change(func() {
		if !ownedBy(pod, f.deployment) && !ownedBy(pod, f.warm) {
			return
		}
		p := f.pods[pod.Name]
		if p == nil {
			p = &enginePod{engine: newEngine()}
			f.pods[pod.Name] = p
		}
		p.pod, p.engine.profile = pod, f.profile(pod)
	})
}

func (f *Fleet) forget(object any) {
	if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = gone.Obj
	}
	if pod, ok := object.(*corev1.Pod); ok {
		f.change(func() { delete(f.pods, pod.Name) })
	}
}

// ownedBy reports whether a pod is of a Deployment's ReplicaSet, whose name is
// the Deployment's and the hash of the pod template.
func ownedBy(pod *corev1.Pod, deployment string) bool {
	owner := metav1.GetControllerOf(pod)
	return owner != nil && owner.Kind == "ReplicaSet" && owner.Name == deployment+"-"+pod.Labels["pod-template-hash"]
}

func takesTraffic(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodRunning {
		return false
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// advance lets time pass up to now, a tenth of a second at a time. The caller
// holds mu.
func (f *Fleet) advance(now time.Time) {
	var engines, warm []*engine
	for _, p := range f.pods {
		switch {
		case !takesTraffic(p.pod):
		case ownedBy(p.pod, f.warm):
			warm = append(warm, p.engine)
		default:
			engines = append(engines, p.engine)
		}
	}
	const slice = 0.1
	for left := now.Sub(f.last).Seconds(); left > 0; left -= slice {
		dt := min(left, slice)
		for _, e := range engines {
			e.advance(dt, f.traffic*(1-f.share)/float64(len(engines)), f.capacity)
		}
		for _, e := range warm {
			e.advance(dt, f.traffic*f.share/float64(len(warm)), f.capacity)
		}
	}
	f.last = now
}

func (f *Fleet) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.advance(time.Now())

	if req.URL.Path == "/metrics" {
		f.exposeAll(w)
		return
	}
	name, page, _ := strings.Cut(strings.TrimPrefix(req.URL.Path, "/pods/"), "/")
	p := f.pods[name]
	switch {
	case p == nil || p.pod.Status.Phase != corev1.PodRunning:
		http.NotFound(w, req)
	case page == "metrics":
		writeExposition(w, []labelled{{f.engineLabels(), p.engine, p.pod}})
	case page == "health":
		w.WriteHeader(http.StatusOK)
	default:
		http.NotFound(w, req)
	}
}

func (f *Fleet) engineLabels() string {
	return fmt.Sprintf(`engine="0",model_name=%q`, f.deployment)
}

func (f *Fleet) exposeAll(w http.ResponseWriter) {
	var all []labelled
	for name, p := range f.pods {
		if takesTraffic(p.pod) {
			labels := fmt.Sprintf(`%s,namespace=%q,service=%q,pod=%q`, f.engineLabels(), f.namespace, f.deployment, name)
			all = append(all, labelled{labels, p.engine, p.pod})
		}
	}
	writeExposition(w, all)
}
