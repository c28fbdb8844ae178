package sandbox

import (
	"testing"
	"time"
)

// The autoscaler decides as Kubernetes' does, with its defaults.
func TestAutoscaler(t *testing.T) {
	loads := func(n int, each float64) (out []float64) {
		for range n {
			out = append(out, each)
		}
		return out
	}
	for name, c := range map[string]struct {
		replicas, missing int
		metrics           []float64
		want              int
	}{
		"on target":                           {4, 0, loads(4, 10), 4},
		"within the tolerance":                {4, 0, loads(4, 10.9), 4},
		"beyond it":                           {4, 0, loads(4, 11.2), 5},
		"four at once at least":               {2, 0, loads(2, 100), 6},
		"or twice as many":                    {6, 0, loads(6, 100), 12},
		"never above the maximum":             {10, 0, loads(10, 100), 12},
		"loading pods are idle":               {8, 4, loads(4, 20), 8},
		"and not enough":                      {8, 4, loads(4, 30), 12},
		"missing pods are on target":          {8, 4, loads(4, 9), 8},
		"no metrics":                          {4, 4, nil, 4},
		"fewer, but not in the first minutes": {8, 0, loads(8, 1), 8},
	} {
		t.Run(name, func(t *testing.T) {
			a := &autoscaler{autoscaling: autoscaling{min: 2, max: 12, target: 10}, seen: []recommendation{{morning.Add(-time.Minute), c.replicas}}}
			if got := a.next(morning, c.replicas, c.metrics, c.missing); got != c.want {
				t.Errorf("%d replicas, want %d", got, c.want)
			}
		})
	}
}

// Replicas are taken away when no recommendation of five minutes called for them.
func TestAutoscalerTakesAwayLate(t *testing.T) {
	a := &autoscaler{autoscaling: autoscaling{min: 2, max: 12, target: 10}}
	at, replicas := morning, 8
	a.next(at, replicas, []float64{10, 10, 10, 10, 10, 10, 10, 10}, 0)
	for range 40 {
		at = at.Add(hpaSync)
		if replicas = a.next(at, replicas, []float64{1, 1, 1, 1, 1, 1, 1, 1}, 0); replicas < 8 {
			break
		}
	}
	if waited := at.Sub(morning); waited != hpaCalm || replicas != 2 {
		t.Errorf("%d replicas after %s, want 2 after %s", replicas, waited, hpaCalm)
	}
}
