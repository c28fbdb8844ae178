package service

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/slo"
	"github.com/inference-responder/responder/internal/step"
)

// The spans over which a breach is measured.
const (
	nowSpan    = 5 * time.Minute  // the usual short window: what decides
	beforeSpan = 10 * time.Minute // before a change took effect, or a breach began
	rampSpan   = 5 * time.Minute  // a load that grows shows in the objective only after a while
	lookback   = 6 * time.Hour    // how far back the beginning of a breach is looked for
)

// breach is what is known of the incident, and of what may have begun it.
type breach struct {
	since  time.Time // zero: there is none, as far as is known
	worst  slo.Measured
	known  bool           // worst is the objective that is missed most
	all    []slo.Measured // objectives that are measured now
	factor float64

	before, oldPods, newPods slo.Counts
	odd                      odd
	own                      slo.Counts // on pods of the current revision, now
	now, load                growth     // of the load now, and of the one that may explain the breach
	slower                   prefill
}

// odd is the one bad pod of the current revision, where every other pod of it that
// serves is well.
type odd struct {
	pod         string // empty: there is no such pod
	own, others slo.Counts
	rest        int // pods
}

// breach measures the objectives of the service and finds when the one that is
// missed most began to be. Without one the alert says when it began.
func (c changes) breach(ctx context.Context, in step.Input, f *found) breach {
	b := breach{now: unknownGrowth, load: unknownGrowth}
	if !in.Alert.StartsAt.IsZero() {
		b.since = in.Alert.StartsAt
	}
	if c.q == nil || len(in.Service.SLOs) == 0 {
		return b
	}
	q := step.Patient(c.q)
	m, err := slo.Measure(ctx, q, step.Objectives(in.Service), in.Now, slo.Span{Window: nowSpan})
	if err != nil {
		f.lacks("the service's objectives", err)
		return b
	}
	for _, x := range m.Measured {
		if x.Reason == "" {
			b.all = append(b.all, x)
		}
	}
	if b.worst, b.factor, b.known = step.Missed(m, in.Alert); !b.known {
		return b
	}
	since, err := b.worst.Began(ctx, q, in.Now, nowSpan, lookback)
	if err != nil {
		f.lacks("the beginning of the breach", err)
		return b
	}
	b.since = since
	return b
}

// compare measures what else may explain the breach: how the service was before
// the change, the load now and then, and pods of both revisions. What cannot be
// measured is missing.
func (c changes) compare(ctx context.Context, in step.Input, f *found, b *breach) {
	if c.q == nil {
		f.missing = append(f.missing, "no Prometheus is configured: the change is not weighed against the load")
		return
	}
	q := step.Patient(c.q)
	if err := b.weighLoad(ctx, q, in, f.first); err != nil {
		f.lacks("the load", err)
		return
	}
	f.out.Traffic, f.out.Waiting, f.out.Loaded = known(b.now.times), known(b.now.waiting), b.now.explains()
	if !b.known {
		return
	}
	var err error
	if b.before, err = c.before(ctx, in, b, f.first, beforeSpan); err != nil {
		f.lacks("the time before the change", err)
		return
	}
	f.out.RatioBefore = ratio(b.before)
	if err := b.sides(ctx, q, in, f); err != nil {
		f.lacks("pods side by side", err)
	}
}

// sides measures the worst objective on each pod, and compares those of the releases
// that may have begun the breach with those of the revision before them, where both
// serve, else those of the current revision with each other.
func (b *breach) sides(ctx context.Context, q step.Querier, in step.Input, f *found) error {
	byName := map[string]kube.Pod{}
	former := f.former()
	old, fresh, current := 0, 0, 0
	for _, p := range f.pods {
		byName[p.Name] = p
		switch {
		case p.Revision == former:
			old++
		case f.isFresh(p.Revision):
			fresh++
		}
		if p.Revision == f.out.Revision {
			current++
		}
	}
	each := b.worst.Each("pod")
	if fresh == 0 || old+fresh < 2 || f.out.Revision == 0 || len(each.Objectives) == 0 {
		return nil
	}
	m, err := slo.Measure(ctx, q, each, in.Now, slo.Span{Window: nowSpan})
	if err != nil {
		return err
	}
	serving := map[string]slo.Counts{} // pods of the current revision
	for _, x := range m.Measured {
		p, known := byName[x.Value]
		if x.Reason != "" || !known || !(x.Counts[0].Total > 0) {
			continue
		}
		side := &b.oldPods
		switch {
		case p.Revision == former:
		case f.isFresh(p.Revision):
			side = &b.newPods
		default:
			continue
		}
		if p.Revision == f.out.Revision {
			serving[p.Name] = x.Counts[0]
			b.own.Bad += x.Counts[0].Bad
			b.own.Total += x.Counts[0].Total
		}
		side.Bad += x.Counts[0].Bad
		side.Total += x.Counts[0].Total
	}
	if b.newPods.Total > 0 {
		f.out.Unserved = false // they are not ready now, and answered requests a moment ago
	}
	switch {
	case b.oldPods.Total > 0 && b.newPods.Total > 0:
		f.out.Sides = []sideOut{
			{f.out.Revision, math.Round(b.newPods.Total), b.newPods.Ratio()},
			{former, math.Round(b.oldPods.Total), b.oldPods.Ratio()},
		}
	case old == 0 && fresh == current && len(serving) == current:
		b.odd = oddOne(serving, slo.Test{Objective: b.worst.Objective.Objective, Factor: b.factor})
	}
	return nil
}

