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

// Deployment is a chart of the tree with the values that it is deployed with.
type Deployment struct {
	Dir         string   // of the chart
	Release     string   // empty: not known
	Files       []string // value files in their order, from the repository's root
	Application string   // of Argo CD that deploys it, or HelmRelease of Flux; empty: none is known

	kubeVersion string   // that the application renders it for; empty: the cluster's
	apiVersions []string // that the application adds

	flux       bool // Application is a HelmRelease of Flux
	parameters bool // the application has parameters, which override the values
	held       held // values that the application holds
}

// held are values in the manifest of an application or of a HelmRelease.
type held struct {
	file  string
	index int // of the document in its stream
	path  []string
}

// Asked is what is known of a deployment without looking at the tree.
type Asked struct {
	Dir     string   // that is deployed
	Files   []string // value files in their order
	Release string
}

// Deployments returns the charts of the tree that are deployed: as it is asked, or as
// the Argo CD applications of the tree say, or else each by itself.
func Deployments(tr *edit.Tree, a Asked, of Workload) ([]Deployment, error) {
	charts := chartsOf(tr)
	if len(charts) == 0 {
		return nil, nil
	}
	apps, err := applications(tr, charts, of)
	if err != nil {
		return nil, err
	}
	var out []Deployment
	if len(a.Files) > 0 {
		for _, dir := range charts {
			if edit.Below(dir, a.Dir) {
				out = append(out, Deployment{Dir: dir, Release: a.Release, Files: a.Files})
			}
		}
		if len(out) == 1 {
			others := slices.DeleteFunc(apps, func(d Deployment) bool { return d.Dir == out[0].Dir && slices.Equal(d.Files, a.Files) })
			return append(out, others...), nil
		}
		return out, nil
	}
	for _, dir := range charts {
		by := slices.DeleteFunc(slices.Clone(apps), func(d Deployment) bool { return d.Dir != dir })
		switch {
		case len(by) > 0:
			out = append(out, by...)
		case edit.Below(dir, a.Dir):
			out = append(out, Deployment{Dir: dir, Release: a.Release})
		}
	}
	return out, nil
}

// chartsOf returns the directories of the charts that no other chart depends on.
func chartsOf(tr *edit.Tree) []string {
	var out []string
	for _, p := range tr.Paths() {
		if path.Base(p) == "Chart.yaml" && !IsTemplate(tr, p) {
			out = append(out, path.Dir(p))
		}
	}
	for _, dir := range slices.Clone(out) {
		for _, l := range locals(tr, dir) {
			out = slices.DeleteFunc(out, func(d string) bool { return d == l.dir })
		}
	}
	return out
}

// local is a dependency that a chart takes from a directory of the tree.
type local struct{ name, dir string }

// locals returns the dependencies of a chart that are in other directories of the tree,
// and not in its charts directory.
func locals(tr *edit.Tree, dir string) []local {
	docs, err := tr.Open(path.Join(dir, "Chart.yaml"))
	if err != nil || len(docs) != 1 {
		return nil
	}
	root, err := docs[0].Parse()
	if err != nil {
		return nil
	}
	var out []local
	for _, d := range edit.List(root, "dependencies") {
		at, isFile := strings.CutPrefix(edit.Str(d, "repository"), "file://")
		name := edit.Str(d, "name")
		l := local{name, path.Join(dir, at)}
		if isFile && tr.File(path.Join(l.dir, "Chart.yaml")) != nil && tr.File(path.Join(dir, "charts", name, "Chart.yaml")) == nil {
			out = append(out, l)
		}
	}
	return out
}

