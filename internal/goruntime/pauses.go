package goruntime

import (
	"context"
	"runtime"
	"runtime/metrics"
	"time"
)

// pause is after how long without work garbage is collected, if it is worth it.
// A check's answer takes longer than this, so a run has such pauses, too.
const pause = 10 * time.Millisecond

// CollectInPauses collects garbage when there was no work for 10 ms and none is
// under way, and half of what may gather before the runtime collects by itself
// has gathered. It returns when ctx is done. worked receives whenever work was
// done, and may hold several as one; idle says whether none is under way.
//
// A collection keeps the cores busy for some milliseconds. The work that runs
// into one, since its own garbage made the heap full, waits for them behind it,
// and the syncs of its commits with it. In a pause nobody does.
func CollectInPauses(ctx context.Context, worked <-chan struct{}, idle func() bool) {
	collectInPauses(ctx, worked, idle, func() {
		if halfFull() {
			runtime.GC()
		}
	})
}

// collectInPauses calls collect after each time of work. While there is work it
// looks up once in a pause's length, and not once for each piece of it.
func collectInPauses(ctx context.Context, worked <-chan struct{}, idle func() bool, collect func()) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-worked:
		}
		for busy := true; busy; {
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
			}
			select {
			case <-worked:
			default:
				busy = !idle()
			}
		}
		collect()
	}
}

// halfFull reports whether the garbage since the last collection takes more
// than half of the room that it has until the next.
func halfFull() bool {
	read := []metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/gc/heap/live:bytes"},
		{Name: "/gc/heap/goal:bytes"},
	}
	metrics.Read(read)
	objects, live, goal := read[0].Value.Uint64(), read[1].Value.Uint64(), read[2].Value.Uint64()
	return objects > live && goal > live && objects-live > (goal-live)/2
}
