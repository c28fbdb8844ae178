package git

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/step"
)

// deployLag is how much earlier than a revision of the workload its deployment may seem
// to have ended: the Deployment controller makes the revision after it.
const deployLag = 15 * time.Second

// target is a revision of the workload to go back to, in terms of commits.
type target struct {
	revision int64
	from     time.Time // when it last became current; zero: not known
	until    time.Time // when the next revision became current; zero: not known
	ran      string    // the newest commit that it ran; empty: the history of the application does not tell
}

// targetOf finds what a revision of the workload ran.
func targetOf(at site, revisions []kube.Revision, number int64) target {
	t := target{revision: number}
	for _, r := range revisions {
		if r.Number == number {
			t.from = r.Became()
		}
	}
	for _, r := range revisions {
		for _, moment := range []time.Time{r.Created, r.Became()} {
			if r.Number != number && moment.After(t.from) && (t.until.IsZero() || moment.Before(t.until)) {
				t.until = moment
			}
		}
	}
	if !t.from.IsZero() && !t.until.IsZero() {
		t.ran = at.ran(t.from, t.until)
	}
	return t
}

// ran returns the commit that was deployed before the one whose deployment made the
// revision that became current at until; empty: not known. The revision before it became
// current at from.
func (s site) ran(from, until time.Time) (sha string) {
	h := slices.DeleteFunc(slices.Clone(s.app.History), func(d gitops.Deployment) bool {
		return d.At.IsZero() || s.index >= len(d.Revisions) || !isSHA(d.Revisions[s.index])
	})
	lag := min(until.Sub(from)/2, deployLag)
	for i, d := range h {
		began := !d.Started.IsZero() && !d.Started.After(from)
		followed := i+1 < len(h) && !h[i+1].Started.IsZero() && !h[i+1].Started.After(until)
		if !began && !followed && !d.At.Before(until.Add(-lag)) {
			return sha
		}
		sha = d.Revisions[s.index]
	}
	return ""
}

// after returns those commits that came after the target, of all newest first, and a
// note for people about which they are. Commits that the target ran and a repair had
// reverted then came after it, too: the undo of the repair put them back. If what the
// target ran is not known, all are returned.
func (g Change) after(ctx context.Context, at site, t target, all []gitops.Touched) ([]gitops.Touched, string, error) {
	var kept []gitops.Touched
	before := map[string]bool{} // commits that the target ran
	next := false               // a commit that may have made the next revision
	for _, c := range all {
		ran := !c.Commit.At.After(t.from)
		if t.ran != "" {
			var err error
			if ran, err = g.h.Contains(ctx, at.src, c.Commit.SHA, t.ran); err != nil {
				return nil, "", err
			}
		}
		if ran {
			kept = append(kept, c)
			before[c.Commit.SHA] = true
		}
		next = next || !ran && !c.Commit.At.After(t.until) && rollsOut(c)
	}
	note := fmt.Sprintf("goes back to revision %d, which ran commit %s", t.revision, short(t.ran))
	switch {
	case t.ran != "":
	case t.from.IsZero() || t.until.IsZero() || !next:
		return all, fmt.Sprintf("which commit revision %d ran is not known: all commits of the window go back", t.revision), nil
	default:
		note = fmt.Sprintf("goes back to revision %d, current since %s: what was made later goes back, as %s does not tell when it was deployed",
			t.revision, t.from.UTC().Format(time.RFC3339), at.app.Title())
	}
	reverted := takenBack(kept, repairs)
	return slices.DeleteFunc(slices.Clone(all), func(c gitops.Touched) bool {
		return before[c.Commit.SHA] && !reverted[c.Commit.SHA]
	}), note, nil
}

// revisions returns the revisions of the service's workload, if a revert names any. It
// refuses one whose evidence is stale.
func (l gitopsRevert) revisions(ctx context.Context, in step.Input, with revertWith) ([]kube.Revision, error) {
	if with.ToRevision == 0 && with.FromRevision == 0 {
		return nil, nil
	}
	ref := step.RefOf(in.Service)
	all, err := l.w.Revisions(ctx, ref)
	if err != nil {
		return nil, err
	}
	current, _ := kube.Newest(all)
	return all, step.SameRevision("gitops.revert", ref, current, with.FromRevision)
}

// running returns the commits that what runs contains. If that is not known, all are
// returned.
func (g Change) running(ctx context.Context, at site, all []gitops.Touched) ([]gitops.Touched, error) {
	now := at.deployed()
	if !isSHA(now) {
		return all, nil
	}
	var out []gitops.Touched
	for _, c := range all {
		in, err := g.h.Contains(ctx, at.src, c.Commit.SHA, now)
		if err != nil {
			return nil, err
		}
		if in {
			out = append(out, c)
		}
	}
	return out, nil
}
