package sandbox

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/prometheus/common/model"

	"github.com/inference-responder/responder/internal/gpu/judge"
	"github.com/inference-responder/responder/internal/playbook"
)

// alertAfter is how long a GPU is at fault before its alert fires: the minutes
// that a verdict needs, and the rule's own.
const alertAfter = 5 * time.Minute

// nodeAlerts maintains the alerts that name a node: those of deploy/prometheus on
// the node agents' verdicts, and those of repairs.
func (a *watch) nodeAlerts(ctx context.Context, now time.Time) {
	active := map[model.Fingerprint]bool{}
	fire := func(since time.Time, summary string, labels map[string]string) {
		fp := fingerprint(labels)
		active[fp] = true
		if al := a.seen[fp]; al == nil || al.Status != playbook.Firing {
			if al != nil || since.After(now) {
				since = now.Truncate(time.Second)
			}
			a.seen[fp] = &playbook.Alert{
				Fingerprint: fp.String(), Status: playbook.Firing, Labels: labels, StartsAt: since.UTC(),
				Annotations: map[string]string{"summary": summary},
			}
		}
	}
	if a.world.scenario.gpuAlerts {
		a.gpuAlerts(ctx, now, fire)
	}
	for _, n := range a.world.scenario.nodes {
		if state, err := a.world.Node(ctx, n.name); n.repaired > 0 && err == nil && state.Unschedulable {
			fire(a.world.start.Add(-n.repaired), fmt.Sprintf("node %s was repaired", n.name), map[string]string{
				"alertname": "GPUNodeRepaired", "node": n.name, "severity": "info",
				"namespace": a.world.fleets[0].ref.Namespace, "service": a.world.fleets[0].ref.Name,
			})
		}
	}
	for fp, al := range a.seen {
		if al.Labels["node"] != "" && al.Status == playbook.Firing && !active[fp] {
			al.Status, al.EndsAt = playbook.Resolved, now.UTC().Truncate(time.Second)
		}
	}
}

// gpuAlerts returns an alert for every GPU that is not healthy.
func (a *watch) gpuAlerts(ctx context.Context, now time.Time, fire func(time.Time, string, map[string]string)) {
	for _, n := range a.world.scenario.nodes {
		if len(n.ailments) == 0 {
			continue
		}
		for _, j := range judge.Answers(now, a.world.Snapshots(ctx, []string{n.name}, 0)) {
			for _, g := range j.GPUs {
				name := alertOf(g)
				if name == "" {
					continue
				}
				since := now
				if ill, ok := a.world.ailmentOf(n, g.Index, now); ok {
					since = a.world.start.Add(ill.from + alertAfter).Truncate(evaluate)
				}
				fire(since, fmt.Sprintf("GPU %d of node %s is %s (%s)", g.Index, n.name, g.Verdict, g.UUID), map[string]string{
					"alertname": name, "node": n.name, "gpu": strconv.Itoa(g.Index), "uuid": g.UUID, "severity": "critical", "source": "agent",
				})
			}
		}
	}
}

// alertOf returns the alert for a GPU with that verdict; empty: none.
func alertOf(g judge.Judgement) string {
	switch {
	case g.Verdict == judge.Throttled && g.Throttle == judge.Thermal:
		return "GPUThermalThrottle"
	case g.Verdict == judge.Throttled, g.Verdict == judge.Failing:
		return "GPUFault"
	default:
		return ""
	}
}
