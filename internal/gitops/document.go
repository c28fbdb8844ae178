package gitops

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/inference-responder/responder/internal/fault"
	"go.yaml.in/yaml/v3"
)

// Bounds of what is read.
const (
	maxFile     = 4 << 20   // bytes of one file; larger ones are no manifests
	maxScript   = 64 << 10  // bytes of one shell script
	maxWords    = 2000      // items of one command line
	maxDepth    = 100       // levels of nesting
	maxCompared = 2_000_000 // keys and items that one merge compares
	maxBuilt    = 100_000   // kustomizations and objects of one tree, each time they are included
	maxNodes    = 200_000   // of one document
)

// document is one YAML document: a part of a file, or the text of a scalar of
// another document (a patch or a configuration file held in a block).
type document struct {
	file  string
	index int    // of the YAML stream
	start int    // bytes of the file before data
	above int    // lines of the file before data
	data  []byte // as written
	outer *inside
	role  string // of the file, for documents that are no manifests
	plain bool   // no YAML: the whole file is one text

	root   *yaml.Node
	err    error
	parsed bool
	lines  []int // where each line of data begins

	proven *document // what a change last made of it: it is proved more than once, and then read, and parsed once
}

// inside is the scalar that holds a nested document.
type inside struct {
	doc  *document
	node *yaml.Node
}

// documents cuts a file at its --- lines and refuses what no manifest is.
// Nothing is parsed yet: most documents of a tree are somebody else's.
func documents(path string, data []byte) ([]*document, error) {
	if err := refuse(path, data); err != nil {
		return nil, err
	}
	var out []*document
	begin := len(data) - len(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")))
	from := begin
	above, line := 0, 0
	add := func(end int) {
		if d := (&document{file: path, index: len(out), start: from, above: above, data: data[from:end]}); !d.blank() {
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
			return nil, invalidAt(path, line+1, 1, "YAML directives and document ends are not edited: separate documents with ---")
		}
		pos = end
		line++
	}
	add(len(data))
	return out, nil
}

// blank reports whether there is nothing but blanks and comments.
func (d *document) blank() bool {
	for line := range bytes.Lines(d.data) {
		line = bytes.TrimSpace(bytes.TrimPrefix(line, []byte("---")))
		if len(line) > 0 && line[0] != '#' {
			return false
		}
	}
	return true
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`)

// parse reads the document once and gives its root.
func (d *document) parse() (*yaml.Node, error) {
	if d.parsed {
		return d.root, d.err
	}
	d.parsed = true
	d.lines = lineStarts(d.data)
	var n yaml.Node
	if err := yaml.Unmarshal(d.data, &n); err != nil {
		d.err = d.unreadable(err)
		return nil, d.err
	}
	if n.Kind != yaml.DocumentNode || len(n.Content) != 1 {
		d.err = d.invalid(nil, "holds no YAML document")
		return nil, d.err
	}
	left := maxNodes
	if d.err = d.sound(n.Content[0], 0, &left); d.err != nil {
		return nil, d.err
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

// unreadable places the parser's complaint and names its usual causes.
func (d *document) unreadable(err error) error {
	line, message := 1, strings.SplitN(err.Error(), "\n", 2)[0]
	if m := yamlLine.FindStringSubmatch(message); m != nil {
		message = m[2]
		if n, convErr := strconv.Atoi(m[1]); convErr == nil {
			line = min(max(1, n), len(d.lines))
		}
	}
	if bytes.Contains(d.data, []byte("{{")) {
		return d.invalidAt(line, 1, "is a template, not YAML: change the values it is filled from")
	}
	for i, text := range bytes.Split(d.data, []byte("\n")) {
		indent := text[:len(text)-len(bytes.TrimLeft(text, " \t"))]
		if tab := bytes.IndexByte(indent, '\t'); tab >= 0 {
			return d.invalidAt(i+1, tab+1, "is indented with a tab: YAML indents with spaces")
		}
	}
	return d.invalidAt(line, 1, "is not YAML: "+message)
}

// sound refuses what has no single meaning: keys given twice, and nesting or
// numbers of nodes that no manifest has. Aliases are not followed.
func (d *document) sound(n *yaml.Node, depth int, left *int) error {
	if *left--; depth > maxDepth || *left < 0 {
		return d.invalid(n, fmt.Sprintf("is nested more than %d levels deep or has more than %d values", maxDepth, maxNodes))
	}
	if n.Kind == yaml.MappingNode {
		seen := make(map[string]*yaml.Node, len(n.Content)/2)
		for i := 0; i+1 < len(n.Content); i += 2 {
			k := n.Content[i]
			if k.Kind == yaml.MappingNode && strings.HasPrefix(string(d.data[max(0, d.offset(n)):]), "{{") {
				return d.invalid(n, "is a template, not YAML: change the values it is filled from")
			}
			if k.Kind != yaml.ScalarNode {
				continue
			}
			if first := seen[k.Value]; first != nil && k.Tag != "!!merge" {
				line, _ := d.position(first)
				return d.invalid(k, fmt.Sprintf("gives the key %q twice, first on line %d: keep one", clip(k.Value), line))
			}
			seen[k.Value] = k
		}
	}
	for _, c := range n.Content {
		if err := d.sound(c, depth+1, left); err != nil {
			return err
		}
	}
	return nil
}

// offset is where a node's token begins in data, or -1.
func (d *document) offset(n *yaml.Node) int {
	if n.Line < 1 || n.Line > len(d.lines) {
		return -1
	}
	at := d.lines[n.Line-1]
	for range n.Column - 1 {
		if at >= len(d.data) {
			return -1
		}
		_, size := utf8.DecodeRune(d.data[at:])
		at += size
	}
	return at
}

// place is the line and the column, in bytes, of an offset of data, in the file.
func (d *document) place(at int) (line, column int) {
	if d.outer != nil {
		if t, err := d.outer.doc.text(d.outer.node); err == nil && len(t.from) > 0 {
			if at < len(t.from) {
				return d.outer.doc.place(t.from[at])
			}
			return d.outer.doc.place(t.to[len(t.to)-1])
		}
		return d.outer.doc.position(d.outer.node)
	}
	line = 1
	for line < len(d.lines) && d.lines[line] <= at {
		line++
	}
	return d.above + line, at - d.lines[line-1] + 1
}

// position is the line and the column of a node in the file.
func (d *document) position(n *yaml.Node) (line, column int) {
	if at := d.offset(n); at >= 0 {
		return d.place(at)
	}
	return 1, 1
}

func (d *document) invalid(n *yaml.Node, message string) error {
	line, column := 1, 1
	if n != nil {
		line, column = d.position(n)
	}
	return invalidAt(d.file, line, column, message)
}

// invalidAt is for a line of data.
func (d *document) invalidAt(line, column int, message string) error {
	if d.outer != nil {
		line, column = d.outer.doc.position(d.outer.node)
		return invalidAt(d.file, line, column, "the text "+message)
	}
	return invalidAt(d.file, d.above+line, column, message)
}

func invalidAt(file string, line, column int, message string) error {
	return &fault.Error{Reason: fault.Invalid, Message: fmt.Sprintf("%s:%d:%d: %s", file, line, column, message)}
}

// clip shortens text of strangers for messages.
func clip(s string) string {
	const most = 80
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "..."
	}
	return s
}
