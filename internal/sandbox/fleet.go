package sandbox

import (
	"fmt"
	"slices"
	"time"

	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/sandbox/physics"
)

// fleet is one workload: a Deployment, its ReplicaSets and its pods.
type fleet struct {
	spec        *serviceSpec
	ref         kube.Ref
	subnet      int // its number in the world, and in the addresses of its pods
	uid         string
	generation  int64
	observed    int64
	replicas    int
	annotations map[string]string
	scaledBy    string        // effect of ours that set the replicas last; empty: none
	sets        []*replicaSet // by revision, the current one last
	pods        []*pod        // oldest first
	apart       []*pod        // that it let go of, since they lost its label
	events      []kube.EventCount
	born        int          // pods ever made
	changed     time.Time    // when the spec was first changed through the API; zero: never
	ticks       uint64       // that it has served: what is random does not depend on the time of day
	turn        int          // requests handed out
	dropped     float64      // requests that no pod took
	hpa         *autoscaler  // nil: nobody scales it
	app         *application // that deploys it; nil: it is not in Git
	still       *standstill  // its rollouts are paused; nil: they are not
	split       *split       // in front of it and its warm revision; nil: it has none
	of          *fleet       // that it is the warm revision of; nil: of none
	rng         hash
}

// replicaSet is one revision of the pod template.
type replicaSet struct {
	name     string
	revision int64
	created  time.Time
	active   time.Time // when it last became the current one
	complete bool      // its rollout: all replicas were of it, and ready
	cause    string
	fields   map[string]string
	image    image
	ours     bool // put in place by a rollback of ours
	putBack  bool // put in place by the undo of one
	acquits  bool // that one was measured and did not help
}

// pod is one pod and its engine.
type pod struct {
	name    string
	ip      string
	set     *replicaSet
	node    string // empty: no node takes it
	labels  map[string]string
	notes   map[string]string // annotations
	created time.Time
	loaded  time.Time // when the model is loaded
	ready   bool
	engine  *physics.Engine // nil until the model is loaded
	drag    float64         // how many times too low an ailing GPU's clock is; 0: it has none
	slow    float64         // factor on the time of computation, by a sickness; 0: none
	stuck   bool
	hangs   float64 // share of its requests that never finish
	wrong   wrong   // how its completions differ, by a sickness; empty: they do not

	restarts, crashes int           // of its container: in all, and in a row
	ended             *kube.Ended   // how; nil: it did not
	died              death         // why it ended last; empty: it did not
	again             time.Time     // when it starts after that
	diesAfter         time.Duration // from each start until it dies; 0: it does not
	diesOf            death
}

// surge is how many pods a rolling update adds at once; none may be missing.
func (f *fleet) surge() int { return max(1, f.spec.surge) }

// progressDeadline is Kubernetes' default of progressDeadlineSeconds.
const progressDeadline = 10 * time.Minute

// stuck returns what the Deployment controller says of a rollout in which no pod
// became ready within the progress deadline; empty: it says nothing. Of replicas
// that are added or replaced after a rollout was complete it says nothing either.
func (f *fleet) stuck(at time.Time) string {
	if f.current().complete || f.still != nil {
		return ""
	}
	since := f.current().active
	ready := 0
	for _, p := range f.pods {
		if p.set != f.current() {
			continue
		}
		if p.ready {
			ready++
		}
		for _, t := range []time.Time{p.created, p.loaded} {
			if t.After(since) && !t.After(at) {
				since = t
			}
		}
	}
	if ready >= f.replicas || at.Sub(since) < progressDeadline {
		return ""
	}
	return fmt.Sprintf("ReplicaSet %q has timed out progressing.", f.current().name)
}

// newFleet returns the workload in its first revision.
func newFleet(spec *serviceSpec, subnet int, start time.Time, rng hash) *fleet {
	f := &fleet{
		spec: spec, subnet: subnet,
		ref:        kube.Ref{Kind: spec.service.Workload.Kind, Namespace: spec.service.Namespace, Name: spec.service.Workload.Name},
		generation: 1, observed: 1, replicas: spec.replicas,
		annotations: map[string]string{}, rng: rng,
	}
	if spec.git {
		f.app = &application{}
	}
	if spec.hpa != nil {
		f.hpa = &autoscaler{autoscaling: *spec.hpa}
	}
	n := rng.of("uid", 0)
	f.uid = fmt.Sprintf("%08x-%04x-4%03x-a%03x-%012x", n>>32, n>>16&0xffff, n&0xfff, n>>20&0xfff, rng.of("uid", 1)&0xffffffffffff)
	for _, r := range spec.revisions {
		if !start.Add(-r.age).After(start.Add(-history)) {
			f.release(r, start.Add(-r.age))
		}
	}
	return f
}

