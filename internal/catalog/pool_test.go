package catalog

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestNodePoolOwners: a node is in the first pool whose labels it has, all of
// them; a node of no pool has no owners here.
func TestNodePoolOwners(t *testing.T) {
	pools := NodePools{
		{Name: "h100-lab", Labels: map[string]string{"gpu": "h100", "team": "lab"}, Owners: []string{"group:lab"}},
		{Name: "h100", Labels: map[string]string{"gpu": "h100"}, Owners: []string{"group:dc-ops", "user:ada"}},
		{Name: "plain", Labels: map[string]string{"gpu": ""}, Owners: []string{"group:plain"}},
	}
	for _, c := range []struct {
		name   string
		labels map[string]string
		pool   string
		owners []string
	}{
		{"all labels", map[string]string{"gpu": "h100", "team": "lab", "zone": "a"}, "h100-lab", []string{"group:lab"}},
		{"one label of two", map[string]string{"gpu": "h100", "team": "chat"}, "h100", []string{"group:dc-ops", "user:ada"}},
		{"another value", map[string]string{"gpu": "h200"}, "", nil},
		{"no labels", nil, "", nil},
		{"an empty value is no missing label", map[string]string{"gpu": ""}, "plain", []string{"group:plain"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			pool, owners := pools.Owners(c.labels)
			if pool != c.pool || !slices.Equal(owners, c.owners) {
				t.Errorf("pool %q, owners %v; want %q, %v", pool, owners, c.pool, c.owners)
			}
		})
	}
}

// TestCheckNodePools: a pool that selects nothing, can never be reached or has
// nobody to ask is refused, at its place.
func TestCheckNodePools(t *testing.T) {
	var got []string
	CheckNodePools([]NodePool{
		{Name: "h100", Labels: map[string]string{"gpu": "h100"}, Owners: []string{"group:dc-ops"}},
		{Name: "h100", Labels: map[string]string{"gpu": "h100", "team": "lab"}, Owners: []string{"dc-ops"}},
		{Labels: map[string]string{"gpu/": "h200 NVL"}},
		{Name: "empty", Owners: []string{"user:ada"}},
	}, "node_pools", func(path, _, format string, args ...any) { got = append(got, path+": "+fmt.Sprintf(format, args...)) })
	want := []string{
		`node_pools[1].name: duplicate name "h100", also at node_pools[0]`,
		"node_pools[1].labels: no node is in this pool: each is in pool h100 before it, at node_pools[0]",
		`node_pools[1].owners[0]: "dc-ops" is neither user:NAME nor group:NAME`,
		`node_pools[2].name: "" does not name a pool`,
		"node_pools[2].labels: gpu/=h200 NVL is not a label of a node",
		"node_pools[2].owners: nobody could decide about its nodes",
		"node_pools[3].labels: selects no node",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}
