package engine

import (
	"math"
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/slo"
)

// TestBound: what limits the engine, and how many replicas the load calls for.
func TestBound(t *testing.T) {
	nan := math.NaN()
	tests := []struct {
		name  string
		load  slo.Load
		ready int
		bound string
		short int
		why   string
	}{
		{"idle", slo.Load{Ended: 2, Rate: 2, Running: 3, Cache: 0.1}, 4, "none", 0, "3 requests are computed, 0 wait, 2 per second arrive"},
		{"a request just came", slo.Load{Ended: 6, Rate: 6, Running: 20, Waiting: 2, Cache: 0.4}, 4, "none", 0, ""},
		{"a queue grows", slo.Load{Ended: 16, Rate: 24, Running: 90, Waiting: 900, Cache: 0.7}, 4, "queue", 4, "4 replicas are ready, 4 more are called for"},
		{"a queue stands", slo.Load{Ended: 16, Rate: 16, Running: 90, Waiting: 40, Cache: 0.7}, 4, "queue", 2, ""},
		{"more wait than are computed", slo.Load{Ended: 16, Rate: 16, Running: 90, Waiting: 100, Cache: 0.7}, 8, "queue", 8, ""},
		{"one replica", slo.Load{Ended: 4, Rate: 5, Running: 30, Waiting: 60, Cache: 0.7}, 1, "queue", 1, ""},
		{"the cache is full", slo.Load{Ended: 16, Rate: 16, Running: 90, Waiting: 8, Cache: 0.99, Preempted: 0.4}, 4, "kv", 2, "99 % of the KV cache is in use, 0.4 per second lose their place in it"},
		{"full, and nobody suffers", slo.Load{Ended: 5, Rate: 5, Running: 12, Cache: 0.97}, 4, "none", 0, ""},
		{"large batches", slo.Load{Ended: 12, Rate: 12, Running: 120, Cache: 0.6}, 4, "decode", 2, "large batches"},
		{"the cache is not measured", slo.Load{Ended: 16, Rate: 16, Running: 90, Waiting: 40, Cache: nan}, 4, "queue", 2, ""},
		{"nothing is measured", slo.Load{Ended: nan, Rate: nan, Running: nan, Waiting: nan, Cache: nan}, 4, "unknown", 0, "not known"},
		{"how many are ready is not known", slo.Load{Ended: 16, Rate: 16, Running: 90, Waiting: 40, Cache: 0.7}, 0, "queue", 0, ""},
		{"nothing finishes", slo.Load{Rate: 3, Running: 90, Waiting: 40, Cache: 0.7}, 4, "queue", 2, ""},
	}
	for _, tt := range tests {
		got := judgeLoad(tt.load, tt.ready, 0)
		if got.Bound != tt.bound || got.ReplicasShort != tt.short || !strings.Contains(got.Why, tt.why) {
			t.Errorf("%s: %s, %d short: %q, want %s, %d", tt.name, got.Bound, got.ReplicasShort, got.Why, tt.bound, tt.short)
		}
	}
}

// TestScope: one replica, one node, one revision, or all of them.
func TestScope(t *testing.T) {
	pods := []kube.Pod{{Name: "a", Node: "n1", Revision: 3}, {Name: "b", Node: "n1", Revision: 3}, {Name: "c", Node: "n2", Revision: 3}, {Name: "d", Node: "n2", Revision: 3}}
	rolling := []kube.Pod{{Name: "a", Node: "n1", Revision: 4}, {Name: "b", Node: "n2", Revision: 4}, {Name: "c", Node: "n2", Revision: 3}, {Name: "d", Node: "n1", Revision: 3}}
	tests := []struct {
		name   string
		pods   []kube.Pod
		shares []float64 // of a, b, c, d; negative: it stands still
		scope  string
		which  string // pod, node
		why    string
	}{
		{"one slow", pods, []float64{0.002, 0, 0.9, 0.004}, "one_replica", "c n2", "one replica is bad: c on n2 (90 % of 1000 requests are slow); of the 3 others 0.2 % of the requests are slow"},
		{"one stuck, the others suffer", pods, []float64{0.9, 0.95, -1, 0.92}, "one_replica", "c n2", "c on n2 (runs requests and takes no step)"},
		{"both of a node", pods, []float64{0.002, 0.001, 0.9, 0.8}, "one_node", " n2", "the replicas on one node are bad"},
		{"both of a revision", rolling, []float64{0.7, 0.8, 0.001, 0}, "one_revision", " ", "the replicas of revision 4 are bad"},
		{"on different nodes", pods, []float64{0.7, 0, 0.8, 0}, "some", " ", "some replicas are bad"},
		{"all alike", pods, []float64{0.5, 0.6, 0.55, 0.52}, "all", " ", "from 50 % to 60 % of their requests are slow"},
		{"all stuck", pods, []float64{-1, -1, -1, -1}, "all", " ", ""},
		{"one only", pods[:1], []float64{0.9}, "unknown", " ", "fewer than two"},
	}
	for _, tt := range tests {
		by := map[string]*replica{}
		for i, p := range tt.pods {
			r := &replica{replicaOut: replicaOut{Pod: p.Name}}
			if r.Stuck = tt.shares[i] < 0; !r.Stuck {
				r.Ratio, r.Requests, r.counts = tt.shares[i], 1000, slo.Counts{Bad: 1000 * tt.shares[i], Total: 1000}
			}
			by[p.Name] = r
		}
		got := scope(place(by, tt.pods), tt.pods, slo.Test{Objective: 0.99, Factor: 14.4}, "slow")
		if got.Scope != tt.scope || got.Pod+" "+got.Node != tt.which || !strings.Contains(got.Why, tt.why) {
			t.Errorf("%s: %s, %q %q: %s", tt.name, got.Scope, got.Pod, got.Node, got.Why)
		}
	}
}
