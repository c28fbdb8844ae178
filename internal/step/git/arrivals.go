package git

import (
	"context"
	"slices"
	"time"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
)

// arrival is a commit that was made or deployed for a service.
type arrival struct {
	gitops.Touched

	At time.Time // as of [step.Arrival]
}

// Arrivals returns the commits that touched the service's manifests and were made
// or deployed since then, newest first.
func (g Change) Arrivals(ctx context.Context, in step.Input, since time.Time) ([]step.Arrival, error) {
	if err := g.readable(); err != nil {
		return nil, err
	}
	at, err := g.find(ctx, in)
	if err != nil {
		return nil, err
	}
	came, err := g.arrivals(ctx, at, since)
	if err != nil {
		return nil, err
	}
	gone := undone(touched(came))
	var out []step.Arrival
	for _, a := range came {
		deployed := true
		if now := at.deployed(); isSHA(now) {
			if deployed, err = g.h.Contains(ctx, at.src, a.Commit.SHA, now); err != nil {
				return nil, err
			}
		}
		out = append(out, step.Arrival{Touched: a.Touched, At: a.At, Ours: repairs(a.Commit), Undone: gone[a.Commit.SHA], Deployed: deployed})
	}
	return out, nil
}

// touched returns the commits of arrivals.
func touched(came []arrival) []gitops.Touched {
	var out []gitops.Touched
	for _, a := range came {
		out = append(out, a.Touched)
	}
	return out
}

// arrivals returns the commits that touched the service's manifests and were
// made or deployed since then, newest first. Git knows when a commit was made,
// not when it was pushed: a commit of last week that is deployed today is found
// by Argo CD's history only.
func (g Change) arrivals(ctx context.Context, at site, since time.Time) ([]arrival, error) {
	made, err := g.h.Changes(ctx, at.src, at.object, since)
	if err != nil {
		return nil, err
	}
	var out []arrival
	before, deployed := at.deployments(since)
	if before != "" {
		if out, err = g.deployedAfter(ctx, at, before, deployed, made); err != nil {
			return nil, err
		}
	}
	for _, c := range made {
		if !slices.ContainsFunc(out, func(a arrival) bool { return a.Commit.SHA == c.Commit.SHA }) {
			out = append(out, arrival{c, c.Commit.At})
		}
	}
	return out, nil
}

// deployedAfter returns the commits after one that were made or deployed within
// the window, newest first.
func (g Change) deployedAfter(ctx context.Context, at site, before string, deployed []gitops.Deployment, made []gitops.Touched) ([]arrival, error) {
	after, err := g.h.Since(ctx, at.src, at.object, before)
	if err != nil {
		return nil, err
	}
	var out []arrival
	for _, c := range after {
		if slices.ContainsFunc(made, func(m gitops.Touched) bool { return m.Commit.SHA == c.Commit.SHA }) {
			out = append(out, arrival{c, c.Commit.At})
			continue
		}
		for _, d := range deployed {
			in, err := g.h.Contains(ctx, at.src, c.Commit.SHA, d.Revisions[at.index])
			if err != nil {
				return nil, err
			}
			if in {
				out = append(out, arrival{c, d.At})
				break
			}
		}
	}
	return out, nil
}

// deployments are what Argo CD deployed since then, oldest first, and the commit
// that ran before it; of a history that does not reach back that far, the oldest
// one that it knows. Empty: nothing else than before was deployed.
func (s site) deployments(since time.Time) (before string, deployed []gitops.Deployment) {
	for _, d := range s.app.History {
		switch {
		case s.index >= len(d.Revisions) || !isSHA(d.Revisions[s.index]):
			// No commit of this source: it had other sources then.
		case before == "" || d.At.Before(since):
			before, deployed = d.Revisions[s.index], nil
		case d.Revisions[s.index] != before || len(deployed) > 0:
			deployed = append(deployed, d)
		}
	}
	if len(deployed) == 0 {
		return "", nil
	}
	return before, deployed
}

// rolloutReach is how long before a revision became current its commit is
// searched.
const rolloutReach = 24 * time.Hour

// Committed reports whether the current revision comes from a commit by
// Responder: Argo CD deploys it without any mark of ours. An undo by Responder is no
// repair: it puts back what was there before, and the commit that made that decides
// whose it is. If it cannot be found out the answer is no, with a note: it is better
// to suspect a change than to overlook it.
func (g Change) Committed(ctx context.Context, in step.Input, current kube.Revision) (ours, putBack bool, note string) {
	if in.Service.GitOps == (playbook.GitOps{}) || g.configured() != nil {
		return false, false, ""
	}
	at, err := g.find(ctx, in)
	if err != nil {
		return false, false, unasked(err)
	}
	became := current.Became()
	came, err := g.arrivals(ctx, at, became.Add(-rolloutReach))
	if err != nil {
		return false, false, unasked(err)
	}
	if at.app.Sync != "Synced" {
		return false, false, "" // what runs is of somebody else's making, too
	}
	if !isSHA(at.deployed()) {
		return false, false, unasked(&fault.Error{Reason: fault.NoData, Message: at.app.Title() + " does not tell which commit it deployed"})
	}
	all, err := g.running(ctx, at, touched(came))
	if err != nil {
		return false, false, unasked(err)
	}
	gone := undone(all)
	for _, c := range all {
		switch {
		case !rollsOut(c):
		case became.Before(c.Commit.At.Truncate(time.Second)):
			return false, false, "" // it did not make the current revision
		case gone[c.Commit.SHA]:
			putBack = true
		default:
			return repairs(c.Commit), putBack && !repairs(c.Commit), ""
		}
	}
	return false, putBack, ""
}

func unasked(err error) string {
	return "whether the current revision comes of a commit of Responder's own could not be found out: " + step.AsError(err).Error()
}

// rollsOut reports whether a commit may have made a new revision: a change of
// replicas does not.
func rollsOut(c gitops.Touched) bool {
	for _, v := range variables(c) {
		if v != (gitops.Variable{Replicas: true}).String() {
			return true
		}
	}
	return false
}
