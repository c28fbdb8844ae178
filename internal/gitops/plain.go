package gitops

import (
	"path"
	"slices"

	"github.com/inference-responder/responder/internal/gitops/edit"
	"github.com/inference-responder/responder/internal/gitops/helm"
)

// Manifest is an object of a changed file that is deployed as it is written.
type Manifest struct {
	File   string
	Line   int    // where its document begins, from 1
	Object string // kind namespace/name
	Data   []byte // the document after the change, YAML
	Before []byte // nil: it is new
}

// Plain returns the objects that a change of files changes and that are deployed
// as they are written: no chart, kustomization or generator changes them. all reports
// whether the change is only in such objects.
func Plain(before, after []File, t Target) (out []Manifest, all bool) {
	tr, err := newTree(after, t)
	if err != nil {
		return nil, false
	}
	if _, err := tr.builds.Objects(); err != nil || tr.File(path.Join(tr.target.Path, "Chart.yaml")) != nil || tr.builds.Single() {
		return nil, false
	}
	was := map[string][]byte{}
	for _, f := range before {
		was[f.Path] = f.Data
	}
	all = true
	for _, p := range tr.Paths() {
		old, there := was[p]
		if there && string(old) == string(tr.File(p)) {
			continue
		}
		changed, plain := tr.plainChanges(p, old)
		out, all = append(out, changed...), all && plain
	}
	return out, all && len(out) > 0
}

// plainChanges returns the objects of a file that are new or changed. It does not
// parse documents that are unchanged.
func (tr *tree) plainChanges(p string, old []byte) (out []Manifest, plain bool) {
	if !edit.Below(p, tr.target.Path) || !edit.IsYAML(p) || tr.builds.Reads(p) || edit.IsKustomization(p) || helm.IsTemplate(tr.Tree, p) {
		return nil, false
	}
	docs, err := tr.Open(p)
	if err != nil {
		return nil, false
	}
	earlier, _ := edit.Documents(p, old) // what cannot be read was not there
	plain = true
	for _, d := range docs {
		if slices.ContainsFunc(earlier, func(e *edit.Document) bool { return string(e.Data) == string(d.Data) }) {
			continue
		}
		root, err := d.Parse()
		if err != nil || edit.Str(root, "kind") == "List" || len(edit.Objects(d, root)) != 1 {
			plain = false
			continue
		}
		m := Manifest{File: p, Line: d.Line(), Object: edit.Objects(d, root)[0].String(), Data: d.Data}
		m.Before = tr.formerly(m.Object, earlier, docs)
		out = append(out, m)
	}
	return out, plain
}

// formerly returns the document that held an object before, or nil.
func (tr *tree) formerly(object string, earlier, now []*edit.Document) []byte {
	for _, e := range earlier {
		if slices.ContainsFunc(now, func(d *edit.Document) bool { return string(e.Data) == string(d.Data) }) {
			continue // it is still there
		}
		root, err := e.Parse()
		if err != nil {
			continue
		}
		for _, o := range edit.Objects(e, root) {
			if o.String() == object {
				return e.Data
			}
		}
	}
	return nil
}