// former returns the number of the revision that what is weighed is compared with;
// 0: not known.
func (f *found) former() int64 {
	if r := &f.releases; r.of() > 0 && r.good != nil {
		return r.good.Number
	}
	return f.out.Previous
}

// isFresh reports whether pods of a revision have what is weighed.
func (f *found) isFresh(number int64) bool {
	return number == f.out.Revision || f.releases.of() > 0 && f.releases.isSuspect(number)
}

// serve tells whether only replicas of an earlier revision serve, as many as are
// wanted: a release that has just begun, or cannot start.
func (f *found) serve() {
	ready := map[int64]int{} // by revision
	for _, p := range f.pods {
		if p.Ready && !p.Worker {
			ready[p.Revision]++
		}
	}
	for i := len(f.releases.past) - 1; i >= 0 && f.serves == 0; i-- {
		if n := f.releases.past[i].Number; n != f.out.Revision && ready[n] > 0 {
			f.serves = n
		}
	}
	f.out.Unserved = f.serves > 0 && f.desired > 0 && ready[f.out.Revision] == 0 && ready[f.serves] >= f.desired
}

// oddOne returns the one pod that misses the objective while all others meet it.
func oddOne(pods map[string]slo.Counts, test slo.Test) odd {
	out := odd{}
	for name, n := range pods {
		test.Now = n
		switch stands, _ := test.Stands(); {
		case stands == slo.Met:
			out.others.Bad, out.others.Total, out.rest = out.others.Bad+n.Bad, out.others.Total+n.Total, out.rest+1
		case stands == slo.Breached && out.pod == "":
			out.pod, out.own = name, n
		default:
			return odd{}
		}
	}
	if out.rest == 0 {
		return odd{}
	}
	return out
}

// ratio returns the bad share of counts; nil: there are none.
func ratio(c slo.Counts) *float64 { return known(c.Ratio()) }

// known returns a pointer to a number that was measured, else nil.
func known(v float64) *float64 {
	if !step.IsFinite(v) {
		return nil
	}
	return &v
}

// weight puts together what is weighed.
func (f *found) weight(b breach, window time.Duration) weight {
	w := weight{
		changed: f.out.Changed, ours: f.out.Ours, matters: f.matters,
		subject: f.subject, moved: f.moved, first: f.first, at: f.at, window: window, since: b.since,
		former: "the revision before", before: b.before, oldPods: b.oldPods, newPods: b.newPods, odd: b.odd, unserved: f.out.Unserved, own: b.own, load: b.load, slower: b.slower,
		bad: "bad", unknown: f.out.Missing,
	}
	if f.group != nil {
		w.moved = f.group
	}
	if f.out.Revision > 0 && (w.subject == "" || w.ours) {
		w.subject = fmt.Sprintf("revision %d", f.out.Revision)
	}
	if n := f.former(); n > 0 {
		w.former = fmt.Sprintf("revision %d", n)
	}
	w.serves = w.subject
	if r := &f.releases; r.of() > 0 && !f.byCommit {
		w.serves = r.numbers(r.first, len(r.past)-1)
		w.unserved = w.unserved && !r.isSuspect(f.serves)
		w.gone = r.good.Number == r.current().Number
		if w.later = r.later(); w.later != "" && b.now.explains() {
			w.load = b.now // what came later may have mended what the suspect began
		}
		if current := r.current(); current.Acquitted {
			w.acquitted = fmt.Sprintf("revision %d was taken back, which did not help, and was put back", current.Number)
			if !current.Active.IsZero() {
				w.acquitted += fmt.Sprintf(" %s ago", step.DurationText(time.Duration(f.out.AgeSeconds*float64(time.Second))))
			}
		}
		if r.of() > 1 && f.out.Target == r.good.Number {
			w.target = f.out.Target
		}
	}
	if b.known {
		w.objective, w.factor, w.now = b.worst.Objective.Objective, b.factor, b.worst.Counts[0]
		w.bad, w.fails = step.BadWord(b.worst.Objective.Indicator), step.IsErrors(b.worst.Objective.Indicator)
		w.prompt = step.HoldsPrefill(b.worst.Objective.Indicator)
	}
	return w
}
