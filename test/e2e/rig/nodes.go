//go:build e2e

package rig

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// poolLabel is the node label that names the namespace whose pods run there.
const poolLabel = "rig.responder/pool"

// Own reserves for a test its own part of a control plane that it shares with tests
// that run in parallel: a namespace, and n nodes with that many GPUs each. The
// namespace's pods run on these nodes and on no others, and no other namespace's
// pods run there, whatever the manifests say; so a test may cordon, drain and
// lose its nodes. All of it goes when the test ends.
func (cp *ControlPlane) Own(t testing.TB, n, gpus int) (namespace string, nodes []string) {
	t.Helper()
	namespace = cp.Namespace(t)
	return namespace, cp.AddNodes(t, namespace, n, gpus)
}

// AddNodes adds nodes for the pods of one namespace of [ControlPlane.Namespace]
// and returns their names. They go when the test ends.
func (cp *ControlPlane) AddNodes(t testing.TB, namespace string, n, gpus int) []string {
	t.Helper()
	var names []string
	for range n {
		cp.mu.Lock()
		cp.nodes++
		name := fmt.Sprintf("gpu-%d", cp.nodes)
		cp.mu.Unlock()
		node := gpuNode(name, gpus)
		node.Labels[poolLabel] = namespace
		node.Labels["karpenter.sh/nodepool"] = namespace // what the responder takes for the pool
		if _, err := cp.Client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
			t.Fatalf("create node: %v", err)
		}
		names = append(names, name)
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			if err := cp.Client.CoreV1().Nodes().Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				t.Errorf("delete node: %v", err)
			}
		})
	}
	return names
}

// LabelNodes sets a label on nodes.
func (cp *ControlPlane) LabelNodes(t testing.TB, nodes []string, key, value string) {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]string{key: value}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range nodes {
		if _, err := cp.Client.CoreV1().Nodes().Patch(t.Context(), node, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatalf("label node: %v", err)
		}
	}
}

func gpuNode(name string, gpus int) *corev1.Node {
	capacity := corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("192"),
		corev1.ResourceMemory: resource.MustParse("2Ti"),
		corev1.ResourcePods:   resource.MustParse("110"),
	}
	if gpus > 0 { // at zero it would be a node with GPUs whose device plugin is gone
		capacity["nvidia.com/gpu"] = *resource.NewQuantity(int64(gpus), resource.DecimalSI)
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			corev1.LabelHostname: name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
			"nvidia.com/gpu.product": "NVIDIA-H200", "type": "kwok",
		}},
		Status: corev1.NodeStatus{
			Capacity: capacity, Allocatable: capacity,
			NodeInfo: corev1.NodeSystemInfo{BootID: "boot-of-" + name, KubeletVersion: "v1.36.3", OperatingSystem: "linux", Architecture: "amd64"},
		},
	}
}

// DrainVerdicts is what kubectl's drain package would do with the pods of a
// node, each namespace/name; of a pod that is in neither, nothing: it stays.
type DrainVerdicts struct {
	Evicts   []string
	Refuses  map[string]string // pod: why, in kubectl's words
	Warnings string
}

// DrainVerdicts asks kubectl's drain package, of the release of the control
// plane's own kubectl and with that one's flags, DaemonSets' pods ignored. It
// evicts nothing.
func (cp *ControlPlane) DrainVerdicts(t testing.TB, node string, flags ...string) DrainVerdicts {
	t.Helper()
	out, err := run(t.Context(), filepath.Join(cp.bin, "drain-verdicts"), append(flags, "--kubeconfig="+cp.kubeconfigPath(userAdmin), node)...)
	if err != nil {
		t.Fatal(err)
	}
	var v DrainVerdicts
	if err := json.Unmarshal([]byte(out), &v); err != nil {
		t.Fatalf("drain-verdicts: %v in %s", err, out)
	}
	return v
}
