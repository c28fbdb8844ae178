package yamldoc

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Bounds of a file.
const (
	MaxFile = 1 << 20 // bytes
	MaxDocs = 256     // documents in a file

	maxYAMLDeep = 24  // levels of nesting
	maxProblems = 200 // listed; a file with more is not one to read line by line
)

// Document is one YAML document of a file while it is being read.
// The lines of its nodes count from its own first one.
type Document struct {
	File string
	Line int    // lines of the file before the document's first one
	Data []byte // as written
	Root *yaml.Node

	lines    []string // of the document
	problems *Problems
}

// Report adds a problem at a node, or at the document's start.
func (d *Document) Report(n *yaml.Node, path, message, hint string) {
	line, column := d.Line+1, 1
	if n != nil && n.Line > 0 {
		line, column = d.Line+n.Line, n.Column
	}
	d.add(Problem{File: d.File, Line: line, Column: column, Path: path, Message: message, Hint: hint})
}

func (d *Document) add(p Problem) {
	if len(*d.problems) < maxProblems {
		*d.problems = append(*d.problems, p)
	}
}

// ReportAt adds a problem at a character of a scalar's text: offset counts
// from its start, in characters.
func (d *Document) ReportAt(n *yaml.Node, path string, offset int, message, hint string) {
	line, column := d.locate(n, offset)
	d.add(Problem{File: d.File, Line: d.Line + line, Column: column, Path: path, Message: message, Hint: hint})
}

// problemAt is a problem with a file as a whole or at a place found before
// there was a document.
func problemAt(file string, line, column int, message, hint string) Problem {
	return Problem{File: file, Line: line, Column: column, Message: message, Hint: hint}
}

// Documents cuts a file into YAML documents and parses each. Those that cannot
// be read, and those with anchors, aliases or tags, are reported to problems
// and left out.
func Documents(file string, data []byte, problems *Problems) []*Document {
	data, ok := text(file, data, MaxFile, problems)
	if !ok {
		return nil
	}
	docs := cut(file, data, problems)
	if len(docs) > MaxDocs {
		*problems = append(*problems, problemAt(file, 0, 0, fmt.Sprintf("%d documents; a file has at most %d", len(docs), MaxDocs), "split it"))
		return nil
	}
	out := docs[:0]
	for _, d := range docs {
		if d.parse() {
			out = append(out, d)
		}
	}
	return out
}

// Single parses a file of at most so many bytes that is one document. It returns
// nil for a file without content, and for one that it reports to problems.
func Single(file string, data []byte, most int, problems *Problems) *Document {
	data, ok := text(file, data, most, problems)
	if !ok {
		return nil
	}
	docs := cut(file, data, problems)
	if len(docs) > 1 {
		*problems = append(*problems, problemAt(file, docs[1].Line, 1, "a second document", "this file is one document: remove the line ---"))
	}
	if len(docs) != 1 || len(*problems) > 0 {
		return nil
	}
	d := docs[0]
	d.Line, d.Data, d.lines = 0, data, strings.Split(string(data), "\n") // its nodes have the lines of the file
	if !d.parse() {
		return nil
	}
	return d
}

