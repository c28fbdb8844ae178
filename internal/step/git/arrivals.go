package git

import (
	"context"
	"slices"
	"time"

	"github.com/inference-responder/responder/internal/gitops"
)

// arrival is a commit that came to a service.
type arrival struct {
	gitops.Touched

	At time.Time // when it was made; of one that was made before the window: when it was deployed
}

// arrivals are the commits that touched the service's manifests and were made,
// or deployed, since then, newest first. Git knows when a commit was made, not
// when it was pushed, so a commit of last week that goes out today is known by
// Argo CD's history alone.
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

// deployedAfter are the commits after one that were made within the window or
// deployed within it, newest first.
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
