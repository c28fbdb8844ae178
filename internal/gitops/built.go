package gitops

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops/edit"
	"github.com/inference-responder/responder/internal/gitops/helm"
	"github.com/inference-responder/responder/internal/gitops/kustomize"
)

// maxCompared limits the nodes of two builds that are compared.
const maxCompared = 2_000_000

// checkBuilt builds the kustomizations and renders the charts of the edited sites before
// and after the edit, and compares every object. It returns an error unless the edit changes one field of
// the target for each site, or of what the target alone reads. rendered
// describes what changes in what a chart renders. unbuilt tells why a kustomization or
// chart could not be built, or not all of it.
func checkBuilt(before, after []File, t Target, sites []*edit.Site) (rendered []string, unbuilt string, err error) {
	var dirs []string
	values := slices.DeleteFunc(slices.Clone(sites), func(s *edit.Site) bool { return s.Object.Kind != edit.ValuesKind })
	if len(values) > 0 {
		if rendered, unbuilt, err = checkRendered(before, after, t, values); err != nil {
			return nil, "", err
		}
	}
	for _, s := range sites {
		if dir := s.Object.Builder; dir != "" && !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	for _, dir := range dirs {
		of := slices.DeleteFunc(slices.Clone(sites), func(s *edit.Site) bool { return s.Object.Builder != dir })
		why, err := checkBuild(before, after, dir, of)
		if err != nil {
			return nil, "", err
		}
		if why != "" {
			unbuilt = why
		}
	}
	for _, s := range sites {
		if err := checkConfigMap(before, t, s); err != nil {
			return nil, "", err
		}
	}
	return rendered, unbuilt, nil
}

// checkBuild compares the results of one kustomization.
func checkBuild(before, after []File, dir string, sites []*edit.Site) (unbuilt string, err error) {
	was, err := buildOf(before, dir)
	if err != nil {
		return err.Error(), nil // what Git holds cannot be built; that the edit is in one value is checked elsewhere
	}
	is, err := buildOf(after, dir)
	if err != nil {
		return "", invalidEdit(sites[0], "the kustomization "+dir+" could not be built afterwards: "+err.Error())
	}
	if len(is.Objects) != len(was.Objects) {
		return "", invalidEdit(sites[0], fmt.Sprintf("the kustomization %s would build %d objects, not %d", dir, len(is.Objects), len(was.Objects)))
	}
	left, changes := maxCompared, 0
	for i, o := range was.Objects {
		n := is.Objects[i]
		if o.String() != n.String() {
			return "", invalidEdit(sites[0], fmt.Sprintf("the kustomization %s would build %s in place of %s", dir, n, o))
		}
		fields := differences(o.Root, n.Root, &left)
		changes += len(fields)
		if len(fields) == 0 || slices.ContainsFunc(sites, func(s *edit.Site) bool { return s.Object.Deployed().String() == o.String() }) {
			continue
		}
		switch o.Kind {
		case "ConfigMap":
			if others := readers(was.Objects, o, fields, sites[0].Object); len(others) > 0 {
				return "", alsoChanges(sites[0], others[0]+", which reads "+o.String())
			}
		case llmInferenceConfig: // a base; that no other service has it is checked before
		default:
			return "", alsoChanges(sites[0], o.String()+" ("+fields[0]+"), which the kustomization "+dir+" builds too")
		}
	}
	switch {
	case left < 0:
		return "the kustomization " + dir + " builds too much to be compared", nil
	case changes == 0:
		return "", invalidEdit(sites[0], "the edit changes nothing in the rendered result of the kustomization "+dir)
	case changes > len(sites):
		return "", invalidEdit(sites[0], fmt.Sprintf("the edit changes %d fields in the rendered result of the kustomization %s, not %d", changes, dir, len(sites)))
	case len(was.Absent) > 0:
		return fmt.Sprintf("%s of the kustomization %s, which cannot be read in this repository", strings.Join(clipped(was.Absent), ", "), dir), nil
	}
	return "", nil
}

// buildOf builds the kustomization of a directory, with every object of it.
func buildOf(files []File, dir string) (kustomize.Result, error) {
	tr := edit.NewTree("")
	for _, f := range files {
		if err := tr.Add(f.Path, f.Data); err != nil {
			return kustomize.Result{}, err
		}
	}
	return kustomize.Whole(tr, dir)
}

func clipped(texts []string) []string {
	var out []string
	for _, t := range texts {
		out = append(out, edit.Clip(t))
	}
	return out
}

func invalidEdit(s *edit.Site, why string) error {
	return s.Doc.Invalid(s.Node, "cannot be edited safely: "+why)
}

func alsoChanges(s *edit.Site, what string) error {
	return &fault.Error{Reason: fault.Owned, Message: fmt.Sprintf("%s:%d:%d: a change here would also change %s: set it for %s alone first", s.File(), s.Line, s.Column, what, s.Object)}
}

// fieldChange is a field that differs between two trees.
type fieldChange struct {
	path     string
	from, to *yaml.Node // nil: it has none; of a list: the items that are removed and added
}

// differences returns the paths of the fields that differ.
func differences(a, b *yaml.Node, left *int) []string {
	var out []string
	for _, c := range changesOf(a, b, "", left) {
		out = append(out, c.path)
	}
	return out
}

// changesOf returns the fields that differ. Items that are added to a list, or removed,
// count as one field.
func changesOf(a, b *yaml.Node, at string, left *int) []fieldChange {
	a, b = edit.Deref(a), edit.Deref(b)
	if *left--; *left < 0 {
		return nil
	}
	switch {
	case a == nil || b == nil || a.Kind != b.Kind:
		if a == b {
			return nil
		}
		return []fieldChange{{at, a, b}}
	case a.Kind == yaml.ScalarNode:
		if a.Value != b.Value || a.ShortTag() != b.ShortTag() {
			return []fieldChange{{at, a, b}}
		}
		return nil
	case edit.IsMap(a):
		return changedKeys(edit.Flatten(a), edit.Flatten(b), at, left)
	}
	from, x, y := 0, a.Content, b.Content
	for len(x) > 0 && len(y) > 0 && len(x) != len(y) && len(changesOf(x[0], y[0], "", left)) == 0 {
		x, y = x[1:], y[1:]
		from++
	}
	if len(x) != len(y) {
		for len(x) > 0 && len(y) > 0 && len(changesOf(x[len(x)-1], y[len(y)-1], "", left)) == 0 {
			x, y = x[:len(x)-1], y[:len(y)-1]
		}
		if len(x) > 0 && len(y) > 0 {
			return []fieldChange{{path: at}, {path: at}} // more than items that are added or removed
		}
		return []fieldChange{{at, itemsOf(x), itemsOf(y)}}
	}
	var out []fieldChange
	for i := range x {
		out = append(out, changesOf(x[i], y[i], at+"["+strconv.Itoa(from+i)+"]", left)...)
	}
	return out
}

// itemsOf returns a list of items.
func itemsOf(items []*yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Content: items}
}

