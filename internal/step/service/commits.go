package service

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
)

// replicas is how a change of a number of replicas, or of a bound of it, is named.
var replicas = gitops.Variable{Replicas: true}.String()

// commits reads the commits of the window, where Git owns the service. A commit
// that waits to be deployed has changed nothing yet.
func (c changes) commits(ctx context.Context, in step.Input, f *found, window time.Duration) error {
	if f.out.Git == sourceNone && in.Service.GitOps == (playbook.GitOps{}) {
		return nil
	}
	f.out.Git = sourceUnknown
	came, err := c.git.Arrivals(ctx, in, in.Now.Add(-window))
	if err != nil {
		return err
	}
	f.out.Git = sourceRead
	released := slices.ContainsFunc(came, func(a step.Arrival) bool { return a.Deployed && !onlyReplicas(a) })
	decided := false
	// What the cluster says of its own revision is nearer than an earlier commit:
	// somebody may have changed the workload since.
	became := f.became
	repaired := false // by what came later: a commit of ours that did more than scale, or the current revision
	for _, a := range came {
		age := max(in.Now.Sub(a.At), 0)
		f.out.Commits = append(f.out.Commits, commitOut{a.Commit.SHA, a.Commit.Subject, a.Commit.Author.Name, age.Seconds(), a.Ours, a.Deployed})
		if !a.Deployed {
			continue
		}
		// The newest release decides whose it is; the scaling since then does not.
		if !decided && !a.Undone && (!released || !onlyReplicas(a)) {
			decided = true
			if f.out.Cluster != sourceRead || a.At.After(became) {
				f.out.Ours = f.out.Ours || a.Ours
			}
		}
		repaired = repaired || a.Ours && !onlyReplicas(a) || f.out.Ours && !a.At.After(became)
		if !a.Ours {
			f.arrived(a, age)
		}
		if !a.Ours && !repaired && a.At.After(f.commit) && means(a) {
			f.commit = a.At
		}
	}
	return nil
}

// arrived records a commit of somebody else's.
func (f *found) arrived(a step.Arrival, age time.Duration) {
	if !f.out.Changed {
		f.out.Changed = true
		f.weighs(a)
		f.out.AgeSeconds = age.Seconds()
	}
	f.out.AgeSeconds = min(f.out.AgeSeconds, age.Seconds())
	if slices.ContainsFunc(a.Touches, touchMatters) && !f.out.Matters {
		// What came later cannot matter: this one is weighed.
		f.out.Matters, f.matters = true, true
		f.weighs(a)
	}
	for _, t := range a.Touches {
		if !f.told(t.Variable) {
			f.field(t.Variable, t.From, t.To)
		}
	}
}

// weighs records that a commit is weighed, not what the cluster's revisions moved.
func (f *found) weighs(a step.Arrival) {
	f.byCommit, f.group = true, nil
	f.subject, f.first, f.at = "commit "+shortSHA(a.Commit.SHA), a.At, a.At
}

// told reports whether the cluster's revisions show a variable already.
func (f *found) told(variable string) bool { return slices.Contains(f.moved, variable) }

// onlyReplicas reports whether a commit moved nothing else than replicas.
func onlyReplicas(a step.Arrival) bool {
	return len(a.Touches) > 0 && !slices.ContainsFunc(a.Touches, func(t gitops.Touch) bool { return t.Variable != replicas })
}

// means reports whether somebody means what a commit moved.
func means(a step.Arrival) bool {
	return len(a.Touches) == 0 || slices.ContainsFunc(a.Touches, func(t gitops.Touch) bool { return t.Variable == replicas || works(pathInTemplate(t)) })
}

// touchMatters reports whether what a commit moved can change how requests are
// served. Of replicas only fewer can.
func touchMatters(t gitops.Touch) bool {
	if t.Variable == replicas {
		from, errFrom := strconv.Atoi(t.From)
		to, errTo := strconv.Atoi(t.To)
		return errFrom != nil || errTo != nil || to < from
	}
	return kube.Matters(pathInTemplate(t)) && kube.Matters("["+t.Variable+"]")
}

// pathInTemplate returns the path of what a commit moved as pod templates have it.
func pathInTemplate(t gitops.Touch) string {
	path := strings.TrimSuffix(t.Path, ".value")
	if i := strings.Index(path, "metadata."); i >= 0 {
		path = path[i:]
	}
	return path
}
