package kustomize

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/gitops/edit"
	"go.yaml.in/yaml/v3"
)

// patches applies the patches of a kustomization that come before its names.
func (bs *Builds) patches(b *build, d *edit.Document, root *yaml.Node, dir string) error {
	for _, entry := range edit.List(root, "patchesStrategicMerge") {
		docs, err := bs.patchText(b, d, entry, entry, dir)
		if err != nil {
			return err
		}
		if err := bs.applyAll(b, docs, nil); err != nil {
			return err
		}
	}
	return bs.targeted(b, d, root, dir, "patches")
}

// targeted applies the patches of a key whose entries have targets.
func (bs *Builds) targeted(b *build, d *edit.Document, root *yaml.Node, dir, key string) error {
	for _, entry := range edit.List(root, key) {
		if edit.IsText(entry) {
			return d.Invalid(entry, "a patch is a mapping with path or patch")
		}
		docs, err := bs.patchText(b, d, edit.Get(entry, "path"), edit.Get(entry, "patch"), dir)
		if err != nil {
			return err
		}
		if err := bs.applyAll(b, docs, edit.Get(entry, "target")); err != nil {
			return err
		}
	}
	return nil
}

// patchText returns the documents of a patch: those of a file, or of the text.
func (bs *Builds) patchText(b *build, d *edit.Document, file, text *yaml.Node, dir string) ([]*edit.Document, error) {
	if edit.IsText(file) {
		if p := path.Join(dir, file.Value); bs.tree.File(p) != nil {
			b.files[p] = true
			docs, err := bs.tree.Open(p)
			for _, doc := range docs {
				doc.Role = edit.PatchRole
			}
			return docs, err
		}
		if file != text || !strings.Contains(file.Value, "\n") {
			return nil, d.Invalid(file, fmt.Sprintf("the patch %q is not in the tree", edit.Clip(file.Value)))
		}
	}
	if !edit.IsText(text) {
		return nil, d.Invalid(file, "a patch has neither path nor patch")
	}
	return []*edit.Document{bs.tree.Nested(d, text, edit.PatchRole)}, nil
}

// applyAll applies patches to the objects that they select.
func (bs *Builds) applyAll(b *build, docs []*edit.Document, selector *yaml.Node) error {
	for _, d := range docs {
		root, err := d.Parse()
		if err != nil {
			return err
		}
		if err := bs.add(d.File, 1+len(b.objects)/100); err != nil {
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
			c.Docs = append(slices.Clone(o.Docs), d)
			if edit.IsList(root) {
				c.Root, err = jsonPatch(d, o.Root, root)
			} else {
				c.Root, err = edit.Merge(d, o.Root, root, isBuiltIn(o.Kind))
			}
			if err != nil {
				return err
			}
			if c.Root == nil {
				b.objects = slices.Delete(b.objects, i, i+1)
				i--
				continue
			}
			if name := edit.Str(c.Root, "metadata", "name"); edit.IsList(root) && name != edit.Str(o.Root, "metadata", "name") {
				c.Rename(name) // a merge keeps the name, an operation may change it
			}
			b.objects[i] = &c
		}
	}
	return nil
}

// selects reports whether a patch is for an object.
func selects(d *edit.Document, patch, selector *yaml.Node, o *edit.Object) (bool, error) {
	if selector == nil {
		if edit.IsList(patch) {
			return false, d.Invalid(patch, "a JSON patch needs a target")
		}
		name, namespace := edit.Str(patch, "metadata", "name"), edit.Str(patch, "metadata", "namespace")
		return edit.Str(patch, "kind") == o.Kind && edit.Str(patch, "apiVersion") == edit.Str(o.Root, "apiVersion") && o.Called(name) && (namespace == "" || namespace == o.Namespace), nil
	}
	for key, value := range map[string]string{"kind": o.Kind, "namespace": o.Namespace} {
		ok, err := matches(d, edit.Get(selector, key), value)
		if err != nil || !ok {
			return false, err
		}
	}
	byName, err := matches(d, edit.Get(selector, "name"), o.Name)
	if err != nil {
		return false, err
	}
	byWritten, err := matches(d, edit.Get(selector, "name"), o.Written())
	if err != nil || !byName && !byWritten {
		return false, err
	}
	apiVersion := edit.Str(o.Root, "apiVersion")
	group, version, grouped := strings.Cut(apiVersion, "/")
	if !grouped {
		group, version = "", apiVersion
	}
	if g := edit.Str(selector, "group"); g != "" && g != group {
		return false, nil
	}
	if v := edit.Str(selector, "version"); v != "" && v != version {
		return false, nil
	}
	for _, key := range []string{"labelSelector", "annotationSelector"} {
		if edit.Str(selector, key) != "" {
			return false, d.Invalid(patch, fmt.Sprintf("the patch may be for %s by its %s: that is not followed", o, key))
		}
	}
	return true, nil
}

// matches reports whether a regular expression matches all of a value.
func matches(d *edit.Document, pattern *yaml.Node, value string) (bool, error) {
	if !edit.IsText(pattern) || pattern.Value == "" {
		return true, nil
	}
	re, err := regexp.Compile("^(?:" + pattern.Value + ")$")
	if err != nil {
		return false, d.Invalid(nil, fmt.Sprintf("the patch's target %q is no regular expression", edit.Clip(pattern.Value)))
	}
	return re.MatchString(value), nil
}

// isBuiltIn reports whether a kind is built into Kubernetes, so that its lists merge
// item by item.
func isBuiltIn(kind string) bool {
	return slices.Contains([]string{"Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "CronJob", "Pod"}, kind)
}