// release makes a new revision the current one.
func (f *fleet) release(r revisionSpec, at time.Time) {
	rev := f.revision() + 1
	if f.app != nil {
		r.cause = "" // the commit tells
	}
	set := &replicaSet{
		name:     fmt.Sprintf("%s-%s", f.ref.Name, f.rng.text("template", uint64(rev), 10)),
		revision: rev, created: at, active: at, cause: r.cause, fields: r.fields, image: r.image,
	}
	f.sets = append(f.sets, set)
	if rev > 1 {
		f.generation++
	}
}

// revision returns the number of the current revision, 0 if there is none.
func (f *fleet) revision() int64 {
	if len(f.sets) == 0 {
		return 0
	}
	return f.current().revision
}

func (f *fleet) current() *replicaSet { return f.sets[len(f.sets)-1] }

// undo makes an earlier revision the current one, under a new number, as the
// Deployment controller does.
func (f *fleet) undo(revision int64, at time.Time) {
	i := slices.IndexFunc(f.sets, func(s *replicaSet) bool { return s.revision == revision })
	set := f.sets[i]
	rev := f.revision() + 1
	f.sets = append(slices.Delete(f.sets, i, i+1), set)
	set.revision, set.active, set.complete = rev, at, false
	f.generation++
}

// control is one round of the controllers: it loads models, replaces pods one
// surge at a time without ever falling below the wanted number of ready ones,
// and holds the number of replicas.
func (f *fleet) control(at time.Time, place func() string) {
	f.observed = f.generation
	for _, p := range f.pods {
		f.start(p, at, place)
	}
	updated, ready := 0, 0
	for _, p := range f.pods {
		if p.set == f.current() {
			updated++
		}
		if p.ready {
			ready++
		}
	}
	if updated == len(f.pods) && ready == updated && ready >= f.replicas {
		f.current().complete = true
	}
	if f.still != nil {
		f.stand(at, place)
		return
	}
	for len(f.pods) > f.replicas {
		i := f.spare(ready > f.replicas)
		if i < 0 {
			break
		}
		if f.pods[i].ready {
			ready--
		}
		if f.pods[i].set == f.current() {
			updated--
		}
		f.pods = slices.Delete(f.pods, i, i+1)
	}
	limit := f.replicas
	if updated < len(f.pods) {
		limit += f.surge() // a rolling update is under way
	}
	for len(f.pods) < limit && updated < f.replicas {
		f.create(at, place)
		updated++
	}
}

// spare returns the pod to remove next, -1 when none may go: first those that are
// not ready, old revisions before the current one, the youngest first.
func (f *fleet) spare(readyToo bool) int {
	best, bestRank := -1, -1
	for i, p := range f.pods {
		old := p.set != f.current()
		surplus := f.updated() > f.replicas
		rank := -1
		switch {
		case old && !p.ready:
			rank = 3
		case !old && !p.ready && surplus:
			rank = 2
		case old && readyToo:
			rank = 1
		case !old && readyToo && surplus:
			rank = 0
		}
		if rank >= bestRank && rank >= 0 {
			best, bestRank = i, rank
		}
	}
	return best
}

// updated counts the pods of the current revision.
func (f *fleet) updated() int {
	n := 0
	for _, p := range f.pods {
		if p.set == f.current() {
			n++
		}
	}
	return n
}

// create makes a pod of the current revision.
func (f *fleet) create(at time.Time, place func() string) { f.createOf(f.current(), at, place) }

func (f *fleet) createOf(set *replicaSet, at time.Time, place func() string) {
	f.born++
	p := &pod{
		name: fmt.Sprintf("%s-%s", set.name, f.rng.text("pod", uint64(f.born), 5)),
		ip:   fmt.Sprintf("10.%d.%d.%d", 100+f.subnet, f.born>>8, f.born&0xff),
		set:  set, created: at, labels: map[string]string{appLabel: f.ref.Name}, notes: map[string]string{},
	}
	f.pods = append(f.pods, p)
	f.start(p, at, place)
}

