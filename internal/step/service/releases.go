package service

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/slo"
	"github.com/inference-responder/responder/internal/step"
)

// release is a revision that became current at a moment. One that came back is two.
type release struct {
	kube.Revision
	at time.Time
}

// releases are the revisions that became current within the window, what was current
// before them, and those of them that may have begun the breach.
//
// A breach is not begun by what came after it. Of the releases before it the last is
// weighed, together with those right before that one that are not proven good: a
// rollback goes to the newest revision that was good before the breach.
type releases struct {
	past  []release      // all that was current, oldest first; the last is the current one
	begin int            // of past: the first release of the window; len(past): there is none
	first int            // of past: the first of those that may have begun the breach
	last  int            // of past: the last of those
	good  *kube.Revision // current before the first; nil: not known
	base  int            // of past: what to go back to where the objectives do not show the fault
	why   string         // why that is not the one right before the window; empty: it is
	note  string         // why it is not known whether that one is good; empty: it served before the window, or is proven

	pruned   bool // no revision from before the window is kept
	measured bool // the breach is measured: what may have begun it was told from the rest
}

// releasesOf returns the releases of the window. All are weighed until [changes.choose]
// finds those that may have begun the breach.
func releasesOf(revisions []kube.Revision, now time.Time, window time.Duration) releases {
	var r releases
	for _, v := range revisions {
		r.past = append(r.past, release{v, v.Created})
		if became := v.Became(); became.After(v.Created) {
			r.past = append(r.past, release{v, became})
		}
	}
	slices.SortStableFunc(r.past, func(a, b release) int {
		return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.Number, b.Number))
	})
	if i := slices.IndexFunc(r.past, func(v release) bool { return v.Current && v.at.Equal(v.Became()) }); i >= 0 {
		r.past = r.past[:i+1]
	}
	r.begin = len(r.past)
	for r.begin > 0 && now.Sub(r.past[r.begin-1].at) <= window {
		r.begin--
	}
	switch {
	case r.begin == 0 && len(r.past) == 1:
		r.begin = 1 // nothing was there before
	case r.begin == 0:
		r.begin, r.pruned = 1, true
		r.note = fmt.Sprintf("no revision is kept that was current before the window: whether revision %d is good is not known", r.past[0].Number)
	}
	r.base = r.begin - 1
	r.weigh(r.begin, len(r.past)-1)
	return r
}

// weigh sets which releases may have begun the breach.
func (r *releases) weigh(first, last int) {
	r.first, r.last, r.good = first, last, nil
	if first > 0 && first < len(r.past) {
		r.good = &r.past[first-1].Revision
	}
}

// of returns how many releases the window has.
func (r *releases) of() int { return len(r.past) - r.begin }

// current returns the current revision.
func (r *releases) current() kube.Revision { return r.past[len(r.past)-1].Revision }

// isSuspect reports whether a revision is one of those that go back if the suspects do.
func (r *releases) isSuspect(number int64) bool {
	return r.first < len(r.past) && slices.ContainsFunc(r.past[r.first:], func(v release) bool { return v.Number == number })
}

// choose finds the releases that may have begun the breach. Where it is not measured,
// all that came before the alert may have.
func (c changes) choose(ctx context.Context, in step.Input, f *found, b *breach) {
	r := &f.releases
	last := len(r.past) - 1
	if !b.since.IsZero() {
		for last >= r.begin && b.since.Before(r.past[last].at.Add(-sameMoment)) {
			last--
		}
	}
	r.measured = r.of() > 1 && c.q != nil && b.known && !b.since.IsZero()
	first := r.begin
	if r.measured {
		last = c.midst(ctx, in, f, b, last)
		first = c.suspects(ctx, in, f, b, last)
	}
	r.weigh(first, max(first, last)) // of none it is told why the first is not the cause
	f.served(r.measured)
}

// midst returns the last release that may have begun the breach. One that came during the
// breach may be a cause all the same, if the service was well right before it, or much
// better than now.
func (c changes) midst(ctx context.Context, in step.Input, f *found, b *breach, last int) int {
	r := &f.releases
	for i := len(r.past) - 1; i > last; i-- {
		n, err := c.before(ctx, in, b, r.past[i].at, min(beforeSpan, r.past[i].at.Sub(b.since)))
		f.lacks("the time before the change", err)
		if b.better(n) {
			return i
		}
	}
	return last
}

// suspects returns the first of the releases that may have begun the breach, down from
// the last: the one before the first is proven good, or was there before the window.
func (c changes) suspects(ctx context.Context, in step.Input, f *found, b *breach, last int) int {
	r := &f.releases
	first := max(last, r.begin)
	for first > r.begin && (r.past[first-1].Number == r.current().Number || !c.proven(ctx, in, f, b, first-1)) {
		first--
	}
	if first == r.begin && last == len(r.past)-1 && r.past[first-1].Number == r.current().Number {
		first = last // somebody went back to it: what was taken away meanwhile may be missing
	}
	if r.pruned && last >= r.begin && (first > r.begin || c.proven(ctx, in, f, b, first-1)) {
		r.note = ""
	}
	return first
}

// served makes the newest revision whose pods serve the one to go back to, if the current
// one never served. If the breach is measured, a revision that may have begun it is not
// chosen.
func (f *found) served(measured bool) {
	r := &f.releases
	if !f.out.Unserved || r.of() == 0 {
		return
	}
	for i := len(r.past) - 2; i >= 0; i-- {
		if r.past[i].Number == f.serves && (!measured || i < r.first) {
			r.weigh(i+1, max(i+1, r.last))
			return
		}
	}
}

