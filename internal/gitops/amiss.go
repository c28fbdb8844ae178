package gitops

import (
	"slices"
	"strings"
)

// healths are Argo CD's, from good to bad; the worst of its resources is an
// application's. One that is not listed is worse than all of them.
var healths = []string{"", "Healthy", "Suspended", "Progressing", "Missing", "Degraded", "Unknown"}

func unhealthy(r Resource) bool { return r.Health != "" && r.Health != "Healthy" }

func outOfSync(r Resource) bool { return r.Sync != "Synced" && !r.Hook }

// Amiss are the resources that are not as they should be: out of sync, or not
// healthy.
func (app Application) Amiss() []Resource {
	var out []Resource
	for _, r := range app.Resources {
		if !r.Hook && (outOfSync(r) || unhealthy(r)) {
			out = append(out, r)
		}
	}
	return out
}

// still is what of a resource that was amiss before still is.
type still struct {
	at  int      // of the resource among the application's
	was Resource // as it was, but for what is fine by now
}

// stillAmiss looks each of the resources that were amiss up among the
// application's. One that is gone, or fine by now, is left out.
func (app Application) stillAmiss(amiss []Resource) []still {
	var out []still
	for _, was := range amiss {
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
			out = append(out, still{i, was})
		}
	}
	return out
}

// Without is the application as it would be if what was amiss already were not:
// a resource that was out of sync is taken for synced, and one that was not
// healthy for healthy, unless its health is worse by now. All else that is amiss
// stays so, and so does what no resource accounts for.
func (app Application) Without(amiss []Resource) Application {
	all := app.stillAmiss(amiss)
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

// Remaining are those of the resources that are still amiss, each for what of
// it still is. One that is gone is not among them.
func (app Application) Remaining(amiss []Resource) []Resource {
	out := []Resource{}
	for _, s := range app.stillAmiss(amiss) {
		out = append(out, s.was)
	}
	return out
}

// asBefore reports whether a resource's health is known, and no worse than it was.
func asBefore(was, now Resource) bool {
	then, rank := slices.Index(healths, was.Health), slices.Index(healths, now.Health)
	return then >= 0 && rank >= 0 && rank <= then
}

// worst is the health of an application of these resources, and what its worst
// one says.
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

// Leaves reports whether a sync of the application would leave what differs now
// as it is, so that a change takes nothing of the cluster's own back: Argo CD
// has tried already, of itself, and it differs all the same, or it is to be
// deleted and nothing deletes it. Whoever changed something by hand a moment ago
// has it healed back, change or not.
func (app Application) Leaves() bool {
	op := app.Operation
	tried := app.Automated && app.SelfHeal && !op.Running && !op.DryRun && op.Phase == "Succeeded" &&
		slices.Equal(op.Revisions, app.Revisions) && !app.Compared.Before(op.Finished) // both to the second
	differs := slices.DeleteFunc(slices.Clone(app.Resources), func(r Resource) bool { return !outOfSync(r) })
	return app.Sync == "OutOfSync" && len(app.Problems) == 0 && len(differs) > 0 &&
		!slices.ContainsFunc(differs, func(r Resource) bool { return !tried && (!r.Prune || app.Prunes) })
}

// rollingOut says what a health that is not good is of, in the resource's words:
// Argo CD says nothing of the application itself.
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
