// Package kubelettest is the kubelet's pod-resources API as tests need it: a
// real gRPC server on a Unix socket that speaks the real messages. It is for
// tests only.
package kubelettest

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"

	"google.golang.org/grpc"
	kubelet "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// Kubelet answers what a test says. Its methods may be called while it serves.
type Kubelet struct {
	kubelet.UnimplementedPodResourcesListerServer

	Socket string

	mu     sync.Mutex // guards what follows
	server *grpc.Server
	pods   []*kubelet.PodResources
	err    error
	frozen chan struct{} // not nil: answers wait until it is closed
	asked  int
}

// New makes a kubelet that serves at a path, until the test ends. The path is
// short: the kernel takes 107 bytes.
func New(t testing.TB, socket string) *Kubelet {
	t.Helper()
	k := &Kubelet{Socket: socket}
	k.Start(t)
	t.Cleanup(func() {
		k.Thaw()
		k.Stop()
	})
	return k
}

// Start makes the socket and serves there, as a kubelet does when it starts.
func (k *Kubelet) Start(t testing.TB) {
	t.Helper()
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", k.Socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	kubelet.RegisterPodResourcesListerServer(server, k)
	k.mu.Lock()
	k.server = server
	k.mu.Unlock()
	go func() {
		if err := server.Serve(ln); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Errorf("kubelet: %v", err)
		}
	}()
}

// Stop ends serving and removes the socket.
func (k *Kubelet) Stop() {
	k.mu.Lock()
	server := k.server
	k.mu.Unlock()
	server.Stop()
}

// Say replaces the pods that hold devices.
func (k *Kubelet) Say(pods ...*kubelet.PodResources) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pods, k.err = pods, nil
}

// Fail makes every answer an error.
func (k *Kubelet) Fail(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.err = err
}

// Freeze makes answers wait until Thaw.
func (k *Kubelet) Freeze() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.frozen = make(chan struct{})
}

// Thaw lets them go.
func (k *Kubelet) Thaw() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.frozen != nil {
		close(k.frozen)
		k.frozen = nil
	}
}

// Asked counts questions.
func (k *Kubelet) Asked() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.asked
}

// List implements the API.
func (k *Kubelet) List(ctx context.Context, _ *kubelet.ListPodResourcesRequest) (*kubelet.ListPodResourcesResponse, error) {
	k.mu.Lock()
	k.asked++
	frozen := k.frozen
	k.mu.Unlock()
	if frozen != nil {
		select {
		case <-frozen:
		case <-ctx.Done():
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return &kubelet.ListPodResourcesResponse{PodResources: k.pods}, k.err
}

// Pod is a pod with one container, main, that holds devices of a resource.
func Pod(namespace, name, resource string, ids ...string) *kubelet.PodResources {
	return &kubelet.PodResources{Namespace: namespace, Name: name, Containers: []*kubelet.ContainerResources{
		{Name: "main", Devices: []*kubelet.ContainerDevices{{ResourceName: resource, DeviceIds: ids}}},
	}}
}
