package helm

import (
	"fmt"
	"path"
	"slices"
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

// Workload is the workload whose values are looked for.
type Workload struct{ Kind, Namespace, Name string }

// Values returns the values that may be deployed: the files, merged as Helm does,
// or, if files is empty, each file below dir that looks like values, and those that Argo
// CD applications hold.
func Values(tr *edit.Tree, dir string, files []string, of Workload) ([]*edit.Object, error) {
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
		found, err := valuesIn(tr, p, of)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	return out, nil
}

// valuesIn returns the values in one file: all of it, or those that a kustomization or
// Argo CD applications hand to charts.
func valuesIn(tr *edit.Tree, p string, of Workload) ([]*edit.Object, error) {
	docs, err := tr.Open(p)
	if err != nil {
		return nil, err
	}
	var out []*edit.Object
	for _, d := range docs {
		if len(docs) > 1 && !strings.Contains(string(d.Data), "argoproj.io/") {
			continue // no file of values
		}
		root, err := d.Parse()
		if err != nil {
			return nil, err
		}
		switch {
		case edit.IsKustomization(p):
			for _, chart := range edit.List(root, "helmCharts") {
				if inline := edit.Get(chart, "valuesInline"); edit.IsMap(inline) {
					out = append(out, values(p, inline, docs))
				}
			}
		case edit.Str(root, "kind") == "Application":
			if !of.madeBy(root) {
				continue
			}
			found, err := inApplication(tr, d, root)
			if err != nil {
				return nil, err
			}
			out = append(out, found...)
		case len(docs) == 1 && edit.IsMap(root) && edit.Str(root, "kind") == "":
			d.Role = role
			out = append(out, values(p, root, docs))
		}
	}
	return out, nil
}

// madeBy reports whether an Argo CD application may make the workload: it deploys to its
// namespace, and the charts begin the name with that of the release, unless the values
// or the release say otherwise.
func (w Workload) madeBy(root *yaml.Node) bool {
	namespace := edit.Str(root, "spec", "destination", "namespace")
	if namespace != "" && w.Namespace != "" && namespace != w.Namespace {
		return false
	}
	releases := []string{edit.Str(root, "metadata", "name")}
	for _, n := range append(edit.List(root, "spec", "sources"), edit.Get(root, "spec", "source")) {
		h := edit.Get(n, "helm")
		releases = append(releases, edit.Str(h, "releaseName"), edit.Str(h, "valuesObject", "fullnameOverride"), edit.Str(h, "valuesObject", "nameOverride"))
		if text := edit.Str(h, "values"); strings.Contains(text, "nameOverride:") || strings.Contains(text, "fullnameOverride:") {
			return true
		}
	}
	return slices.ContainsFunc(releases, func(r string) bool { return r != "" && strings.HasPrefix(w.Name, r+"-") })
}

// inApplication returns the values that the sources of an Argo CD application hold
// themselves. Argo CD ignores values where there is a valuesObject; parameters override
// both.
func inApplication(tr *edit.Tree, d *edit.Document, root *yaml.Node) ([]*edit.Object, error) {
	type source struct {
		node *yaml.Node
		path string
	}
	sources := []source{{edit.Get(root, "spec", "source"), "spec.source"}}
	for i, n := range edit.List(root, "spec", "sources") {
		sources = append(sources, source{n, fmt.Sprintf("spec.sources[%d]", i)})
	}
	name := edit.Str(root, "metadata", "name")
	var out []*edit.Object
	for _, s := range sources {
		h := edit.Get(s.node, "helm")
		object, text := edit.Get(h, "valuesObject"), edit.Get(h, "values")
		in, doc, at := object, d, s.path+".helm.valuesObject"
		switch {
		case edit.IsMap(object):
		case edit.IsText(text):
			doc, at = tr.Nested(d, text, role), s.path+".helm.values"
			n, err := doc.Parse()
			if err != nil {
				return nil, err
			}
			in = n
		}
		if !edit.IsMap(in) {
			continue
		}
		if len(edit.List(h, "parameters")) > 0 || len(edit.List(h, "fileParameters")) > 0 {
			return nil, d.Invalid(h, "the application "+edit.Clip(name)+" has parameters, which override its values: remove them first")
		}
		o := values(d.File, in, []*edit.Document{doc})
		o.Why = "the Argo CD application " + edit.Clip(name) + " holds the values (" + at + ")"
		out = append(out, o)
	}
	return out, nil
}

func values(file string, root *yaml.Node, docs []*edit.Document) *edit.Object {
	return &edit.Object{Root: root, Docs: docs, Kind: edit.ValuesKind, Name: file}
}

// valueFile opens a value file; nil if it is empty.
func valueFile(tr *edit.Tree, p string) (*edit.Document, *yaml.Node, error) {
	if tr.File(p) == nil {
		return nil, nil, &fault.Error{Reason: fault.NotFound, Message: "the value file " + edit.Clip(p) + " is not in the tree"}
	}
	docs, err := tr.Open(p)
	if err != nil || len(docs) == 0 {
		return nil, nil, err
	}
	root, err := docs[0].Parse()
	if err != nil {
		return nil, nil, err
	}
	if len(docs) > 1 || !edit.IsMap(root) {
		return nil, nil, edit.InvalidAt(p, 1, 1, "a value file is one mapping")
	}
	docs[0].Role = role
	return docs[0], root, nil
}

// merged merges value files in their order.
func merged(tr *edit.Tree, files []string) (*edit.Object, error) {
	o := values(files[0], &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}, nil)
	for _, p := range files {
		doc, root, err := valueFile(tr, p)
		if err != nil {
			return nil, err
		}
		if doc == nil {
			continue
		}
		o.Docs = append(o.Docs, doc)
		if o.Root, err = edit.Merge(doc, o.Root, root, false); err != nil {
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
