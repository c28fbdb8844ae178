package step

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/gpu"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
)

// nodeUncordonKind declares node.uncordon.
func nodeUncordonKind() playbook.Kind {
	return playbook.Kind{
		Name: "node.uncordon",
		Role: playbook.RoleLever,
		Doc: `Lets pods onto a node again that Responder cordoned. Undo cordons it.

Only Responder's own cordon is ever lifted, and only of a node that is proven healthy: ready, without a bad condition and, where the state of
its GPUs is known, with every one of them healthy, all of it for ` + "`healthy_for`" + `. What is unknown is not healthy.`,
		Idempotent: true,
		With: []playbook.Field{
			nodeField(),
			{Name: "healthy_for", Type: scalar(playbook.Duration), Default: "5m", Doc: "How long the node, and its GPUs, must have been healthy without a gap."},
		},
	}
}

type nodeUncordon struct{ node }

func newNodeUncordon(d Deps) Lever { return nodeUncordon{newNode(d)} }

type uncordonWith struct {
	Node       string   `json:"node"`
	HealthyFor duration `json:"healthy_for"`
}

// Plan implements [Lever].
func (l nodeUncordon) Plan(ctx context.Context, in Input) (machine.Plan, error) {
	const kind = "node.uncordon"
	with, err := decode[uncordonWith](nodeUncordonKind(), in.With)
	if err != nil {
		return machine.Plan{}, err
	}
	if err := l.ready(); err != nil {
		return machine.Plan{}, err
	}
	n, err := l.n.Node(ctx, with.Node)
	if err != nil {
		return machine.Plan{}, err
	}
	if err := unclaimed(kind, n); err != nil {
		return machine.Plan{}, err
	}
	if !n.Unschedulable {
		return machine.Plan{}, &Error{Reason: machine.ReasonNothingToDo, Message: kind + ": " + nodeFacts(n) + " already"}
	}
	if err := notOurCordon(kind, n); err != nil {
		return machine.Plan{}, err
	}
	proof, err := l.proven(ctx, kind, n, in.Now, time.Duration(with.HealthyFor))
	if err != nil {
		return machine.Plan{}, err
	}
	plan, err := l.plan(ctx, in, kind, n, nodePayload{
		Mark: kube.MarkCordon, Do: kube.NodeEdit{Cordon: new(false)}, Back: kube.NodeEdit{Cordon: new(true)},
	})
	if err != nil {
		return machine.Plan{}, err
	}
	plan.Summary = "uncordon node " + n.Name
	plan.Diff = []machine.FieldChange{{Path: "spec.unschedulable", From: "true", To: "false"}}
	plan.Undo = "cordon node " + n.Name
	plan.Risk, plan.Why = machine.RiskMedium, "pods come onto the node again"
	plan.Notes = append([]string{proof}, plan.Notes...)
	plan.Capacity, err = l.untouched(ctx, in.Service)
	return plan, err
}

// proven says by what the node is known to be well, or refuses.
func (l nodeUncordon) proven(ctx context.Context, kind string, n kube.NodeState, now time.Time, hold time.Duration) (string, error) {
	unproven := func(format string, args ...any) error {
		return &Error{Reason: machine.ReasonNotMet, Message: fmt.Sprintf("%s: node %s is not proven healthy: ", kind, n.Name) + fmt.Sprintf(format, args...)}
	}
	switch {
	case !n.Ready || len(n.Conditions) > 0:
		return "", unproven("%s", strings.Join(orReady(n), ", "))
	case n.ReadySince.IsZero():
		return "", unproven("since when it is ready is not known")
	case now.Sub(n.ReadySince) < hold:
		return "", unproven("ready for %s, wanted are %s", span(now.Sub(n.ReadySince)), span(hold))
	case l.gpus == nil || n.GPUs == 0:
		return fmt.Sprintf("healthy by its conditions, ready for %s; what its GPUs say is not known here", span(now.Sub(n.ReadySince))), nil
	}
	since, why := gpusWell(now, n.Name, l.gpus.Snapshots(ctx, []string{n.Name}))
	switch {
	case since.IsZero():
		return "", unproven("its GPUs: %s", why)
	case now.Sub(since) < hold:
		return "", unproven("its GPUs are healthy for %s, wanted are %s", span(now.Sub(since)), span(hold))
	}
	return fmt.Sprintf("its GPUs are healthy for %s, the node is ready for %s", span(now.Sub(since)), span(now.Sub(n.ReadySince))), nil
}

// gpusWell is since when all GPUs of a node have been well without a gap in what
// is remembered of them; zero: they are not, or that is unknown, and why.
func gpusWell(now time.Time, node string, answers []gpu.Answer) (since time.Time, why string) {
	verdicts := gpu.JudgeAnswers(now, answers)
	if len(verdicts) != 1 || len(answers) != 1 {
		return since, fmt.Sprintf("%d answers about node %s", len(answers), node)
	}
	if v := verdicts[0]; v.Verdict.WorseThan(gpu.Busy) {
		why = string(v.Verdict)
		reasons := v.Reasons
		for _, g := range v.GPUs {
			reasons = append(reasons, g.Reasons...)
		}
		for _, r := range reasons {
			if r.Verdict == v.Verdict {
				return since, why + ": " + r.Text
			}
		}
		return since, why
	}
	snap := answers[0].Snapshot
	if len(snap.GPUs) == 0 {
		return since, "none was seen"
	}
	for _, g := range snap.GPUs {
		if well := wellSince(g); well.After(since) {
			since = well
		}
	}
	return since, ""
}

// wellSince goes back over the minutes that are remembered of a GPU, as far as
// each was watched and showed nothing harmful.
func wellSince(g gpu.GPU) time.Time {
	since := g.TakenAt
	for _, m := range slices.Backward(g.Minutes) {
		harmful := false
		for bit, n := range m.Reasons {
			harmful = harmful || n > 0 && bit&gpu.Harmful != 0
		}
		over := g.TakenAt.Sub(m.Start) >= time.Minute // the running minute may have no sample yet
		if harmful || m.Samples == 0 && over || since.Sub(m.Start) > 2*time.Minute {
			break
		}
		since = m.Start
	}
	return since
}

func orReady(n kube.NodeState) []string {
	if len(n.Conditions) == 0 {
		return []string{"not ready"}
	}
	return n.Conditions
}
