package sandbox

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/step"
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
	annotations map[string]string // marks of who set its bounds last

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
	switch { // the bounds come before the metrics, and without a wait
	case replicas > a.max:
		return a.max
	case replicas < a.min:
		return a.min
	case len(metrics) == 0:
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
	return kube.Owner{Field: "spec.replicas", Kind: kube.HPA, Name: name, Why: kube.Autoscales(replicas, a.max)}
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

// AutoscalerOf returns the autoscaler of a workload.
func (w *World) AutoscalerOf(ctx context.Context, workload kube.Ref) (kube.Autoscaler, error) {
	workload.Kind = kube.HPA // it has the name of its workload
	return w.Autoscaler(ctx, workload)
}

// Autoscaler returns an autoscaler by its name.
func (w *World) Autoscaler(_ context.Context, ref kube.Ref) (kube.Autoscaler, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.advanceLocked()
	f, err := w.scaler(ref)
	if err != nil {
		return kube.Autoscaler{}, err
	}
	return f.scaler(), nil
}

// SetBounds sets the bounds of an autoscaler.
func (w *World) SetBounds(_ context.Context, c kube.BoundsChange) (kube.Autoscaler, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.advanceLocked()
	f, err := w.scaler(c.Ref)
	if err != nil {
		return kube.Autoscaler{}, err
	}
	now := f.scaler()
	if err := c.Still(now); err != nil {
		return kube.Autoscaler{}, err
	}
	if c.DryRun {
		now.Bounds = c.To
		return now, nil
	}
	if err := w.commit(change{At: w.clock.Now(), Ref: f.ref, Bounds: &c.To, Run: c.Run, Key: c.Key}); err != nil {
		return kube.Autoscaler{}, err
	}
	return f.scaler(), nil
}

// scaler returns the workload whose autoscaler has that name.
func (w *World) scaler(ref kube.Ref) (*fleet, error) {
	i := slices.IndexFunc(w.fleets, func(f *fleet) bool {
		return f.hpa != nil && f.ref.Namespace == ref.Namespace && f.ref.Name == ref.Name
	})
	if i < 0 || ref.Kind != kube.HPA {
		return nil, &fault.Error{Reason: fault.NotFound, Message: "no autoscaler of the sandbox is called " + name(ref)}
	}
	return w.fleets[i], nil
}

// scaler returns the workload's autoscaler as the API would.
func (f *fleet) scaler() kube.Autoscaler {
	a := f.hpa
	out := kube.Autoscaler{
		Ref:        kube.Ref{Kind: kube.HPA, Namespace: f.ref.Namespace, Name: f.ref.Name},
		APIVersion: "autoscaling/v2", UID: f.uid + "-hpa",
		Bounds: kube.Bounds{Min: new(a.min), Max: new(a.max)}, Current: len(f.pods), Desired: f.replicas,
		Annotations: maps.Clone(a.annotations),
	}
	if f.replicas >= a.max {
		out.Limited = "the desired replica count is more than the maximum replica count"
	}
	return out
}

// bound sets the bounds of the autoscaler.
func (a *autoscaler) bound(c change) {
	to := kube.Autoscaler{Ref: kube.Ref{Kind: kube.HPA}, Bounds: *c.Bounds}
	a.min, a.max = to.Min(), to.Max()
	a.annotations = map[string]string{kube.AnnotationRun: c.Run, kube.AnnotationEffect: c.Key}
}

var _ step.Autoscalers = (*World)(nil)
