package guard

import (
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/playbook"
)

// TestGuardNodes: nodes that are out count, whoever took them out; both limits
// hold; and a pool that is not known can spare none.
func TestGuardNodes(t *testing.T) {
	tests := []struct {
		name  string
		limit NodesOut
		pool  *machine.NodePool
		ok    bool
		why   string // empty: the guard is not listed
	}{
		{"takes none out", NodesOut{Max: 1}, nil, false, ""},
		{"the first", NodesOut{Max: 1, Percent: 25}, &machine.NodePool{Name: "a=b", Size: 3}, true, "1 of 3 nodes of a=b would be out, limit 1"},
		{"a person's cordon counts", NodesOut{Max: 1, Percent: 25}, &machine.NodePool{Name: "a=b", Size: 20, Out: []string{"n-3 (a cordon by kubectl)"}}, false, "2 of 20 nodes of a=b would be out, limit 1: n-3 (a cordon by kubectl)"},
		{"within both", NodesOut{Max: 5, Percent: 10}, &machine.NodePool{Name: "a=b", Size: 20, Out: []string{"n-3 (not ready)"}}, true, "2 of 20 nodes of a=b would be out, limit 2 (10 %)"},
		{"within the share alone", NodesOut{Percent: 25}, &machine.NodePool{Name: "a=b", Size: 3}, true, "1 of 3 nodes of a=b would be out, limit 1 (25 %)"},
		{"beyond the share", NodesOut{Max: 5, Percent: 10}, &machine.NodePool{Name: "a=b", Size: 20, Out: []string{"n-3 (x)", "n-4 (y)"}}, false, "3 of 20 nodes of a=b would be out, limit 2 (10 %): n-3 (x), n-4 (y)"},
		{"no limit", NodesOut{}, &machine.NodePool{Name: "a=b", Size: 2, Out: []string{"n-3 (x)"}}, true, "limit unlimited"},
		{"an unknown pool", NodesOut{}, &machine.NodePool{Name: "a=b"}, false, "is unknown"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			q := Question{Run: machine.State{Lever: &machine.Lever{Plan: &machine.Plan{Pool: tt.pool}}}, ledger: &Ledger{config: Config{NodesOut: tt.limit}}}
			v := guardNodes(q)
			if v.OK != tt.ok || !strings.Contains(v.Why, tt.why) || (v.Guard == "") != (tt.why == "") {
				t.Errorf("guard says %+v, want %v %q", v, tt.ok, tt.why)
			}
		})
	}
}

// TestMinReadyOfNeighbours: what a lever takes from other services is bounded
// as what it takes from the run's own.
func TestMinReadyOfNeighbours(t *testing.T) {
	others := func(a ...machine.Affected) Question {
		return Question{
			Run: machine.State{
				Start: machine.Start{Service: playbook.Service{MinReady: 2}},
				Lever: &machine.Lever{Plan: &machine.Plan{Capacity: machine.Capacity{ReadyNow: 3, LowestReady: 2}, Others: a}},
			},
			State: &playbook.State{}, ledger: &Ledger{config: Config{MinReady: 1}},
		}
	}
	side := func(now, low, need int) machine.Affected {
		return machine.Affected{Service: "serving/side", MinReady: need, Capacity: machine.Capacity{ReadyNow: now, LowestReady: low}}
	}
	for name, tt := range map[string]struct {
		q   Question
		ok  bool
		why string
	}{
		"none":                {others(), true, "at least 2 stay ready, needed 2"},
		"enough":              {others(side(3, 2, 2)), true, "enough of the 1 other services"},
		"fewer than it says":  {others(side(3, 1, 2)), false, "1 of serving/side would stay ready, needed 2"},
		"its last":            {others(side(3, 2, 0), side(1, 0, 0)), false, "0 of serving/side would stay ready, needed 1"},
		"nothing to lose":     {others(side(0, 0, 2)), true, "enough of"},
		"unknown is not fine": {others(machine.Affected{Service: "x", Capacity: machine.Capacity{Unknown: true}}), false, "unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			if v := guardMinReady(tt.q); v.OK != tt.ok || !strings.Contains(v.Why, tt.why) {
				t.Errorf("guard says %+v, want %v %q", v, tt.ok, tt.why)
			}
		})
	}
}
