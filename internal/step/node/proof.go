package node

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gpu"
	"github.com/inference-responder/responder/internal/gpu/judge"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/slo"
	"github.com/inference-responder/responder/internal/step"
)

// MaxHealthyFor is the longest time for which health can be proven.
const MaxHealthyFor = 30 * time.Minute

// proofWith holds the parameters of levers that let pods onto a node again.
type proofWith struct {
	nodeWith
	HealthyFor step.Duration `json:"healthy_for" default:"5m" doc:"How long the node, and its GPUs, must have been healthy without a gap, at most 30m."`
	Probe      string        `json:"probe" type:"query" doc:"PromQL of a test that the node must have passed as well, such as the Job that ran a diagnosis on it: nothing is run here. Asked when the rest is proven; every series has to meet it, and the newest sample behind it is at most 2m old. Let it ask for a test since the repair. Unset: none."`
	Asks       string        `json:"probe_asks" doc:"What the probe tests, in words: what people see in place of the expression."`
	Op         string        `json:"probe_op" enum:"<,<=,>,>=,==" default:"==" doc:"How the probe is compared with probe_value."`
	Value      float64       `json:"probe_value" default:"1" doc:"What the probe is compared with; 1 is a Job that succeeded."`
}

func decodeProof(k playbook.Kind, with map[string]any) (proofWith, error) {
	out, err := step.Decode[proofWith](k, with)
	if err != nil {
		return out, err
	}
	if hold := time.Duration(out.HealthyFor); hold <= 0 || hold > MaxHealthyFor {
		return out, step.Invalid("%s: healthy_for is %s; it must be more than 0 and at most %s", k.Name, hold, MaxHealthyFor)
	}
	return out, nil
}

// proven returns the evidence that the node is healthy, from its state and then
// from the probe, or refuses.
func (l node) proven(ctx context.Context, kind string, n kube.NodeState, now time.Time, with proofWith) ([]string, error) {
	notes, err := l.seenWell(ctx, kind, n, now, time.Duration(with.HealthyFor))
	if err != nil || with.Probe == "" {
		return notes, err
	}
	if l.querier == nil {
		return nil, step.NotConfigured("Prometheus", "prometheus.url")
	}
	target := slo.Target{Name: "the probe", Op: with.Op, Limit: with.Value}
	if with.Asks != "" {
		target.Name += " (" + with.Asks + ")"
	} else {
		target.Name += " " + step.Shorten(with.Probe)
	}
	j := target.Judge(step.ReadFresh(ctx, l.querier, with.Probe, time.Time{}, now, step.Worst(with.Op, with.Value)))
	if !j.OK {
		return nil, &fault.Error{Reason: fault.NotMet, Message: fmt.Sprintf("%s: node %s is not proven healthy: %s", kind, n.Name, j.Text)}
	}
	return append(notes, fmt.Sprintf("%s is %.4g, wanted %s %.4g", target.Name, *j.Value, with.Op, with.Value)), nil
}

