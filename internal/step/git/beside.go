package git

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/step"
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
func beside(at site, touches []gitops.Touch) []machine.Drift {
	own := func(r gitops.Resource) bool {
		return r.Kind == at.w.Ref.Kind && r.Name == at.w.Ref.Name || r.Kind == at.object.Kind && r.Name == at.object.Name ||
			slices.ContainsFunc(touches, func(t gitops.Touch) bool { return t.Kind == r.Kind && t.Name == r.Name && t.Kind != "" })
	}
	leaves := at.app.Leaves() // else what is out of sync is what a sync brings in
	var out []machine.Drift
	for _, r := range at.app.Drift() {
		a := machine.Drift{Group: r.Group, Kind: r.Kind, Namespace: r.Namespace, Name: r.Name}
		if r.Sync != "Synced" && leaves {
			a.Sync = step.OrNone(r.Sync)
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

// amissOf returns them as the application's resources were.
func amissOf(list []machine.Drift) []gitops.Resource {
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
func listed(rs []gitops.Resource) []machine.Drift {
	out := []machine.Drift{}
	for _, r := range rs {
		a := machine.Drift{Group: r.Group, Kind: r.Kind, Namespace: r.Namespace, Name: r.Name, Health: r.Health}
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
func amissAt(plan machine.Plan, receipt json.RawMessage) []machine.Drift {
	if list, ok := amissIn(receipt); ok {
		return list
	}
	return plan.Drift
}

// amissIn is what a receipt tells of it. False: it does not, or there is none.
func amissIn(receipt json.RawMessage) ([]machine.Drift, bool) {
	var made step.GitReceipt
	if len(receipt) == 0 || json.Unmarshal(receipt, &made) != nil || made.Drift == nil {
		return nil, false
	}
	return made.Drift, true
}

// amissNow is amissAt of a change whose receipt was lost, in a crash between the
// write and the journal: what is fine by now is not excused any more.
func amissNow(plan machine.Plan, receipt json.RawMessage, app gitops.Application) []machine.Drift {
	if list, ok := amissIn(receipt); ok || len(plan.Drift) == 0 {
		return list
	}
	return listed(app.Remaining(amissOf(plan.Drift)))
}

// besideAt is amissAt of a commit: that says it, too, where the receipt was lost.
// After a squash it does not, and what is fine by now is not excused any more.
// Where Argo CD cannot be asked, the plan's list is of this look alone: kept,
// what a receipt may say, is then nil, so that the next look asks again.
func (g Change) besideAt(ctx context.Context, plan machine.Plan, p gitPayload, receipt json.RawMessage, made gitops.Landing) (now, kept []machine.Drift) {
	if _, told := amissIn(receipt); told || made.None() || len(plan.Drift) == 0 {
		now = amissAt(plan, receipt)
		return now, now
	}
	if list, ok := marked(plan.Drift, made.Drift); ok {
		return list, list
	}
	app, err := g.a.Application(ctx, p.Application)
	if err != nil {
		return plan.Drift, nil
	}
	now = amissNow(plan, receipt, app)
	return now, now
}

// maxMarked is how many resources of a plan's list a commit speaks of.
const maxMarked = 200

// besideMark reports in a word what of a plan's list still was amiss when its commit
// was made: which list, and of each resource whether it was out of sync (s), not
// healthy (h), both (b) or neither (-). Empty: it is not said.
func besideMark(list, remaining []machine.Drift) string {
	if len(list) == 0 || len(list) > maxMarked {
		return ""
	}
	marks := bytes.Repeat([]byte("-"), len(list))
	for i, was := range list {
		for _, is := range remaining {
			switch {
			case is.Group != was.Group || is.Kind != was.Kind || is.Namespace != was.Namespace || is.Name != was.Name:
			case is.Sync != "" && is.Health != "":
				marks[i] = 'b'
			case is.Sync != "":
				marks[i] = 's'
			case is.Health != "":
				marks[i] = 'h'
			}
		}
	}
	return listName(list) + ":" + string(marks)
}

// marked reads what besideMark said. False: it speaks of another list, or not.
func marked(list []machine.Drift, mark string) ([]machine.Drift, bool) {
	name, marks, ok := strings.Cut(mark, ":")
	if !ok || name != listName(list) || len(marks) != len(list) {
		return nil, false
	}
	out := []machine.Drift{}
	for i, a := range list {
		switch marks[i] {
		case 'b':
		case 's':
			a.Health = ""
		case 'h':
			a.Sync = ""
		case '-':
			continue
		default:
			return nil, false
		}
		out = append(out, a)
	}
	return out, true
}

// listName tells one plan's list from another's: a fresh plan with the same digest
// may list other things.
func listName(list []machine.Drift) string {
	sum := sha256.Sum256(step.EncodeJSON(list))
	return hex.EncodeToString(sum[:4])
}

// besideText describes them on one line, for the plan.
func besideText(list []machine.Drift) string {
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
func inSync(app gitops.Application, list []machine.Drift) bool {
	return app.Sync == "Synced" || app.Leaves() && app.Without(amissOf(list)).Sync == "Synced"
}

// apart adds to a plan what does not count of what it is rolled out with.
func apart(plan *machine.Plan, at site, touches []gitops.Touch) {
	if plan.Drift = beside(at, touches); len(plan.Drift) > 0 {
		plan.Notes = append(plan.Notes, fmt.Sprintf("amiss before it in application %s, so that it does not count: %s", at.app.Name, besideText(plan.Drift)))
	}
}
