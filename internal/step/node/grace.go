package node

import (
	"fmt"
	"time"

	"github.com/inference-responder/responder/internal/kube"
	"github.com/inference-responder/responder/internal/step"
)

// enoughGrace is the time that an engine needs to finish its requests: the value in
// the runbooks, and the one that KServe gives vLLM.
const enoughGrace = time.Minute

// disruptionWarnings lists the pods with GPUs whose eviction may lose requests
// although enough replicas stay: an engine with too little grace cuts responses
// off, one without a preStop hook refuses what gateways still send, and a successor
// without a readiness probe counts as ready before it serves.
func disruptionWarnings(pods []kube.NodePod, p nodePayload) []string {
	var short, given, abrupt, unproven []string
	for _, pod := range pods {
		if pod.GPUs == 0 || !pod.Ready {
			continue
		}
		switch grace := max(pod.Grace, graceOf(pod, p)); {
		case grace < enoughGrace:
			short = append(short, fmt.Sprintf("%s (%s)", pod, step.DurationText(grace)))
		case pod.Grace < enoughGrace:
			given = append(given, fmt.Sprintf("%s (%s)", pod, step.DurationText(pod.Grace)))
		}
		if !pod.PreStop {
			abrupt = append(abrupt, pod.String())
		}
		if !pod.Probed {
			unproven = append(unproven, pod.String())
		}
	}
	var out []string
	note := func(format string, pods []string) {
		if len(pods) > 0 {
			out = append(out, fmt.Sprintf(format, first5(pods)))
		}
	}
	note("too little time to finish their requests, less than "+step.DurationText(enoughGrace)+": %s; give grace, or raise their terminationGracePeriodSeconds", short)
	note("by their own terminationGracePeriodSeconds too little time to finish their requests: %s; here they get "+step.DurationText(readSpan(p.Grace)), given)
	note("without a preStop hook, so that the engine is told to stop at the same moment as it is taken out of rotation: %s", abrupt)
	note("without a readiness probe, so that a successor counts as ready before it serves: %s", unproven)
	return out
}

// first5 joins the first five.
func first5(all []string) string { return step.FirstOf(all, 5, ", ") }
