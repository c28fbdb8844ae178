package gitops

import (
	"path"
	"strings"

	"go.yaml.in/yaml/v3"
)

// generator is an entry of configMapGenerator.
type generator struct {
	name     string
	doc      *document          // the kustomization
	literals map[string]*envVar // KEY=value
	files    map[string]string  // key to path
	node     *yaml.Node
}

// generate reads the generators of a kustomization.
func (tr *tree) generate(b *build, d *document, root *yaml.Node, dir string) error {
	for _, entry := range list(root, "configMapGenerator") {
		g := generator{name: str(entry, "name"), doc: d, node: entry, literals: map[string]*envVar{}, files: map[string]string{}}
		for _, l := range list(entry, "literals") {
			if key, _, ok := strings.Cut(scalar(l), "="); ok {
				g.literals[key] = &envVar{doc: d, node: l, begin: len(key) + 1, path: "configMapGenerator[" + g.name + "].literals[" + key + "]"}
			}
		}
		for _, f := range list(entry, "files") {
			key, file, named := strings.Cut(scalar(f), "=")
			if !named {
				key, file = path.Base(key), key
			}
			p := path.Join(dir, file)
			if tr.files[p] == nil {
				return d.invalid(f, "the file "+clip(file)+" of the generator is not in the tree")
			}
			b.files[p] = true
			g.files[key] = p
		}
		for _, e := range list(entry, "envs") {
			if p := path.Join(dir, scalar(e)); tr.files[p] != nil {
				b.files[p] = true
				g.files["envs:"+p] = p
			}
		}
		b.generators = append(b.generators, g)
	}
	return nil
}
