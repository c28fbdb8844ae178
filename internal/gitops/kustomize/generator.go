package kustomize

import (
	"fmt"
	"path"
	"strings"
	"unicode"

	"github.com/inference-responder/responder/internal/gitops/edit"
	"go.yaml.in/yaml/v3"
)

// generator is an entry of configMapGenerator.
type generator struct {
	name     string
	doc      *edit.Document         // the kustomization
	literals map[string]*edit.Value // KEY=value, and the lines of env files
	files    map[string]string      // path of each key
	node     *yaml.Node
}

// generate reads the generators of a kustomization.
func (bs *Builds) generate(b *build, d *edit.Document, root *yaml.Node, dir string) error {
	for _, entry := range edit.List(root, "configMapGenerator") {
		g := generator{name: edit.Str(entry, "name"), doc: d, node: entry, literals: map[string]*edit.Value{}, files: map[string]string{}}
		for _, l := range edit.List(entry, "literals") {
			if key, value, ok := strings.Cut(scalar(l), "="); ok {
				quotes := 0
				if n := len(value); n > 1 && value[0] == value[n-1] && (value[0] == '"' || value[0] == '\'') {
					quotes = 1 // which are not part of the value
				}
				g.literals[key] = &edit.Value{Doc: d, Node: l, Begin: len(key) + 1 + quotes, After: quotes, Path: "configMapGenerator[" + g.name + "].literals[" + key + "]"}
			}
		}
		for _, f := range edit.List(entry, "files") {
			key, file, named := strings.Cut(scalar(f), "=")
			if !named {
				key, file = path.Base(key), key
			}
			p := path.Join(dir, file)
			if bs.tree.File(p) == nil {
				return d.Invalid(f, "the file "+edit.Clip(file)+" of the generator is not in the tree")
			}
			b.files[p] = true
			g.files[key] = p
		}
		envs := edit.List(entry, "envs")
		if one := edit.Get(entry, "env"); one != nil {
			envs = append(envs, one)
		}
		for _, e := range envs {
			if p := path.Join(dir, scalar(e)); bs.tree.File(p) != nil {
				b.files[p] = true
				if err := g.lines(p, bs.tree.File(p)); err != nil {
					return err
				}
			}
		}
		b.generators = append(b.generators, g)
	}
	return nil
}

// lines reads a file of KEY=value lines as kustomize does: blanks before a key are
// ignored, quotes are part of the value.
func (g *generator) lines(p string, data []byte) error {
	d, err := edit.PlainText(p, data)
	if err != nil {
		return err
	}
	root, err := d.Parse()
	if err != nil {
		return err
	}
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
			return edit.InvalidAt(p, 1+strings.Count(string(data[:begin]), "\n"), 1, fmt.Sprintf("the generator %s has %s twice", edit.Clip(g.name), edit.Clip(key)))
		}
		g.literals[key] = &edit.Value{Doc: d, Node: root, Begin: end - len(value), After: len(data) - end, Path: "configMapGenerator[" + g.name + "].envs[" + key + "]"}
	}
	return nil
}

// value returns the value of a key, or nil.
func (g *generator) value(key string) *edit.Value {
	if v := g.literals[key]; v != nil {
		return v
	}
	if p := g.files[key]; p != "" {
		return &edit.Value{File: p, Path: "configMapGenerator[" + g.name + "].files[" + key + "]"}
	}
	return nil
}
