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
		if err := tr.count(d.file, 1+len(b.objects)/100); err != nil {
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
				c.root, err = merged(d, o.root, root, builtIn(o.kind))
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
