package step

import (
	"context"
	"fmt"
	"strconv"
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

Only Responder's own cordon is ever lifted, and only of a node that is proven healthy: ready, without a bad condition and with every one of its
GPUs healthy, by its agent or by dcgm-exporter, all of it for ` + "`healthy_for`" + ` without a gap. What is unknown is not healthy. An agent remembers half
an hour, since it started; Prometheus has to have scraped the exporter all the time. A node with the label of a gpu.reset_request stays out,
and so does one with fewer GPUs than GPU feature discovery counted on it or on the same machine of its pool.`,
		Idempotent: true,
		With: []playbook.Field{
			nodeField(),
			{Name: "healthy_for", Type: scalar(playbook.Duration), Default: "5m", Doc: "How long the node, and its GPUs, must have been healthy without a gap, at most 30m."},
		},
	}
}

// MaxHealthyFor is the longest time for which health can be proven.
const MaxHealthyFor = 30 * time.Minute

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
	if hold := time.Duration(with.HealthyFor); hold <= 0 || hold > MaxHealthyFor {
		return machine.Plan{}, invalid("%s: healthy_for is %s; it must be more than 0 and at most %s", kind, hold, MaxHealthyFor)
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
	case openReset(n) != "":
		return "", unproven("a reset of its GPUs is asked for by the label %s; whoever did it, or knows that none is needed, takes the label away", openReset(n))
	case !n.Ready || len(n.Conditions) > 0:
		return "", unproven("%s", strings.Join(orReady(n), ", "))
	case n.WellSince.IsZero():
		return "", unproven("since when its conditions are good is not known")
	case now.Sub(n.WellSince) < hold:
		return "", unproven("ready, with good conditions, for %s, wanted are %s", exactly(now.Sub(n.WellSince)), exactly(hold))
	case !n.HasGPUs:
		return fmt.Sprintf("ready, with good conditions, for %s; it has no GPUs", span(now.Sub(n.WellSince))), nil
	case l.gpus == nil:
		return "", unproven("its GPUs: %s", errNoGPUSource)
	}
	well := gpusWell(now, l.gpus.Snapshots(ctx, []string{n.Name}, hold))
	v, err := l.n.NodeView(ctx, n.Name)
	if err != nil {
		return "", err
	}
	most, where := mostGPUs(v)
	switch {
	case well.since.IsZero():
		return "", unproven("its GPUs: %s", well.but)
	case well.seen < most:
		return "", unproven("%d of its GPUs are seen; by the label %s node %s has %d", well.seen, labelCount, where, most)
	case now.Sub(well.since) < hold:
		return "", unproven("its GPUs are healthy for %s, wanted are %s: %s", exactly(now.Sub(well.since)), exactly(hold), well.but)
	}
	return fmt.Sprintf("its GPUs are healthy for %s by %s, the node is ready for %s", span(now.Sub(well.since)), well.source, span(now.Sub(n.WellSince))), nil
}

// Labels of GPU feature discovery: how many GPUs a node has, and of what kind.
const (
	labelCount   = "nvidia.com/gpu.count"
	labelProduct = "nvidia.com/gpu.product"
)

// mostGPUs is how many GPUs a node ought to have, and which node says so: itself,
// or one of its pool that is the same machine with the same GPUs. A GPU that was
// off the bus when the node started is missed by nobody on the node. 0: nobody
// counted them. Where GPUs are divided it is instances that are counted.
func mostGPUs(v kube.NodeView) (most int, where string) {
	for _, n := range append([]kube.NodeState{v.Node}, v.Pool...) {
		if n.Labels[labelProduct] == "" || strings.Contains(n.Labels[labelProduct], "-MIG-") || !sameMachine(n, v.Node) {
			continue
		}
		if count, err := strconv.Atoi(n.Labels[labelCount]); err == nil && count > most {
			most, where = count, n.Name
		}
	}
	return most, where
}

func sameMachine(a, b kube.NodeState) bool {
	for _, l := range []string{labelProduct, "nvidia.com/gpu.machine", "node.kubernetes.io/instance-type"} {
		if a.Labels[l] != b.Labels[l] {
			return false
		}
	}
	return true
}

// wellness is since when all GPUs of a node have been well without a gap in what
// is remembered of them; zero: they are not, or that is unknown.
type wellness struct {
	since  time.Time
	seen   int // GPUs that the source knows of
	source string
	but    string // what was before, or what is wrong now
}

func gpusWell(now time.Time, answers []gpu.Answer) wellness {
	verdicts := gpu.JudgeAnswers(now, answers)
	if len(verdicts) != 1 {
		return wellness{but: fmt.Sprintf("%d answers about one node", len(verdicts))}
	}
	if v := verdicts[0]; v.Verdict.WorseThan(gpu.Busy) {
		return wellness{but: string(v.Verdict) + worstFinding(v)}
	}
	snap := answers[0].Snapshot
	if len(snap.GPUs) == 0 {
		return wellness{but: "none was seen"}
	}
	out := wellness{source: snap.Source, seen: len(snap.GPUs)}
	for _, g := range snap.GPUs {
		if since, before := g.WellSince(); out.since.IsZero() || since.After(out.since) {
			out.since, out.but = since, fmt.Sprintf("GPU %d: %s", g.Index, before)
		}
	}
	return out
}

// worstFinding is what makes a node as bad as it is.
func worstFinding(v gpu.NodeJudgement) string {
	for _, r := range v.Reasons {
		if r.Verdict == v.Verdict {
			return ": " + r.Text
		}
	}
	for _, g := range v.GPUs {
		for _, r := range g.Reasons {
			if r.Verdict == v.Verdict {
				return fmt.Sprintf(": GPU %d: %s", g.Index, r.Text)
			}
		}
	}
	return ""
}

// exactly says a duration to the second: what misses the time by one is not to
// read as if it did not.
func exactly(d time.Duration) string { return playbook.FormatDuration(max(d, 0).Truncate(time.Second)) }

func orReady(n kube.NodeState) []string {
	if len(n.Conditions) == 0 {
		return []string{"not ready"}
	}
	return n.Conditions
}