// start takes a pod as far towards ready as the time allows.
func (f *fleet) start(p *pod, at time.Time, place func() string) {
	if p.ready {
		return
	}
	if p.node == "" {
		if p.node = place(); p.node == "" {
			f.warn("FailedScheduling", "Pod/"+p.name, "0 nodes are available: insufficient nvidia.com/gpu", at)
			return
		}
		p.loaded = at.Add(f.loads(p, 0))
		return
	}
	if p.engine != nil {
		p.engine = nil // it died
	}
	if at.Before(p.loaded) {
		if at.Sub(p.created) >= probeDelay {
			f.warn("Unhealthy", "Pod/"+p.name, "Readiness probe failed: HTTP probe failed with statuscode: 503 (loading model)", at)
		}
		return
	}
	if why := f.doomed(p); why != "" {
		f.crash(p, why, at)
		return
	}
	p.ready = true
}

// How fast a pod reads its model, up to how much longer it takes to start, and when its
// probe first complains.
const (
	diskRate   = 5.65e9 // bytes per second: local disks
	loadSpread = 15 * time.Second
	probeDelay = 30 * time.Second
)

// warn counts a warning event.
func (f *fleet) warn(reason, object, message string, at time.Time) {
	for i := range f.events {
		if e := &f.events[i]; e.Reason == reason && e.Object == object {
			e.Count, e.Last = e.Count+1, at
			return
		}
	}
	f.events = append(f.events, kube.EventCount{Reason: reason, Object: object, Message: message, Count: 1, Last: at})
}

// serving returns the pods that take traffic.
func (f *fleet) serving() []*pod {
	var out []*pod
	for _, p := range f.pods {
		if p.ready {
			out = append(out, p)
		}
	}
	return out
}

// serve simulates the arrivals of the d before at and the engines' work on them. The
// router hands them out in turn.
func (f *fleet) serve(at, start time.Time, d time.Duration) {
	if f.of != nil {
		return // the service that it is kept beside serves with it
	}
	since := at.Sub(start)
	f.ticks++
	f.sicken(since, d, at)
	f.sickenAgain(at)
	pods, moving := f.awake(at, start, d)
	var warm, warmMoving []*pod
	if f.split != nil {
		warm, warmMoving = f.split.warm.awake(at, start, d)
	}
	seed, to := f.rng.of("requests", f.ticks), float64(at.Unix())
	for _, r := range f.load(at, since).Requests(seed, to-d.Seconds(), to) {
		if b := f.backend(); b != f {
			b.take(r, warm, warmMoving)
			continue
		}
		f.take(r, pods, moving)
	}
	for _, p := range slices.Concat(pods, warm, f.apart) { // who is apart finishes what it has
		if p.engine != nil {
			p.engine.Advance(to)
		}
	}
}

// load returns what clients send at a moment.
func (f *fleet) load(at time.Time, since time.Duration) physics.Load {
	l := f.spec.load
	l.Rate *= factor(f.spec.traffic, since) * (1 + 0.02*f.rng.normal("traffic", f.ticks/uint64(time.Minute/tick)))
	l.Prompt.Mean *= factor(f.spec.prompts, since)
	for _, o := range f.spec.odd {
		if since >= o.from {
			l.Odd, l.OddOnes = o.share, o.tokens
		}
	}
	l.Output.Mean *= factor(f.spec.outputs, since)
	l.Share *= factor(f.spec.shared, since)
	if !f.changed.IsZero() && f.spec.leaves > 0 && at.Sub(f.changed) >= f.spec.leaves {
		l.Rate = 0
	}
	return l
}

// sicken lets the sicknesses begin that are due.
func (f *fleet) sicken(since, d time.Duration, at time.Time) {
	for _, s := range f.spec.sick {
		if since < s.from || since-d >= s.from {
			continue
		}
		for i, p := range f.pods {
			switch {
			case s.pod >= 0 && i != s.pod, s.node != "" && p.node != s.node:
			case s.dies != "":
				f.crash(p, s.dies, at)
				p.diesAfter, p.diesOf = s.after, s.dies
			default:
				p.slow, p.stuck, p.hangs, p.wrong = s.slow, s.stuck, s.hangs, s.wrong
			}
		}
	}
}