// text returns a file's text without its byte order mark, when it is UTF-8 and
// not too large.
func text(file string, data []byte, most int, problems *Problems) ([]byte, bool) {
	if len(data) > most {
		*problems = append(*problems, problemAt(file, 0, 0, fmt.Sprintf("too large; a file has at most %d bytes", most), "split it"))
		return nil, false
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if !utf8.Valid(data) {
		line, column := badUTF8(data)
		*problems = append(*problems, problemAt(file, line, column, "not UTF-8", "save the file as UTF-8"))
		return nil, false
	}
	return data, true
}

// Part returns a value of a larger file as a document, for a reader that reports
// to problems. It reports false, and what it found, when the value has an alias,
// an anchor, a tag or too many levels.
func Part(file string, root *yaml.Node, problems *Problems) (d *Document, ok bool) {
	d = &Document{File: file, Root: root, problems: problems}
	return d, d.plain(root, 0)
}

// badUTF8 gives the line and the column, from 1, of the first byte that is not
// UTF-8; of a text that is, its end.
func badUTF8(data []byte) (line, column int) {
	line, column = 1, 1
	for len(data) > 0 {
		r, size := utf8.DecodeRune(data)
		switch {
		case r == utf8.RuneError && size == 1:
			return line, column
		case r == '\n':
			line, column = line+1, 1
		default:
			column++
		}
		data = data[size:]
	}
	return line, column
}

// cut splits a file at its --- lines. YAML gives such a line no other meaning
// anywhere. Documents of only blanks and comments are left out.
func cut(file string, data []byte, problems *Problems) []*Document {
	var docs []*Document
	current := &Document{File: file, problems: problems}
	start, line := 0, 0
	finish := func(end int) {
		current.Data = data[start:end]
		current.lines = strings.Split(string(current.Data), "\n")
		if !current.blank() {
			docs = append(docs, current)
		}
	}
	for pos := 0; pos < len(data); {
		end := len(data)
		if i := bytes.IndexByte(data[pos:], '\n'); i >= 0 {
			end = pos + i + 1
		}
		text := strings.TrimRight(string(data[pos:end]), "\r\n")
		rest, separates := strings.CutPrefix(text, "---")
		if separates && (rest == "" || rest[0] == ' ' || rest[0] == '\t') {
			if rest = strings.TrimSpace(rest); rest != "" && rest[0] != '#' {
				*problems = append(*problems, problemAt(file, line+1, 5, "text after ---", "begin the document on the next line"))
			}
			finish(pos)
			current, start = &Document{File: file, Line: line + 1, problems: problems}, end
		}
		if text == "..." || strings.HasPrefix(text, "%") {
			*problems = append(*problems, problemAt(file, line+1, 1, "YAML directives and document ends are not used here", "separate documents with ---"))
			return nil
		}
		pos = end
		line++
	}
	finish(len(data))
	return docs
}

func (d *Document) blank() bool {
	for _, l := range d.lines {
		if l = strings.TrimSpace(l); l != "" && l[0] != '#' {
			return false
		}
	}
	return true
}

var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?(.*)$`)

// parse reads the document's YAML. It reports and returns false when that is
// not possible or the document uses what is left out here.
func (d *Document) parse() bool {
	var root yaml.Node
	if err := yaml.Unmarshal(d.Data, &root); err != nil {
		d.reportYAML(err)
		return false
	}
	if root.Kind != yaml.DocumentNode || len(root.Content) != 1 {
		d.Report(nil, "", "not one YAML document", "")
		return false
	}
	d.Root = root.Content[0]
	return d.plain(d.Root, 0)
}

// reportYAML places the parser's own complaint. A tab is its most common cause
// and the one its words hide best.
func (d *Document) reportYAML(err error) {
	m := yamlLine.FindStringSubmatch(strings.SplitN(err.Error(), "\n", 2)[0])
	line, message := 1, err.Error()
	if m != nil {
		message = m[2]
		if n, convErr := strconv.Atoi(m[1]); convErr == nil {
			line = min(max(1, n), len(d.lines))
		}
	}
	for i, text := range d.lines {
		indent := text[:len(text)-len(strings.TrimLeft(text, " \t"))]
		if tab := strings.IndexByte(indent, '\t'); tab >= 0 {
			d.add(problemAt(d.File, d.Line+i+1, tab+1, "indented with a tab", "YAML indents with spaces"))
			return
		}
	}
	column := 1 + len(d.lines[line-1]) - len(strings.TrimLeft(d.lines[line-1], " "))
	d.add(problemAt(d.File, d.Line+line, column, "not YAML: "+message, ""))
}

// plain refuses anchors, aliases, tags and deep nesting: a document says what
// it means once, where it is read.
func (d *Document) plain(n *yaml.Node, depth int) bool {
	switch {
	case depth > maxYAMLDeep:
		d.Report(n, "", fmt.Sprintf("nested more than %d levels deep", maxYAMLDeep), "")
		return false
	case n.Kind == yaml.AliasNode:
		d.Report(n, "", "aliases are not allowed", "write the value out")
		return false
	case n.Anchor != "":
		d.Report(n, "", "anchors are not allowed", "write the value out where it is used")
		return false
	case n.Style&yaml.TaggedStyle != 0:
		d.Report(n, "", "tags are not allowed: "+Clip(n.Tag), "quote the value if it is a text")
		return false
	}
	ok := true
	for _, c := range n.Content {
		ok = d.plain(c, depth+1) && ok
		if len(*d.problems) >= maxProblems {
			return false
		}
	}
	return ok
}

// locate gives the line (of the document) and column of a character of a
// scalar's text. It walks the text and the document side by side, because
// YAML folds lines and drops quotes; where it loses track it names the scalar.
func (d *Document) locate(n *yaml.Node, offset int) (line, column int) {
	line, column = n.Line, n.Column
	if line < 1 || line > len(d.lines) {
		return max(1, line), max(1, column)
	}
	row, col := line-1, column-1
	quoted := n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0
	switch {
	case n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		row, col = row+1, 0
	case quoted:
		col++
	}
	w := walker{lines: d.lines, row: row, col: col, style: n.Style}
	for i, r := range []rune(n.Value) {
		if !w.find(r) {
			return n.Line, n.Column
		}
		if i == offset {
			return w.row + 1, w.col + 1
		}
		w.pass(r)
	}
	return w.row + 1, max(1, w.col+1) // the end
}
