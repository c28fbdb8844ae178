package gitops

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops/command"
	"github.com/inference-responder/responder/internal/gitops/edit"
	"github.com/inference-responder/responder/internal/gitops/helm"
)

// configValue returns the value of a key of a ConfigMap that an object refers to, or
// nil if the tree has no such ConfigMap or the ConfigMap no such key.
func (tr *tree) configValue(o *edit.Object, name, key string) (*edit.Value, error) {
	if name == "" || key == "" {
		return nil, nil
	}
	found := tr.builds.Generated(o.Builder, name, key)
	for _, p := range tr.Paths() {
		if !edit.IsYAML(p) || helm.IsTemplate(tr.Tree, p) || !tr.deployedWith(o, p) {
			continue
		}
		values, err := tr.configMaps(o, p, name, key)
		if err != nil {
			return nil, err
		}
		found = append(found, values...)
	}
	switch len(found) {
	case 0:
		return nil, nil
	case 1:
		return found[0], nil
	}
	return nil, &fault.Error{Reason: fault.Ambiguous, Message: fmt.Sprintf("%s: the ConfigMap %s is in several places: %s", o, name, strings.Join(places(found), ", "))}
}

func places(found []*edit.Value) []string {
	var out []string
	for _, v := range found {
		if v.Doc == nil {
			out = append(out, v.File)
			continue
		}
		line, column := v.Doc.Position(v.Node)
		out = append(out, fmt.Sprintf("%s:%d:%d", v.Doc.File, line, column))
	}
	return out
}

// deployedWith reports whether a file is deployed with an object.
func (tr *tree) deployedWith(o *edit.Object, p string) bool {
	if o.Builder == "" {
		return !tr.builds.Reads(p)
	}
	return tr.builds.Deploys(o.Builder, p)
}

// configMaps returns the values of the key in the ConfigMaps of that name in a file.
func (tr *tree) configMaps(o *edit.Object, p, name, key string) ([]*edit.Value, error) {
	if data := string(tr.File(p)); !strings.Contains(data, "ConfigMap") || !strings.Contains(data, name) {
		return nil, nil
	}
	docs, err := tr.Open(p)
	if err != nil {
		return nil, err
	}
	var out []*edit.Value
	for _, d := range docs {
		if text := string(d.Data); !strings.Contains(text, "ConfigMap") || !strings.Contains(text, name) {
			continue
		}
		root, err := d.Parse()
		if err != nil {
			return nil, err
		}
		namespace := edit.Str(root, "metadata", "namespace")
		if edit.Str(root, "kind") != "ConfigMap" || edit.Str(root, "metadata", "name") != name || namespace != "" && o.Namespace != "" && namespace != o.Namespace {
			continue
		}
		if v := edit.Get(root, "data", key); edit.IsText(v) && edit.Str(root, "immutable") == "true" {
			return nil, d.Invalid(v, "stands in an immutable ConfigMap: it takes a new one under another name")
		} else if edit.IsText(v) {
			out = append(out, &edit.Value{Doc: d, Node: v, Path: "data[" + key + "]"})
		}
	}
	return out, nil
}

// indirect returns the site of a flag that the command line does not have: in the
// file that --config names, or in a variable named after the flag.
func (l line) indirect(v Variable) (*edit.Site, error) {
	files, err := l.Hits("config")
	if err != nil || strings.EqualFold(v.Flag, "config") {
		return nil, err
	}
	if len(files) > 0 {
		last := files[len(files)-1]
		if last.Form == "--flag=value" {
			l.Note = "engines do not read a file that is given as --config=FILE, in one word"
		} else if s, err := l.inFile(last.Value, v); err != nil || s != nil {
			return s, err
		}
	}
	return l.namedAfter(v)
}

// namedAfter returns the site of a flag in a variable of that name. The engines do not
// read it, but the entrypoint of a custom image may.
func (l line) namedAfter(v Variable) (*edit.Site, error) {
	name := "VLLM_" + strings.ToUpper(strings.ReplaceAll(v.Flag, "-", "_"))
	s, err := l.container.envSite(name)
	if s == nil || err != nil {
		return nil, err
	}
	if l.StartsEngine() || command.EntrypointIsEngine(edit.Str(l.container.Node, "image")) || l.container.Object.Kind == llmInferenceService || l.container.OfRuntime() {
		l.Note = "no engine reads $" + name
		return nil, nil
	}
	s.Container = l.container.Name
	s.Why = "no argument sets it, and this variable is named after it: it counts if the image's entrypoint reads it"
	return s, nil
}

