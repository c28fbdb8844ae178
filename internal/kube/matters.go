package kube

import (
	"regexp"
	"slices"
	"strings"
)

// Matters reports whether a field of a pod template, by its path, can change how
// requests are served. What is logged cannot, nor can labels and annotations that
// only describe. Others can: they inject sidecars, attach networks, record that a
// configuration changed or decide which Service sends requests. Flags such as
// --disable-log-stats matter, too: they take the engine's metrics away.
func Matters(path string) bool {
	if inMetadata(path) {
		return !describes.MatchString(path)
	}
	return !logging.MatchString(path) || strings.Contains(path, "log-stats")
}

// Describes reports whether a field of a pod template is a label or an annotation that
// nothing acts on.
func Describes(path string) bool { return inMetadata(path) && describes.MatchString(path) }

func inMetadata(path string) bool {
	return slices.ContainsFunc([]string{"metadata.", "labels", "annotations"}, func(prefix string) bool { return strings.HasPrefix(path, prefix) })
}

// describes matches labels and annotations that nothing acts on: labels[team],
// annotations[kubernetes.io/change-cause].
var describes = regexp.MustCompile(`(?i)[[.](kubectl\.kubernetes\.io/.*|kubernetes\.io/change-cause|helm\.sh/.*|app\.kubernetes\.io/(version|managed-by)|` +
	`prometheus\.io/.*|(.*/)?(team|owner|owners|contact|cost-?cent(er|re)|description|note|version|release-?(id|name)?|build|commit|revision|sha|git-?(sha|commit)|date|timestamp|deployed-(at|by))|release)\]?$`)

// logging matches arguments and variables that are about logs, in brackets as a
// path has them: args[--uvicorn-log-level], env[VLLM_LOGGING_LEVEL].
var logging = regexp.MustCompile(`(?i)\[-*([a-z0-9]+[-_])*(log|logs|logging|verbosity)([-_][a-z0-9]+)*\]$`)

// Newest returns the current revision and the one before it; nil: there is none.
func Newest(revisions []Revision) (current, previous *Revision) {
	for i := range revisions {
		if revisions[i].Current {
			current = &revisions[i]
		}
	}
	for i := range revisions {
		r := &revisions[i]
		if current != nil && r.Number < current.Number && (previous == nil || r.Number > previous.Number) {
			previous = r
		}
	}
	return current, previous
}
