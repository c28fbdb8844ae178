package step

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/gpu"
	"github.com/inference-responder/responder/internal/kube"
)

// conditionsOf reads the bad conditions of nodes, which others set there, and says
// of which nodes they could not be read. A node that is gone has none.
func (c gpuHealth) conditionsOf(ctx context.Context, nodes []string) (byNode map[string][]string, unread []string) {
	byNode = map[string][]string{}
	if c.n == nil {
		return byNode, nil
	}
	for _, name := range nodes {
		n, err := c.n.Node(ctx, name)
		if err != nil {
			unread = append(unread, fmt.Sprintf("the conditions of node %s are not known: %v", name, err))
			continue
		}
		byNode[name] = n.Conditions
	}
	return byNode, unread
}

// told adds to what is thought of a node what others on it say of its GPUs, such
// as node-problem-detector. Of a node that seems well nobody knows then who is
// right: its GPUs are not known to be well, and not known to be at fault.
func told(j gpu.NodeJudgement, conditions []string) gpu.NodeJudgement {
	bad := kube.GPUTroubles(conditions)
	if len(bad) == 0 {
		return j
	}
	text := "its condition " + bad[0]
	if len(bad) > 1 {
		text = "its conditions " + strings.Join(bad, ", ")
	}
	j.Reasons = append(slices.Clone(j.Reasons), gpu.Reason{
		Rule: "node-condition", Verdict: gpu.Uncertain, Text: text + " tells of a fault of its GPUs",
		Evidence: strings.Join(conditions, " "), Source: "who sets node conditions there, such as node-problem-detector",
	})
	if gpu.Uncertain.WorseThan(j.Verdict) {
		j.Verdict = gpu.Uncertain
	}
	return j
}
