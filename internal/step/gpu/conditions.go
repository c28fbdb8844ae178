package gpu

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gpu"
	"github.com/inference-responder/responder/internal/gpu/judge"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/step"
)

// heard holds the conditions of a node that others set.
type heard struct {
	bad    []string // its bad conditions
	unread error    // why they could not be read, of a node that is there
	noGPUs bool     // it is a node without GPUs
}

// conditionsOf reads the bad conditions of nodes, and reports the nodes that
// are gone.
func (c gpuHealth) conditionsOf(ctx context.Context, nodes []string) (byNode map[string]heard, gone []string) {
	byNode = map[string]heard{}
	if c.n == nil {
		return byNode, nil
	}
	for _, name := range nodes {
		switch n, err := c.n.Node(ctx, name); {
		case step.HasReason(err, fault.NotFound):
			gone = append(gone, fmt.Sprintf("the conditions of node %s are not known: %v", name, err))
		case err != nil:
			byNode[name] = heard{unread: err}
		default:
			byNode[name] = heard{bad: n.Conditions, noGPUs: !n.HasGPUs}
		}
	}
	return byNode, gone
}

// told applies the conditions that others, such as node-problem-detector, set
// for a node's GPUs. If they contradict a healthy verdict, or cannot be read,
// the verdict becomes unknown: the GPUs are then known neither to be healthy
// nor to be at fault.
func told(j judge.NodeJudgement, h heard) judge.NodeJudgement {
	bad := kube.GPUTroubles(h.bad)
	r := judge.Reason{Rule: "node-condition", Verdict: judge.Uncertain, Source: "who sets node conditions there, such as node-problem-detector"}
	switch {
	case h.unread != nil:
		r.Text = fmt.Sprintf("its conditions could not be read: %v", h.unread)
	case len(bad) == 0:
		return j
	case len(bad) == 1:
		r.Text, r.Evidence = "its condition "+bad[0]+" tells of a fault of its GPUs", bad[0]
	default:
		r.Text, r.Evidence = "its conditions "+strings.Join(bad, ", ")+" tell of a fault of its GPUs", strings.Join(bad, " ")
	}
	j.Reasons = append(slices.Clone(j.Reasons), r)
	if judge.Uncertain.WorseThan(j.Verdict) {
		j.Verdict = judge.Uncertain
	}
	return j
}

// JudgeNodes returns the verdicts of gpu.health about whole nodes, in the order of the
// answers, with the conditions of the nodes taken into account. unread is why the
// conditions of the nodes that are not in states could not be read; nil: the cluster
// does not have those nodes.
func JudgeNodes(now time.Time, answers []gpu.Answer, states map[string]kube.NodeState, unread error) []judge.NodeJudgement {
	out := judge.Answers(now, answers)
	for i, j := range out {
		h := heard{unread: unread}
		if n, read := states[j.Node]; read {
			h = heard{bad: n.Conditions}
		}
		out[i] = told(j, h)
	}
	return out
}
