package judge

import (
	"os"
	"slices"
	"sync"
	"time"

	"github.com/inference-responder/responder/internal/gpu"
)

var noon = time.Date(2026, 8, 22, 12, 0, 0, 0, time.UTC)

// healthy is the node of internal/gpu's golden file, with one GPU of which
// everything is known and nothing is wrong.
var healthy = sync.OnceValue(func() gpu.Snapshot {
	b, err := os.ReadFile("../testdata/snapshot_healthy.json")
	if err != nil {
		panic(err)
	}
	s, err := gpu.Decode(b)
	if err != nil {
		panic(err)
	}
	return s
})

// h100 returns a copy of that GPU, with an index and a UUID of its own.
func h100(index int) gpu.GPU {
	g := healthy().GPUs[0]
	g.UUID, g.Index = g.UUID[:len(g.UUID)-1]+string(rune('0'+index)), index
	g.NVLinks, g.Minutes = slices.Clone(g.NVLinks), slices.Clone(g.Minutes)
	return g
}

// snapshot returns that node with other GPUs.
func snapshot(gpus ...gpu.GPU) gpu.Snapshot {
	s := healthy()
	s.GPUs, s.Expected = gpus, gpu.Known(int64(len(gpus)))
	return s
}
