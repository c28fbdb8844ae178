package edit

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/inference-responder/responder/internal/fault"
)

// Limits of what is read.
const (
	maxFile  = 4 << 20 // bytes of one file
	MaxDepth = 100     // levels of nesting
	maxNodes = 200_000 // nodes of one document
)

// Document is one YAML document: part of a file, or the text of a scalar in
// another document, such as a patch or a configuration file in a block scalar.
type Document struct {
	File string // path of the file
	Data []byte // the document as written
	Role string // what the file is, for documents that are not manifests; empty: a manifest

	index int     // in the YAML stream
	start int     // bytes of the file before data
	above int     // lines of the file before data
	outer *holder // of a nested document
	plain bool    // not YAML: the whole file is one text

	root     *yaml.Node
	parseErr error
	done     bool
	lines    []int // offset of each line of data

	result *Document // the last change's result; kept so that it is parsed only once
}

// holder is the scalar that holds a nested document.
type holder struct {
	doc  *Document
	node *yaml.Node
}

// Documents splits a file at its --- lines. It returns an error for a file that
// cannot be read or edited safely. It does not parse the documents: most
// documents of a tree belong to other workloads.
func Documents(path string, data []byte) ([]*Document, error) {
	if err := checkFile(path, data); err != nil {
		return nil, err
	}
	var out []*Document
	begin := len(data) - len(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")))
	from := begin
	above, line := 0, 0
	add := func(end int) {
		if d := (&Document{File: path, index: len(out), start: from, above: above, Data: data[from:end]}); !d.blank() {
			out = append(out, d)
		}
		from, above = end, line
	}
	for pos := begin; pos < len(data); {
		end := len(data)
		if i := bytes.IndexByte(data[pos:], '\n'); i >= 0 {
			end = pos + i + 1
		}
		text := data[pos:end]
		switch {
		case bytes.HasPrefix(text, []byte("---")) && (len(text) == 3 || strings.ContainsRune(" \t\r\n", rune(text[3]))):
			add(pos)
		case text[0] == '%' || string(bytes.TrimRight(text, " \t\r\n")) == "...":
			return nil, InvalidAt(path, line+1, 1, "YAML directives and document ends are not edited: separate documents with ---")
		}
		pos = end
		line++
	}
	add(len(data))
	return out, nil
}

// PlainText returns a file that is not YAML, as a document whose root is one
// text.
func PlainText(path string, data []byte) (*Document, error) {
	if err := checkFile(path, data); err != nil {
		return nil, err
	}
	return plainDocument(path, data), nil
}

func plainDocument(path string, data []byte) *Document {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: string(data), Line: 1, Column: 1}
	return &Document{File: path, Data: data, root: n, done: true, plain: true, lines: lineStarts(data), Role: "env file"}
}

// Nested returns the document that a scalar holds. role names it for people.
func (d *Document) Nested(n *yaml.Node, role string) *Document {
	return &Document{File: d.File, Data: []byte(n.Value), outer: &holder{d, n}, Role: role}
}

// Top returns the document of the file: d, or the one that d is nested in.
func (d *Document) Top() *Document {
	for d.outer != nil {
		d = d.outer.doc
	}
	return d
}

// Within returns the scalar of the file's own document that the document is nested in,
// or nil.
func (d *Document) Within() *yaml.Node {
	var n *yaml.Node
	for ; d.outer != nil; d = d.outer.doc {
		n = d.outer.node
	}
	return n
}

// Stream returns the number of the document in its file, from 0.
func (d *Document) Stream() int { return d.Top().index }

// Line returns the line of the file at which the document begins, from 1.
func (d *Document) Line() int { return d.above + 1 }

// Changed returns the document as the last change left it. It is nil before any
// change.
func (d *Document) Changed() *Document { return d.result }

// reuse takes over the parsed tree of another reading of the same document and
// reports whether it did.
func (d *Document) reuse(known *Document) bool {
	if known.File != d.File || known.parseErr != nil || known.plain || !bytes.Equal(known.Data, d.Data) {
		return false
	}
	d.root, d.lines, d.done = known.root, known.lines, true
	return true
}

// Err returns the error of an earlier call of parse.
func (d *Document) Err() error { return d.parseErr }

// parsed reports whether parse was called.
func (d *Document) parsed() bool { return d.done }

// Holds reports whether the document is parsed and holds the node.
func (d *Document) Holds(n *yaml.Node) bool { return Holds(d.root, n) }