// inFile returns the site of a flag in the engine's configuration file.
func (l line) inFile(name string, v Variable) (*edit.Site, error) {
	held, err := l.container.mounted(name)
	if err != nil || held == nil {
		if held == nil && err == nil {
			l.Note = "the configuration file " + edit.Clip(name) + " is not in the tree, and arguments win over it"
		}
		return nil, err
	}
	tr := l.container.tree
	var d *edit.Document
	if held.File != "" {
		docs, err := tr.Open(held.File)
		if err != nil {
			return nil, err
		}
		if len(docs) != 1 {
			return nil, edit.InvalidAt(held.File, 1, 1, "a configuration file is one YAML document")
		}
		d = docs[0]
		d.Role = "configuration file"
	} else {
		d = tr.Nested(held.Doc, held.Node, "configuration file")
	}
	root, err := d.Parse()
	if err != nil {
		return nil, err
	}
	return l.inConfig(d, root, held.Path, v)
}

// inConfig returns the site of a flag among the keys of a configuration file.
func (l line) inConfig(d *edit.Document, root *yaml.Node, at string, v Variable) (*edit.Site, error) {
	flag := command.Dashes(v.Flag)
	var found []int
	for i := 0; edit.IsMap(root) && i+1 < len(root.Content); i += 2 {
		if name := command.Dashes(root.Content[i].Value); name == flag || name == "no-"+flag {
			found = append(found, i)
		}
	}
	if len(found) == 0 {
		return nil, nil
	}
	key, value := root.Content[found[len(found)-1]], edit.Deref(root.Content[found[len(found)-1]+1])
	if len(found) > 1 {
		return nil, d.Invalid(key, "gives the flag twice")
	}
	if !edit.IsText(value) {
		return nil, d.Invalid(key, "is not a value that can be set")
	}
	s := l.container.Object.Site(d, value, edit.Site{
		Path: at + "[" + key.Value + "]", Form: "config", Value: value.Value, Container: l.container.Name,
		Why: "the command line names this file with --config and does not set the flag itself; pods read it at start only",
	})
	s.Unset = func() (edit.Splice, error) { return d.RemoveKey(root, key.Value) }
	s.Set = func(to string) (edit.Splice, error) { return d.SetAny(value, to) }
	if value.ShortTag() == "!!bool" {
		return s, configBoolean(s, d, key, value)
	}
	return s, nil
}

// configBoolean makes a site change the key: vllm serve ignores false, so that off is
// written as no-flag: true.
func configBoolean(s *edit.Site, d *edit.Document, key, value *yaml.Node) error {
	if value.Value != "true" {
		return d.Invalid(value, fmt.Sprintf("vllm serve does not act on %s: %s here: write no-%s: true", edit.Clip(key.Value), edit.Clip(value.Value), edit.Clip(command.Dashes(key.Value))))
	}
	positive, off := strings.CutPrefix(command.Dashes(key.Value), "no-")
	s.Value = fmt.Sprint(!off)
	s.Set = func(to string) (edit.Splice, error) {
		switch {
		case to == "true" && off:
			return d.SetScalar(key, positive)
		case to == "false" && !off:
			return d.SetScalar(key, "no-"+command.Dashes(key.Value))
		}
		return edit.Splice{}, d.Invalid(value, fmt.Sprintf("takes true or false, not %q", edit.Clip(to)))
	}
	return nil
}

// mounted returns the value of the ConfigMap key that a container reads as a file.
func (c container) mounted(file string) (*edit.Value, error) {
	var best *yaml.Node
	for _, m := range edit.List(c.Node, "volumeMounts") {
		if at := path.Clean(edit.Str(m, "mountPath")); edit.Below(path.Clean(file), at) && (best == nil || len(at) > len(edit.Str(best, "mountPath"))) {
			best = m
		}
	}
	if best == nil {
		return nil, nil
	}
	key := strings.TrimPrefix(strings.TrimPrefix(path.Clean(file), path.Clean(edit.Str(best, "mountPath"))), "/")
	if sub := edit.Str(best, "subPath"); sub != "" {
		key = path.Join(sub, key)
	}
	for _, volume := range edit.List(c.pod, "volumes") {
		if edit.Str(volume, "name") != edit.Str(best, "name") {
			continue
		}
		sources := []*yaml.Node{edit.Get(volume, "configMap")}
		for _, s := range edit.List(volume, "projected", "sources") {
			sources = append(sources, edit.Get(s, "configMap"))
		}
		for _, s := range slices.DeleteFunc(sources, func(n *yaml.Node) bool { return !edit.IsMap(n) }) {
			name := key
			for _, item := range edit.List(s, "items") {
				if edit.Str(item, "path") == key {
					name = edit.Str(item, "key")
				}
			}
			v, err := c.tree.configValue(c.Object, edit.Str(s, "name"), name)
			if err != nil || v != nil {
				return v, err
			}
		}
	}
	return nil, nil
}
