package kube

import (
	"slices"
	"testing"
)

// TestTroubles: what a neighbour on the node says is known by its name, and a
// condition that nobody knows says nothing.
func TestTroubles(t *testing.T) {
	for condition, want := range map[string]struct{ trouble, gpu bool }{
		"MemoryPressure=True":            {true, false},
		"KernelDeadlock=True":            {true, false},
		"ReadonlyFilesystem=Unknown":     {true, false},
		"GPUMissing=True":                {true, true},
		"GPUXIDErrors=True":              {true, true},
		"NVLinkStatusInactive=True":      {true, true},
		"UnhealthyNvidiaDCGM=True":       {true, true},
		"AcceleratedHardwareReady=False": {true, true},
		"StorageReady=False":             {true, false},
		"example.com/Audited=True":       {false, false},
		"Ready=Unknown":                  {false, false}, // which every node has, and is asked for itself
		"":                               {false, false},
	} {
		given := []string{"example.com/Synced=True", condition}
		if got := Troubles(given); slices.Contains(got, condition) != want.trouble || slices.Contains(got, given[0]) {
			t.Errorf("%s: troubles %v, want it there: %v", condition, got, want.trouble)
		}
		if got := GPUTroubles(given); slices.Contains(got, condition) != want.gpu || slices.Contains(got, given[0]) {
			t.Errorf("%s: of GPUs %v, want it there: %v", condition, got, want.gpu)
		}
		if out := (NodeState{Ready: true, Conditions: given}).Out(); out != want.trouble {
			t.Errorf("%s: the node is out: %v, want %v", condition, out, want.trouble)
		}
	}
}
