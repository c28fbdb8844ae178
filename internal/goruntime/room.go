package goruntime

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// Room is how much garbage may gather before the runtime collects it.
type Room struct {
	Percent int    // of what lives, as GOGC
	Least   uint64 // bytes; where Percent leaves less, a burst has a small heap read again and again
}

// Keep has the runtime leave that room until the process ends. Go knows only a share
// of what lives, so each collection sets that share for the next.
func (r Room) Keep() {
	lives := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/globals:bytes"}, {Name: "/gc/scan/stack:bytes"}}
	metrics.Read(lives)
	var of uint64 // what Go takes the share of
	for _, s := range lives {
		of += s.Value.Uint64()
	}
	of = max(of, 4<<20) // or of this, by which it collects the smallest heaps
	debug.SetGCPercent(int(max(uint64(r.Percent), 100*r.Least/of)))
	runtime.AddCleanup(new(*Room), Room.Keep, r) // nothing refers to it: the next collection finds it
}
