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

// Limits of a file.
const (
	MaxFile = 1 << 20 // bytes
	MaxDocs = 256     // documents in a file

	maxYAMLDeep = 24  // levels of nesting
	maxProblems = 200 // reported; a file with more is not worth listing
)

// Document is one YAML document of a file while it is being read.
// The lines of its nodes count from its own first one.
type Document struct {
	File string
	Line int    // lines of the file before the document
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

// ReportAt adds a problem at a character of a scalar's text. offset counts
// characters from the start of the text.
func (d *Document) ReportAt(n *yaml.Node, path string, offset int, message, hint string) {
	line, column := d.Place(n, offset)
	d.add(Problem{File: d.File, Line: line, Column: column, Path: path, Message: message, Hint: hint})
}

// Place returns the line and the column in the file of a character of a scalar's
// text. offset counts characters from the start of the text.
func (d *Document) Place(n *yaml.Node, offset int) (line, column int) {
	line, column = d.locate(n, offset)
	return d.Line + line, column
}

// problemAt returns a problem of a file, or of a place found before any
// document was parsed.
func problemAt(file string, line, column int, message, hint string) Problem {
	return Problem{File: file, Line: line, Column: column, Message: message, Hint: hint}
}

// Documents splits a file into YAML documents and parses each. Documents that
// cannot be parsed, or that contain anchors, aliases or tags, are reported to
// problems and omitted.
func Documents(file string, data []byte, problems *Problems) []*Document {
	data, ok := text(file, data, MaxFile, problems)
	if !ok {
		return nil
	}
	docs := cut(file, data, problems)
	if len(docs) > MaxDocs {
		*problems = append(*problems, problemAt(file, 0, 0, fmt.Sprintf("%d documents in one file, at most %d allowed", len(docs), MaxDocs), "split it"))
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

// Single parses a file of one document and at most the given number of bytes.
// It returns nil for an empty file and for an invalid one, which it reports to
// problems.
func Single(file string, data []byte, most int, problems *Problems) *Document {
	data, ok := text(file, data, most, problems)
	if !ok {
		return nil
	}
	docs := cut(file, data, problems)
	if len(docs) > 1 {
		*problems = append(*problems, problemAt(file, docs[1].Line, 1, "more than one document", "this file must be one document: remove the line ---"))
	}
	if len(docs) != 1 || len(*problems) > 0 {
		return nil
	}
	d := docs[0]
	d.Line, d.Data, d.lines = 0, data, strings.Split(string(data), "\n") // its nodes have the line numbers of the file
	if !d.parse() {
		return nil
	}
	return d
}

// text returns a file's text without its byte order mark, if it is valid UTF-8
// and not too large.
func text(file string, data []byte, most int, problems *Problems) ([]byte, bool) {
	if len(data) > most {
		*problems = append(*problems, problemAt(file, 0, 0, fmt.Sprintf("the file exceeds %d bytes", most), "split it"))
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

// badUTF8 returns the line and the column, from 1, of the first byte that is
// not UTF-8, or the end of a text that is valid.
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

// cut splits a file at its --- lines, which have no other meaning in YAML.
// Documents of only blanks and comments are omitted.
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
			*problems = append(*problems, problemAt(file, line+1, 1, "YAML directives and document end markers are not supported", "separate documents with ---"))
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

// parse parses the document's YAML. If that fails, or the document uses an
// unsupported feature, it reports the error and returns false.
func (d *Document) parse() bool {
	var root yaml.Node
	if err := yaml.Unmarshal(d.Data, &root); err != nil {
		d.reportYAML(err)
		return false
	}
	if root.Kind != yaml.DocumentNode || len(root.Content) != 1 {
		d.Report(nil, "", "want exactly one YAML document", "")
		return false
	}
	d.Root = root.Content[0]
	return d.plain(d.Root, 0)
}

// reportYAML places the parser's own error. A tab is its most common cause,
// which the parser's message does not name.
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
	hint := ""
	if strings.HasPrefix(message, "did not find expected") { // the parser places that where the block begins
		hint = "look below this line too: for another indentation, or a bracket or quote that is not closed"
	}
	d.add(problemAt(d.File, d.Line+line, column, "invalid YAML: "+message, hint))
}

// plain refuses anchors, aliases, tags and deep nesting, so that a document can
// be read without looking anything up.
func (d *Document) plain(n *yaml.Node, depth int) bool {
	switch {
	case depth > maxYAMLDeep:
		d.Report(n, "", fmt.Sprintf("nested deeper than %d levels", maxYAMLDeep), "")
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

// locate returns the line (of the document) and column of a character of a
// scalar's text. It walks the text and the document in parallel, because YAML
// folds lines and drops quotes. If it loses track it returns the start of the
// scalar.
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
