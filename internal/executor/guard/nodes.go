package guard

import (
	"fmt"
	"strings"

	"github.com/inference-responder/responder/internal/executor/machine"
)

// NodesOut is how many nodes of one pool may take no pods at the same time,
// whoever took them out: a person's cordon and a node that is not ready count
// like our own. 0: no limit.
type NodesOut struct {
	Max     int // nodes
	Percent int // of the pool's nodes with GPUs, rounded up, so that it alone never forbids the first one
}

// guardNodes asks whether a pool can spare another node. Levers that take none
// out are not asked.
func guardNodes(q Question) machine.GuardVerdict {
	pool := q.Run.Lever.Plan.Pool
	if pool == nil {
		return machine.GuardVerdict{}
	}
	limit := q.ledger.config.NodesOut
	out := len(pool.Out) + 1
	who := ""
	if len(pool.Out) > 0 {
		who = ": " + strings.Join(pool.Out[:min(len(pool.Out), 5)], ", ")
	}
	share := (limit.Percent*pool.Size + 99) / 100
	switch {
	case pool.Size < 1:
		return refuse("nodes", "how many nodes %s has is unknown", pool.Name)
	case limit.Max > 0 && out > limit.Max:
		return refuse("nodes", "%d of %d nodes of %s would be out, limit %d%s", out, pool.Size, pool.Name, limit.Max, who)
	case limit.Percent > 0 && out > share:
		return refuse("nodes", "%d of %d nodes of %s would be out, limit %d (%d %%)%s", out, pool.Size, pool.Name, share, limit.Percent, who)
	default:
		word := limitWord(limit.Max)
		if limit.Percent > 0 && (limit.Max == 0 || share < limit.Max) { // the narrower of the two
			word = fmt.Sprintf("%d (%d %%)", share, limit.Percent)
		}
		return pass("nodes", "%d of %d nodes of %s would be out, limit %s", out, pool.Size, pool.Name, word)
	}
}
