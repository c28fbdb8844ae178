package gitops

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// patchRole is what a file that patches is called.
const patchRole = "kustomize patch"

// patches applies the patches of a kustomization, in kustomize's order.
func (tr *tree) patches(b *build, d *document, root *yaml.Node, dir string) error {
	for _, entry := range list(root, "patchesStrategicMerge") {
		docs, err := tr.patchText(b, d, entry, entry, dir)
		if err != nil {
			return err
		}
		if err := tr.applyAll(b, docs, nil); err != nil {
			return err
		}
	}
	for _, key := range []string{"patches", "patchesJson6902"} {
		for _, entry := range list(root, key) {
			if isText(entry) {
				return d.invalid(entry, "a patch is a mapping with path or patch")
			}
			docs, err := tr.patchText(b, d, get(entry, "path"), get(entry, "patch"), dir)
			if err != nil {
				return err
			}
			if err := tr.applyAll(b, docs, get(entry, "target")); err != nil {
				return err
			}
		}
	}
	return nil
}

// patchText gives the documents of a patch: those of a file, or of the text.
func (tr *tree) patchText(b *build, d *document, file, text *yaml.Node, dir string) ([]*document, error) {
	if isText(file) {
		if p := path.Join(dir, file.Value); tr.files[p] != nil {
			b.files[p] = true
			docs, err := tr.open(p)
			for _, doc := range docs {
				doc.role = patchRole
			}
			return docs, err
		}
		if file != text || !strings.Contains(file.Value, "\n") {
			return nil, d.invalid(file, fmt.Sprintf("the patch %q is not in the tree", clip(file.Value)))
		}
	}
	if !isText(text) {
		return nil, d.invalid(file, "a patch has neither path nor patch")
	}
	return []*document{tr.nested(d, text, patchRole)}, nil
}

// nested is the document that a scalar holds; one for each scalar.
func (tr *tree) nested(d *document, n *yaml.Node, role string) *document {
	if known := tr.texts[n]; known != nil {
		return known
	}
	inner := &document{file: d.file, data: []byte(n.Value), outer: &inside{d, n}, role: role}
	tr.texts[n] = inner
	return inner
}

// applyAll applies patches to what they select.
func (tr *tree) applyAll(b *build, docs []*document, selector *yaml.Node) error {
	for _, d := range docs {
		root, err := d.parse()
		if err != nil {
			return err
		}
		for i := 0; i < len(b.objects); i++ {
			o := b.objects[i]
			selected, err := selects(d, root, selector, o)
			if err != nil {
				return err
			}
			if !selected {
				continue
			}
			c := *o
			c.docs = append(slices.Clone(o.docs), d)
			if isList(root) {
				c.root, err = jsonPatch(d, o.root, root)
			} else {
				c.root, err = merged(d, o.root, root, "", builtIn(o.kind), 0)
			}
			if err != nil {
				return err
			}
			if c.root == nil {
				b.objects = slices.Delete(b.objects, i, i+1)
				i--
				continue
			}
			if name := str(c.root, "metadata", "name"); isList(root) && name != str(o.root, "metadata", "name") {
				c.name = name // a merge keeps the name, an operation may change it
			}
			b.objects[i] = &c
		}
	}
	return nil
}

// selects reports whether a patch is for an object.
func selects(d *document, patch, selector *yaml.Node, o *object) (bool, error) {
	if selector == nil {
		if isList(patch) {
			return false, d.invalid(patch, "a JSON patch needs a target")
		}
		name, namespace := str(patch, "metadata", "name"), str(patch, "metadata", "namespace")
		return str(patch, "kind") == o.kind && str(patch, "apiVersion") == str(o.root, "apiVersion") && (name == o.name || name == o.written) && (namespace == "" || namespace == o.namespace), nil
	}
	for key, value := range map[string]string{"kind": o.kind, "namespace": o.namespace} {
		ok, err := matches(d, get(selector, key), value)
		if err != nil || !ok {
			return false, err
		}
	}
	byName, err := matches(d, get(selector, "name"), o.name)
	if err != nil {
		return false, err
	}
	byWritten, err := matches(d, get(selector, "name"), o.written)
	if err != nil || !byName && !byWritten {
		return false, err
	}
	apiVersion := str(o.root, "apiVersion")
	group, version, grouped := strings.Cut(apiVersion, "/")
	if !grouped {
		group, version = "", apiVersion
	}
	if g := str(selector, "group"); g != "" && g != group {
		return false, nil
	}
	if v := str(selector, "version"); v != "" && v != version {
		return false, nil
	}
	for _, key := range []string{"labelSelector", "annotationSelector"} {
		if str(selector, key) != "" {
			return false, d.invalid(patch, fmt.Sprintf("the patch may be for %s by its %s: that is not followed", o, key))
		}
	}
	return true, nil
}

