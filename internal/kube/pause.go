package kube

import "strconv"

// PauseScaleIn is the annotation that keeps KEDA from taking replicas away, while it
// still adds them.
const PauseScaleIn = "autoscaling.keda.sh/paused-scale-in"

// annotationPaused marks that the pause is ours, with the run that set it: a pause of somebody
// else is never taken off.
const annotationPaused = "responder.dev/paused"

// ourPause reports whether the pause of scale-in is set, and is ours.
func ourPause(annotations map[string]string) bool {
	return annotations[annotationPaused] != "" && ScaleInPaused(annotations)
}

// ScaleInPaused reports whether KEDA is told to take no replicas away, by whomever.
func ScaleInPaused(annotations map[string]string) bool { return says(annotations, PauseScaleIn) }

// pausedBy returns the annotation with which KEDA is told to add no replicas; empty:
// there is none.
func pausedBy(annotations map[string]string) string {
	const prefix = "autoscaling.keda.sh/paused"
	if n, ok := annotations[prefix+"-replicas"]; ok {
		return prefix + "-replicas: " + n
	}
	for _, at := range []string{prefix, prefix + "-scale-out"} {
		if says(annotations, at) {
			return at + ": " + annotations[at]
		}
	}
	return ""
}

// says reports whether KEDA takes an annotation as true. It takes one that it cannot
// read as true.
func says(annotations map[string]string, key string) bool {
	v, ok := annotations[key]
	yes, err := strconv.ParseBool(v)
	return ok && (err != nil || yes)
}
