package gitops

import (
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"
)

// Shared names the kustomizations that are not the target's own and whose result
// differs between two versions of a tree: changing the one into the other would
// change what they deploy too. What cannot be followed counts as different.
func Shared(before, after []File, t Target) ([]string, error) {
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
		if is, there := now[dir]; !there || is == odd || is != old[dir] {
			out = append(out, dir)
		}
	}
	return out, nil
}

// odd is the result of a build that something of it was changed and that cannot be
// followed.
const odd = "\x00"

// results gives what the kustomizations that are not the target's own make.
func results(files []File, t Target, changed map[string]bool) (map[string]string, error) {
	tr, err := newTree(files, t)
	if err != nil {
		return nil, err
	}
	all, _ := tr.objects() // the target's own may be what is broken
	own := tr.target.Path
	if c := tr.candidates(all); len(c) > 0 {
		own = c[0].object.Builder
	}
	out := map[string]string{}
	for _, b := range tr.built {
		if b.dir == own || b.files[tr.kustomization(own)] || tr.within(b, own) {
			continue
		}
		out[b.dir] = b.result(tr, changed)
	}
	return out, nil
}

// result writes what a build makes.
func (b *build) result(tr *tree, changed map[string]bool) string {
	seen := map[string]bool{}
	text := ""
	for _, o := range b.objects {
		for _, d := range o.Docs {
			seen[d.File] = true
		}
		data, err := yaml.Marshal(o.Root)
		if err != nil {
			return odd
		}
		text += o.String() + "\n" + string(data) + "---\n"
	}
	for f := range b.files {
		if changed[f] && (tr.failed[b.dir] != nil || !seen[f] && !isKustomization(f)) {
			return odd
		}
	}
	return text
}