// seenWell returns the evidence that the node and its GPUs are healthy by their
// state, or refuses.
func (l node) seenWell(ctx context.Context, kind string, n kube.NodeState, now time.Time, hold time.Duration) ([]string, error) {
	unproven := func(format string, args ...any) ([]string, error) {
		return nil, &fault.Error{Reason: fault.NotMet, Message: fmt.Sprintf("%s: node %s is not proven healthy: ", kind, n.Name) + fmt.Sprintf(format, args...)}
	}
	var out wentOut
	if text := n.Annotations[kube.GPUsWhenOut]; text != "" {
		var err error
		if out, err = readWentOut(text); err != nil {
			return unproven("its annotation %s cannot be read: %v; whoever knows that its GPUs need no reset takes it away", kube.GPUsWhenOut, err)
		}
	}
	switch {
	case openReset(n) != "":
		return unproven("a reset of its GPUs is asked for by the label %s%s; whoever has done it, or knows that none is needed, takes the label away: %s; that it was rebooted or looks healthy does not close the request, for somebody may still be at work on it",
			openReset(n), askedBy(n), unlabel(n))
	case !n.Ready || len(n.Conditions) > 0:
		return unproven("%s", strings.Join(orReady(n), ", "))
	case n.WellSince.IsZero():
		return unproven("it is unknown since when its conditions are good")
	case now.Sub(n.WellSince) < hold:
		return unproven("ready, with good conditions, for %s, wanted are %s", exactly(now.Sub(n.WellSince)), exactly(hold))
	case out.unmended(n) != "":
		return unproven("%s", out.unmended(n))
	case !n.HasGPUs && !out.at.IsZero():
		return unproven("it shows no GPUs now, but had some when it went out at %s UTC; if they were removed, remove the annotation %s",
			out.at.UTC().Format("2006-01-02 15:04"), kube.GPUsWhenOut)
	case !n.HasGPUs:
		return []string{fmt.Sprintf("ready, with good conditions, for %s; it has no GPUs", step.DurationText(now.Sub(n.WellSince)))}, nil
	case l.gpus == nil:
		return unproven("its GPUs: %s", step.ErrNoGPUSource)
	}
	well := gpusWell(now, l.gpus.Snapshots(ctx, []string{n.Name}, hold))
	v, err := l.n.NodeView(ctx, n.Name)
	if err != nil {
		return nil, err
	}
	most, where := mostGPUs(v)
	switch {
	case well.since.IsZero():
		return unproven("its GPUs: %s", well.but)
	case len(well.uuids) < most:
		return unproven("%d of its GPUs are seen; by the label %s node %s has %d", len(well.uuids), labelCount, where, most)
	case out.unreplaced(n, well.uuids) != "":
		return unproven("%s", out.unreplaced(n, well.uuids))
	}
	gap := l.xidGap(ctx, n, out, now, well.snap)
	switch {
	case gap != "":
		return unproven("%s", gap)
	case now.Sub(well.since) < hold:
		return unproven("its GPUs are healthy for %s, wanted are %s: %s", exactly(now.Sub(well.since)), exactly(hold), well.but)
	}
	return []string{fmt.Sprintf("its GPUs are healthy for %s by %s, the node is ready for %s", step.DurationText(now.Sub(well.since)), well.snap.Source, step.DurationText(now.Sub(n.WellSince)))}, nil
}

// Labels of GPU feature discovery: how many GPUs a node has, and of what kind.
const (
	labelCount   = "nvidia.com/gpu.count"
	labelProduct = "nvidia.com/gpu.product"
)

// mostGPUs returns how many GPUs a node ought to have, and the node that tells:
// itself, or one of its pool with the same machine and GPU types. A GPU that
// was off the bus at boot is missed by nothing on the node itself. 0: unknown.
// Where GPUs are divided, instances are counted.
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

// wellness records since when all GPUs of a node have been healthy without a
// gap in the readings; zero: they are not, or that is unknown.
type wellness struct {
	since time.Time
	uuids []string // GPUs that the source knows of
	snap  gpu.Snapshot
	but   string // what was before, or what is wrong now
}

func gpusWell(now time.Time, answers []gpu.Answer) wellness {
	verdicts := judge.Answers(now, answers)
	if len(verdicts) != 1 {
		return wellness{but: fmt.Sprintf("%d answers about one node", len(verdicts))}
	}
	if v := verdicts[0]; v.Verdict.WorseThan(judge.Busy) {
		return wellness{but: string(v.Verdict) + worstFinding(v)}
	}
	snap := answers[0].Snapshot
	if len(snap.GPUs) == 0 {
		return wellness{but: "none was seen"}
	}
	out := wellness{snap: snap}
	for _, g := range snap.GPUs {
		out.uuids = append(out.uuids, g.UUID)
		if since, before := judge.WellSince(g); out.since.IsZero() || since.After(out.since) {
			out.since, out.but = since, fmt.Sprintf("GPU %d: %s", g.Index, before)
		}
	}
	for _, g := range snap.GPUs {
		switch events := g.EventsSince; {
		case events.IsZero():
			out.since, out.but = snap.TakenAt, fmt.Sprintf("GPU %d: it is unknown since when its events (XIDs) are recorded", g.Index)
			return out
		case events.After(out.since):
			out.since, out.but = events, fmt.Sprintf("GPU %d: its events (XIDs) are not known before %s UTC", g.Index, events.UTC().Format("15:04:05"))
		}
	}
	return out
}

// worstFinding describes the finding that determines the verdict.
func worstFinding(v judge.NodeJudgement) string {
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

// exactly formats a duration to the second, so that one second too few is
// visible.
func exactly(d time.Duration) string { return playbook.FormatDuration(max(d, 0).Truncate(time.Second)) }

func orReady(n kube.NodeState) []string {
	if len(n.Conditions) == 0 {
		return []string{"not ready"}
	}
	return n.Conditions
}
