package gitops

import (
	"slices"
)

// healths has Argo CD's healths from good to bad. An application has the worst one
// of its resources. A health that is not listed is worse than all of them.
var healths = []string{"", "Healthy", "Suspended", "Progressing", "Missing", "Degraded", "Unknown"}

func unhealthy(r Resource) bool { return r.Health != "" && r.Health != "Healthy" }

func outOfSync(r Resource) bool { return r.Sync != "Synced" && !r.Hook }

// Drift returns the resources that are out of sync or not healthy.
func (app Application) Drift() []Resource {
	var out []Resource
	for _, r := range app.Resources {
		if !r.Hook && (outOfSync(r) || unhealthy(r)) {
			out = append(out, r)
		}
	}
	return out
}

// driftedResource is a resource that drifted before a change and still does.
type driftedResource struct {
	at  int      // index in the application's resources
	was Resource // as it was before, without what recovered
}

// stillDrifted returns those of the drifted resources that still drift. It leaves
// out resources that are gone or recovered.
func (app Application) stillDrifted(drift []Resource) []driftedResource {
	var out []driftedResource
	for _, was := range drift {
		i := slices.IndexFunc(app.Resources, was.Same)
		if i < 0 {
			continue
		}
		if !outOfSync(app.Resources[i]) {
			was.Sync = "Synced"
		}
		if !unhealthy(app.Resources[i]) {
			was.Health = ""
		}
		if outOfSync(was) || unhealthy(was) {
			out = append(out, driftedResource{i, was})
		}
	}
	return out
}

// Without returns the application as it would be without the drift that existed
// before a change. A resource that was out of sync becomes synced. One that was not
// healthy becomes healthy, unless its health is worse by now. Other drift stays, and
// so does a state of the application that no resource explains.
func (app Application) Without(drift []Resource) Application {
	all := app.stillDrifted(drift)
	app.Resources = slices.Clone(app.Resources)
	synced, healed := false, false
	for _, s := range all {
		r := &app.Resources[s.at]
		if outOfSync(s.was) {
			r.Sync, synced = "Synced", true
		}
		if unhealthy(s.was) && asBefore(s.was, *r) {
			r.Health, r.Message, healed = "Healthy", "", true
		}
	}
	if synced && app.Sync == "OutOfSync" && !slices.ContainsFunc(app.Resources, outOfSync) {
		app.Sync = "Synced"
	}
	if healed && app.Health != "" && slices.Contains(healths, app.Health) {
		app.Health, app.Message = worst(app.Resources)
	}
	return app
}

// Remaining returns those of the drifted resources that still drift, without what
// recovered. It leaves out resources that are gone.
func (app Application) Remaining(drift []Resource) []Resource {
	out := []Resource{}
	for _, s := range app.stillDrifted(drift) {
		out = append(out, s.was)
	}
	return out
}

// asBefore reports whether a resource's health is known, and no worse than it was.
func asBefore(was, now Resource) bool {
	then, rank := slices.Index(healths, was.Health), slices.Index(healths, now.Health)
	return then >= 0 && rank >= 0 && rank <= then
}

// worst returns the worst health of the resources and the message of that resource.
func worst(resources []Resource) (health, message string) {
	at := slices.Index(healths, "Healthy")
	for _, r := range resources {
		rank := slices.Index(healths, r.Health)
		switch {
		case r.Hook:
		case rank < 0:
			return r.Health, r.String() + after(": ", r.Message)
		case rank > at:
			at, message = rank, r.String()+after(": ", r.Message)
		}
	}
	return healths[at], message
}

// Leaves reports whether a sync of the application would not change the resources
// that are out of sync now, so that a change reverts nothing else in the cluster:
// auto-sync already tried and they still differ, or they are to be deleted and
// pruning is off. A manual change that self-heal would revert does not matter.
func (app Application) Leaves() bool {
	op := app.Operation
	tried := app.Automated && app.SelfHeal && !op.Running && !op.DryRun && op.Phase == "Succeeded" &&
		slices.Equal(op.Revisions, app.Revisions) && !app.Compared.Before(op.Finished) // both to the second
	differs := slices.DeleteFunc(slices.Clone(app.Resources), func(r Resource) bool { return !outOfSync(r) })
	return app.Sync == "OutOfSync" && len(app.Problems) == 0 && len(differs) > 0 &&
		!slices.ContainsFunc(differs, func(r Resource) bool { return !tried && (!r.Prune || app.Prunes) })
}
