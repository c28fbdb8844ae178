package gitops

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops/edit"
)

// runtimeOf returns the runtime of a model of an InferenceService: the named one, or
// else the only one that KServe selects for the format. It is nil if the tree does not
// tell.
func (tr *tree) runtimeOf(o *edit.Object, model *yaml.Node) *edit.Object {
	var found []*edit.Object
	for _, r := range tr.all {
		switch {
		case r.Kind == "ServingRuntime" && r.Namespace != "" && o.Namespace != "" && r.Namespace != o.Namespace:
		case r.Kind != "ServingRuntime" && r.Kind != "ClusterServingRuntime":
		case uses(model, r):
			found = append(found, r)
		}
	}
	if own := slices.DeleteFunc(slices.Clone(found), func(r *edit.Object) bool { return r.Kind != "ServingRuntime" }); len(own) > 0 {
		found = own // those of the namespace come first
	}
	if len(found) != 1 {
		return nil
	}
	return found[0]
}

// unknownRuntime returns why it is not known what the runtime of a model sets, or "".
func (tr *tree) unknownRuntime(o *edit.Object, model *yaml.Node) string {
	name := edit.Str(model, "runtime")
	switch {
	case tr.runtimeOf(o, model) != nil:
		return ""
	case name == "":
		return "the runtime that KServe selects is not in this repository, or several are"
	}
	return "the runtime " + edit.Clip(name) + " is not in this repository"
}

// uses reports whether a model may run on a runtime.
func uses(model *yaml.Node, runtime *edit.Object) bool {
	if name := edit.Str(model, "runtime"); name != "" {
		return runtime.Called(name)
	}
	return slices.ContainsFunc(edit.List(runtime.Root, "spec", "supportedModelFormats"), func(f *yaml.Node) bool {
		return edit.Str(f, "autoSelect") == "true" && edit.Str(f, "name") == edit.Str(model, "modelFormat", "name") && edit.Str(f, "name") != ""
	})
}

// inRuntime returns the site of a flag that the runtime of a model sets: its arguments
// come before the model's own. A second flag is not added, so that it is changed only
// where no other service has the same runtime.
func (l line) inRuntime(v Variable) (*edit.Site, error) {
	c := l.container
	if !c.OfRuntime() {
		return nil, nil
	}
	r := c.tree.runtimeOf(c.Object, c.Node)
	if r == nil {
		return nil, nil
	}
	for _, rc := range c.tree.containers(r) {
		rl, err := rc.commandLine()
		if err != nil {
			return nil, err
		}
		s, err := rl.find(v)
		if err != nil || s == nil {
			if err != nil {
				return nil, err
			}
			continue
		}
		s.Container, s.Unset = c.Name, nil
		s.Why = fmt.Sprintf("the %s sets it, and its arguments come before those of the service", r)
		others := c.tree.others(c.Object, func(root *yaml.Node) bool {
			model := edit.Get(root, "spec", "predictor", "model")
			return edit.Str(root, "kind") == "InferenceService" && edit.IsMap(model) && uses(model, r)
		})
		if r.Kind == "ClusterServingRuntime" {
			others = append(others, "services of any namespace")
		}
		if len(others) > 0 {
			s.Set = func(string) (edit.Splice, error) {
				return edit.Splice{}, &fault.Error{Reason: fault.Owned, Message: fmt.Sprintf("%s:%d:%d: %s sets %s also for %s: set it in the arguments of %s by hand, where it counts last",
					s.File(), s.Line, s.Column, r, v, strings.Join(others, ", "), c.Object)}
			}
		}
		return s, nil
	}
	return nil, nil
}

