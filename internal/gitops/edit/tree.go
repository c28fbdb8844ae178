package edit

import (
	"bytes"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/inference-responder/responder/internal/fault"
)

// Tree is the files of a commit in which one workload is looked for. It reads each
// file once, and parses only the documents that may concern the workload.
type Tree struct {
	name   string // of the workload
	data   map[string][]byte
	sorted []string
	docs   map[string][]*Document
	errs   map[string]error
	texts  map[*yaml.Node]*Document // documents that scalars hold
	known  *Document                // from an earlier reading; nil: none
}

// NewTree returns an empty tree in which the workload is looked for. Without a name it
// parses every document.
func NewTree(workload string) *Tree {
	return &Tree{name: workload, data: map[string][]byte{}, docs: map[string][]*Document{}, errs: map[string]error{}, texts: map[*yaml.Node]*Document{}}
}

// Add adds a file. Its path is slash-separated, from the repository's root.
func (t *Tree) Add(p string, data []byte) error {
	if path.IsAbs(p) || p == "" || path.Clean(p) != p || strings.HasPrefix(p, "..") {
		return &fault.Error{Reason: fault.Invalid, Message: fmt.Sprintf("%q is not a path inside a repository", Clip(p))}
	}
	if _, twice := t.data[p]; twice {
		return &fault.Error{Reason: fault.Invalid, Message: p + " is given twice"}
	}
	t.data[p], t.sorted = data, nil
	return nil
}

// Know takes a document that is already parsed, so that it is not parsed again. No
// other tree may use it.
func (t *Tree) Know(d *Document) { t.known = d }

// Paths returns the paths of the files, sorted.
func (t *Tree) Paths() []string {
	if t.sorted == nil {
		t.sorted = slices.Sorted(maps.Keys(t.data))
	}
	return t.sorted
}

// File returns the contents of a file, or nil if the tree has no such file.
func (t *Tree) File(p string) []byte { return t.data[p] }

// Open returns the documents of a file.
func (t *Tree) Open(p string) ([]*Document, error) {
	if docs, done := t.docs[p]; done {
		return docs, t.errs[p]
	}
	docs, err := Documents(p, t.data[p])
	for _, d := range docs {
		if t.known != nil && d.reuse(t.known) {
			t.known = nil // the nodes of a document belong to one tree
		}
	}
	t.docs[p], t.errs[p] = docs, err
	return docs, err
}

// Failures returns the errors of opening a file and of parsing its documents so far.
func (t *Tree) Failures(p string) []error {
	out := []error{t.errs[p]}
	for _, d := range t.docs[p] {
		out = append(out, d.Err())
	}
	return slices.DeleteFunc(out, func(err error) bool { return err == nil })
}

// Nested returns the document that a scalar of a document holds: one for each
// scalar.
func (t *Tree) Nested(d *Document, n *yaml.Node, role string) *Document {
	if known := t.texts[n]; known != nil {
		return known
	}
	inner := d.Nested(n, role)
	t.texts[n] = inner
	return inner
}

// IsYAML reports whether a file may be a manifest, by its name.
func IsYAML(p string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(p)) || path.Base(p) == "Kustomization"
}

// Below reports whether a path is a directory or in it.
func Below(p, dir string) bool {
	return dir == "" || dir == "." || p == dir || strings.HasPrefix(p, strings.TrimSuffix(dir, "/")+"/")
}

// Objects returns the objects of a file that may concern the workload. It returns
// an error for a file that cannot be read only if the file mentions the workload.
func (t *Tree) Objects(p string) ([]*Object, error) {
	docs, err := t.Open(p)
	if err != nil {
		if t.Mentions(t.data[p]) {
			return nil, err
		}
		return nil, nil
	}
	var out []*Object
	for _, d := range docs {
		if !t.concerns(d) {
			continue
		}
		root, err := d.Parse()
		if err != nil {
			if t.Mentions(d.Data) {
				return nil, err
			}
			continue
		}
		out = append(out, Objects(d, root)...)
	}
	return out, nil
}

// Objects returns the objects of a document: one, or those of a List.
func Objects(d *Document, root *yaml.Node) []*Object {
	root = Deref(root)
	if Str(root, "kind") == "List" {
		var out []*Object
		for _, item := range List(root, "items") {
			out = append(out, Objects(d, item)...)
		}
		return out
	}
	kind, name := Str(root, "kind"), Str(root, "metadata", "name")
	if !IsMap(root) || kind == "" || name == "" {
		return nil
	}
	return []*Object{{
		Root: root, Docs: []*Document{d}, Kind: kind, Name: name,
		Namespace: Str(root, "metadata", "namespace"),
	}}
}

// Mentions reports whether a text has the name of the workload as a word.
func (t *Tree) Mentions(data []byte) bool {
	name := t.name
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

// concerns reports whether a document needs to be parsed: its name is part of the
// workload's, or it scales or underlies something, or its name cannot be told without parsing.
func (t *Tree) concerns(d *Document) bool {
	if d.parsed() || t.name == "" {
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
	if strings.Contains(strings.ToLower(t.name), strings.ToLower(name)) {
		return true
	}
	for _, about := range []string{"scaleTargetRef", "dgdRef", "ServingRuntime", "LLMInferenceServiceConfig"} {
		if bytes.Contains(d.Data, []byte(about)) {
			return true
		}
	}
	return false
}

// IsKustomization reports whether a file is a kustomization, by its name.
func IsKustomization(p string) bool {
	switch path.Base(p) {
	case "kustomization.yaml", "kustomization.yml", "Kustomization":
		return true
	}
	return false
}