// matches compares with a regular expression that has to match as a whole.
func matches(d *document, pattern *yaml.Node, value string) (bool, error) {
	if !isText(pattern) || pattern.Value == "" {
		return true, nil
	}
	re, err := regexp.Compile("^(?:" + pattern.Value + ")$")
	if err != nil {
		return false, d.invalid(nil, fmt.Sprintf("the patch's target %q is no regular expression", clip(pattern.Value)))
	}
	return re.MatchString(value), nil
}

// mergeKeys are the lists of built-in kinds that are merged item by item; the
// lists of other kinds are replaced as a whole.
var mergeKeys = map[string]string{
	"containers": "name", "initContainers": "name", "env": "name", "volumes": "name",
	"volumeMounts": "mountPath", "ports": "containerPort", "imagePullSecrets": "name",
}

func builtIn(kind string) bool {
	return slices.Contains([]string{"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "CronJob", "Pod"}, kind)
}

// merged is a strategic merge. Nodes are shared, not copied: each still tells
// which manifest it is written in. nil: the patch deletes it.
func merged(d *document, base, patch *yaml.Node, key string, strategic bool, depth int) (*yaml.Node, error) {
	base, patch = deref(base), deref(patch)
	if depth > maxDepth {
		return nil, d.invalid(patch, "is nested too deep")
	}
	switch {
	case isMap(patch) && str(patch, "$patch") == "delete":
		return nil, nil
	case isMap(patch) && str(patch, "$patch") == "replace":
		return patch, nil
	case isMap(base) && isMap(patch):
		return mergedMap(d, base, patch, strategic, depth)
	case isList(base) && isList(patch) && strategic && mergeKeys[key] != "":
		return mergedList(d, base, patch, mergeKeys[key], depth)
	}
	return patch, nil
}

func mergedMap(d *document, base, patch *yaml.Node, strategic bool, depth int) (*yaml.Node, error) {
	out := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: base.Line, Column: base.Column}
	base = flattened(base)
	for i := 0; i+1 < len(base.Content); i += 2 {
		key := base.Content[i]
		with := get(patch, key.Value)
		if with == nil {
			out.Content = append(out.Content, key, base.Content[i+1])
			continue
		}
		if with.Kind == yaml.ScalarNode && with.ShortTag() == "!!null" {
			continue
		}
		m, err := merged(d, base.Content[i+1], with, key.Value, strategic, depth+1)
		if err != nil {
			return nil, err
		}
		if m != nil {
			out.Content = append(out.Content, key, m)
		}
	}
	patch = flattened(patch)
	for i := 0; i+1 < len(patch.Content); i += 2 {
		key := patch.Content[i]
		if strings.HasPrefix(key.Value, "$") {
			return nil, d.invalid(key, fmt.Sprintf("the directive %q of a patch is not followed", clip(key.Value)))
		}
		if get(base, key.Value) == nil && keyIndex(base, key.Value) < 0 {
			out.Content = append(out.Content, key, patch.Content[i+1])
		}
	}
	return out, nil
}

// flattened is a mapping with its merge keys (<<) resolved.
func flattened(m *yaml.Node) *yaml.Node {
	if keyIndex(m, "<<") < 0 {
		return m
	}
	out := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: m.Line, Column: m.Column}
	var add func(m *yaml.Node, hops int)
	add = func(m *yaml.Node, hops int) {
		for i := 0; isMap(m) && hops > 0 && i+1 < len(m.Content); i += 2 {
			if m.Content[i].Tag != "!!merge" && keyIndex(out, m.Content[i].Value) < 0 {
				out.Content = append(out.Content, m.Content[i], m.Content[i+1])
			}
		}
		for i := 0; isMap(m) && hops > 0 && i+1 < len(m.Content); i += 2 {
			if m.Content[i].Tag != "!!merge" {
				continue
			}
			from := deref(m.Content[i+1])
			if isList(from) {
				for _, c := range from.Content {
					add(deref(c), hops-1)
				}
			} else {
				add(from, hops-1)
			}
		}
	}
	add(m, maxHops)
	return out
}

func mergedList(d *document, base, patch *yaml.Node, by string, depth int) (*yaml.Node, error) {
	out := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Line: base.Line, Column: base.Column}
	used := map[*yaml.Node]bool{}
	find := func(items []*yaml.Node, id string) *yaml.Node {
		for _, p := range items {
			if p = deref(p); str(p, by) == id && id != "" {
				return p
			}
		}
		return nil
	}
	for _, p := range patch.Content {
		if p = deref(p); str(p, "$patch") == "replace" && str(p, by) == "" {
			return patch, nil
		}
	}
	for _, item := range base.Content {
		with := find(patch.Content, str(deref(item), by))
		if with == nil {
			out.Content = append(out.Content, item)
			continue
		}
		used[with] = true
		m, err := merged(d, item, with, "", true, depth+1)
		if err != nil {
			return nil, err
		}
		if m != nil {
			out.Content = append(out.Content, m)
		}
	}
	for _, p := range patch.Content {
		if p = deref(p); !used[p] && str(p, "$patch") != "delete" {
			out.Content = append(out.Content, p)
		}
	}
	return out, nil
}
