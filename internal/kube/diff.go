package kube

import (
	"maps"
	"slices"
)

// FieldDiff is one field that differs. Empty From: it was added; empty To: it
// was removed.
type FieldDiff struct {
	Path, From, To string
}

// Diff compares two flattened pod templates, sorted by path.
func Diff(a, b map[string]string) []FieldDiff {
	paths := maps.Clone(a)
	if paths == nil {
		paths = map[string]string{}
	}
	maps.Copy(paths, b)
	var out []FieldDiff
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		if a[path] != b[path] {
			out = append(out, FieldDiff{Path: path, From: a[path], To: b[path]})
		}
	}
	return out
}