// blank reports whether the document has only blank lines and comments.
func (d *Document) blank() bool {
	for line := range bytes.Lines(d.Data) {
		line = bytes.TrimSpace(bytes.TrimPrefix(line, []byte("---")))
		if len(line) > 0 && line[0] != '#' {
			return false
		}
	}
	return true
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`)

// Parse returns the root of the document. It parses the document once.
func (d *Document) Parse() (*yaml.Node, error) {
	if d.done {
		return d.root, d.parseErr
	}
	d.done = true
	d.lines = lineStarts(d.Data)
	var n yaml.Node
	if err := yaml.Unmarshal(d.Data, &n); err != nil {
		d.parseErr = d.unreadable(err)
		return nil, d.parseErr
	}
	if n.Kind != yaml.DocumentNode || len(n.Content) != 1 {
		d.parseErr = d.Invalid(nil, "holds no YAML document")
		return nil, d.parseErr
	}
	left := maxNodes
	if d.parseErr = d.checkNode(n.Content[0], 0, &left); d.parseErr != nil {
		return nil, d.parseErr
	}
	d.root = n.Content[0]
	return d.root, nil
}

func lineStarts(data []byte) []int {
	starts := []int{0}
	for i, c := range data {
		if c == '\n' {
			starts = append(starts, i+1)
		}
	}
	return starts
}

// unreadable returns the parser's error with its place in the file, or its
// usual cause.
func (d *Document) unreadable(err error) error {
	line, message := 1, strings.SplitN(err.Error(), "\n", 2)[0]
	if m := yamlLine.FindStringSubmatch(message); m != nil {
		message = m[2]
		if n, convErr := strconv.Atoi(m[1]); convErr == nil {
			line = min(max(1, n), len(d.lines))
		}
	}
	if bytes.Contains(d.Data, []byte("{{")) {
		return d.invalidAt(line, 1, "is a template, not YAML: change the values it is filled from")
	}
	for i, text := range bytes.Split(d.Data, []byte("\n")) {
		indent := text[:len(text)-len(bytes.TrimLeft(text, " \t"))]
		if tab := bytes.IndexByte(indent, '\t'); tab >= 0 {
			return d.invalidAt(i+1, tab+1, "is indented with a tab: YAML indents with spaces")
		}
	}
	return d.invalidAt(line, 1, "is not YAML: "+message)
}

// checkNode returns an error for a duplicate key, for nesting that is too deep
// and for too many nodes. It does not follow aliases.
func (d *Document) checkNode(n *yaml.Node, depth int, left *int) error {
	if *left--; depth > MaxDepth || *left < 0 {
		return d.Invalid(n, fmt.Sprintf("is nested more than %d levels deep or has more than %d values", MaxDepth, maxNodes))
	}
	if n.Kind == yaml.MappingNode {
		seen := make(map[string]*yaml.Node, len(n.Content)/2)
		for i := 0; i+1 < len(n.Content); i += 2 {
			k := n.Content[i]
			if k.Kind == yaml.MappingNode && strings.HasPrefix(string(d.Data[max(0, d.offset(n)):]), "{{") {
				return d.Invalid(n, "is a template, not YAML: change the values it is filled from")
			}
			if k.Kind != yaml.ScalarNode {
				continue
			}
			if first := seen[k.Value]; first != nil && k.Tag != "!!merge" {
				line, _ := d.Position(first)
				return d.Invalid(k, fmt.Sprintf("gives the key %q twice, first on line %d: keep one", Clip(k.Value), line))
			}
			seen[k.Value] = k
		}
	}
	for _, c := range n.Content {
		if err := d.checkNode(c, depth+1, left); err != nil {
			return err
		}
	}
	return nil
}

// offset returns where a node's token begins in data, or -1.
func (d *Document) offset(n *yaml.Node) int {
	if n.Line < 1 || n.Line > len(d.lines) {
		return -1
	}
	at := d.lines[n.Line-1]
	for range n.Column - 1 {
		if at >= len(d.Data) {
			return -1
		}
		_, size := utf8.DecodeRune(d.Data[at:])
		at += size
	}
	return at
}

// place returns the line and column in the file, in bytes, of an offset in data.
func (d *Document) place(at int) (line, column int) {
	if d.outer != nil {
		if t, err := d.outer.doc.text(d.outer.node); err == nil && len(t.from) > 0 {
			if at < len(t.from) {
				return d.outer.doc.place(t.from[at])
			}
			return d.outer.doc.place(t.to[len(t.to)-1])
		}
		return d.outer.doc.Position(d.outer.node)
	}
	line = 1
	for line < len(d.lines) && d.lines[line] <= at {
		line++
	}
	return d.above + line, at - d.lines[line-1] + 1
}

// positionIn returns the line and column in the file of byte i of a scalar's
// value.
func (d *Document) positionIn(n *yaml.Node, i int) (line, column int, ok bool) {
	t, err := d.text(n)
	switch {
	case err != nil:
	case i < len(t.from):
		line, column = d.place(t.from[i])
		return line, column, true
	case i > 0:
		line, column = d.place(t.to[i-1])
		return line, column, true
	}
	return 0, 0, false
}

// Position returns the line and column of a node in the file.
func (d *Document) Position(n *yaml.Node) (line, column int) {
	if at := d.offset(n); at >= 0 {
		return d.place(at)
	}
	return 1, 1
}

// Invalid returns an error about a node, or about the document if n is nil.
func (d *Document) Invalid(n *yaml.Node, message string) error {
	line, column := 1, 1
	if n != nil {
		line, column = d.Position(n)
	}
	return InvalidAt(d.File, line, column, message)
}

// invalidAt returns an error about a line of data.
func (d *Document) invalidAt(line, column int, message string) error {
	if d.outer != nil {
		line, column = d.outer.doc.Position(d.outer.node)
		return InvalidAt(d.File, line, column, "the text "+message)
	}
	return InvalidAt(d.File, d.above+line, column, message)
}

// InvalidAt returns an [*fault.Error] with the reason Invalid about a place in a file.
func InvalidAt(file string, line, column int, message string) error {
	return &fault.Error{Reason: fault.Invalid, Message: fmt.Sprintf("%s:%d:%d: %s", file, line, column, message)}
}

// Clip shortens text from a file or a caller for an error message.
func Clip(s string) string {
	const most = 80
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "..."
	}
	return s
}
