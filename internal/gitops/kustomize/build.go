package kustomize

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops/edit"
)

// maxBuilds limits how deep kustomizations include each other.
const maxBuilds = 16

// maxBuilt limits the kustomizations and objects of one tree, each time they are
// included.
const maxBuilt = 100_000

// Builds is the kustomizations of a tree, each of them built as far as it concerns
// the workload: the other ones tell what else a file is used for.
type Builds struct {
	tree     *edit.Tree
	path     string // what is deployed: a kustomization or a directory; empty: the tree
	all      []*build
	failed   map[string]error // by directory, the errors of builds
	reached  map[string]bool  // files that kustomizations read
	included map[string]bool  // directories that kustomizations include
	count    int              // kustomizations and objects, each time they are included
	tooMany  error            // the tree includes itself too often to be built
	whole    bool             // every object counts, and files that cannot be read are left out
}

// build is the result of one kustomization.
type build struct {
	dir        string
	objects    []*edit.Object
	files      map[string]bool // files that it reads
	generators []generator
	absent     []string // resources that are not in the tree
}

// kustomization returns the path of a directory's kustomization, or "".
func (bs *Builds) kustomization(dir string) string {
	for _, name := range []string{"kustomization.yaml", "kustomization.yml", "Kustomization"} {
		if p := path.Join(dir, name); bs.tree.File(p) != nil {
			return p
		}
	}
	return ""
}

// Build builds the kustomizations of a tree. path is what is deployed.
func Build(t *edit.Tree, path string) *Builds {
	bs := &Builds{tree: t, path: path, failed: map[string]error{}, reached: map[string]bool{}, included: map[string]bool{}}
	bs.build()
	return bs
}

func (bs *Builds) build() {
	var dirs []string
	for _, p := range bs.tree.Paths() {
		if edit.IsKustomization(p) {
			dirs = append(dirs, path.Dir(p))
		}
	}
	for _, dir := range slices.Compact(dirs) {
		b := &build{dir: dir, files: map[string]bool{}}
		err := bs.accumulate(b, dir, nil)
		for f := range b.files {
			bs.reached[f] = true
		}
		bs.all = append(bs.all, b)
		if bs.count > maxBuilt {
			bs.tooMany = err // which kustomizations read a file is not known then
			return
		}
		if err != nil {
			bs.failed[dir] = err
		}
	}
}

// Objects returns what is deployed: the result of the kustomization at the path,
// or else of those below it that no other one includes.
func (bs *Builds) Objects() ([]*edit.Object, error) {
	if bs.tooMany != nil {
		return nil, bs.tooMany
	}
	var out []*edit.Object
	for _, b := range bs.all {
		if !bs.isDeployed(b.dir) {
			continue
		}
		if err := bs.failed[b.dir]; err != nil {
			if bs.path == "" && !bs.mentions(b) {
				continue
			}
			return nil, err
		}
		out = append(out, b.objects...)
	}
	return out, nil
}

// Single reports whether the path is a kustomization, so that it alone is deployed.
func (bs *Builds) Single() bool { return bs.path != "" && bs.kustomization(path.Clean(bs.path)) != "" }

func (bs *Builds) isDeployed(dir string) bool {
	if bs.Single() {
		return dir == path.Clean(bs.path)
	}
	return !bs.included[dir] && edit.Below(dir, bs.path)
}

// mentions reports whether any file of a build mentions the workload.
func (bs *Builds) mentions(b *build) bool {
	for f := range b.files {
		if bs.tree.Mentions(bs.tree.File(f)) {
			return true
		}
	}
	return false
}

// Reads reports whether any kustomization reads the file.
func (bs *Builds) Reads(p string) bool { return bs.reached[p] }

// Deploys reports whether the kustomization of a directory reads the file.
func (bs *Builds) Deploys(dir, p string) bool {
	b := bs.of(dir)
	return b != nil && b.files[p] && !edit.IsKustomization(p)
}

