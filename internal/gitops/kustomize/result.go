package kustomize

import (
	"go.yaml.in/yaml/v3"

	"github.com/inference-responder/responder/internal/gitops/edit"
)

// Result is everything that one kustomization builds.
type Result struct {
	Objects []*edit.Object // the ConfigMaps of generators come last
	Absent  []string       // resources that are not in the tree, or cannot be read
}

// Whole builds the kustomization of a directory. The tree must be one that parses
// every document, so that it has no workload's name.
func Whole(t *edit.Tree, dir string) (Result, error) {
	bs := &Builds{tree: t, whole: true, failed: map[string]error{}, reached: map[string]bool{}, included: map[string]bool{}}
	b := &build{dir: dir, files: map[string]bool{}}
	if err := bs.accumulate(b, dir, nil); err != nil {
		return Result{}, err
	}
	out := Result{Objects: b.objects, Absent: b.absent}
	for _, g := range b.generators {
		out.Objects = append(out.Objects, g.configMap(t, dir))
	}
	return out, nil
}

// configMap returns what the generator makes.
func (g generator) configMap(t *edit.Tree, dir string) *edit.Object {
	data := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
	add := func(key, value string) {
		data.Content = append(data.Content,
			&yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: key}, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: value})
	}
	for key, v := range g.literals {
		add(key, v.Text())
	}
	for key, p := range g.files {
		add(key, string(t.File(p)))
	}
	root := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Content: []*yaml.Node{{Kind: yaml.ScalarNode, Tag: "!!str", Value: "data"}, data}}
	return &edit.Object{Kind: "ConfigMap", Name: g.name, Root: root, Builder: dir}
}
