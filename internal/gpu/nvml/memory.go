package nvml

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/inference-responder/responder/internal/gpu"
)

// memory keeps the histories of all GPUs, across restarts of the driver.
type memory struct {
	period time.Duration

	mu  sync.Mutex // guards all
	all map[string]*history
}

func newMemory(period time.Duration) *memory {
	return &memory{period: period, all: map[string]*history{}}
}

// of returns the history of a GPU and begins one if there is none.
func (m *memory) of(uuid string) *history {
	m.mu.Lock()
	defer m.mu.Unlock()
	h := m.all[uuid]
	if h == nil {
		h = &history{period: m.period}
		if len(m.all) < gpu.MaxGPUs { // more cannot be, so they are not remembered
			m.all[uuid] = h
		}
	}
	return h
}

// restart marks that counters may begin anew.
func (m *memory) restart() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, h := range m.all {
		h.restart()
	}
}

// gone returns the GPUs that were read once and are not in the driver's list now.
// A GPU does not go away by itself, so they are lost. Each gets an unused index,
// because the driver renumbers the remaining ones.
func (m *memory) gone(listed []gpu.GPU, now time.Time) []gpu.GPU {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := 0
	for _, g := range listed {
		next = max(next, g.Index+1)
	}
	var lost []gpu.GPU
	for uuid, h := range m.all {
		if !slices.ContainsFunc(listed, func(g gpu.GPU) bool { return g.UUID == uuid }) {
			lost = append(lost, h.lost(now))
		}
	}
	slices.SortFunc(lost, func(a, b gpu.GPU) int { return strings.Compare(a.UUID, b.UUID) })
	for i := range lost {
		lost[i].Index = next + i
	}
	return lost
}
