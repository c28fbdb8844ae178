package cli

import (
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/gpu/judge"
)

// TestFindingsAreToldOnce: what was found of several GPUs is one line, and what
// differs is not.
func TestFindingsAreToldOnce(t *testing.T) {
	young := judge.Reason{Rule: "history", Verdict: judge.Uncertain, Text: "too little history", Evidence: "31 samples"}
	other := young
	other.Evidence = "30 samples"
	n := judge.NodeJudgement{Node: "gpu-17", Reasons: []judge.Reason{{Rule: "node-readable", Verdict: judge.Uncertain, Text: "driver was not answered in time"}}}
	for i, r := range []judge.Reason{young, young, young, other, young, {Rule: "xid", Verdict: judge.Failing, Text: "XID 79"}, young, young} {
		n.GPUs = append(n.GPUs, judge.Judgement{Index: i, Reasons: []judge.Reason{r}})
	}
	var out strings.Builder
	if err := writeFindings(&out, n, judge.Uncertain, false); err != nil {
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
	node := func(v judge.Verdict) judge.NodeJudgement { return judge.NodeJudgement{Verdict: v} }
	for _, c := range []struct {
		nodes []judge.NodeJudgement
		want  int
	}{
		{nil, 3},
		{[]judge.NodeJudgement{node(judge.Healthy), node(judge.Busy)}, 0},
		{[]judge.NodeJudgement{node(judge.Healthy), node(judge.Uncertain)}, 3},
		{[]judge.NodeJudgement{node(judge.Uncertain), node(judge.Degraded), node(judge.Healthy)}, 2},
		{[]judge.NodeJudgement{node("new")}, 2},
	} {
		if got := gpuExit(c.nodes); got != c.want {
			t.Errorf("%v: exit code %d, want %d", c.nodes, got, c.want)
		}
	}
}
