package cli

import (
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/gpu"
)

// TestFindingsAreToldOnce: what was found of several GPUs is one line, and what
// differs is not.
func TestFindingsAreToldOnce(t *testing.T) {
	young := gpu.Reason{Rule: "history", Verdict: gpu.Uncertain, Text: "too little history", Evidence: "31 samples"}
	other := young
	other.Evidence = "30 samples"
	n := gpu.NodeJudgement{Node: "gpu-17", Reasons: []gpu.Reason{{Rule: "node-readable", Verdict: gpu.Uncertain, Text: "driver was not answered in time"}}}
	for i, r := range []gpu.Reason{young, young, young, other, young, {Rule: "xid", Verdict: gpu.Failing, Text: "XID 79"}, young, young} {
		n.GPUs = append(n.GPUs, gpu.Judgement{Index: i, Reasons: []gpu.Reason{r}})
	}
	var out strings.Builder
	if err := writeFindings(&out, n, gpu.Uncertain, false); err != nil {
		t.Fatal(err)
	}
	want := `
gpu-17: unknown: driver was not answered in time

gpu-17 GPU 0-2, 4, 6-7: unknown: too little history
  31 samples

gpu-17 GPU 3: unknown: too little history
  30 samples
`
	if out.String() != want {
		t.Errorf("got:%s\nwant:%s", out.String(), want)
	}
}

// The exit code says healthy only of nodes that are: of none nothing is known.
func TestGPUExit(t *testing.T) {
	node := func(v gpu.Verdict) gpu.NodeJudgement { return gpu.NodeJudgement{Verdict: v} }
	for _, c := range []struct {
		nodes []gpu.NodeJudgement
		want  int
	}{
		{nil, 3},
		{[]gpu.NodeJudgement{node(gpu.Healthy), node(gpu.Busy)}, 0},
		{[]gpu.NodeJudgement{node(gpu.Healthy), node(gpu.Uncertain)}, 3},
		{[]gpu.NodeJudgement{node(gpu.Uncertain), node(gpu.Degraded), node(gpu.Healthy)}, 2},
		{[]gpu.NodeJudgement{node("new")}, 2},
	} {
		if got := gpuExit(c.nodes); got != c.want {
			t.Errorf("%v: exit code %d, want %d", c.nodes, got, c.want)
		}
	}
}
