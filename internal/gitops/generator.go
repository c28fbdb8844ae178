package gitops

import (
	"fmt"
	"path"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// generator is an entry of configMapGenerator.
type generator struct {
	name     string
	doc      *document          // the kustomization
	literals map[string]*envVar // KEY=value, and the lines of env files
	files    map[string]string  // key to path
	node     *yaml.Node
}

// generate reads the generators of a kustomization.
func (tr *tree) generate(b *build, d *document, root *yaml.Node, dir string) error {
	for _, entry := range list(root, "configMapGenerator") {
		g := generator{name: str(entry, "name"), doc: d, node: entry, literals: map[string]*envVar{}, files: map[string]string{}}
		for _, l := range list(entry, "literals") {
			if key, value, ok := strings.Cut(scalar(l), "="); ok {
				quotes := 0
				if n := len(value); n > 1 && value[0] == value[n-1] && (value[0] == '"' || value[0] == '\'') {
					quotes = 1 // which are not of the value
				}
				g.literals[key] = &envVar{doc: d, node: l, begin: len(key) + 1 + quotes, after: quotes, path: "configMapGenerator[" + g.name + "].literals[" + key + "]"}
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
		envs := list(entry, "envs")
		if one := get(entry, "env"); one != nil {
			envs = append(envs, one)
		}
		for _, e := range envs {
			if p := path.Join(dir, scalar(e)); tr.files[p] != nil {
				b.files[p] = true
				if err := g.lines(p, tr.files[p]); err != nil {
					return err
				}
			}
		}
		b.generators = append(b.generators, g)
	}
	return nil
}

// lines reads a file of KEY=value lines as kustomize does: blanks before a key
// do not count, quotes are of the value.
func (g *generator) lines(p string, data []byte) error {
	if err := refuse(p, data); err != nil {
		return err
	}
	d := plainFile(p, data)
	at := 0
	for line := range strings.Lines(string(data)) {
		begin := at
		at += len(line)
		text := strings.TrimRight(line, "\r\n")
		end := begin + len(text)
		if begin == 0 {
			text = strings.TrimPrefix(text, "\ufeff")
		}
		text = strings.TrimLeftFunc(text, unicode.IsSpace)
		key, value, ok := strings.Cut(text, "=")
		if !ok || strings.HasPrefix(text, "#") {
			continue
		}
		if g.literals[key] != nil {
			return invalidAt(p, 1+strings.Count(string(data[:begin]), "\n"), 1, fmt.Sprintf("the generator %s has %s twice", clip(g.name), clip(key)))
		}
		g.literals[key] = &envVar{doc: d, node: d.root, begin: end - len(value), after: len(data) - end, path: "configMapGenerator[" + g.name + "].envs[" + key + "]"}
	}
	return nil
}

// plainFile is a file that is no YAML, as a document that is one text.
func plainFile(p string, data []byte) *document {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: string(data), Line: 1, Column: 1}
	return &document{file: p, data: data, root: n, parsed: true, plain: true, lines: lineStarts(data), role: "env file"}
}

// literally is the text of such a file: each byte stands for itself.
func (d *document) literally(n *yaml.Node) *text {
	t := &text{value: n.Value, end: len(d.data), from: make([]int, len(d.data)), to: make([]int, len(d.data))}
	for i := range d.data {
		t.from[i], t.to[i] = i, i+1
	}
	return t
}
