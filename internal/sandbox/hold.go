package sandbox

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/kube"
)

// standstill is a pause of a fleet's rollouts.
type standstill struct {
	set   string              // whose rollout is paused
	sizes map[*replicaSet]int // pods of each revision
}

// Hold pauses the rollouts of a workload, or resumes them.
func (w *World) Hold(_ context.Context, c kube.HoldChange) (kube.Applied, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.advanceLocked()
	f, err := w.target(c.Ref, c.Pre)
	if err != nil {
		return kube.Applied{}, err
	}
	if (f.still != nil) == (c.Set != "") {
		return kube.Applied{}, &fault.Error{Reason: fault.NothingToDo, Message: fmt.Sprintf("hold %s: spec.paused is %t already", name(c.Ref), c.Set != "")}
	}
	out := f.applied()
	out.Generation++
	if c.DryRun {
		return out, nil
	}
	return out, w.commit(change{At: w.clock.Now(), Ref: c.Ref, Hold: &c.Set, Run: c.Run, Key: c.Key})
}

// hold pauses the rollouts, for the named ReplicaSet, or resumes them.
func (f *fleet) hold(set string) {
	f.still = nil
	if set == "" {
		return
	}
	f.still = &standstill{set: set, sizes: map[*replicaSet]int{}}
	for _, p := range f.pods {
		f.still.sizes[p.set]++
	}
}

// describeHold adds the pause to the workload.
func (f *fleet) describeHold(w *kube.Workload) {
	w.Template = f.current().name
	if f.still != nil {
		w.Paused, w.PausedBy, w.Held = true, kube.FieldManager, f.still.set
		w.HoldOver = w.Held != w.Template
	}
}

// stand is a round of the controllers under a pause: each revision keeps its pods. What is
// missing to the replicas and, with several revisions, to the surge is made of the larger one.
func (f *fleet) stand(at time.Time, place func() string) {
	sizes, total, active, largest := f.still.sizes, 0, 0, f.current()
	for _, s := range f.sets { // of equal ones, the newer
		total += sizes[s]
		if sizes[s] > 0 {
			active++
			if sizes[s] >= sizes[largest] {
				largest = s
			}
		}
	}
	want := f.replicas
	if active > 1 && want > 0 {
		want += f.surge()
	}
	sizes[largest] = max(0, sizes[largest]+want-total)
	for _, s := range f.sets {
		n := 0
		for _, p := range f.pods {
			if p.set == s {
				n++
			}
		}
		for ; n < sizes[s]; n++ {
			f.createOf(s, at, place)
		}
		for i := len(f.pods) - 1; i >= 0 && n > sizes[s]; i-- {
			if f.pods[i].set == s {
				f.pods = slices.Delete(f.pods, i, i+1)
				n--
			}
		}
	}
}
