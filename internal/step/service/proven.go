package service

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/inference-responder/responder/internal/slo"
	"github.com/inference-responder/responder/internal/step"
)

// stands returns how counts stand to an objective.
func stands(in step.Input, o slo.Objective, n slo.Counts) slo.Standing {
	status, _ := slo.Test{Objective: o.Objective, Factor: step.AlertFactor(in.Alert, o.Period), Now: n}.Stands()
	return status
}

// proven reports whether the service met its objectives on a release until the next one
// came: as measured on the release's own pods, or, where that cannot be told, as it was
// current for long. The objective that is missed now has to be measured; what cannot be
// measured of the others proves nothing.
func (c changes) proven(ctx context.Context, in step.Input, f *found, b *breach, i int) bool {
	r := &f.releases
	until := r.past[i+1].at
	span := slo.Span{Window: beforeSpan, Offset: max(in.Now.Sub(until), 0)}
	m, err := slo.Measure(ctx, step.Patient(c.q), step.Objectives(in.Service), in.Now, span)
	if err != nil {
		f.lacks("the time before the change", err)
		return false
	}
	worst := !b.known
	for _, x := range m.Measured {
		if x.Reason != "" || !(x.Counts[0].Total > 0) {
			continue
		}
		if stands(in, x.Objective, x.Counts[0]) != slo.Met {
			return false
		}
		worst = worst || x.Objective.Name == b.worst.Objective.Name && x.Value == b.worst.Value
	}
	return worst && (until.Sub(r.past[i].at) > settledAfter || c.provenByPods(ctx, in, f, b, r.past[i].Name, span))
}

// provenByPods reports whether the pods of a ReplicaSet met the objectives.
func (c changes) provenByPods(ctx context.Context, in step.Input, f *found, b *breach, set string, span slo.Span) bool {
	var each slo.Ask
	for _, x := range b.all {
		e := x.Each("pod")
		each.Service, each.Objectives = cmp.Or(each.Service, e.Service), append(each.Objectives, e.Objectives...)
	}
	if len(each.Objectives) == 0 {
		return false
	}
	m, err := slo.Measure(ctx, step.Patient(c.q), each, in.Now, span)
	if err != nil {
		f.lacks("pods of earlier revisions", err)
		return false
	}
	own := map[string]slo.Counts{} // by objective
	for _, x := range m.Measured {
		if x.Reason == "" && x.Counts[0].Total > 0 && strings.HasPrefix(x.Value, set+"-") {
			n := own[x.Objective.Name]
			own[x.Objective.Name] = slo.Counts{Bad: n.Bad + x.Counts[0].Bad, Total: n.Total + x.Counts[0].Total}
		}
	}
	if _, measured := own[b.worst.Objective.Name]; b.known && !measured {
		return false
	}
	for _, o := range each.Objectives {
		if n, measured := own[o.Name]; measured && stands(in, o, n) != slo.Met {
			return false
		}
	}
	return len(own) > 0
}

// rebase makes the first revision of the window that is proven good the base if the one
// before the window is known to have missed an objective. Otherwise a release that
// mended it would go back together with one that came later.
func (c changes) rebase(ctx context.Context, in step.Input, f *found, b *breach) {
	r := &f.releases
	if r.of() < 2 || r.pruned || c.q == nil || len(b.all) == 0 {
		return
	}
	missed := c.missed(ctx, in, f, r.begin)
	for i := r.begin; missed != "" && i < r.last; i++ {
		if r.past[i].Number != r.current().Number && c.proven(ctx, in, f, b, i) {
			r.base = i
			r.why = fmt.Sprintf("revision %d, from before the window, missed %s, and revision %d met all objectives", r.past[r.begin-1].Number, missed, r.past[i].Number)
			return
		}
	}
}

// missed returns the name of an objective that the service missed right before a release;
// empty: none, as far as is known.
func (c changes) missed(ctx context.Context, in step.Input, f *found, i int) string {
	span := slo.Span{Window: beforeSpan, Offset: max(in.Now.Sub(f.releases.past[i].at), 0)}
	m, err := slo.Measure(ctx, step.Patient(c.q), step.Objectives(in.Service), in.Now, span)
	if err != nil {
		f.lacks("the time before the change", err)
		return ""
	}
	for _, x := range m.Measured {
		if x.Reason == "" && stands(in, x.Objective, x.Counts[0]) == slo.Breached {
			return x.Name()
		}
	}
	return ""
}
