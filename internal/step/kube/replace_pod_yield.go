package kube

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/executor/machine"
	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/step"
)

// Yield implements yielder of package step: a pod that this run took out of rotation
// gets its labels back, whatever its workload has become. Nothing else is touched.
func (l kubeReplacePod) Yield(ctx context.Context, in step.Input, plan machine.Plan) string {
	p, err := step.Payload[replacePayload](plan.Step, plan.Payload)
	if err != nil || l.configured() != nil {
		return ""
	}
	ref := step.RefOfTarget(plan.Target)
	for range 3 {
		r := replacing{p: p, w: kube.Workload{Ref: ref}}
		if err = l.readPod(ctx, &r); err != nil {
			return fmt.Sprintf("pod %s may run without its labels %s: then give them back or delete it (%v)", p.Pod, labelsText(p.Labels), err)
		}
		if !r.apart() || !r.byUs(in) {
			return ""
		}
		if err = l.owned(ctx, plan); err == nil {
			err = l.takeBack(ctx, r)
		}
		if err == nil {
			return fmt.Sprintf("pod %s has its labels %s back", p.Pod, labelsText(p.Labels))
		}
		if !step.HasReason(err, fault.Conflict) {
			break
		}
	}
	return fmt.Sprintf("pod %s runs without its labels %s: give them back or delete it (%v)", p.Pod, labelsText(p.Labels), err)
}

// byUs reports whether this visit took the pod out of rotation.
func (r replacing) byUs(in step.Input) bool {
	key, _ := kube.ParseMark(r.pod.Annotations[kube.MarkReplace])
	return step.Visit(key) == step.Visit(in.Key)
}

// owned refuses if the workload is gone: the pod would get requests, and nobody would
// look after it.
func (l kubeReplacePod) owned(ctx context.Context, plan machine.Plan) error {
	w, err := l.w.Workload(ctx, step.RefOfTarget(plan.Target))
	if err == nil && w.UID != plan.Target.UID {
		err = &fault.Error{Reason: fault.ForeignChange, Message: step.RefText(w.Ref) + " was deleted and recreated"}
	}
	return err
}

// keeps returns those of the labels that the pod has.
func keeps(pod kube.PodState, labels map[string]string) map[string]string {
	kept := maps.Clone(labels)
	maps.DeleteFunc(kept, func(k, v string) bool { return pod.Labels[k] != v })
	return kept
}

// labelsText formats labels for people.
func labelsText(labels map[string]string) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		out = append(out, k+"="+labels[k])
	}
	return strings.Join(out, ", ")
}