// Generated returns the values of a key that the generators of a directory's
// kustomization write into a ConfigMap.
func (bs *Builds) Generated(dir, name, key string) []*edit.Value {
	var out []*edit.Value
	if b := bs.of(dir); b != nil {
		for _, g := range b.generators {
			if v := g.value(key); g.name == name && v != nil {
				out = append(out, v)
			}
		}
	}
	return out
}

// Absent returns the resources of each directory's kustomization that are not in
// the tree, in words.
func (bs *Builds) Absent() []string {
	var out []string
	for _, b := range bs.all {
		for _, a := range b.absent {
			out = append(out, fmt.Sprintf("%s takes %s from elsewhere", b.dir, edit.Clip(a)))
		}
	}
	return out
}

// Failures returns the errors of the builds whose directory is below a path.
func (bs *Builds) Failures(dir string) []error {
	var out []error
	for _, b := range bs.all {
		if err := bs.failed[b.dir]; err != nil && edit.Below(b.dir, dir) {
			out = append(out, err)
		}
	}
	return out
}

// of returns the build of a directory, or nil.
func (bs *Builds) of(dir string) *build {
	for _, b := range bs.all {
		if b.dir == dir {
			return b
		}
	}
	return nil
}

// accumulate adds the result of a directory's kustomization to a build.
func (bs *Builds) accumulate(b *build, dir string, stack []string) error {
	p := bs.kustomization(dir)
	if slices.Contains(stack, dir) || len(stack) >= maxBuilds {
		return edit.InvalidAt(p, 1, 1, "kustomizations include each other in a circle, or too deep")
	}
	if err := bs.add(p, 1); err != nil {
		return err
	}
	b.files[p] = true
	docs, err := bs.tree.Open(p)
	if err != nil {
		return err
	}
	if len(docs) != 1 {
		return edit.InvalidAt(p, 1, 1, "a kustomization is one YAML document")
	}
	d := docs[0]
	d.Role = "kustomization"
	root, err := d.Parse()
	if err != nil {
		return err
	}
	inner := &build{dir: b.dir, files: b.files}
	for _, key := range []string{"resources", "bases"} {
		for _, entry := range edit.List(root, key) {
			if err := bs.include(inner, path.Join(dir, entry.Value), entry.Value, append(stack, dir)); err != nil {
				return err
			}
		}
	}
	if edit.Str(root, "kind") == "Component" {
		// A component changes the objects that its kustomization has so far.
		inner.objects = append(b.objects, inner.objects...)
		b.objects = nil
	}
	for _, entry := range edit.List(root, "components") {
		if err := bs.include(inner, path.Join(dir, entry.Value), entry.Value, append(stack, dir)); err != nil {
			return err
		}
	}
	if err := bs.transform(inner, d, root, dir); err != nil {
		return err
	}
	b.objects = append(b.objects, inner.objects...)
	b.generators = append(b.generators, inner.generators...)
	b.absent = append(b.absent, inner.absent...)
	return nil
}

// include adds a resource: a file, or a directory with a kustomization.
func (bs *Builds) include(b *build, p, entry string, stack []string) error {
	if strings.HasPrefix(p, "..") {
		return edit.InvalidAt(bs.kustomization(stack[len(stack)-1]), 1, 1, fmt.Sprintf("the resource %q lies outside of the repository", edit.Clip(entry)))
	}
	if bs.kustomization(p) != "" {
		bs.included[p] = true
		return bs.accumulate(b, p, stack)
	}
	if bs.tree.File(p) == nil {
		b.absent = append(b.absent, entry)
		return nil
	}
	b.files[p] = true
	objects, err := bs.tree.Objects(p)
	if err := bs.add(p, len(objects)); err != nil {
		return err
	}
	if err != nil && bs.whole {
		b.absent = append(b.absent, entry)
		return nil
	}
	for _, o := range objects {
		// A kustomization changes names and trees; those of the file stay as they are.
		own := *o
		own.Builder, own.Docs = b.dir, slices.Clone(o.Docs)
		own.Why = "the kustomization " + path.Clean(b.dir) + " builds it"
		b.objects = append(b.objects, &own)
	}
	return err
}

