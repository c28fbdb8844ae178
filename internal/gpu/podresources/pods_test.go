package podresources

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	kubelet "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/inference-responder/responder/internal/gpu"
	"github.com/inference-responder/responder/internal/gpu/podresources/kubelettest"
)

const (
	first  = "GPU-00000000-0000-0000-0000-000000000000"
	second = "GPU-00000000-0000-0000-0000-000000000001"
	left   = "MIG-11111111-0000-0000-0000-000000000000"
	right  = "MIG-22222222-0000-0000-0000-000000000000"
)

// node is a snapshot of a whole GPU and one that is divided in two.
func node() gpu.Snapshot {
	now := time.Now().UTC()
	return gpu.Snapshot{Format: gpu.Format, Node: "gpu-17", Source: "nvml", PeriodMS: 1000, TakenAt: now, GPUs: []gpu.GPU{
		{UUID: first, TakenAt: now},
		{UUID: second, Index: 1, TakenAt: now, MIG: gpu.MIG{Enabled: gpu.Known(true), Instances: []gpu.MIGInstance{{UUID: left, GI: 1}, {UUID: right, GI: 2}}}},
	}}
}

// socket is a path that is short enough for the kernel.
func socket(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "kubelet-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "kubelet.sock")
}

// await is the first snapshot of which is says that it is the one.
func await(t *testing.T, p *Pods, is func(gpu.Snapshot) bool) gpu.Snapshot {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		s := node()
		began := time.Now()
		p.Into(&s)
		if took := time.Since(began); took > 5*time.Second {
			t.Fatalf("looking took %s: somebody waits for the kubelet", took)
		}
		if _, err := gpu.Encode(s); err != nil {
			t.Fatal(err)
		}
		if is(s) {
			return s
		}
		if time.Now().After(deadline) {
			t.Fatalf("what was waited for did not come; last: %+v", s)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func known(s gpu.Snapshot) bool { return s.GPUs[0].Pods.Why() == "" }

// unknown reports whether the pods of every GPU are unknown for a reason, which
// the snapshot tells with some words.
func unknown(why gpu.Absence, words string) func(gpu.Snapshot) bool {
	return func(s gpu.Snapshot) bool {
		return s.GPUs[0].Pods.Why() == why && s.GPUs[1].Pods.Why() == why && len(s.Errors) == 1 &&
			s.Errors[0].What == gpu.WhatPods && s.Errors[0].Why == why && strings.Contains(s.Errors[0].Detail, words)
	}
}

func start(t *testing.T, socket string) *Pods {
	t.Helper()
	p, err := Start(t.Context(), Options{Socket: socket, Every: 20 * time.Millisecond, Timeout: 300 * time.Millisecond, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPodsOfGPUs(t *testing.T) {
	k := kubelettest.New(t, socket(t))
	k.Say(
		kubelettest.Pod("serving", "whole", "nvidia.com/gpu", first),
		kubelettest.Pod("serving", "shares", "nvidia.com/gpu.shared", first+"::3", first+"::0"), // two shares of one GPU
		kubelettest.Pod("batch", "part", "nvidia.com/mig-1g.10gb", right),
		kubelettest.Pod("batch", "shared-part", "nvidia.com/mig-1g.10gb.shared", right+"::1"),
		kubelettest.Pod("batch", "elsewhere", "nvidia.com/gpu", "GPU-no-longer-listed"),
		kubelettest.Pod("batch", "network", "rdma/hca", "mlx5_0"),
		kubelettest.Pod("batch", "passthrough", "nvidia.com/GH100_H100", "0000:3a:00.0"), // a virtual machine's, which the driver here does not see
		&kubelet.PodResources{Namespace: "kube-system", Name: "none"},
		&kubelet.PodResources{Namespace: "serving", Name: "two", Containers: []*kubelet.ContainerResources{
			{Name: "proxy"}, {Name: "engine", Devices: []*kubelet.ContainerDevices{{ResourceName: "nvidia.com/gpu", DeviceIds: []string{first}}}},
		}},
	)
	s := await(t, start(t, k.Socket), known)
	for i, want := range [][]gpu.Pod{
		{
			{Namespace: "serving", Name: "shares", Container: "main"},
			{Namespace: "serving", Name: "two", Container: "engine"},
			{Namespace: "serving", Name: "whole", Container: "main"},
		},
		{{Namespace: "batch", Name: "part", Container: "main", Instance: right}, {Namespace: "batch", Name: "shared-part", Container: "main", Instance: right}},
	} {
		if got, _ := s.GPUs[i].Pods.Get(); !cmp.Equal(want, got) {
			t.Errorf("GPU %d (-want +got)\n%s", i, cmp.Diff(want, got))
		}
	}
	for pod, want := range map[string]string{"whole": first, "part": second, "network": ""} {
		namespace := map[bool]string{true: "serving", false: "batch"}[pod == "whole"]
		held, ok := s.Held(namespace, map[string]bool{pod: true})
		if !ok || len(held) != min(1, len(want)) || want != "" && !held[want] {
			t.Errorf("%s holds %v (known: %v), want %q", pod, held, ok, want)
		}
	}
}

// A kubelet that is not there, hangs, goes away or fails leaves the pods
// unknown, and nobody waits for it; when it is back, they are known.
func TestKubeletFails(t *testing.T) {
	path := socket(t)
	p := start(t, path)
	await(t, p, unknown(gpu.Failed, "no such file"))
	k := kubelettest.New(t, path)
	await(t, p, known)
	k.Freeze()
	await(t, p, unknown(gpu.Timeout, "did not answer within 300ms"))
	k.Thaw()
	await(t, p, known)
	k.Fail(errors.New("checkpoint\x1b[31m is corrupt"))
	await(t, p, unknown(gpu.Failed, "checkpoint?[31m is corrupt"))
	k.Say()
	await(t, p, known)
	k.Stop()
	await(t, p, unknown(gpu.Failed, "connect"))
	k.Start(t)
	await(t, p, known)

	if p, err := Start(t.Context(), Options{Socket: "kubelet.sock", Log: slog.New(slog.DiscardHandler)}); err == nil || !strings.Contains(err.Error(), "absolute path") {
		t.Errorf("a relative path: %v, %v", p, err)
	}
}

// A socket of another program, or one of another user, is said to be what it is.
func TestNoKubelet(t *testing.T) {
	path := socket(t)
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	await(t, start(t, path), unknown(gpu.Failed, "connection refused"))
	for err, want := range map[string]gpu.Absence{"dial unix: connect: permission denied": gpu.Denied, "other": gpu.Failed} {
		if got := absence(errors.New(err)); got != want {
			t.Errorf("%s: %q, want %q", err, got, want)
		}
	}
	if got := (&Pods{o: Options{Socket: "/s"}}).detail(errors.New("permission denied")); !strings.Contains(got, "has to run as user 0") {
		t.Errorf("%q", got)
	}
}

// An answer that is too old is none.
func TestOldAnswer(t *testing.T) {
	p := &Pods{o: Options{Every: time.Second, Timeout: time.Second}, last: answer{at: time.Now().Add(-3 * time.Second), held: holdings{}}}
	s := node()
	if p.Into(&s); !known(s) {
		t.Errorf("3 s old: %+v", s)
	}
	p.last.at = time.Now().Add(-6 * time.Second)
	if p.Into(&s); !unknown(gpu.Stale, "6s old")(s) {
		t.Errorf("6 s old: %+v", s)
	}
}

// Nobody can say which GPU it is that a pod holds: then it may be any.
func TestWhichGPUIsNotKnown(t *testing.T) {
	claim := kubelettest.Pod("serving", "claims", "nvidia.com/gpu")
	claim.Containers[0].DynamicResources = []*kubelet.DynamicResource{{ClaimName: "c", ClaimResources: []*kubelet.ClaimResource{{DriverName: "gpu.nvidia.com", DeviceName: "gpu-3"}}}}
	other := kubelettest.Pod("serving", "claims", "nvidia.com/gpu")
	other.Containers[0].DynamicResources = []*kubelet.DynamicResource{{ClaimName: "c", ClaimResources: []*kubelet.ClaimResource{{DriverName: "net.example", DeviceName: "nic-3"}}}}
	crowd := []*kubelet.PodResources{}
	for i := range gpu.MaxPods + 1 {
		crowd = append(crowd, kubelettest.Pod("serving", fmt.Sprint("p", i), "nvidia.com/gpu", first))
	}
	for name, c := range map[string]struct {
		pods  []*kubelet.PodResources
		words string // empty: it is known
	}{
		"another plugin's name": {[]*kubelet.PodResources{kubelettest.Pod("serving", "gke", "nvidia.com/gpu", "nvidia0")}, `serving/gke holds nvidia.com/gpu "nvidia0"`},
		"a claim":               {[]*kubelet.PodResources{claim}, "gpu-3 of driver gpu.nvidia.com"},
		"a claim of no GPU":     {[]*kubelet.PodResources{other}, ""},
		"a part of no GPU here": {[]*kubelet.PodResources{kubelettest.Pod("serving", "x", "nvidia.com/mig-1g.10gb", "MIG-gone")}, "MIG-gone, which no GPU of the node has"},
		"too many":              {crowd, "more pods"},
		"no name":               {[]*kubelet.PodResources{kubelettest.Pod("serving", "", "nvidia.com/gpu", first)}, "invalid name"},
		"a name of control characters": {
			[]*kubelet.PodResources{kubelettest.Pod("serving", "\x1b[2J", "nvidia.com/gpu", first)}, "invalid name",
		},
		"a very long name": {[]*kubelet.PodResources{kubelettest.Pod("serving", strings.Repeat("x", 300), "nvidia.com/gpu", first)}, "invalid name"},
		"nothing":          {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			k := kubelettest.New(t, socket(t))
			k.Say(c.pods...)
			p := start(t, k.Socket)
			if c.words == "" {
				await(t, p, known)
			} else {
				await(t, p, unknown(gpu.Implausible, c.words))
			}
		})
	}
}
