package node

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/inference-responder/responder/internal/gpu"
	"github.com/inference-responder/responder/internal/kube"
)

// xidGap describes the interval since the node went out for which no XID history
// of its GPUs exists; empty means full coverage. An XID in the gap may need a reset
// that nobody has made. A reboot closes the gap. An answered request for the GPU,
// or for all GPUs of the node, covers the time before the request was made. It does
// not cover the time until the answer, which is not recorded: an XID between the
// two may have come after the reset.
func (l node) xidGap(ctx context.Context, n kube.NodeState, out wentOut, now time.Time, snap gpu.Snapshot) string {
	if out.at.IsZero() || out.rebooted(n) {
		return ""
	}
	const day = "2006-01-02 15:04"
	if out.at.After(now) {
		return fmt.Sprintf("its annotation %s says that it went out at %s UTC, which is in the future", kube.GPUsWhenOut, out.at.UTC().Format(day))
	}
	from, till := now, time.Time{}
	var uuids []string
	for _, g := range snap.GPUs {
		since, known := out.coveredUntil(n, g.UUID, now), eventsKnown(g, snap.TakenAt, now)
		if !known.IsZero() && !known.After(since) {
			continue
		}
		if since.Before(from) {
			from = since
		}
		if known.IsZero() {
			known = now
		}
		if known.After(till) {
			till = known
		}
		uuids = append(uuids, g.UUID)
	}
	if len(uuids) == 0 && len(snap.GPUs) > 0 {
		return ""
	}
	why := ""
	if l.xids != nil && len(uuids) > 0 {
		err := l.xids.Quiet(ctx, n.Name, uuids, from)
		if err == nil {
			return ""
		}
		why = fmt.Sprintf("; by dcgm-exporter: %v", err)
	}
	return fmt.Sprintf("it is out since %s UTC, and the XIDs of its GPUs from %s to %s UTC are unknown to %s%s; "+
		"a reboot closes that gap, and so does an answered request for all of its GPUs made after it; if they need nothing, remove the annotation %s",
		out.at.UTC().Format(day), from.UTC().Format(day), till.UTC().Format(day), snap.Source, why, kube.GPUsWhenOut)
}

// coveredUntil returns the time up to which XIDs of a GPU do not count: when the
// node went out, or when an answered request for the GPU was made since. Of several
// requests only the times of the first and the last are known.
func (o wentOut) coveredUntil(n kube.NodeState, uuid string, now time.Time) time.Time {
	till := o.at
	speaks := func(at time.Time, all bool, gpus []string) {
		if (all || slices.Contains(gpus, uuid)) && at.After(till) && !at.After(now) {
			till = at
		}
	}
	if told := o.told(n); !told.at.IsZero() {
		speaks(told.at, told.all, told.gpus)
	}
	if o.answered(n) {
		_, at := kube.ParseMark(n.Annotations[kube.MarkReset])
		gpus, all := asksFor(n.Annotations[resetWhy])
		speaks(at, all, gpus)
	}
	return till
}

// eventsKnown returns the time since when all events of a GPU are known, by the
// local clock; zero: not known. If the node's clock is behind, its times look
// earlier than they are, so the age counts.
func eventsKnown(g gpu.GPU, takenAt, now time.Time) time.Time {
	if g.EventsSince.IsZero() {
		return time.Time{}
	}
	if here := now.Add(-takenAt.Sub(g.EventsSince)); here.After(g.EventsSince) {
		return here
	}
	return g.EventsSince
}
