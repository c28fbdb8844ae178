package gitops

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Rollout is the progress of a commit on its way into the cluster.
type Rollout string

// The results of [Settled] and [Operated].
const (
	RolloutWaiting  Rollout = "waiting"  // not there yet; it may still come
	RolloutSettled  Rollout = "settled"  // synced, the operation is over, healthy
	RolloutDegraded Rollout = "degraded" // synced and unhealthy; it may still recover
	RolloutFailed   Rollout = "failed"   // the sync of this commit failed, and would fail again
)

// Settled returns how far a commit is rolled out, and the reason in words. The
// rollout is settled when Argo CD or Flux compared the live state with the commit, or with
// one that contains it, found no difference, runs no operation and finds the
// application healthy. Right after a sync began, Argo CD still shows the state of
// the commit before, so each condition is checked for this commit.
//
// contains reports whether a commit is a descendant of the wanted one; nil means
// that none is. A rollout is not settled if anything is unknown.
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
		return RolloutWaiting, fmt.Sprintf("%s has compared %s so far, not %s%s", app.Deployer(), short(app.Revisions), short([]string{revision}), app.trouble())
	case ours && op.Phase != "Succeeded":
		return RolloutWaiting, fmt.Sprintf("the sync of %s is %q", short(op.Revisions), op.Phase)
	}
	if app.Sync != "Synced" {
		return RolloutWaiting, fmt.Sprintf("%s at %s%s%s", orNone(app.Sync), short(app.Revisions), app.differing(), app.trouble())
	}
	how := "synced"
	if !ours && !op.DryRun { // a dry run hides the sync before it
		how = "no sync was needed: live state and commit are the same"
	}
	return app.byHealth(fmt.Sprintf("%s at %s", how, short(app.Revisions)))
}

// Operated returns how far an operation brought an application without auto-sync to
// these revisions, one for each source, and the reason in words. After a rollback,
// Git still has the later state and the application stays out of sync. So the result
// depends on the operation and on the health that was found after it. Times have a
// resolution of one second: ask for a refresh first.
func Operated(app Application, revisions []string) (Rollout, string) {
	op := app.Operation
	same := len(revisions) > 0 && slices.Equal(op.Revisions, revisions)
	switch {
	case app.Deleting:
		return RolloutFailed, "the application is being deleted"
	case op.Running:
		return RolloutWaiting, op.Describe()
	case op.DryRun:
		return RolloutWaiting, fmt.Sprintf("the last operation was a dry run by %s, which hides how the sync before it ended", orNone(op.By))
	case !same:
		return RolloutWaiting, fmt.Sprintf("the last sync was to %s, not to %s", short(op.Revisions), short(revisions))
	case op.Phase == "Failed" || op.Phase == "Error":
		return RolloutFailed, fmt.Sprintf("the sync to %s ended %s: %s", short(revisions), op.Phase, orNone(op.Message))
	case op.Phase != "Succeeded":
		return RolloutWaiting, fmt.Sprintf("the sync to %s is %q", short(revisions), op.Phase)
	case !app.Compared.After(op.Finished):
		return RolloutWaiting, "Argo CD has not looked at the live state since the sync"
	}
	return app.byHealth("synced to " + short(revisions))
}

func (app Application) byHealth(where string) (Rollout, string) {
	switch app.Health {
	case "Healthy":
		return RolloutSettled, where + ", healthy"
	case "Degraded", "Missing":
		return RolloutDegraded, fmt.Sprintf("%s, but %s: %s", where, strings.ToLower(app.Health), orNone(app.rollingOut()))
	default:
		return RolloutWaiting, fmt.Sprintf("%s, health %s%s", where, orNone(app.Health), after(": ", app.rollingOut()))
	}
}

// Describe returns a running operation in words.
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

// trouble returns the application's problems and what keeps it from being synced.
func (app Application) trouble() string {
	return after("; ", strings.Join(app.Problems, "; ")) + after("; closed by ", app.Window) + after("; suspended: ", app.Suspended)
}

// differing returns the resources that are out of sync, in words.
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

// short returns revisions abbreviated, in words.
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

// rollingOut returns the application's health message, or those of the resources
// with the same health: Argo CD has no message for the application itself.
func (app Application) rollingOut() string {
	if app.Message != "" {
		return app.Message
	}
	var names []string
	for _, r := range app.Resources {
		if r.Health == app.Health && !r.Hook {
			names = append(names, r.String()+after(": ", r.Message))
		}
	}
	if len(names) > 2 {
		names = append(names[:2], "and more")
	}
	return strings.Join(names, "; ")
}
