package gitops

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops/edit"
	"go.yaml.in/yaml/v3"
)

// maxBuilds bounds how deep kustomizations include each other.
const maxBuilds = 16

// maxBuilt limits the kustomizations and objects of one tree, each time they are
// included.
const maxBuilt = 100_000

// build is what one kustomization makes, as far as it concerns the target.
type build struct {
	dir        string
	objects    []*edit.Object
	files      map[string]bool // that it reads
	generators []generator
	absent     []string // resources that are not in the tree
}

func isKustomization(p string) bool {
	switch path.Base(p) {
	case "kustomization.yaml", "kustomization.yml", "Kustomization":
		return true
	}
	return false
}

// kustomization gives the path of a directory's kustomization; empty: none.
func (tr *tree) kustomization(dir string) string {
	for _, name := range []string{"kustomization.yaml", "kustomization.yml", "Kustomization"} {
		if p := path.Join(dir, name); tr.files[p] != nil {
			return p
		}
	}
	return ""
}

// builds makes what every root kustomization builds: the one at the target's
// path, or else all that no other one includes. The others of the tree are
// built too, to know what else a file is used for.
func (tr *tree) builds() ([]*edit.Object, error) {
	var dirs []string
	for _, p := range tr.paths {
		if isKustomization(p) {
			dirs = append(dirs, path.Dir(p))
		}
	}
	included := map[string]bool{}
	for _, dir := range slices.Compact(dirs) {
		b := &build{dir: dir, files: map[string]bool{}}
		err := tr.accumulate(b, dir, nil, included)
		for f := range b.files {
			tr.reached[f] = true
		}
		tr.built = append(tr.built, b)
		if tr.included > maxBuilt {
			return nil, err // who else uses a file is not known then
		}
		if err != nil {
			tr.failed[dir] = err
		}
	}
	var out []*edit.Object
	for _, b := range tr.built {
		if !tr.isRoot(b.dir, included) {
			continue
		}
		if err := tr.failed[b.dir]; err != nil {
			if tr.target.Path == "" && !tr.speaks(b) {
				continue
			}
			return nil, err
		}
		out = append(out, b.objects...)
	}
	return out, nil
}

// isRoot reports whether a kustomization is what is deployed.
func (tr *tree) isRoot(dir string, included map[string]bool) bool {
	at := path.Clean(tr.target.Path)
	if tr.target.Path != "" && tr.kustomization(at) != "" {
		return dir == at
	}
	return !included[dir] && below(dir, tr.target.Path)
}

// speaks reports whether any file of a build speaks of the target.
func (tr *tree) speaks(b *build) bool {
	for f := range b.files {
		if tr.mentions(tr.files[f]) {
			return true
		}
	}
	return false
}

// accumulate adds what the kustomization of a directory makes to a build.
func (tr *tree) accumulate(b *build, dir string, stack []string, included map[string]bool) error {
	p := tr.kustomization(dir)
	if slices.Contains(stack, dir) || len(stack) >= maxBuilds {
		return edit.InvalidAt(p, 1, 1, "kustomizations include each other in a circle, or too deep")
	}
	if err := tr.count(p, 1); err != nil {
		return err
	}
	b.files[p] = true
	docs, err := tr.open(p)
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
			if err := tr.include(inner, path.Join(dir, entry.Value), entry.Value, append(stack, dir), included); err != nil {
				return err
			}
		}
	}
	if edit.Str(root, "kind") == "Component" {
		// A component changes what the kustomization that lists it has so far.
		inner.objects = append(b.objects, inner.objects...)
		b.objects = nil
	}
	for _, entry := range edit.List(root, "components") {
		if err := tr.include(inner, path.Join(dir, entry.Value), entry.Value, append(stack, dir), included); err != nil {
			return err
		}
	}
	if err := tr.transform(inner, d, root, dir); err != nil {
		return err
	}
	b.objects = append(b.objects, inner.objects...)
	b.generators = append(b.generators, inner.generators...)
	b.absent = append(b.absent, inner.absent...)
	return nil
}

