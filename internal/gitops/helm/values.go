package helm

import (
	"path"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops/edit"
)

// role is the role of a file of values.
const role = "helm values"

// IsTemplate reports whether a file is part of a Helm chart that is not edited: a
// template, a custom resource definition or a chart that it depends on.
func IsTemplate(tr *edit.Tree, p string) bool {
	for dir := path.Dir(p); ; dir = path.Dir(dir) {
		if tr.File(path.Join(dir, "Chart.yaml")) != nil {
			for _, sub := range []string{"templates", "crds", "charts"} {
				if edit.Below(p, path.Join(dir, sub)) {
					return true
				}
			}
		}
		if dir == "." || dir == "/" {
			return false
		}
	}
}

// Values returns the values that may be deployed: the files, merged as Helm does,
// or, if files is empty, each file below dir that looks like values.
func Values(tr *edit.Tree, dir string, files []string) ([]*edit.Object, error) {
	if len(files) > 0 {
		o, err := merged(tr, files)
		if err != nil {
			return nil, err
		}
		return []*edit.Object{o}, nil
	}
	var out []*edit.Object
	for _, p := range tr.Paths() {
		if !edit.Below(p, dir) || !edit.IsYAML(p) || IsTemplate(tr, p) {
			continue
		}
		if text := string(tr.File(p)); !strings.Contains(text, "modelSpec") && !strings.Contains(text, "decode") && !strings.Contains(text, "prefill") {
			continue
		}
		docs, err := tr.Open(p)
		if err != nil {
			return nil, err
		}
		if len(docs) != 1 {
			continue
		}
		root, err := docs[0].Parse()
		if err != nil {
			return nil, err
		}
		if edit.IsKustomization(p) {
			for _, chart := range edit.List(root, "helmCharts") {
				if inline := edit.Get(chart, "valuesInline"); edit.IsMap(inline) {
					out = append(out, values(p, inline, docs))
				}
			}
		} else if edit.IsMap(root) && edit.Str(root, "kind") == "" {
			docs[0].Role = role
			out = append(out, values(p, root, docs))
		}
	}
	return out, nil
}

func values(file string, root *yaml.Node, docs []*edit.Document) *edit.Object {
	return &edit.Object{Root: root, Docs: docs, Kind: edit.ValuesKind, Name: file}
}

// merged merges value files in their order.
func merged(tr *edit.Tree, files []string) (*edit.Object, error) {
	o := values(files[0], &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}, nil)
	for _, p := range files {
		if tr.File(p) == nil {
			return nil, &fault.Error{Reason: fault.NotFound, Message: "the value file " + edit.Clip(p) + " is not in the tree"}
		}
		docs, err := tr.Open(p)
		if err != nil {
			return nil, err
		}
		if len(docs) == 0 {
			continue
		}
		root, err := docs[0].Parse()
		if err != nil {
			return nil, err
		}
		if len(docs) > 1 || !edit.IsMap(root) {
			return nil, edit.InvalidAt(p, 1, 1, "a value file is one mapping")
		}
		docs[0].Role = role
		o.Docs = append(o.Docs, docs[0])
		if o.Root, err = edit.Merge(docs[0], o.Root, root, false); err != nil {
			return nil, err
		}
	}
	if len(o.Docs) == 0 {
		return nil, &fault.Error{Reason: fault.NotFound, Message: "the value files are empty"}
	}
	if len(o.Docs) > 1 {
		o.Why = "of the value files it is the last one that has it"
	}
	return o, nil
}