// applications returns the deployments of the charts by the Argo CD applications of the
// tree that deploy to the workload's namespace.
func applications(tr *edit.Tree, charts []string, of Workload) ([]Deployment, error) {
	var out []Deployment
	for _, p := range tr.Paths() {
		if !edit.IsYAML(p) || IsTemplate(tr, p) || !strings.Contains(string(tr.File(p)), "argoproj.io/") {
			continue
		}
		docs, err := tr.Open(p)
		if err != nil {
			return nil, err
		}
		for _, d := range docs {
			if !strings.Contains(string(d.Data), "argoproj.io/") {
				continue
			}
			root, err := d.Parse()
			if err != nil {
				return nil, err
			}
			namespace := edit.Str(root, "spec", "destination", "namespace")
			if edit.Str(root, "kind") != "Application" || namespace != "" && of.Namespace != "" && namespace != of.Namespace {
				continue
			}
			found, err := deployed(tr, d, root, charts)
			if err != nil {
				return nil, err
			}
			out = append(out, found...)
		}
	}
	return out, nil
}

// deployed returns the deployments that one application makes of the charts.
func deployed(tr *edit.Tree, d *edit.Document, root *yaml.Node, charts []string) ([]Deployment, error) {
	var out []Deployment
	add := func(source *yaml.Node, at ...string) error {
		dir := path.Clean(strings.TrimPrefix(edit.Str(source, "path"), "/"))
		if !slices.Contains(charts, dir) {
			return nil
		}
		h := edit.Get(source, "helm")
		one := Deployment{Dir: dir, Release: edit.Str(h, "releaseName"), Application: edit.Str(root, "metadata", "name")}
		if one.Release == "" {
			one.Release = one.Application
		}
		one.parameters = len(edit.List(h, "parameters")) > 0 || len(edit.List(h, "fileParameters")) > 0
		one.kubeVersion = edit.Str(h, "kubeVersion")
		for _, v := range edit.List(h, "apiVersions") {
			one.apiVersions = append(one.apiVersions, v.Value)
		}
		for _, key := range []string{"valuesObject", "values"} {
			if n := edit.Get(h, key); n != nil && one.held.file == "" && (edit.IsMap(n) || edit.IsText(n)) {
				one.held = held{d.File, d.Stream(), append(at, "helm", key)}
			}
		}
		for _, f := range edit.List(h, "valueFiles") {
			p := path.Join(dir, f.Value)
			if ref, file, named := strings.Cut(f.Value, "/"); named && strings.HasPrefix(ref, "$") {
				p = path.Clean(file)
			}
			if tr.File(p) == nil {
				if edit.Str(h, "ignoreMissingValueFiles") == "true" {
					continue
				}
				return d.Invalid(f, fmt.Sprintf("the application %s names the value file %s, which is not in the tree", edit.Clip(one.Application), edit.Clip(p)))
			}
			one.Files = append(one.Files, p)
		}
		out = append(out, one)
		return nil
	}
	err := add(edit.Get(root, "spec", "source"), "spec", "source")
	for i, source := range edit.List(root, "spec", "sources") {
		if err == nil {
			err = add(source, "spec", "sources", fmt.Sprint(i))
		}
	}
	return out, err
}

// layer is values that one document holds.
type layer struct {
	doc    *edit.Document
	root   *yaml.Node // a mapping
	text   []byte
	chart  bool // the chart's own defaults
	prefix string
}

// layers returns the values of the deployment in Helm's order, the chart's own first.
func (d Deployment) layers(tr *edit.Tree) ([]layer, error) {
	if d.parameters {
		return nil, &fault.Error{Reason: fault.Owned, Message: fmt.Sprintf("the application %s has parameters, which override its values: move them to a value file first", d.Application)}
	}
	var out []layer
	own := path.Join(d.Dir, "values.yaml")
	files := d.Files
	if tr.File(own) != nil && !slices.Contains(files, own) {
		files = append([]string{own}, files...)
	}
	for _, p := range files {
		doc, root, err := valueFile(tr, p)
		if err != nil {
			return nil, err
		}
		if doc == nil {
			continue
		}
		out = append(out, layer{doc: doc, root: root, text: tr.File(p), chart: p == own && !slices.Contains(d.Files, own)})
	}
	inline, err := d.held.layer(tr)
	if inline.doc != nil {
		out = append(out, inline)
	}
	return out, err
}

