// Package kube has the engine's key of a resource, and stands in for its way
// to a cluster, which a client of Argo CD never takes.
package kube

import (
	"errors"
	"fmt"

	"github.com/argoproj/gitops-engine/pkg/diff"
	"github.com/argoproj/gitops-engine/pkg/utils/tracing"
)

// Kinds that Argo CD names.
const (
	DeploymentKind  = "Deployment"
	ReplicaSetKind  = "ReplicaSet"
	StatefulSetKind = "StatefulSet"
	DaemonSetKind   = "DaemonSet"
	JobKind         = "Job"
)

var errStandIn = errors.New("this build of gitops-engine is for clients of Argo CD only")

// ResourceKey identifies a resource in a cluster.
type ResourceKey struct {
	Group     string
	Kind      string
	Namespace string
	Name      string
}

// String returns group/kind/namespace/name.
func (k *ResourceKey) String() string {
	return fmt.Sprintf("%s/%s/%s/%s", k.Group, k.Kind, k.Namespace, k.Name)
}

// NewResourceKey makes a key.
func NewResourceKey(group, kind, namespace, name string) ResourceKey {
	return ResourceKey{Group: group, Kind: kind, Namespace: namespace, Name: name}
}

// WriteKubeConfig fails.
func WriteKubeConfig(_ any, _, _ string) error { return errStandIn }

// Kubectl is the engine's way to a cluster.
type Kubectl interface{}

// KubectlCmd is no way to a cluster.
type KubectlCmd struct {
	Tracer tracing.Tracer
	Log    any
}

// CleanupFunc ends what an OnKubectlRunFunc began.
type CleanupFunc func()

// OnKubectlRunFunc is called before kubectl runs.
type OnKubectlRunFunc func(command string) (CleanupFunc, error)

// ManageServerSideDiffDryRuns fails.
func ManageServerSideDiffDryRuns(_, _ any, _ tracing.Tracer, _ any, _ OnKubectlRunFunc) (diff.KubeApplier, func(), error) {
	return nil, nil, errStandIn
}