// include adds a resource: a file, or a directory with a kustomization.
func (tr *tree) include(b *build, p, entry string, stack []string, included map[string]bool) error {
	if strings.HasPrefix(p, "..") {
		return edit.InvalidAt(tr.kustomization(stack[len(stack)-1]), 1, 1, fmt.Sprintf("the resource %q lies outside of the repository", edit.Clip(entry)))
	}
	if tr.kustomization(p) != "" {
		included[p] = true
		return tr.accumulate(b, p, stack, included)
	}
	if tr.files[p] == nil {
		b.absent = append(b.absent, entry)
		return nil
	}
	b.files[p] = true
	objects, err := tr.read(p)
	if err := tr.count(p, len(objects)); err != nil {
		return err
	}
	for _, o := range objects {
		// A kustomization changes names and trees: the file's own stay as they are.
		own := *o
		own.Builder, own.Docs = b.dir, slices.Clone(o.Docs)
		own.Why = "the kustomization " + path.Clean(b.dir) + " builds it"
		b.objects = append(b.objects, &own)
	}
	return err
}

// count refuses a tree whose kustomizations include each other without end: each
// time counts, and every other one of the tree is built, too.
func (tr *tree) count(p string, n int) error {
	if tr.included += n; tr.included > maxBuilt {
		return &fault.Error{Reason: fault.OutOfBounds, Message: fmt.Sprintf("%s: the kustomizations of the tree include each other and their resources more than %d times: name a narrower path", p, maxBuilt)}
	}
	return nil
}

// transform applies what a kustomization says about its resources.
func (tr *tree) transform(b *build, d *edit.Document, root *yaml.Node, dir string) error {
	if err := tr.opaque(b, d, root, dir); err != nil {
		return err
	}
	if err := tr.generate(b, d, root, dir); err != nil {
		return err
	}
	if err := tr.patches(b, d, root, dir); err != nil {
		return err
	}
	for _, r := range edit.List(root, "replicas") {
		for i, o := range b.objects {
			if name := edit.Str(r, "name"); (name == o.Name || name == o.Written) && edit.Get(r, "count") != nil && edit.Get(o.Root, "spec") != nil && countable(o.Kind) {
				c := *o
				c.Root = placed(o.Root, []string{"spec", "replicas"}, edit.Get(r, "count"))
				c.Docs = append(c.Docs, d)
				b.objects[i] = &c
			}
		}
	}
	namespace, prefix, suffix := edit.Str(root, "namespace"), edit.Str(root, "namePrefix"), edit.Str(root, "nameSuffix")
	for _, o := range b.objects {
		if namespace != "" {
			o.Namespace = namespace
		}
		o.Name = prefix + o.Name + suffix
	}
	return nil
}

// countable reports whether the replicas of a kustomization apply to a kind.
func countable(kind string) bool {
	return slices.Contains([]string{"Deployment", "StatefulSet", "ReplicaSet", "ReplicationController"}, kind)
}

// opaque refuses what may change the same fields in a way that is not followed.
func (tr *tree) opaque(b *build, d *edit.Document, root *yaml.Node, dir string) error {
	for _, key := range []string{"replacements", "transformers", "vars", "generators"} {
		for _, entry := range edit.List(root, key) {
			texts := []string{flat(entry)}
			if p := path.Join(dir, edit.Str(entry, "path")+scalar(entry)); tr.files[p] != nil {
				b.files[p] = true
				texts = append(texts, string(tr.files[p]))
			}
			for _, text := range texts {
				for _, field := range []string{".args", ".command", ".env", "spec.replicas", "/args", "/command", "/env", "/replicas"} {
					if strings.Contains(text, field) {
						return d.Invalid(entry, fmt.Sprintf("the kustomization's %s may change %s: that is not followed", key, field[1:]))
					}
				}
			}
		}
	}
	return nil
}

func scalar(n *yaml.Node) string {
	if n.Kind == yaml.ScalarNode {
		return n.Value
	}
	return ""
}

// flat gives all texts of a tree.
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

// unshared refuses a place that another kustomization of the tree builds from:
// a change there would change both.
func (tr *tree) unshared(s *edit.Site) error {
	if s.Doc == nil {
		return nil
	}
	top := s.Doc.Top()
	own := map[string]bool{s.Object.Builder: true}
	for _, b := range tr.built {
		// What includes the own kustomization is the same thing, seen from above.
		if own[b.dir] || b.files[tr.kustomization(s.Object.Builder)] || !b.files[s.Doc.File] || tr.within(b, s.Object.Builder) {
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

// within reports whether a build is a part of the kustomization at dir.
func (tr *tree) within(b *build, dir string) bool {
	for _, other := range tr.built {
		if other.dir == dir {
			return other.files[tr.kustomization(b.dir)]
		}
	}
	return false
}

// uses reports whether what a build makes has the very place in it.
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
