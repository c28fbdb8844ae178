package git

import (
	"context"
	"time"

	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
)

// rolloutReach is how long before a revision became current the commit behind it
// is looked for.
const rolloutReach = 24 * time.Hour

// Committed reports whether the current revision comes of a commit of
// Responder's own: Argo CD puts it in place, without any mark of ours. What
// cannot be found out is no, and note says so: a change is rather suspected than
// overlooked.
func (g Change) Committed(ctx context.Context, in step.Input, current kube.Revision) (ours bool, note string) {
	if in.Service.GitOps == (playbook.GitOps{}) || g.configured() != nil {
		return false, ""
	}
	at, err := g.find(ctx, in)
	if err != nil {
		return false, unasked(err)
	}
	became := current.Became()
	came, err := g.arrivals(ctx, at, became.Add(-rolloutReach))
	if err != nil {
		return false, unasked(err)
	}
	if at.app.Sync != "Synced" {
		return false, "" // what runs is of somebody else's making, too
	}
	for _, a := range came {
		in, err := g.h.Contains(ctx, at.src, a.Commit.SHA, at.deployed())
		if err != nil {
			return false, unasked(err)
		}
		if in && rollsOut(a.Touched) {
			return repairs(a.Commit) && !became.Before(a.Commit.At.Truncate(time.Second)), ""
		}
	}
	return false, ""
}

func unasked(err error) string {
	return "whether the current revision comes of a commit of Responder's own could not be found out: " + step.AsError(err).Error()
}

// rollsOut reports whether a commit may have made a new revision: of the number of
// replicas there is none.
func rollsOut(c gitops.Touched) bool {
	for _, v := range variables(c) {
		if v != (gitops.Variable{Replicas: true}).String() {
			return true
		}
	}
	return false
}
