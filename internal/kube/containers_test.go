package kube

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// TestPodContainers: where an engine listens, how the kubelet asks it, and since when
// it runs. Pods that only work for a leader are marked, since they answer nobody.
func TestPodContainers(t *testing.T) {
	began := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	get := func(path string, port intstr.IntOrString) *corev1.Probe {
		return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: port}}}
	}
	pod := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "chat-0"},
		Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{{Name: "fetch"}},
			Containers: []corev1.Container{
				{
					Name:           "vllm",
					Ports:          []corev1.ContainerPort{{Name: "quic", ContainerPort: 1, Protocol: corev1.ProtocolUDP}, {Name: "metrics", ContainerPort: 9090}, {Name: "http", ContainerPort: 8000}},
					ReadinessProbe: get("/health", intstr.FromString("http")), StartupProbe: get("/v1/models", intstr.FromInt32(8000)),
				},
				{
					Name:           "agent",
					Ports:          []corev1.ContainerPort{{ContainerPort: 7070}, {ContainerPort: 7071}},
					ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromString("none")}}},
					StartupProbe:   &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}}},
				},
				{Name: "bare", ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: 50051}}}},
			},
		},
		Status: corev1.PodStatus{
			PodIP: "10.0.0.7",
			ContainerStatuses: []corev1.ContainerStatus{
				{Name: "vllm", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(began)}}},
				{Name: "agent", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}},
			},
		},
	}
	want := []PodContainer{
		{Name: "vllm", Port: 8000, Since: began, Readiness: HealthProbe{Kind: "http", Path: "/health", Port: 8000}, Startup: HealthProbe{Kind: "http", Path: "/v1/models", Port: 8000}},
		{Name: "agent", Port: 7070, Readiness: HealthProbe{Kind: "tcp"}, Startup: HealthProbe{Kind: "exec"}},
		{Name: "bare", Readiness: HealthProbe{Kind: "grpc", Port: 50051}},
	}
	if got := describePod(pod, nil); got.IP != "10.0.0.7" || got.Worker || cmp.Diff(want, got.Containers) != "" {
		t.Errorf("%s %v %s", got.IP, got.Worker, cmp.Diff(want, got.Containers))
	}
	for _, tt := range []struct {
		labels map[string]string
		want   bool
	}{
		{map[string]string{"leaderworkerset.sigs.k8s.io/worker-index": "0"}, false},
		{map[string]string{"leaderworkerset.sigs.k8s.io/worker-index": "2"}, true},
		{map[string]string{"ray.io/node-type": "worker"}, true},
		{map[string]string{"ray.io/node-type": "head"}, false},
		{map[string]string{kserveService: "chat", kserveApp: "isvc.chat-predictor-worker"}, true},
		{map[string]string{kserveApp: "our-worker"}, false},
	} {
		pod.Labels = tt.labels
		if got := describePod(pod, nil).Worker; got != tt.want {
			t.Errorf("%v: a worker: %v", tt.labels, got)
		}
	}
}

// TestReadySince: a pod is ready since its condition turned, and not while it leaves.
func TestReadySince(t *testing.T) {
	turned := metav1.NewTime(time.Date(2026, 5, 4, 12, 3, 0, 0, time.UTC))
	pod := corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: turned}}}}
	if got := describePod(pod, nil); !got.Ready || !got.ReadySince.Equal(turned.Time) || got.Loading != 0 {
		t.Errorf("%+v", got)
	}
	pod.DeletionTimestamp = &turned
	if got := describePod(pod, nil); got.Ready || !got.ReadySince.IsZero() {
		t.Errorf("it leaves: %+v", got)
	}
}
