package step

import (
	"encoding/json"
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

// lasting are the known healths that a resource may have for reasons of its own for
// good. What is Progressing may end either way, so that its end counts, and what is
// Unknown excuses nothing.
var lasting = []string{"Degraded", "Missing", "Suspended"}

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
		if slices.Contains(lasting, r.Health) {
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

// listed is the other way round.
func listed(rs []gitops.Resource) []machine.Amiss {
	out := []machine.Amiss{}
	for _, r := range rs {
		a := machine.Amiss{Group: r.Group, Kind: r.Kind, Namespace: r.Namespace, Name: r.Name, Health: r.Health}
		if r.Sync != "Synced" {
			a.Sync = r.Sync
		}
		out = append(out, a)
	}
	return out
}

// amissAt is what of a plan's list does not count after a change: what was still
// amiss when it was made, which may be long after the plan. Where no receipt
// tells, it is the plan's.
func amissAt(plan machine.Plan, receipt json.RawMessage) []machine.Amiss {
	var made gitReceipt
	if len(receipt) == 0 || json.Unmarshal(receipt, &made) != nil || made.Beside == nil {
		return plan.Beside
	}
	return made.Beside
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
