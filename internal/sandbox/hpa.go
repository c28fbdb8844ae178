package sandbox

import (
	"fmt"
	"math"
	"time"

	"github.com/inference-responder/responder/internal/kube"
)

// autoscaling is a HorizontalPodAutoscaler on the requests that a replica runs and holds
// waiting, a metric of pods with an average value as its target.
type autoscaling struct {
	min, max int
	target   float64 // requests per replica
}

// The defaults of kube-controller-manager and of an autoscaler without behavior.
const (
	hpaSync      = 15 * time.Second
	hpaTolerance = 0.1
	hpaCalm      = 5 * time.Minute // down: to the highest recommendation of so long
	hpaAdds      = 4               // pods at least in one period; else it doubles
)

// autoscaler is the controller of one autoscaling. Its metrics are as old as the scrape
// before.
type autoscaler struct {
	autoscaling
	seen []recommendation // of the last hpaCalm
	load map[*pod]float64 // at the last scrape, of the pods that answered
}

type recommendation struct {
	at       time.Time
	replicas int
}

// autoscale is one round of the autoscaler.
func (f *fleet) autoscale(at time.Time) {
	a := f.hpa
	if a == nil || !at.Equal(at.Truncate(hpaSync)) {
		return
	}
	var metrics []float64
	missing := 0
	for _, p := range f.pods {
		if v, ok := a.load[p]; ok {
			metrics = append(metrics, v)
		} else {
			missing++ // it loads its model, or no node takes it
		}
	}
	if to := a.next(at, f.replicas, metrics, missing); to != f.replicas {
		f.replicas, f.scaledBy = to, ""
		f.generation++
	}
	a.load = map[*pod]float64{}
	for _, p := range f.pods {
		if p.engine != nil {
			a.load[p] = float64(p.engine.Running() + p.engine.Waiting())
		}
	}
}

// next returns the replicas that the autoscaler sets now.
func (a *autoscaler) next(at time.Time, replicas int, metrics []float64, missing int) int {
	if len(metrics) == 0 {
		return replicas // it does nothing without metrics
	}
	want := min(max(a.proposal(replicas, metrics, missing), a.min), a.max)
	kept, most := a.seen[:0], want
	for _, r := range a.seen {
		if at.Sub(r.at) < hpaCalm {
			kept, most = append(kept, r), max(most, r.replicas)
		}
	}
	a.seen = append(kept, recommendation{at, want})
	switch {
	case want > replicas:
		return min(want, max(replicas+hpaAdds, 2*replicas))
	case most < replicas:
		return most
	}
	return replicas
}

// proposal returns the replicas that would bring the average to its target. Pods without
// metrics count as idle where it would add replicas, and as on target where it would
// take some away; where that changes the direction, nothing is done.
func (a *autoscaler) proposal(replicas int, metrics []float64, missing int) int {
	sum := 0.0
	for _, v := range metrics {
		sum += v
	}
	n := float64(len(metrics))
	ratio := sum / n / a.target
	if missing == 0 {
		if math.Abs(ratio-1) <= hpaTolerance {
			return replicas
		}
		return int(math.Ceil(ratio * n))
	}
	if ratio < 1 {
		sum += float64(missing) * a.target
	}
	n += float64(missing)
	corrected := sum / n / a.target
	if math.Abs(corrected-1) <= hpaTolerance || (ratio < 1) != (corrected < 1) {
		return replicas
	}
	return int(math.Ceil(corrected * n))
}

// owner returns the autoscaler as the owner of the workload's replicas.
func (a *autoscaler) owner(name string, replicas int) kube.Owner {
	return kube.Owner{Field: "spec.replicas", Kind: "HorizontalPodAutoscaler", Name: name, Why: kube.Autoscales(replicas, a.max)}
}

func (a *autoscaling) check() error {
	switch {
	case a.min < 1 || a.max < a.min:
		return fmt.Errorf("an autoscaler from %d to %d replicas: want at least 1, and no more at least than at most", a.min, a.max)
	case a.target <= 0:
		return fmt.Errorf("an autoscaler for %g requests per replica: want more than 0", a.target)
	}
	return nil
}
