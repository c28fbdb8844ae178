package step

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/kube"
)

// Forecast adds to a plan that adds replicas whether the nodes have room for them,
// and how long they will take. A plan whose replicas find no room is not refused: an
// autoscaler of nodes may add one, which the cluster does not tell.
func Forecast(ctx context.Context, c Capacities, plan *machine.Plan, ref kube.Ref, more int) {
	if c == nil || more <= 0 {
		return
	}
	at, err := c.Capacity(ctx, ref)
	if err != nil {
		plan.Notes = append(plan.Notes, "whether nodes have room for more replicas is not known: "+err.Error())
		return
	}
	if at.Fits >= more {
		plan.Notes = append(plan.Notes, fmt.Sprintf("the nodes have room for them now (each needs %s)%s", at.Needs, loadingNote(plan.Loading)))
		plan.Notes = append(plan.Notes, ignoredNote(at)...)
		return
	}
	plan.Risk, plan.Why = machine.RiskMedium, "adds replicas, but nodes or quotas lack room for all of them"
	plan.Notes = append(plan.Notes, fmt.Sprintf("room for %d of %d: %s; the others wait until somebody frees or adds a node", at.Fits, more, Lacking(at)))
	if at.Below > 0 {
		plan.Risk = machine.RiskHigh
		plan.Why = "adds replicas for which the scheduler may evict others"
		plan.Notes = append(plan.Notes, fmt.Sprintf("the scheduler may evict some of %d pods with GPUs and a lower priority to make room", at.Below))
	}
	plan.Notes = append(plan.Notes, ignoredNote(at)...)
}

// Lacking says what keeps further replicas from running: "each needs 1 nvidia.com/gpu;
// 12 nodes: too few free nvidia.com/gpu".
func Lacking(c kube.Capacity) string {
	parts := []string{"each needs " + c.Needs}
	if c.Waiting > 0 {
		parts = append(parts, plural(c.Waiting, "replica")+" without a node already")
	}
	for _, q := range c.Quotas {
		parts = append(parts, fmt.Sprintf("quota %s leaves %s of %s", q.Quota, q.Left, q.Resource))
	}
	for _, r := range c.Refusals[:min(len(c.Refusals), maxRefusals)] {
		parts = append(parts, fmt.Sprintf("%s: %s", plural(r.Nodes, "node"), r.Why))
	}
	if more := len(c.Refusals) - maxRefusals; more > 0 {
		parts = append(parts, fmt.Sprintf("%d other reasons", more))
	}
	return strings.Join(parts, "; ")
}

const maxRefusals = 3 // that a sentence names

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func ignoredNote(c kube.Capacity) []string {
	if len(c.Ignored) == 0 {
		return nil
	}
	return []string{"not taken into account: " + strings.Join(c.Ignored, ", ")}
}

func loadingNote(loading time.Duration) string {
	if loading <= 0 {
		return ""
	}
	return fmt.Sprintf("; those that run took at least %s to become ready", loading)
}
