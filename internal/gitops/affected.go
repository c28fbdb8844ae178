package gitops

import (
	"maps"
	"slices"

	"github.com/inference-responder/responder/internal/gitops/kustomize"
)

// Affected returns the kustomizations that are not the target's own and whose results
// differ between two versions of a tree: the change changes what they deploy too. A
// result that cannot be computed is taken to differ.
func Affected(before, after []File, t Target) ([]string, error) {
	old, err := results(before, t, nil)
	if err != nil {
		return nil, err
	}
	changed := map[string]bool{}
	for _, f := range before {
		changed[f.Path] = true
	}
	for _, f := range after {
		changed[f.Path] = !slices.ContainsFunc(before, func(o File) bool { return o.Path == f.Path && string(o.Data) == string(f.Data) })
	}
	now, err := results(after, t, changed)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, dir := range slices.Sorted(maps.Keys(old)) {
		if is, there := now[dir]; !there || is == kustomize.Unknown || is != old[dir] {
			out = append(out, dir)
		}
	}
	return out, nil
}

// results returns the results of the kustomizations that are not the target's own.
func results(files []File, t Target, changed map[string]bool) (map[string]string, error) {
	tr, err := newTree(files, t)
	if err != nil {
		return nil, err
	}
	all, _ := tr.objects() // the target's own kustomization may be the one that fails
	own := tr.target.Path
	if c := tr.candidates(all); len(c) > 0 {
		own = c[0].object.Builder
	}
	return tr.builds.Results(own, changed), nil
}