// before measures the worst objective over a time that ends at a moment.
func (c changes) before(ctx context.Context, in step.Input, b *breach, at time.Time, window time.Duration) (slo.Counts, error) {
	then := slo.Ask{Service: in.Service.Selector, Objectives: []slo.Objective{b.worst.Objective}}
	m, err := slo.Measure(ctx, step.Patient(c.q), then, in.Now, slo.Span{Window: window, Offset: max(in.Now.Sub(at), 0)})
	if err != nil {
		return slo.Counts{}, err
	}
	for _, x := range m.Measured {
		if x.Reason == "" && x.Value == b.worst.Value {
			return x.Counts[0], nil
		}
	}
	return slo.Counts{}, nil
}

// better reports whether the service met its objective at an earlier time, or was much
// better than now.
func (b *breach) better(before slo.Counts) bool {
	test := slo.Test{Objective: b.worst.Objective.Objective, Factor: b.factor, Now: before}
	stands, _ := test.Stands()
	return stands == slo.Met || stands == slo.Breached && b.worst.Counts[0].Total > 0 && 2*before.Ratio() < b.worst.Counts[0].Ratio()
}

// moves records what the releases of the window moved, and what those moved that may
// have begun the breach, as far as it still stands.
func (f *found) moves() {
	r, current := &f.releases, f.releases.current()
	base := r.past[r.begin-1].Revision
	listed := map[string]bool{}
	for _, d := range kube.Diff(base.Fields, current.Fields) {
		listed[d.Path] = true
		f.field(d.Path, d.From, d.To)
		f.out.Matters = f.out.Matters || kube.Matters(d.Path)
	}
	f.group = []string{}
	for _, d := range kube.Diff(r.good.Fields, current.Fields) {
		if !listed[d.Path] {
			f.field(d.Path, d.From, d.To)
			f.out.Matters = f.out.Matters || kube.Matters(d.Path)
		}
		if r.past[r.last].Fields[d.Path] == d.From {
			continue // moved later
		}
		f.matters = f.matters || kube.Matters(d.Path)
		if name := shortName(d.Path); !slices.Contains(f.group, name) {
			f.group = append(f.group, name)
		}
	}
	for i := len(r.past) - 1; i >= r.begin && f.live.IsZero(); i-- {
		if !r.ours(i) && slices.ContainsFunc(kube.Diff(r.past[i-1].Fields, r.past[i].Fields), func(d kube.FieldDiff) bool { return works(d.Path) }) {
			f.live = r.past[i].at
		}
	}
}

// ours reports whether Responder made a release, as far as the current revision tells:
// a repair, the undo of one, or the repair that was undone.
func (r *releases) ours(i int) bool {
	current := r.current()
	switch last := len(r.past) - 1; i {
	case last:
		return current.Ours || current.PutBack
	case last - 1:
		return current.PutBack && r.past[i].Number != current.Number
	}
	return false
}

// aim returns the revisions to go back to: the one before the releases that may have
// begun the breach, and the base. 0: not known, or it is the current one.
func (f *found) aim() (target, base int64) {
	r := &f.releases
	if r.of() == 0 {
		if f.out.Unserved {
			return f.serves, f.serves
		}
		return 0, 0
	}
	if f.out.Ours {
		return 0, 0
	}
	current := r.current().Number
	base, target = r.past[r.base].Number, r.good.Number
	if r.pruned && !r.measured && !f.out.Unserved {
		target = f.out.Previous
	}
	if base == current || r.pruned {
		base = 0
	}
	if target == current {
		target = 0
	}
	return target, base
}

// numbers returns releases in words: revision 7, revisions 7 and 8. One that came back is
// named once.
func (r *releases) numbers(first, last int) string {
	var all []string
	for i := first; i <= last; i++ {
		if number := fmt.Sprint(r.past[i].Number); !slices.Contains(all, number) {
			all = append(all, number)
		}
	}
	return revisionWords(all)
}

// later returns in words what came after those that may have begun the breach, and is
// neither one of them nor what was current before them; empty: nothing.
func (r *releases) later() string {
	var all []string
	for _, v := range r.past[r.last+1:] {
		known := v.Number == r.good.Number || slices.ContainsFunc(r.past[r.first:r.last+1], func(s release) bool { return s.Number == v.Number })
		if number := fmt.Sprint(v.Number); !known && !slices.Contains(all, number) {
			all = append(all, number)
		}
	}
	if len(all) == 0 {
		return ""
	}
	return revisionWords(all)
}

func revisionWords(all []string) string {
	if n := len(all); n > 1 {
		return "revisions " + strings.Join(all[:n-1], ", ") + " and " + all[n-1]
	}
	return "revision " + strings.Join(all, "")
}

// text lists the releases of the window, for people.
func (r *releases) text(window step.Duration, now time.Time) string {
	var all []string
	for _, v := range r.past[r.begin:] {
		one := fmt.Sprintf("revision %d %s ago", v.Number, step.DurationText(now.Sub(v.at)))
		if v.Cause != "" {
			one += " (" + v.Cause + ")"
		}
		all = append(all, one)
	}
	out := fmt.Sprintf("releases within %s: %s; ", step.DurationText(time.Duration(window)), step.FirstOf(all, 6, ", "))
	if r.pruned {
		return out + "which was current before them is not kept"
	}
	return out + fmt.Sprintf("revision %d was current before them", r.past[r.begin-1].Number)
}
