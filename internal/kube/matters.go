package kube

import (
	"regexp"
	"strings"
)

// Matters reports whether a field of a pod template, by its path, can change how
// requests are served. Labels, annotations and what is logged cannot, except the
// checksum of a configuration that a chart writes into an annotation, and flags
// such as --disable-log-stats, which take the engine's metrics away.
func Matters(path string) bool {
	for _, prefix := range []string{"metadata.", "labels", "annotations"} {
		if strings.HasPrefix(path, prefix) {
			return checksum.MatchString(path)
		}
	}
	return !logging.MatchString(path) || strings.Contains(path, "log-stats")
}

// checksum matches the names under which charts and operators record that a
// configuration changed: annotations[checksum/config].
var checksum = regexp.MustCompile(`(?i)\[(.*[/.-])?(checksum|config-?hash|confighash)`)

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
