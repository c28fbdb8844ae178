package sandbox

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/step"
)

// Workload returns the state of one workload and its pods.
func (w *World) Workload(_ context.Context, ref kube.Ref) (kube.Workload, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.advanceLocked()
	f := w.fleet(ref)
	if f == nil {
		return kube.Workload{}, notFound(ref)
	}
	out := f.describe(w.at)
	for _, e := range f.events {
		if w.at.Sub(e.Last) <= time.Hour {
			out.Events = append(out.Events, e)
		}
	}
	slices.SortStableFunc(out.Events, func(a, b kube.EventCount) int { return b.Last.Compare(a.Last) })
	return out, nil
}

// Replicas counts the replicas of workloads.
func (w *World) Replicas(ctx context.Context, refs []kube.Ref) (map[kube.Ref]kube.ReplicaCount, error) {
	out := map[kube.Ref]kube.ReplicaCount{}
	for _, ref := range refs {
		of, err := w.Workload(ctx, ref)
		if err != nil {
			return nil, err
		}
		out[ref] = kube.ReplicaCount{Wanted: of.Replicas, Ready: of.Ready}
	}
	return out, nil
}

// Revisions returns the revision history, oldest first.
func (w *World) Revisions(_ context.Context, ref kube.Ref) ([]kube.Revision, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.advanceLocked()
	f := w.fleet(ref)
	if f == nil {
		return nil, notFound(ref)
	}
	var out []kube.Revision
	for _, s := range f.sets {
		out = append(out, kube.Revision{
			Number: s.revision, Name: s.name, Created: s.created, Active: s.active,
			Current: s == f.current(), Cause: s.cause, Fields: maps.Clone(s.fields),
			Ours: s == f.current() && s.ours, PutBack: s == f.current() && s.putBack, Acquitted: s == f.current() && s.putBack && s.acquits,
		})
	}
	return out, nil
}

// Nodes returns the conditions of the nodes the workload's pods run on.
func (w *World) Nodes(_ context.Context, ref kube.Ref) ([]kube.Node, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.advanceLocked()
	f := w.fleet(ref)
	if f == nil {
		return nil, notFound(ref)
	}
	pods := map[string]int{}
	for _, p := range f.pods {
		pods[p.node]++
	}
	var out []kube.Node
	for _, n := range w.nodes {
		if pods[n.spec.name] > 0 {
			out = append(out, kube.Node{
				Name: n.spec.name, Ready: true, Unschedulable: n.cordonedBy != "",
				Conditions: slices.Clone(n.spec.conditions), Pods: pods[n.spec.name],
			})
		}
	}
	return out, nil
}

// Scale sets the replicas of a workload.
func (w *World) Scale(_ context.Context, c kube.ScaleChange) (kube.Applied, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.advanceLocked()
	f, err := w.target(c.Ref, c.Pre)
	if err != nil {
		return kube.Applied{}, err
	}
	if c.Replicas < 0 {
		return kube.Applied{}, &fault.Error{Reason: fault.Invalid, Message: fmt.Sprintf("scale %s: %d replicas", name(c.Ref), c.Replicas)}
	}
	out := f.applied()
	if c.Replicas != f.replicas {
		out.Generation++
	}
	out.Replicas = c.Replicas
	if c.DryRun {
		return out, nil
	}
	return out, w.commit(change{At: w.clock.Now(), Ref: c.Ref, Replicas: &c.Replicas, Run: c.Run, Key: c.Key})
}

// Undo sets the pod template to that of an earlier revision.
func (w *World) Undo(_ context.Context, c kube.UndoChange) (kube.Applied, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.advanceLocked()
	f, err := w.target(c.Ref, c.Pre)
	if err != nil {
		return kube.Applied{}, err
	}
	i := slices.IndexFunc(f.sets, func(s *replicaSet) bool { return s.revision == c.Revision })
	if i < 0 {
		return kube.Applied{}, &fault.Error{
			Reason:  fault.NotFound,
			Message: fmt.Sprintf("undo %s: revision %d is not in the history; look at its revisions again", name(c.Ref), c.Revision),
		}
	}
	out := f.applied()
	out.Fields = maps.Clone(f.sets[i].fields)
	if f.sets[i] != f.current() {
		out.Generation++
	}
	if c.DryRun {
		return out, nil
	}
	return out, w.commit(change{At: w.clock.Now(), Ref: c.Ref, Revision: c.Revision, Hold: &c.Hold, PutBack: c.PutBack, Acquits: c.Acquits, Run: c.Run, Key: c.Key})
}

// Restart rolls the same pod template out once more.
func (w *World) Restart(_ context.Context, c kube.RestartChange) (kube.Applied, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.advanceLocked()
	f, err := w.target(c.Ref, c.Pre)
	if err != nil {
		return kube.Applied{}, err
	}
	out := f.applied()
	out.Generation++
	if c.DryRun {
		return out, nil
	}
	return out, w.commit(change{At: w.clock.Now(), Ref: c.Ref, Restart: true, Run: c.Run, Key: c.Key})
}