// others returns the names of other objects of the tree that a condition is true of.
func (tr *tree) others(than *edit.Object, is func(root *yaml.Node) bool) []string {
	const most = 3
	var out []string
	for _, p := range tr.Paths() {
		if !edit.IsYAML(p) || !strings.Contains(string(tr.File(p)), "InferenceService") {
			continue
		}
		docs, err := tr.Open(p)
		if err != nil {
			continue // no manifest
		}
		for _, d := range docs {
			if !strings.Contains(string(d.Data), "InferenceService") || slices.Contains(than.Docs, d) {
				continue
			}
			root, err := d.Parse()
			if err != nil {
				continue
			}
			for _, o := range edit.Objects(d, root) {
				if is(o.Root) && len(out) < most {
					out = append(out, o.String())
				}
			}
		}
	}
	return out
}

// based is an object with what it inherits.
type based struct {
	*edit.Object
	tree   *tree
	bases  []*edit.Object
	absent []string // bases that are not in the tree
}

// onBases returns an LLMInferenceService merged with its baseRefs, as KServe does: the
// later ones win, and the service itself over all.
func (tr *tree) onBases(o *edit.Object) (based, error) {
	out := based{Object: o, tree: tr}
	refs := edit.List(o.Root, "spec", "baseRefs")
	if o.Kind != llmInferenceService || len(refs) == 0 {
		return out, nil
	}
	var root *yaml.Node
	var docs []*edit.Document
	for _, ref := range refs {
		i := slices.IndexFunc(tr.all, func(c *edit.Object) bool {
			return c.Kind == llmInferenceConfig && c.Called(edit.Str(ref, "name")) && (c.Namespace == "" || o.Namespace == "" || c.Namespace == o.Namespace)
		})
		if i < 0 {
			out.absent = append(out.absent, edit.Str(ref, "name"))
			continue
		}
		base := tr.all[i]
		out.bases = append(out.bases, base)
		if root == nil {
			root, docs = edit.Get(base.Root, "spec"), slices.Clone(base.Docs)
			continue
		}
		merged, err := edit.Merge(base.Docs[0], root, edit.Get(base.Root, "spec"), true)
		if err != nil {
			return out, err
		}
		root, docs = merged, append(docs, base.Docs...)
	}
	if root == nil {
		return out, nil
	}
	spec, err := edit.Merge(o.Docs[0], root, edit.Get(o.Root, "spec"), true)
	if err != nil {
		return out, err
	}
	c := *o
	c.Root = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: o.Root.Line, Column: o.Root.Column}
	for i := 0; i+1 < len(o.Root.Content); i += 2 {
		value := o.Root.Content[i+1]
		if o.Root.Content[i].Value == "spec" {
			value = spec
		}
		c.Root.Content = append(c.Root.Content, o.Root.Content[i], value)
	}
	c.Docs = append(docs, o.Docs...)
	out.Object = &c
	return out, nil
}

// check refuses a site that a base decides and that cannot be changed for this service
// alone, and one that is missing as far as the tree tells.
func (b based) check(s *edit.Site, v Variable) error {
	if s.Missing && len(b.absent) > 0 {
		return b.Invalid(s.Node, fmt.Sprintf("its baseRefs name %s, which is not in the tree and may set %s", edit.Clip(b.absent[0]), v))
	}
	for _, base := range b.bases {
		if !slices.Contains(base.Docs, s.Doc) {
			continue
		}
		s.Why += fmt.Sprintf("; the service has it from %s", base)
		if others := b.tree.others(b.Object, func(root *yaml.Node) bool {
			return edit.Str(root, "kind") == llmInferenceService && slices.ContainsFunc(edit.List(root, "spec", "baseRefs"), func(r *yaml.Node) bool { return base.Called(edit.Str(r, "name")) })
		}); len(others) > 0 {
			s.Set = func(string) (edit.Splice, error) {
				return edit.Splice{}, &fault.Error{Reason: fault.Owned, Message: fmt.Sprintf("%s:%d:%d: %s is a base of %s too, and a change here would change both", s.File(), s.Line, s.Column, base, strings.Join(others, ", "))}
			}
			s.Unset = nil
		}
	}
	return nil
}
