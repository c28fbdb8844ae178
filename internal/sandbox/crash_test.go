package sandbox

import (
	"testing"
	"time"
)

// TestRestartedContainer: a container that restarted runs since then, and not since its
// pod was created; while it waits to restart it does not run. What it took to load is then
// not told, as by a real pod.
func TestRestartedContainer(t *testing.T) {
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	created := now.Add(-7 * time.Hour)
	for name, tt := range map[string]struct {
		pod     pod
		since   time.Time
		loading time.Duration
	}{
		"never restarted":       {pod{created: created, loaded: created.Add(2 * time.Minute), ready: true}, created, 2 * time.Minute},
		"restarted":             {pod{created: created, restarts: 1, again: now.Add(-7 * time.Minute), loaded: now.Add(time.Minute)}, now.Add(-7 * time.Minute), 0},
		"restarted, and loaded": {pod{created: created, restarts: 1, again: now.Add(-7 * time.Minute), loaded: now.Add(-time.Minute), ready: true}, now.Add(-7 * time.Minute), 0},
		"waits to restart":      {pod{created: created, restarts: 3, again: now.Add(time.Minute), loaded: now.Add(3 * time.Minute)}, time.Time{}, 0},
	} {
		tt.pod.node, tt.pod.set = "gpu-1", &replicaSet{}
		got := tt.pod.describe("vllm", now)
		if !got.Containers[0].Since.Equal(tt.since) || got.Loading != tt.loading {
			t.Errorf("%s: since %s, loading %s", name, got.Containers[0].Since, got.Loading)
		}
	}
}