// target returns what is to be changed and checks the precondition.
func (w *World) target(ref kube.Ref, pre kube.Precondition) (*fleet, error) {
	f := w.fleet(ref)
	if f == nil {
		return nil, notFound(ref)
	}
	if pre.UID != f.uid || pre.Generation != f.generation {
		return nil, &fault.Error{
			Reason: fault.Conflict,
			Message: fmt.Sprintf("change %s: it moved since the plan (uid %s generation %d, planned on uid %s generation %d); plan again",
				name(ref), f.uid, f.generation, pre.UID, pre.Generation),
		}
	}
	return f, nil
}

// change is a change that the API accepted, or a push that the repository did. Exactly
// one of Replicas, Bounds, Revision, Hold, Edit, Pod, Weights, Push and Sync is set.
type change struct {
	At       time.Time    `json:"at"`
	Ref      kube.Ref     `json:"ref"`
	Replicas *int         `json:"replicas,omitempty"`
	Bounds   *kube.Bounds `json:"bounds,omitempty"`   // of the autoscaler
	Revision int64        `json:"revision,omitempty"` // whose pod template becomes current
	Restart  bool         `json:"restart,omitempty"`  // the pod template is rolled out once more
	Hold     *string      `json:"hold,omitempty"`     // ReplicaSet whose rollout is paused, also beside Revision; empty: it goes on
	PutBack  bool         `json:"putBack,omitempty"`  // beside Revision: it undoes a change of Responder's
	Acquits  bool         `json:"acquits,omitempty"`  // beside PutBack: that change was measured and did not help
	Run      string       `json:"run"`
	Key      string       `json:"key"`

	Node     string         `json:"node,omitempty"`
	Edit     *kube.NodeEdit `json:"edit,omitempty"`
	Mark     string         `json:"mark,omitempty"` // annotation that records the edit
	MarkedAt time.Time      `json:"markedAt,omitzero"`
	Pod      string         `json:"pod,omitempty"` // evicted, of Ref; with Labels or Annotate, edited

	Weights []int64 `json:"weights,omitempty"` // of the route in front of Ref: its own backend's and the warm one's

	Labels   map[string]string `json:"labels,omitempty"` // of Pod; an empty value removes one
	Annotate map[string]string `json:"annotate,omitempty"`

	Push *push `json:"push,omitempty"`
	Sync bool  `json:"sync,omitempty"` // of the application that deploys Ref
}

// commit stores a change if the world has a file, and then applies it. The caller
// holds mu.
func (w *World) commit(c change) error {
	c.At = c.At.UTC().Round(0)
	if err := w.remember(c); err != nil {
		return &fault.Error{Reason: fault.ServerError, Message: "the simulated API server cannot store the change", Err: err}
	}
	w.apply(c)
	return nil
}

// apply applies a change.
func (w *World) apply(c change) {
	switch {
	case c.Push != nil:
		w.git.add(*c.Push, c.At)
		return
	case len(c.Labels)+len(c.Annotate) > 0:
		w.applyPod(c)
		return
	case c.Edit != nil || c.Pod != "":
		w.applyNode(c)
		return
	}
	f := w.fleet(c.Ref)
	switch {
	case c.Sync:
		w.applySync(f, c)
		return
	case len(c.Weights) == 2:
		f.applyRoute(c)
		return
	}
	switch {
	case c.Bounds != nil:
		f.hpa.bound(c)
	case c.Restart:
		same := f.current()
		fields := maps.Clone(same.fields)
		fields["metadata.annotations["+kube.RestartedAt+"]"] = c.At.UTC().Format(time.RFC3339)
		f.release(revisionSpec{cause: same.cause, fields: fields, image: same.image}, c.At)
		f.current().ours = true
	case c.Hold != nil && c.Revision == 0:
		f.hold(*c.Hold)
		f.generation++
	case c.Replicas == nil:
		if c.Revision != f.revision() {
			f.undo(c.Revision, c.At)
			f.current().ours, f.current().putBack, f.current().acquits = !c.PutBack, c.PutBack, c.Acquits
		}
		if c.Hold != nil {
			f.hold(*c.Hold)
		}
	case *c.Replicas != f.replicas:
		f.replicas = *c.Replicas
		f.generation++
	}
	switch {
	case c.Bounds != nil: // marked there
	case c.Replicas != nil:
		f.scaledBy = kube.EffectManager(c.Key)
	default:
		f.annotations[kube.AnnotationRun], f.annotations[kube.AnnotationEffect] = c.Run, c.Key
	}
	if f.changed.IsZero() {
		f.changed = c.At
	}
}

func (f *fleet) applied() kube.Applied {
	return kube.Applied{UID: f.uid, Generation: f.generation, Replicas: f.replicas, Fields: maps.Clone(f.current().fields)}
}

func notFound(ref kube.Ref) error {
	return &fault.Error{Reason: fault.NotFound, Message: fmt.Sprintf("%s is not in the sandbox; check the service's workload", name(ref))}
}

func name(ref kube.Ref) string { return ref.Kind + " " + ref.Namespace + "/" + ref.Name }

var (
	_ step.Querier   = (*World)(nil)
	_ step.Workloads = (*World)(nil)
	_ step.Changer   = (*World)(nil)
	_ step.Prober    = (*World)(nil)
	_ step.GPUs      = (*World)(nil)
)
