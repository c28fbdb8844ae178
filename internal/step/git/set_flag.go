package git

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step"
)

// lastGood is the word for a value that was last verified.
const lastGood = "last_good"

// SetFlagKind declares gitops.set_flag.
func SetFlagKind() playbook.Kind {
	return playbook.Kind{
		Name: "gitops.set_flag",
		Role: playbook.RoleLever, Class: playbook.ClassSetting, Restarts: true,
		Doc: `Sets one flag of the engine in Git, with a commit that changes the bytes of its value and nothing else, and waits until Argo CD or Flux has synced
that very commit and the application is Healthy. Undo reverts exactly that commit. What else of the application was out of sync or unhealthy
before does not count; the plan lists it.

What runs is read before the commit and after the sync: a value that something else decides (the application's parameters or patches, an
admission webhook) is refused or, found too late, taken back. Where it cannot be read, people are asked and it does not become last good.

The flag is found wherever it stands: arguments, a shell line, an environment variable, a configuration file in a ConfigMap, Helm values, a
kustomize patch. Refused when it counts in two places, when the application does not own the workload, when other commits wait to be deployed
and would go out along with this one, when the cluster has something of its own that the sync would take back, in a closed sync window, and
while somebody else's sync is under way; windows and syncs are looked at again right before the push.

The value is checked against what the service's engine takes (` + "`responder engine flags`" + ` shows it): its type and range, the flags that it goes
with, and whether a run may change it at all. What decides what is served, on which GPUs, to whom, is never changed by a run.`,
		OneOf: [][]string{{"flag", "flags"}},
		Steps: &playbook.Stepping{Param: "value"},
		// A second apply finds its own commit.
		Idempotent: true,
		With:       step.Fields[setFlagWith](),
		Lint:       lintSetFlag,
	}
}

type gitopsSetFlag struct{ Change }

// NewSetFlag returns the lever gitops.set_flag.
func NewSetFlag(d step.Deps) step.Lever { return gitopsSetFlag{NewChange(d)} }

type setFlagWith struct {
	Flag        string            `json:"flag" doc:"The flag as the engine documents it, without dashes in front: max-num-seqs."`
	Value       *string           `json:"value" doc:"Its new value; true or false for a flag without one; last_good: the value that was last verified on this service."`
	Flags       map[string]string `json:"flags" doc:"Several flags and their values, in one commit. They need one_variable."`
	OneVariable string            `json:"one_variable" doc:"Why several flags are one variable, for the plan and the commit: one makes no sense without the other."`
	UnknownFlag string            "json:\"unknown_flag\" enum:\"change,add\" doc:\"What may be done with a flag that no engine is known to have, unchecked: `change` it where it stands in Git already, or `add` it, too. Without it such a name in a playbook is a mistake.\""
}

// Plan implements [step.Lever].
func (l gitopsSetFlag) Plan(ctx context.Context, in step.Input) (machine.Plan, error) {
	with, err := step.Decode[setFlagWith](SetFlagKind(), in.With)
	if err != nil {
		return machine.Plan{}, err
	}
	wanted, err := with.wanted()
	if err != nil {
		return machine.Plan{}, err
	}
	at, err := l.ready(ctx, in)
	if err != nil {
		return machine.Plan{}, err
	}
	for i, a := range wanted {
		if a.Value != lastGood {
			continue
		}
		if wanted[i].Value, err = l.lastGood(in.Service, a.Variable); err != nil {
			return machine.Plan{}, err
		}
	}
	checked, err := CheckFlags(FlagRules{
		Service: in.Service.Name, Engine: in.Service.Engine, Unknown: with.UnknownFlag,
		Name: "set engine in its catalog entry (vllm, sglang, dynamo, kserve)",
		Look: func(container string, vs []gitops.Variable) ([]gitops.Place, error) {
			object := at.object
			if container != "" {
				object.Container = container
			}
			return l.m.Places(ctx, at.src, object, vs)
		},
	}, wanted)
	if err != nil {
		return machine.Plan{}, err
	}
	plan, effect, err := l.planSet(ctx, in, at, "gitops.set_flag", checked.Set, with.OneVariable)
	if err != nil {
		return machine.Plan{}, err
	}
	step.RolloutPlan(&plan, at.w)
	plan.Notes = append(plan.Notes, checked.Notes...)
	if len(checked.Contract) > 0 {
		plan.Risk, plan.Why = machine.RiskHigh, "clients are served other than before by --"+strings.Join(checked.Contract, ", --")+"; "+plan.Why
	}
	cautious(&plan, effect)
	return plan, nil
}

// wanted returns the assignments of the parameters, sorted by the flags' names.
func (w setFlagWith) wanted() ([]gitops.Assignment, error) {
	const kind = "gitops.set_flag"
	flags := w.Flags
	switch {
	case w.Flag != "" && w.Value == nil:
		return nil, step.Invalid("%s: %s has no value", kind, w.Flag)
	case w.Flag == "" && w.Value != nil:
		return nil, step.Invalid("%s: value belongs to flag; flags holds its own values", kind)
	case len(w.Flags) > 1 && strings.TrimSpace(w.OneVariable) == "":
		return nil, step.Invalid("%s: %d flags are %d variables, but one is changed at a time: state in one_variable why they are one", kind, len(w.Flags), len(w.Flags))
	case w.Flag != "":
		flags = map[string]string{w.Flag: *w.Value}
	}
	var out []gitops.Assignment
	for _, flag := range slices.Sorted(maps.Keys(flags)) {
		if strings.HasPrefix(flag, "-") || strings.TrimSpace(flag) == "" {
			return nil, step.Invalid("%s: %q is not a flag name: omit the leading dashes, as in max-num-seqs", kind, flag)
		}
		if flags[flag] == "" {
			return nil, step.Invalid("%s: %s has no value", kind, flag)
		}
		out = append(out, gitops.Assignment{Variable: gitops.Variable{Flag: flag}, Value: flags[flag]})
	}
	if len(out) == 0 {
		return nil, step.Invalid("%s: flags is empty", kind)
	}
	return out, nil
}

// lastGood is the value of a variable that was last verified on a service.
func (g Change) lastGood(svc playbook.Service, v gitops.Variable) (string, error) {
	if g.good != nil {
		if value, _, ok := g.good.LastGood(svc.Name, v.String()); ok {
			if value == "" {
				return "", &fault.Error{Reason: fault.Invalid, Message: fmt.Sprintf("%s of service %s was last good while it was not set: revert the commit that set it", v, svc.Name)}
			}
			return value, nil
		}
	}
	return "", &fault.Error{Reason: fault.NoData, Message: fmt.Sprintf(
		"no value of %s was ever verified on service %s: 'responder gitops last-good' lists those that were", v, svc.Name)}
}