// layer returns the values that an application holds.
func (h held) layer(tr *edit.Tree) (layer, error) {
	if h.file == "" {
		return layer{}, nil
	}
	docs, err := tr.Open(h.file)
	if err != nil {
		return layer{}, err
	}
	for _, doc := range docs {
		if doc.Stream() != h.index {
			continue
		}
		root, err := doc.Parse()
		if err != nil {
			return layer{}, err
		}
		n, at := root, h.path
		if h.path[1] == "sources" {
			var i int
			if _, err := fmt.Sscan(h.path[2], &i); err != nil || i >= len(edit.List(root, "spec", "sources")) {
				break
			}
			n, at = edit.List(root, "spec", "sources")[i], h.path[3:]
		}
		prefix := strings.Join(h.path, ".") + "."
		n = edit.Get(n, at...)
		if edit.IsText(n) {
			inner := tr.Nested(doc, n, role)
			root, err := inner.Parse()
			if err != nil || !edit.IsMap(root) {
				return layer{}, err
			}
			return layer{doc: inner, root: root, text: []byte(n.Value), prefix: prefix}, nil
		}
		text, err := yaml.Marshal(n)
		if err != nil || !edit.IsMap(n) {
			return layer{}, err
		}
		return layer{doc: doc, root: n, text: text, prefix: prefix}, nil
	}
	return layer{}, nil
}

// Request returns the request that renders the deployment as the tree has it, without
// variants.
func (d Deployment) Request(tr *edit.Tree, namespace string) Request {
	if namespace == "" {
		namespace = "default"
	}
	req := Request{Files: map[string][]byte{}, Namespace: namespace}
	for _, p := range tr.Paths() {
		if below, ok := strings.CutPrefix(p, d.Dir+"/"); ok {
			req.Files[below] = tr.File(p)
		} else if d.Dir == "." {
			req.Files[p] = tr.File(p)
		}
	}
	for _, l := range locals(tr, d.Dir) {
		for _, p := range tr.Paths() {
			if below, ok := strings.CutPrefix(p, l.dir+"/"); ok {
				req.Files[path.Join("charts", l.name, below)] = tr.File(p)
			}
		}
	}
	return req
}

// Variant returns the deployment as a tree has it that differs from the one of the
// request in the named files.
func (d Deployment) Variant(tr *edit.Tree, changed ...string) (Variant, error) {
	v := Variant{Release: d.Release, Files: map[string][]byte{}, KubeVersion: d.kubeVersion, APIVersions: d.apiVersions}
	layers, err := d.layers(tr)
	for _, l := range layers {
		if !l.chart {
			v.Values = append(v.Values, l.text)
		}
	}
	for _, p := range changed {
		if below, ok := strings.CutPrefix(p, d.Dir+"/"); ok {
			v.Files[below] = tr.File(p)
		} else if d.Dir == "." {
			v.Files[p] = tr.File(p)
		}
	}
	return v, err
}

// Reads reports whether the deployment is made of a file.
func (d Deployment) Reads(p string) bool {
	return edit.Below(p, d.Dir) || slices.Contains(d.Files, p) || p == d.held.file
}

// Releases returns names that the release of a workload may have, the likeliest first.
// Charts make the names of their objects of it.
func (d Deployment) Releases(workload string) []string {
	if d.Release != "" {
		return []string{d.Release}
	}
	const most = 40
	words := strings.Split(workload, "-")
	out := []string{workload}
	for n := len(words) - 1; n > 0; n-- {
		for from := 0; from+n <= len(words) && len(out) < most; from++ {
			out = append(out, strings.Join(words[from:from+n], "-"))
		}
	}
	return out
}

// String names the deployment for people.
func (d Deployment) String() string {
	s := "the chart " + d.Dir
	switch {
	case d.flux:
		s += " of " + releaseKind + " " + edit.Clip(d.Application)
	case d.Application != "":
		s += " of the application " + edit.Clip(d.Application)
	}
	return s
}