// add counts kustomizations and objects. It returns an error when they include each
// other too often: each of them is built as often as it is included.
func (bs *Builds) add(p string, n int) error {
	if bs.count += n; bs.count > maxBuilt {
		return &fault.Error{Reason: fault.OutOfBounds, Message: fmt.Sprintf("%s: the kustomizations of the tree include each other and their resources more than %d times: name a narrower path", p, maxBuilt)}
	}
	return nil
}

// transform applies generators, patches, namespace, names and replicas, in
// kustomize's order.
func (bs *Builds) transform(b *build, d *edit.Document, root *yaml.Node, dir string) error {
	if err := bs.checkTransformers(b, d, root, dir); err != nil {
		return err
	}
	if err := bs.generate(b, d, root, dir); err != nil {
		return err
	}
	if err := bs.patches(b, d, root, dir); err != nil {
		return err
	}
	namespace, prefix, suffix := edit.Str(root, "namespace"), edit.Str(root, "namePrefix"), edit.Str(root, "nameSuffix")
	for _, o := range b.objects {
		if namespace != "" {
			o.Namespace = namespace
		}
		o.Rename(prefix + o.Name)
		o.Rename(o.Name + suffix)
	}
	if err := bs.targeted(b, d, root, dir, "patchesJson6902"); err != nil {
		return err
	}
	b.scale(d, root)
	bs.moveNamespaces(b, root, dir)
	return nil
}

// scale applies the replicas of a kustomization, by any name of the object so far.
func (b *build) scale(d *edit.Document, root *yaml.Node) {
	for _, r := range edit.List(root, "replicas") {
		count := edit.Get(r, "count")
		for i, o := range b.objects {
			if count == nil || !o.Called(edit.Str(r, "name")) || edit.Get(o.Root, "spec") == nil || !countable(o.Kind) {
				continue
			}
			c := *o
			c.Root = withValue(o.Root, []string{"spec", "replicas"}, count)
			c.Docs = append(slices.Clone(c.Docs), d)
			b.objects[i] = &c
		}
	}
}

// countable reports whether the replicas of a kustomization apply to a kind.
func countable(kind string) bool {
	return slices.Contains([]string{"Deployment", "StatefulSet", "ReplicaSet", "ReplicationController"}, kind)
}

// touched matches the paths of fields that are looked for.
var touched = regexp.MustCompile(`[./](?:args|command|env|envFrom|replicas)\b`)

// checkTransformers returns an error for what may change the same fields in a way
// that is not followed.
func (bs *Builds) checkTransformers(b *build, d *edit.Document, root *yaml.Node, dir string) error {
	for _, key := range []string{"replacements", "transformers", "vars", "generators"} {
		for _, entry := range edit.List(root, key) {
			var texts []string
			if p := path.Join(dir, edit.Str(entry, "path")+scalar(entry)); bs.tree.File(p) != nil {
				b.files[p] = true
				texts = append(texts, string(bs.tree.File(p)))
			}
			if key == "replacements" {
				texts = nil
				for _, t := range bs.replaced(entry, dir) {
					for _, field := range edit.List(t, "fieldPaths") {
						texts = append(texts, scalar(field))
					}
				}
			} else {
				texts = append(texts, flat(entry))
			}
			for _, text := range texts {
				if field := touched.FindString(text); field != "" {
					return d.Invalid(entry, fmt.Sprintf("the kustomization's %s may change %s: that is not followed", key, field[1:]))
				}
			}
		}
	}
	return nil
}

// replaced returns the targets of a replacement, or of those in the file it names.
func (bs *Builds) replaced(entry *yaml.Node, dir string) []*yaml.Node {
	all := []*yaml.Node{entry}
	if p := path.Join(dir, edit.Str(entry, "path")); edit.Str(entry, "path") != "" && bs.tree.File(p) != nil {
		docs, err := bs.tree.Open(p)
		for _, d := range docs {
			root, e := d.Parse()
			if e != nil || err != nil {
				continue // kustomize does not build it either
			}
			all = append(all, root)
			all = append(all, edit.List(root)...)
		}
	}
	var out []*yaml.Node
	for _, r := range all {
		out = append(out, edit.List(r, "targets")...)
	}
	return out
}

