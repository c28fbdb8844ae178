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

// This file handles pre-existing drift: resources of an application that were out
// of sync or unhealthy before the change, for reasons of their own. They do not
// block a change of something else, and they do not hide what the change does.

// lasting lists the healths that a resource may keep for good. Progressing ends
// one way or the other, so its end counts. Unknown excuses nothing.
var lasting = []string{"Degraded", "Missing", "Suspended"}

// preExistingDrift returns the drift of an application before a change, without the
// service's workload, the object that Git holds for it, and what the change
// touches. Those count afterwards, whatever state they were in.
func preExistingDrift(at site, touches []gitops.Touch) []machine.Drift {
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

// driftedResources converts drift to resources of an application.
func driftedResources(list []machine.Drift) []gitops.Resource {
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

// driftOf converts resources of an application to drift.
func driftOf(rs []gitops.Resource) []machine.Drift {
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

// driftAt returns the drift that does not count after a change: what remained of
// the plan's drift when the change was made, which may be long after the plan.
// Without a receipt it is the plan's drift.
func driftAt(plan machine.Plan, receipt json.RawMessage) []machine.Drift {
	if list, ok := receiptDrift(receipt); ok {
		return list
	}
	return plan.Drift
}

// receiptDrift returns the drift recorded in a receipt, and whether there is such a record.
func receiptDrift(receipt json.RawMessage) ([]machine.Drift, bool) {
	var made step.GitReceipt
	if len(receipt) == 0 || json.Unmarshal(receipt, &made) != nil || made.Drift == nil {
		return nil, false
	}
	return made.Drift, true
}

// remainingDrift is driftAt for a change whose receipt may be lost, by a crash
// between the write and the journal. Resources that have recovered since are no
// longer excused.
func remainingDrift(plan machine.Plan, receipt json.RawMessage, app gitops.Application) []machine.Drift {
	if list, ok := receiptDrift(receipt); ok || len(plan.Drift) == 0 {
		return list
	}
	return driftOf(app.Remaining(driftedResources(plan.Drift)))
}

// driftAfter is driftAt for a commit. If the receipt was lost, the commit's trailer
// tells. A squash removes the trailer; then resources that have recovered since
// are no longer excused. If Argo CD cannot be asked, the plan's drift holds for
// this observation only: kept, the drift for a receipt, is nil, so the next
// observation asks again.
func (g Change) driftAfter(ctx context.Context, plan machine.Plan, p gitPayload, receipt json.RawMessage, made gitops.Landing) (now, kept []machine.Drift) {
	if _, told := receiptDrift(receipt); told || made.None() || len(plan.Drift) == 0 {
		now = driftAt(plan, receipt)
		return now, now
	}
	if list, ok := parseDriftMark(plan.Drift, made.Drift); ok {
		return list, list
	}
	app, err := g.a.Application(ctx, p.Application)
	if err != nil {
		return plan.Drift, nil
	}
	now = remainingDrift(plan, receipt, app)
	return now, now
}

// maxDriftMarks is the largest drift that a commit's trailer describes.
const maxDriftMarks = 200

// driftMark encodes what remained of a plan's drift when its commit was made: the
// digest of the plan's drift, and for each resource whether it was out of sync
// (s), unhealthy (h), both (b) or neither (-). It is empty if there is no drift or
// too much of it.
func driftMark(list, remaining []machine.Drift) string {
	if len(list) == 0 || len(list) > maxDriftMarks {
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
	return driftDigest(list) + ":" + string(marks)
}

// parseDriftMark decodes a driftMark. It returns false if the mark is of another
// plan's drift.
func parseDriftMark(list []machine.Drift, mark string) ([]machine.Drift, bool) {
	name, marks, ok := strings.Cut(mark, ":")
	if !ok || name != driftDigest(list) || len(marks) != len(list) {
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

// driftDigest identifies a plan's drift: a fresh plan with the same digest may have
// other drift.
func driftDigest(list []machine.Drift) string {
	sum := sha256.Sum256(step.EncodeJSON(list))
	return hex.EncodeToString(sum[:4])
}

// driftText describes drift on one line, for the plan.
func driftText(list []machine.Drift) string {
	var out []string
	for i, r := range driftedResources(list) {
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
	return app.Sync == "Synced" || app.Leaves() && app.Without(driftedResources(list)).Sync == "Synced"
}

// noteDrift adds the pre-existing drift to a plan.
func noteDrift(plan *machine.Plan, at site, touches []gitops.Touch) {
	if plan.Drift = preExistingDrift(at, touches); len(plan.Drift) > 0 {
		plan.Notes = append(plan.Notes, fmt.Sprintf("pre-existing drift of application %s, which does not count: %s", at.app.Name, driftText(plan.Drift)))
	}
}
