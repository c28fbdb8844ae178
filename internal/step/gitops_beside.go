package step

import (
	"fmt"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/gitops"
)

// This file holds what an application may have beside a change: resources that
// never get in sync, or are not healthy, for reasons of their own. They neither
// keep a change of something else from being made and from counting as made, nor
// hide what the change itself does.

// beside are the resources of an application that are amiss before a change, but
// for its own: the service's workload, the object that Git holds for it, and what
// the change touches. Those count afterwards, however they were.
func beside(at site, touches []gitops.Touch) []machine.Amiss {
	own := func(r gitops.Resource) bool {
		return r.Kind == at.w.Ref.Kind && r.Name == at.w.Ref.Name || r.Kind == at.object.Kind && r.Name == at.object.Name ||
			slices.ContainsFunc(touches, func(t gitops.Touch) bool { return t.Kind == r.Kind && t.Name == r.Name && t.Kind != "" })
	}
	leaves := at.app.Leaves() // else what is out of sync is what a sync brings in
	var out []machine.Amiss
	for _, r := range at.app.Amiss() {
		a := machine.Amiss{Group: r.Group, Kind: r.Kind, Namespace: r.Namespace, Name: r.Name}
		if r.Sync != "Synced" && leaves {
			a.Sync = orNone(r.Sync)
		}
		if r.Health != "Healthy" {
			a.Health = r.Health
		}
		if !own(r) && a.Sync+a.Health != "" {
			out = append(out, a)
		}
	}
	return out
}

// amissOf gives them back as the application's resources were.
func amissOf(list []machine.Amiss) []gitops.Resource {
	var out []gitops.Resource
	for _, a := range list {
		r := gitops.Resource{Group: a.Group, Kind: a.Kind, Namespace: a.Namespace, Name: a.Name, Sync: a.Sync, Health: a.Health}
		if a.Sync == "" {
			r.Sync = "Synced"
		}
		out = append(out, r)
	}
	return out
}

// besideText says them on one line, for the plan.
func besideText(list []machine.Amiss) string {
	var out []string
	for i, r := range amissOf(list) {
		var how []string
		if list[i].Sync != "" {
			how = append(how, list[i].Sync)
		}
		if list[i].Health != "" {
			how = append(how, list[i].Health)
		}
		out = append(out, r.String()+" "+strings.Join(how, " and "))
	}
	return few(out)
}

// inSync reports whether an application is in sync but for what was out of sync
// before the change and is left so by any sync.
func inSync(app gitops.Application, list []machine.Amiss) bool {
	return app.Sync == "Synced" || app.Leaves() && app.Without(amissOf(list)).Sync == "Synced"
}

// apart adds to a plan what does not count of what it is rolled out with.
func apart(plan *machine.Plan, at site, touches []gitops.Touch) {
	if plan.Beside = beside(at, touches); len(plan.Beside) > 0 {
		plan.Notes = append(plan.Notes, fmt.Sprintf("amiss before it in application %s, so that it does not count: %s", at.app.Name, besideText(plan.Beside)))
	}
}