// moveNamespaces takes the namespace from the objects that replacements give one:
// it may be any.
func (bs *Builds) moveNamespaces(b *build, root *yaml.Node, dir string) {
	for _, entry := range edit.List(root, "replacements") {
		for _, t := range bs.replaced(entry, dir) {
			if !slices.ContainsFunc(edit.List(t, "fieldPaths"), func(f *yaml.Node) bool { return scalar(f) == "metadata.namespace" }) {
				continue
			}
			kind, name := edit.Str(t, "select", "kind"), edit.Str(t, "select", "name")
			for _, o := range b.objects {
				if (kind == "" || kind == o.Kind) && (name == "" || o.Called(name)) {
					o.Namespace = ""
				}
			}
		}
	}
}

// scalar returns the text of a scalar, or "".
func scalar(n *yaml.Node) string {
	if n.Kind == yaml.ScalarNode {
		return n.Value
	}
	return ""
}

// flat returns all texts of a tree.
func flat(n *yaml.Node) string {
	if n.Kind == yaml.ScalarNode {
		return n.Value + "\n"
	}
	var b strings.Builder
	for _, c := range n.Content {
		b.WriteString(flat(c))
	}
	return b.String()
}

// CheckShared returns an error for a site that another kustomization of the tree
// reads too: a change would change both.
func (bs *Builds) CheckShared(s *edit.Site) error {
	if s.Doc == nil {
		return nil
	}
	top := s.Doc.Top()
	own := map[string]bool{s.Object.Builder: true}
	for _, b := range bs.all {
		// A kustomization that includes the own one deploys the same.
		if own[b.dir] || b.files[bs.kustomization(s.Object.Builder)] || !b.files[s.Doc.File] || bs.within(b, s.Object.Builder) {
			continue
		}
		if !b.uses(s, top) {
			continue
		}
		return &fault.Error{Reason: fault.Owned, Message: fmt.Sprintf("%s:%d:%d: the kustomization %s builds from it too, and a change here would change both: set it in a patch of %s first",
			s.File(), s.Line, s.Column, b.dir, s.Object.Builder)}
	}
	return nil
}

// within reports whether a build is a part of the kustomization of a directory.
func (bs *Builds) within(b *build, dir string) bool {
	other := bs.of(dir)
	return other != nil && other.files[bs.kustomization(b.dir)]
}

// uses reports whether the result of a build has the site in it.
func (b *build) uses(s *edit.Site, top *edit.Document) bool {
	known := false
	for _, o := range b.objects {
		if !slices.Contains(o.Docs, top) {
			continue
		}
		known = true
		if edit.Holds(o.Root, s.Node) || s.Missing && !edit.IsList(s.Node) || s.Doc != top {
			return true
		}
	}
	return !known
}

// Unknown is the result of a build that a change affects in a way that is not
// followed.
const Unknown = "\x00"

// Results returns the result of every kustomization that is not part of the one
// in the directory own, nor includes it. A result is unknown if one of the changed
// files affects it in a way that is not followed.
func (bs *Builds) Results(own string, changed map[string]bool) map[string]string {
	out := map[string]string{}
	for _, b := range bs.all {
		if b.dir == own || b.files[bs.kustomization(own)] || bs.within(b, own) {
			continue
		}
		out[b.dir] = b.result(bs, changed)
	}
	return out
}

// result returns the objects of a build as text.
func (b *build) result(bs *Builds, changed map[string]bool) string {
	seen := map[string]bool{}
	text := ""
	for _, o := range b.objects {
		for _, d := range o.Docs {
			seen[d.File] = true
		}
		data, err := yaml.Marshal(o.Root)
		if err != nil {
			return Unknown
		}
		text += o.String() + "\n" + string(data) + "---\n"
	}
	for f := range b.files {
		if changed[f] && (bs.failed[b.dir] != nil || !seen[f] && !edit.IsKustomization(f)) {
			return Unknown
		}
	}
	return text
}
