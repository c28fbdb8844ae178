package gitops

import (
	"bytes"
	"fmt"
	"path"
	"slices"
	"sort"
	"strings"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops/edit"
	"go.yaml.in/yaml/v3"
)

// tree is the files of a commit while something is located in them.
type tree struct {
	files     map[string][]byte
	paths     []string // sorted
	target    Target
	docs      map[string][]*edit.Document
	refused   map[string]error
	built     []*build                      // every kustomization of the tree
	failed    map[string]error              // those that could not be built
	reached   map[string]bool               // files that kustomizations use
	texts     map[*yaml.Node]*edit.Document // documents held in scalars
	elsewhere []string                      // workloads of the target's name that are not it
	included  int                           // kustomizations and objects, each time they are
	known     *edit.Document                // one that was parsed already; nil: none
}

func newTree(files []File, t Target) (*tree, error) {
	tr := &tree{
		files: map[string][]byte{}, target: t, docs: map[string][]*edit.Document{}, refused: map[string]error{},
		failed: map[string]error{}, reached: map[string]bool{}, texts: map[*yaml.Node]*edit.Document{},
	}
	for _, f := range files {
		if path.IsAbs(f.Path) || f.Path == "" || path.Clean(f.Path) != f.Path || strings.HasPrefix(f.Path, "..") {
			return nil, &fault.Error{Reason: fault.Invalid, Message: fmt.Sprintf("%q is no path inside a repository", edit.Clip(f.Path))}
		}
		if _, twice := tr.files[f.Path]; twice {
			return nil, &fault.Error{Reason: fault.Invalid, Message: f.Path + " is given twice"}
		}
		tr.files[f.Path] = f.Data
		tr.paths = append(tr.paths, f.Path)
	}
	sort.Strings(tr.paths)
	if p := path.Clean(t.Path); path.IsAbs(p) || strings.HasPrefix(p, "..") {
		return nil, &fault.Error{Reason: fault.Invalid, Message: fmt.Sprintf("%q is no path inside a repository", edit.Clip(t.Path))}
	} else if tr.target.Path = p; p == "." {
		tr.target.Path = ""
	}
	return tr, nil
}

func isYAML(p string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(p)) || path.Base(p) == "Kustomization"
}

// open cuts a file into documents, once.
func (tr *tree) open(p string) ([]*edit.Document, error) {
	if docs, done := tr.docs[p]; done {
		return docs, tr.refused[p]
	}
	docs, err := edit.Documents(p, tr.files[p])
	for _, d := range docs {
		if tr.known != nil && d.Reuse(tr.known) {
			tr.known = nil // the nodes of a document belong to one tree
		}
	}
	tr.docs[p], tr.refused[p] = docs, err
	return docs, err
}

// below reports whether a path is in a directory (or is it).
func below(p, dir string) bool {
	return dir == "" || dir == "." || p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/")
}

// plain gives the objects of the manifests that no kustomization uses and that
// may be or concern the target.
func (tr *tree) plain() ([]*edit.Object, error) {
	var out []*edit.Object
	if tr.target.Path != "" && tr.kustomization(path.Clean(tr.target.Path)) != "" {
		return nil, nil // that one alone is deployed
	}
	for _, p := range tr.paths {
		if !below(p, tr.target.Path) || !isYAML(p) || tr.reached[p] || isKustomization(p) || tr.inChart(p) {
			continue
		}
		objects, err := tr.read(p)
		if err != nil {
			return nil, err
		}
		out = append(out, objects...)
	}
	return out, nil
}

// near keeps a workload of the target's name that is not the target, for people.
func (tr *tree) near(o *edit.Object) {
	if o.Name == tr.target.Name && (templates[o.Kind] != nil || o.Kind == dynamoGraph) {
		tr.elsewhere = append(tr.elsewhere, fmt.Sprintf("%s is in %s", o, o.Docs[0].File))
	}
}

// read gives the objects of a file that may concern the target. A file that
// cannot be read matters only when it speaks of the target.
func (tr *tree) read(p string) ([]*edit.Object, error) {
	docs, err := tr.open(p)
	if err != nil {
		if tr.mentions(tr.files[p]) {
			return nil, err
		}
		return nil, nil
	}
	var out []*edit.Object
	for _, d := range docs {
		if !tr.concerns(d) {
			continue
		}
		root, err := d.Parse()
		if err != nil {
			if tr.mentions(d.Data) {
				return nil, err
			}
			continue
		}
		out = append(out, tr.objectsOf(d, root)...)
	}
	return out, nil
}

// objectsOf reads a document: an object, or a List of them.
func (tr *tree) objectsOf(d *edit.Document, root *yaml.Node) []*edit.Object {
	root = edit.Deref(root)
	if edit.Str(root, "kind") == "List" {
		var out []*edit.Object
		for _, item := range edit.List(root, "items") {
			out = append(out, tr.objectsOf(d, item)...)
		}
		return out
	}
	kind, name := edit.Str(root, "kind"), edit.Str(root, "metadata", "name")
	if !edit.IsMap(root) || kind == "" || name == "" {
		return nil
	}
	return []*edit.Object{{
		Root: root, Docs: []*edit.Document{d}, Kind: kind, Name: name, Written: name,
		Namespace: edit.Str(root, "metadata", "namespace"),
	}}
}

// mentions reports whether a text speaks of the target by its name.
func (tr *tree) mentions(data []byte) bool {
	name := tr.target.Name
	for rest := string(data); ; {
		i := strings.Index(rest, name)
		if i < 0 {
			return false
		}
		if (i == 0 || !isNameByte(rest[i-1])) && (i+len(name) == len(rest) || !isNameByte(rest[i+len(name)])) {
			return true
		}
		rest = rest[i+1:]
	}
}

// isNameByte reports whether a byte may be in the middle of a name.
func isNameByte(c byte) bool {
	return c == '_' || c == '-' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// concerns is the cheap look before a document is parsed: its name is the
// target's or a part of it, or it scales something, or nothing is certain.
func (tr *tree) concerns(d *edit.Document) bool {
	if d.Parsed() {
		return true
	}
	inMeta, name, indent := false, "", 0
	for line := range bytes.Lines(d.Data) {
		line = bytes.TrimRight(line, "\r\n ")
		switch {
		case string(line) == "metadata:":
			inMeta, indent = true, 0
		case len(line) > 0 && line[0] != ' ' && line[0] != '#':
			if kind, ok := bytes.CutPrefix(line, []byte("kind:")); ok && string(bytes.TrimSpace(kind)) == "List" || line[0] == '{' {
				return true
			}
			inMeta = false
		case inMeta:
			text := bytes.TrimLeft(line, " ")
			if indent == 0 && len(text) > 0 && text[0] != '#' {
				indent = len(line) - len(text)
			}
			if rest, ok := bytes.CutPrefix(text, []byte("name:")); ok && len(line)-len(text) == indent {
				name, inMeta = string(bytes.TrimSpace(rest)), false
			}
		}
	}
	name, _, _ = strings.Cut(name, " #")
	name = strings.Trim(name, `"' `)
	if name == "" || strings.ContainsAny(name, "&*!{|>\\") {
		return true
	}
	if strings.Contains(strings.ToLower(tr.target.Name), strings.ToLower(name)) {
		return true
	}
	return bytes.Contains(d.Data, []byte("scaleTargetRef")) || bytes.Contains(d.Data, []byte("dgdRef"))
}
