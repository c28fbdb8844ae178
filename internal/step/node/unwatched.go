package node

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/inference-responder/responder/internal/gpu"
	"github.com/inference-responder/responder/internal/kube"
)

// unwatched says of which time since the node went out nobody knows the XIDs of
// its GPUs; empty: of all of it somebody does. One that came then, and that an
// agent has forgotten, may need a reset that nobody has made. A reboot mends it,
// and who has answered a request for the GPU, or for all of the node, speaks for
// the time before the request was made: when it was answered nobody has written
// down, so what came between the two and was forgotten may have come after the reset.
func (l node) unwatched(ctx context.Context, n kube.NodeState, out wentOut, now time.Time, snap gpu.Snapshot) string {
	if out.at.IsZero() || out.rebooted(n) {
		return ""
	}
	const day = "2006-01-02 15:04"
	if out.at.After(now) {
		return fmt.Sprintf("its annotation %s says that it went out at %s UTC, which lies ahead", kube.GPUsWhenOut, out.at.UTC().Format(day))
	}
	from, till := now, time.Time{}
	var uuids []string
	for _, g := range snap.GPUs {
		since, known := out.spokenFor(n, g.UUID, now), eventsKnown(g, snap.TakenAt, now)
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
	return fmt.Sprintf("it is out since %s UTC, and which XIDs its GPUs had from %s to %s UTC is not known by %s%s; "+
		"a reboot makes up for that, or an answered request for all of its GPUs that was made after it; whoever knows that they need nothing takes the annotation %s away",
		out.at.UTC().Format(day), from.UTC().Format(day), till.UTC().Format(day), snap.Source, why, kube.GPUsWhenOut)
}

// spokenFor is the time up to which nothing that a GPU of the node had counts:
// when the node went out, or when a request for the GPU was made since that
// somebody has answered. Of several only the times of the first and of the last
// are known.
func (o wentOut) spokenFor(n kube.NodeState, uuid string, now time.Time) time.Time {
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

// eventsKnown is from when on all events of a GPU are known, by the clock here;
// zero: that is not known. Where the node's clock is behind, its times look
// earlier than they are, so how long ago it was counts.
func eventsKnown(g gpu.GPU, takenAt, now time.Time) time.Time {
	if g.EventsSince.IsZero() {
		return time.Time{}
	}
	if here := now.Add(-takenAt.Sub(g.EventsSince)); here.After(g.EventsSince) {
		return here
	}
	return g.EventsSince
}
