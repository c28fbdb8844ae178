package git

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
)

// SetReplicasKind declares gitops.set_replicas.
func SetReplicasKind() playbook.Kind {
	return playbook.Kind{
		Name: "gitops.set_replicas",
		Role: playbook.RoleLever, Class: playbook.ClassCapacity,
		Doc: `Sets the number of replicas of the service's workload in Git: the field of its manifest or its Helm value, or the lower bound of the
autoscaler that owns it (minReplicas of an HPA, minReplicaCount of a ScaledObject, minReplicas of a KServe predictor, the component's lower bound in the arguments of Dynamo's
planner). A positive ` + "`by`" + ` counts from the replicas that run where those are more than the lower bound. Undo reverts exactly that commit.
What runs is read before the commit and after the sync, as by gitops.set_flag.

The bounds are those of kube.scale: never above the service's ` + "`max_scale`" + `, never below its ` + "`min_ready`" + ` or one replica. ` + "`by`" + ` stops at them,
` + "`replicas`" + ` is refused beyond them. kube.scale becomes this lever where Argo CD or Flux owns the workload and its service says where in Git it is.`,
		OneOf:      step.ScaleAlternatives(),
		Steps:      step.ScaleSteps(),
		Idempotent: true,
		With:       step.Fields[step.ScaleWith](),
	}
}

type gitopsSetReplicas struct {
	Change
	room    step.Capacities
	scalers step.Autoscalers
}

// NewSetReplicas returns the lever gitops.set_replicas.
func NewSetReplicas(d step.Deps) step.Lever {
	return gitopsSetReplicas{NewChange(d), d.Capacity, d.Scalers}
}

// Plan implements [step.Lever].
func (l gitopsSetReplicas) Plan(ctx context.Context, in step.Input) (machine.Plan, error) {
	const kind = "gitops.set_replicas"
	with, err := step.Decode[step.ScaleWith](SetReplicasKind(), in.With)
	if err != nil {
		return machine.Plan{}, err
	}
	at, err := l.ready(ctx, in)
	if err != nil {
		return machine.Plan{}, err
	}
	variable := gitops.Variable{Replicas: true}
	places, err := l.m.Places(ctx, at.src, at.object, []gitops.Variable{variable})
	if err != nil {
		return machine.Plan{}, err
	}
	if len(places) != 1 {
		return machine.Plan{}, step.Invalid("%s: the replicas were looked up, %d places were returned", kind, len(places))
	}
	now, err := replicasAt(kind, places[0], at.w.Replicas)
	if err != nil {
		return machine.Plan{}, err
	}
	running := now // replicas that are counted from
	if ownsBound(places[0]) && with.By != nil && *with.By > 0 {
		running = max(now, at.w.Replicas) // a lower bound below those that run adds nothing
	}
	to, note, err := step.ScaleTarget(kind, with, in.Service, running)
	if err != nil {
		return machine.Plan{}, err
	}
	if to > now {
		if err := step.Startable(kind, at.w); err != nil {
			return machine.Plan{}, err
		}
	}
	if err := l.fits(ctx, kind, places[0], at.w.Ref, to, with.Above != nil); err != nil {
		return machine.Plan{}, err
	}
	plan, effect, err := l.planSet(ctx, in, at, kind, []gitops.Assignment{{Variable: variable, Value: strconv.Itoa(to)}}, "")
	if err != nil {
		return machine.Plan{}, err
	}
	plan.Risk, plan.Why = machine.RiskLow, "adds replicas; those that serve are not touched"
	plan.Capacity = machine.Capacity{ReadyNow: at.w.Ready, LowestReady: at.w.Ready, ReadyAfter: max(to, at.w.Ready)}
	plan.Loading = step.Loading(at.w)
	if to < now {
		plan.Risk, plan.Why = machine.RiskHigh, fmt.Sprintf("takes %d replicas away from a service in trouble", now-to)
		plan.Capacity.LowestReady, plan.Capacity.ReadyAfter = min(at.w.Ready, to), to
		plan.Class = playbook.ClassReturn
	}
	step.Forecast(ctx, l.room, &plan, step.RefOf(in.Service), to-running)
	if note != "" {
		plan.Notes = append(plan.Notes, note)
	}
	if ofPlanner(places[0]) {
		plan.Notes = append(plan.Notes, step.PlannerRestarts)
	} else if ownsBound(places[0]) {
		plan.Notes = append(plan.Notes, fmt.Sprintf("it is the bound of %s, which still decides above it", places[0].Object))
	}
	cautious(&plan, effect)
	return plan, nil
}

// replicasAt returns the replicas in Git, which a commit changes. If Git sets
// none, an autoscaler or the API server's default decides, and the running
// number counts.
func replicasAt(kind string, at gitops.Place, running int) (int, error) {
	v := at.Value
	if v == "" {
		return running, nil
	}
	now, err := strconv.Atoi(v)
	if err != nil {
		return 0, step.Invalid("%s: %s:%d says %q, which is no number of replicas", kind, at.File, at.Line, v)
	}
	return now, nil
}

// CheckReplicas returns the error with which gitops.set_replicas would refuse a
// number of replicas at a place. It knows the bounds of the service but not
// what runs: if Git sets no number, only what is refused in any case is an
// error.
func CheckReplicas(svc playbook.Service, at gitops.Place, to int) error {
	kind := SetReplicasKind()
	with, err := step.Decode[step.ScaleWith](kind, map[string]any{"replicas": to})
	if err != nil || at.Missing {
		return err
	}
	now, err := replicasAt(kind.Name, at, 0)
	if err != nil {
		return err
	}
	_, _, err = step.ScaleTarget(kind.Name, with, svc, now)
	return err
}

// ownsBound reports whether the place is a bound of an autoscaler.
func ownsBound(p gitops.Place) bool {
	return strings.Contains(p.Path, "minReplica") || ofPlanner(p)
}

// ofPlanner reports whether the place is a bound of Dynamo's planner.
func ofPlanner(p gitops.Place) bool {
	return strings.Contains(p.Path, "min_endpoint") || strings.Contains(p.Path, "min-endpoint")
}

// fits refuses a lower bound for which the planner of a Dynamo graph, as it runs, has no GPUs:
// it would not start with it.
func (l gitopsSetReplicas) fits(ctx context.Context, kind string, place gitops.Place, workload kube.Ref, to int, back bool) error {
	if !ofPlanner(place) || back {
		return nil
	}
	if l.scalers == nil {
		return step.NotConfigured("cluster", "kubernetes")
	}
	a, err := l.scalers.AutoscalerOf(ctx, workload)
	if err != nil {
		return err
	}
	return step.Settable(kind, a, kube.Bounds{Min: &to}, false)
}
