package catalog

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/inference-responder/responder/internal/setting"
)

// NodePool is one pool of the list node_pools in responder.yaml: nodes, and the
// people who own them.
type NodePool struct {
	Name   string            `yaml:"name" doc:"Unique. Questions name it."`
	Labels map[string]string `yaml:"labels" doc:"Labels that a node of the pool has, all of them, e.g. {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}. A node is in the first pool of the list that it matches."`
	Owners []string          `yaml:"owners" doc:"Who may decide where a playbook says node.owners: user:ada, group:dc-ops."`
}

// has reports whether a node with these labels is in the pool.
func (p NodePool) has(labels map[string]string) bool {
	for name, value := range p.Labels {
		if got, ok := labels[name]; !ok || got != value {
			return false
		}
	}
	return len(p.Labels) > 0
}

// String describes the pool on one line.
func (p NodePool) String() string {
	var labels []string
	for _, name := range slices.Sorted(maps.Keys(p.Labels)) {
		labels = append(labels, name+"="+p.Labels[name])
	}
	return fmt.Sprintf("%s: %s (%s)", p.Name, strings.Join(p.Owners, ", "), strings.Join(labels, ", "))
}

// NodePools is the list of pools. The first that a node matches is its pool.
type NodePools []NodePool

// Owners returns the pool of a node with these labels, and its owners; empty: it
// is in none.
func (ps NodePools) Owners(labels map[string]string) (pool string, owners []string) {
	for _, p := range ps {
		if p.has(labels) {
			return p.Name, slices.Clone(p.Owners)
		}
	}
	return "", nil
}

// CheckNodePools reports what is wrong with a list of pools at a path.
func CheckNodePools(list []NodePool, at string, bad setting.Report) {
	for i, p := range list {
		path := fmt.Sprintf("%s[%d]", at, i)
		if p.Name == "" || len(p.Name) > 63 || strings.TrimSpace(p.Name) != p.Name || strings.ContainsFunc(p.Name, unicode.IsControl) {
			bad(path+".name", "a short name for people, like h100", "%q does not name a pool", p.Name)
		}
		if j := slices.IndexFunc(list[:i], func(o NodePool) bool { return o.Name == p.Name }); j >= 0 && p.Name != "" {
			bad(path+".name", "names are unique", "duplicate name %q, also at %s[%d]", p.Name, at, j)
		}
		if len(p.Labels) == 0 {
			bad(path+".labels", "e.g. {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}", "selects no node")
		}
		for _, name := range slices.Sorted(maps.Keys(p.Labels)) {
			if len(validation.IsQualifiedName(name)) > 0 || len(validation.IsValidLabelValue(p.Labels[name])) > 0 {
				bad(path+".labels", "as kubectl get nodes --show-labels prints it", "%s=%s is not a label of a node", name, p.Labels[name])
			}
		}
		if j := slices.IndexFunc(list[:i], func(o NodePool) bool { return o.has(p.Labels) }); j >= 0 {
			bad(path+".labels", "put the pool with more labels first", "no node is in this pool: each is in pool %s before it, at %s[%d]", list[j].Name, at, j)
		}
		if len(p.Owners) == 0 {
			bad(path+".owners", "write user:ada or group:dc-ops", "nobody could decide about its nodes")
		}
		for k, o := range p.Owners {
			if !isPrincipal(o) {
				bad(fmt.Sprintf("%s.owners[%d]", path, k), "write user:ada or group:dc-ops", "%q is neither user:NAME nor group:NAME", o)
			}
		}
	}
}
