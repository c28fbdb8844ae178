package gitops

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Rollout is how far a commit has come on its way into the cluster.
type Rollout string

// The answers of [Settled] and [RolledBack].
const (
	RolloutWaiting  Rollout = "waiting"  // not there yet; it may still come
	RolloutSettled  Rollout = "settled"  // synced, the operation is over, healthy
	RolloutDegraded Rollout = "degraded" // synced and unhealthy; it may still recover
	RolloutFailed   Rollout = "failed"   // the sync of this commit failed, and Argo CD does not try again
)

// Settled reports whether the application runs the commit, and why it thinks
// so, for people. The commit counts as there when Argo CD compared the live
// state with it, or with a commit that contains it, found no difference, runs
// no operation and finds the application healthy. Right after a sync began,
// Argo CD still shows the state before it, which says all of that of another
// commit; so everything here is tied to the commit.
//
// contains says whether a commit is a descendant of the wanted one; nil: none
// is. Anything that is not known to be good is not settled.
func Settled(app Application, revision string, contains func(sha string) bool) (Rollout, string) {
	has := func(revisions []string) bool {
		return revision != "" && slices.ContainsFunc(revisions, func(sha string) bool {
			return sha == revision || sha != "" && contains != nil && contains(sha)
		})
	}
	op := app.Operation
	ours := has(op.Revisions) && !op.DryRun
	switch {
	case app.Deleting:
		return RolloutFailed, "the application is being deleted"
	case app.Hydrated:
		return RolloutFailed, "Argo CD's source hydrator writes what is synced, so this commit is never the synced one"
	case op.Running:
		return RolloutWaiting, op.Describe()
	case ours && (op.Phase == "Failed" || op.Phase == "Error"):
		return RolloutFailed, fmt.Sprintf("the sync of %s ended %s: %s", short(op.Revisions), op.Phase, orNone(op.Message))
	case !has(app.Revisions):
		return RolloutWaiting, fmt.Sprintf("Argo CD has compared %s so far, not %s%s", short(app.Revisions), short([]string{revision}), app.trouble())
	case ours && op.Phase != "Succeeded":
		return RolloutWaiting, fmt.Sprintf("the sync of %s is %q", short(op.Revisions), op.Phase)
	}
	if app.Sync != "Synced" {
		if ours && op.Key != "" && len(op.Resources) > 0 {
			return app.settledInPart()
		}
		return RolloutWaiting, fmt.Sprintf("%s at %s%s%s", orNone(app.Sync), short(app.Revisions), app.differing(), app.trouble())
	}
	how := "synced"
	if !ours {
		how = "no sync was needed: live state and commit are the same"
	}
	return byHealth(app.Health, app.Message, fmt.Sprintf("%s at %s", how, short(app.Revisions)))
}

// settledInPart judges a sync of some resources by those alone: the others
// were out of sync before, and nobody asked to change that.
func (app Application) settledInPart() (Rollout, string) {
	worst, why := RolloutSettled, ""
	for _, wanted := range app.Operation.Resources {
		i := slices.IndexFunc(app.Resources, wanted.Same)
		if i < 0 {
			return RolloutWaiting, fmt.Sprintf("Argo CD does not list %s", wanted)
		}
		r := app.Resources[i]
		if r.Sync != "Synced" {
			return RolloutWaiting, fmt.Sprintf("%s is %s", r, orNone(r.Sync))
		}
		health := r.Health
		if health == "" {
			health = "Healthy" // a kind without health, such as a ConfigMap
		}
		state, because := byHealth(health, r.Message, r.String()+" is synced")
		if state == RolloutWaiting {
			return state, because
		}
		if worst == RolloutSettled {
			worst, why = state, because
		}
	}
	return worst, why + "; the rest of the application is out of sync and was left alone"
}

// RolledBack reports whether the application was brought back to an entry of
// its history. Git still has the later state then, so the application stays
// out of sync; what counts is the operation, and the health found after it (to
// the second: ask for a refresh).
func RolledBack(app Application, to Deployment) (Rollout, string) {
	op := app.Operation
	same := len(to.Revisions) > 0 && slices.Equal(op.Revisions, to.Revisions) && !op.DryRun
	switch {
	case app.Deleting:
		return RolloutFailed, "the application is being deleted"
	case op.Running:
		return RolloutWaiting, op.Describe()
	case !same:
		return RolloutWaiting, fmt.Sprintf("the last operation synced %s, not %s", short(op.Revisions), short(to.Revisions))
	case op.Phase == "Failed" || op.Phase == "Error":
		return RolloutFailed, fmt.Sprintf("the rollback to %s ended %s: %s", short(to.Revisions), op.Phase, orNone(op.Message))
	case op.Phase != "Succeeded":
		return RolloutWaiting, fmt.Sprintf("the rollback is %q", op.Phase)
	case !app.Compared.After(op.Finished):
		return RolloutWaiting, "Argo CD has not compared the live state since the rollback"
	}
	return byHealth(app.Health, app.Message, "rolled back to "+short(to.Revisions))
}

func byHealth(health, message, where string) (Rollout, string) {
	switch health {
	case "Healthy":
		return RolloutSettled, where + ", healthy"
	case "Degraded":
		return RolloutDegraded, fmt.Sprintf("%s, but degraded: %s", where, orNone(message))
	default:
		return RolloutWaiting, fmt.Sprintf("%s, health %s%s", where, orNone(health), after(": ", message))
	}
}

// Describe says a running operation for people.
func (op Operation) Describe() string {
	by := "Argo CD"
	if op.By != "" {
		by = op.By
	}
	s := fmt.Sprintf("a sync to %s runs, started by %s", short(op.Revisions), by)
	if !op.Started.IsZero() {
		s += " at " + op.Started.UTC().Format(time.RFC3339)
	}
	return s + after(": ", op.Message)
}

// trouble says why Argo CD does not get on, where it says so itself.
func (app Application) trouble() string {
	return after("; ", strings.Join(app.Problems, "; ")) + after("; closed by ", app.Window)
}

func (app Application) differing() string {
	var names []string
	for _, r := range app.Resources {
		if r.Sync != "Synced" && !r.Hook {
			names = append(names, r.String())
		}
	}
	if len(names) > 3 {
		names = append(names[:3], fmt.Sprintf("and %d more", len(names)-3))
	}
	return after(": ", strings.Join(names, ", "))
}

// short says revisions as people do.
func short(revisions []string) string {
	if len(revisions) == 0 {
		return "nothing"
	}
	out := make([]string, len(revisions))
	for i, sha := range revisions {
		out[i] = orNone(sha[:min(len(sha), 10)])
	}
	return strings.Join(out, ", ")
}

func after(separator, s string) string {
	if s == "" {
		return ""
	}
	return separator + s
}

func orNone(s string) string {
	if s == "" {
		return "(none)"
	}
	return s
}
