package kube_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	goruntime "runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/kube/kubetest"
)

// What is measured is a cluster of Kubernetes' own limit of nodes, with objects of the
// size that kubelets write.
const (
	largeNodes = 5_000
	largePods  = 20_000
	largeMiB   = 250
)

// BenchmarkLargeCluster reads what the service reads of a whole cluster. MiB is the most
// memory that this takes, ratio is that to the limit.
func BenchmarkLargeCluster(b *testing.B) {
	srv := newLargeCluster(b)
	c, err := kube.NewForConfig(&rest.Config{Host: srv.URL}, kube.Options{})
	if err != nil {
		b.Fatal(err)
	}
	for name, read := range map[string]func() error{
		"gpu-nodes": func() error {
			nodes, err := c.GPUNodes(b.Context())
			if err == nil && len(nodes) != largeNodes/5 {
				err = fmt.Errorf("%d nodes with GPUs", len(nodes))
			}
			return err
		},
		"capacity": func() error {
			room, err := c.Capacity(b.Context(), kube.Ref{Kind: "Deployment", Namespace: "serving", Name: "chat"})
			if err == nil && room.Fits == 0 {
				err = fmt.Errorf("no room: %+v", room)
			}
			return err
		},
	} {
		b.Run(name, func(b *testing.B) {
			if err := read(); err != nil { // encodes the answers
				b.Fatal(err)
			}
			srv.asked = 0
			most := peak(func() {
				for b.Loop() {
					if err := read(); err != nil {
						b.Fatal(err)
					}
				}
			})
			b.ReportMetric(most, "MiB")
			b.ReportMetric(most/largeMiB, "ratio")
			b.ReportMetric(float64(srv.asked)/float64(b.N), "requests/op")
		})
	}
}

// peak returns the most memory that do takes on top of what there was, in MiB.
func peak(do func()) float64 {
	defer debug.SetGCPercent(debug.SetGCPercent(5)) // or the objects of the server would let it grow
	goruntime.GC()
	debug.FreeOSMemory()
	inUse := func() uint64 {
		var m goruntime.MemStats
		goruntime.ReadMemStats(&m)
		return m.HeapInuse + m.StackInuse
	}
	before, most := inUse(), make(chan uint64)
	end := make(chan struct{})
	go func() {
		var n uint64
		for {
			select {
			case <-end:
				most <- n
				return
			case <-time.After(5 * time.Millisecond):
				n = max(n, inUse())
			}
		}
	}()
	do()
	close(end)
	return max(0, float64(<-most)-float64(before)) / (1 << 20)
}

// largeCluster answers lists of nodes and pods in pages, in JSON or protobuf, and all else
// as kubetest does.
type largeCluster struct {
	*httptest.Server
	rest  http.Handler
	nodes []corev1.Node
	pods  []corev1.Pod
	asked int
	pages map[string][]byte // encoded, by what was asked
}

func newLargeCluster(b *testing.B) *largeCluster {
	api := kubetest.New(b)
	api.Workload(b, kube.Ref{Kind: "Deployment", Namespace: "serving", Name: "chat"}, 4, kubetest.Template("chat", "vllm:v1"))
	l := &largeCluster{rest: api, pages: map[string][]byte{}}
	for i := range largeNodes {
		l.nodes = append(l.nodes, largeNode(i))
	}
	for i := range largePods {
		l.pods = append(l.pods, largePod(i))
	}
	l.Server = httptest.NewServer(l)
	b.Cleanup(l.Close)
	return l
}