// changedKeys returns the fields of two mappings that differ.
func changedKeys(a, b *yaml.Node, at string, left *int) []fieldChange {
	under := func(key string) string { return strings.TrimPrefix(at+"."+key, ".") }
	var out []fieldChange
	for i := 0; i+1 < len(a.Content); i += 2 {
		key := a.Content[i].Value
		j := edit.KeyIndex(b, key)
		if j < 0 {
			out = append(out, fieldChange{under(key), a.Content[i+1], nil})
			continue
		}
		out = append(out, changesOf(a.Content[i+1], b.Content[j+1], under(key), left)...)
	}
	for i := 0; i+1 < len(b.Content); i += 2 {
		if key := b.Content[i].Value; edit.KeyIndex(a, key) < 0 {
			out = append(out, fieldChange{under(key), nil, b.Content[i+1]})
		}
	}
	return out
}

// checkConfigMap returns an error for a value in a ConfigMap of no kustomization that
// another workload reads too.
func checkConfigMap(files []File, t Target, s *edit.Site) error {
	if s.Object.Builder != "" || s.Doc == nil || s.Object.Kind == edit.ValuesKind {
		return nil
	}
	root, err := s.Doc.Top().Parse()
	if err != nil || edit.Str(root, "kind") != "ConfigMap" {
		return nil
	}
	maps := edit.Objects(s.Doc.Top(), root)
	var fields []string
	data := edit.Get(root, "data")
	for i := 0; edit.IsMap(data) && i+1 < len(data.Content); i += 2 {
		if top := s.Doc.Within(); edit.Holds(data.Content[i+1], s.Node) || top != nil && edit.Holds(data.Content[i+1], top) {
			fields = append(fields, "data."+data.Content[i].Value)
		}
	}
	if len(maps) != 1 {
		return nil
	}
	tr := edit.NewTree("")
	for _, f := range files {
		if !edit.Below(f.Path, t.Path) || !edit.IsYAML(f.Path) || !strings.Contains(string(f.Data), maps[0].Name) {
			continue
		}
		if err := tr.Add(f.Path, f.Data); err != nil {
			return err
		}
	}
	for _, p := range tr.Paths() {
		if helm.IsTemplate(tr, p) {
			continue
		}
		objects, err := tr.Objects(p)
		if err != nil {
			continue // no manifest
		}
		if others := readers(objects, maps[0], fields, s.Object); len(others) > 0 {
			return alsoChanges(s, others[0]+", which reads "+maps[0].String())
		}
	}
	return nil
}

// readers returns the objects but one that read any of the changed fields of a ConfigMap.
func readers(objects []*edit.Object, of *edit.Object, fields []string, than *edit.Object) []string {
	var out []string
	for _, o := range objects {
		if o.String() == than.String() || o.Kind == than.Kind && o.Name == than.Name || o.Namespace != "" && of.Namespace != "" && o.Namespace != of.Namespace {
			continue
		}
		if slices.ContainsFunc(fields, func(f string) bool { return reads(o.Root, of, strings.TrimPrefix(f, "data."), 0) }) {
			out = append(out, o.String())
		}
	}
	return out
}

// reads reports whether a tree refers to a key of a ConfigMap.
func reads(n *yaml.Node, of *edit.Object, key string, depth int) bool {
	n = edit.Deref(n)
	if n == nil || depth > edit.MaxDepth {
		return false
	}
	if edit.IsMap(n) {
		one, all, file := edit.Get(n, "configMapKeyRef"), edit.Get(n, "configMapRef"), edit.Get(n, "configMap")
		items := edit.List(file, "items")
		switch {
		case of.Called(edit.Str(one, "name")) && edit.Str(one, "key") == key, of.Called(edit.Str(all, "name")):
			return true
		case of.Called(edit.Str(file, "name")) && (len(items) == 0 || slices.ContainsFunc(items, func(i *yaml.Node) bool { return edit.Str(i, "key") == key })):
			return true
		}
	}
	return slices.ContainsFunc(n.Content, func(c *yaml.Node) bool { return reads(c, of, key, depth+1) })
}