// ServeHTTP implements [http.Handler].
func (l *largeCluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.asked++
	all := map[string]int{"/api/v1/nodes": len(l.nodes), "/api/v1/pods": len(l.pods)}[r.URL.Path]
	if strings.HasSuffix(r.URL.Path, "/resourcequotas") {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"ResourceQuotaList","apiVersion":"v1","items":[]}`))
		return
	}
	if all == 0 {
		l.rest.ServeHTTP(w, r)
		return
	}
	mime, _, _ := strings.Cut(r.Header.Get("Accept"), ",")
	q := r.URL.Query()
	from, _ := strconv.Atoi(q.Get("continue"))
	limit, _ := strconv.Atoi(q.Get("limit"))
	if limit == 0 || q.Get("resourceVersion") == "0" { // the watch cache gives all
		limit = all
	}
	key := fmt.Sprint(r.URL.Path, mime, from, limit)
	if l.pages[key] == nil {
		l.pages[key] = l.page(r.URL.Path, mime, from, min(from+limit, all), all)
	}
	w.Header().Set("Content-Type", mime)
	_, _ = w.Write(l.pages[key])
}

func (l *largeCluster) page(path, mime string, from, to, all int) []byte {
	meta := metav1.ListMeta{ResourceVersion: "7"}
	if to < all {
		meta.Continue = strconv.Itoa(to)
	}
	var list runtime.Object = &corev1.NodeList{ListMeta: meta, Items: l.nodes[min(from, len(l.nodes)):min(to, len(l.nodes))]}
	if strings.HasSuffix(path, "/pods") {
		list = &corev1.PodList{ListMeta: meta, Items: l.pods[from:to]}
	}
	info, ok := runtime.SerializerInfoForMediaType(kube.Codecs.SupportedMediaTypes(), mime)
	if !ok {
		panic("no serializer for " + mime)
	}
	out, err := runtime.Encode(kube.Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion), list)
	if err != nil {
		panic(err)
	}
	return out
}

// largeNode is a node as a kubelet and a device plugin write it: 50 images, conditions,
// labels of its hardware. Every fifth has eight GPUs.
func largeNode(i int) corev1.Node {
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%05d", i), UID: types.UID(fmt.Sprintf("uid-%05d", i)), Labels: map[string]string{}, Annotations: map[string]string{}}}
	for j := range 40 {
		n.Labels[fmt.Sprintf("feature.node.kubernetes.io/cpu-cpuid.FEATURE%02d", j)] = "true"
	}
	n.Status.Allocatable = corev1.ResourceList{"cpu": resource.MustParse("64"), "memory": resource.MustParse("512Gi"), "pods": resource.MustParse("110")}
	if i%5 == 0 {
		n.Status.Allocatable["nvidia.com/gpu"] = resource.MustParse("8")
	}
	n.Status.Capacity = n.Status.Allocatable
	for _, c := range []corev1.NodeConditionType{corev1.NodeReady, corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure, corev1.NodeNetworkUnavailable} {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: c, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientMemory", Message: "kubelet has sufficient memory available", LastHeartbeatTime: metav1.NewTime(kubetest.Epoch())})
	}
	for j := range 50 {
		name := fmt.Sprintf("registry.example/team/image-%02d", j)
		n.Status.Images = append(n.Status.Images, corev1.ContainerImage{Names: []string{name + "@sha256:" + strings.Repeat("a", 64), name + ":v1"}, SizeBytes: 1 << 30})
	}
	return n
}

// largePod is a pod with two containers and ten environment variables each. One of ten
// takes a GPU.
func largePod(i int) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprintf("team-%02d", i%40), Name: fmt.Sprintf("pod-%05d", i), UID: types.UID(fmt.Sprintf("uid-%05d", i)), Labels: map[string]string{"app": "web", "pod-template-hash": "5d4f8c7b9"}}}
	p.Spec.NodeName = fmt.Sprintf("node-%05d", i%largeNodes)
	p.Status.Phase = corev1.PodRunning
	for _, name := range []string{"main", "proxy"} {
		c := corev1.Container{Name: name, Image: "registry.example/team/" + name + ":v1", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("500m"), "memory": resource.MustParse("1Gi")}}}
		if i%10 == 0 && name == "main" {
			c.Resources.Limits = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}
		}
		for j := range 10 {
			c.Env = append(c.Env, corev1.EnvVar{Name: fmt.Sprintf("SETTING_%02d", j), Value: strings.Repeat("x", 40)})
		}
		p.Spec.Containers = append(p.Spec.Containers, c)
		p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: name, Ready: true, Image: c.Image, ImageID: "registry.example/team/" + name + "@sha256:" + strings.Repeat("b", 64), ContainerID: "containerd://" + strings.Repeat("c", 64)})
	}
	return p
}
