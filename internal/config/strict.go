package config

import (
	"bytes"
	"cmp"
	"encoding"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/prometheus/common/model"
	"go.yaml.in/yaml/v3"

	"github.com/inference-responder/responder/internal/runview"
	"github.com/inference-responder/responder/internal/spelling"
	"github.com/inference-responder/responder/internal/yamldoc"
)

// Bounds of a configuration file. A service is about 700 bytes and 40 values,
// so that 20,000 of them, as many as a catalog may have, fit. The second bound
// is on memory: each value takes some 200 bytes while it is read, and the
// densest YAML has one in every two bytes.
const (
	maxConfigBytes  = 16 << 20
	maxConfigValues = 2 << 20
)

// Problem is one thing wrong with a configuration file.
type Problem struct {
	File         string `json:"file"`
	Line, Column int    `json:"-"`
	Path         string `json:"path,omitempty"` // e.g. auth.tokens[0].scopes
	Message      string `json:"message"`
	Hint         string `json:"hint,omitempty"`
}

// Error is file:line:column: path: message; hint.
func (p Problem) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:%d:%d: ", p.File, p.Line, p.Column)
	if p.Path != "" {
		b.WriteString(p.Path + ": ")
	}
	b.WriteString(p.Message)
	if p.Hint != "" {
		b.WriteString("; " + p.Hint)
	}
	return b.String()
}

// Problems is everything wrong with a file, in the file's order.
type Problems []Problem

// Error is one problem a line.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}

// strictDecode fills the struct that into points to from the one YAML document
// in data. Unknown and repeated fields, wrong types, aliases and a second
// document are problems with their place. Struct fields carry the tags yaml
// (the name), doc (for the reference) and enum (the allowed strings). It gives
// the places of what was set, for what is found wrong later.
func strictDecode(file string, data []byte, into any) (places, error) {
	if !utf8.Valid(data) {
		line, column := yamldoc.BadUTF8(data)
		return nil, Problems{{File: file, Line: line, Column: column, Message: "not UTF-8", Hint: "save the file as UTF-8"}}
	}
	root, err := parseOneDocument(file, data)
	if err != nil || root == nil {
		return nil, err
	}
	d := strictDecoder{file: file, places: places{}}
	d.value(root, reflect.ValueOf(into).Elem(), "", "")
	return d.places, d.problems.Sorted()
}

// Sorted gives the problems in the file's order as an error, nil without any.
func (ps Problems) Sorted() error {
	if len(ps) == 0 {
		return nil
	}
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(a.Line-b.Line, a.Column-b.Column, strings.Compare(a.Path, b.Path))
	})
	return ps
}

// places says where in a file things were set, by their path: a value, or the
// name of a field that holds more.
type places map[string]linePlace

type linePlace struct{ line, column int }

// of gives the place of a path, or of the nearest thing around it that was
// set; the beginning of the file when nothing was.
func (p places) of(path string) linePlace {
	for path != "" {
		if at, ok := p[path]; ok {
			return at
		}
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
	return linePlace{1, 1}
}

// parseOneDocument gives the root value of the only document; nil for an empty file.
func parseOneDocument(file string, data []byte) (*yaml.Node, error) {
	if len(data) > maxConfigBytes {
		return nil, Problems{{File: file, Line: 1, Column: 1, Message: fmt.Sprintf("the file has %d bytes, more than %d", len(data), maxConfigBytes)}}
	}
	if n := values(data); n > maxConfigValues {
		return nil, Problems{{File: file, Line: 1, Column: 1, Message: fmt.Sprintf("the file has about %d values, more than %d", n, maxConfigValues)}}
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	if err := dec.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		return nil, syntaxProblem(file, err)
	}
	switch err := dec.Decode(&second); {
	case err == nil:
		return nil, Problems{{File: file, Line: second.Line, Column: second.Column, Message: "a second document", Hint: "a configuration is one document: remove the line ---"}}
	case !errors.Is(err, io.EOF):
		return nil, syntaxProblem(file, err)
	}
	if len(doc.Content) == 0 || doc.Content[0].Tag == "!!null" {
		return nil, nil
	}
	return doc.Content[0], nil
}

// values says how many values a document has at most: each begins after one
// of these characters.
func values(data []byte) int {
	n := 1
	for _, c := range data {
		switch c {
		case '\n', '\r', ',', '[', '{', ':', '-', '?':
			n++
		}
	}
	return n
}

// syntaxProblem turns the YAML library's "yaml: line 3: ..." into a place.
func syntaxProblem(file string, err error) error {
	msg := strings.TrimPrefix(err.Error(), "yaml: ")
	line := 1
	if rest, ok := strings.CutPrefix(msg, "line "); ok {
		if n, text, ok := strings.Cut(rest, ": "); ok {
			if l, err := strconv.Atoi(n); err == nil {
				line, msg = l, text
			}
		}
	}
	return Problems{{File: file, Line: line, Column: 1, Message: "not YAML: " + msg}}
}

type strictDecoder struct {
	file     string
	problems Problems
	places   places
}

func (d *strictDecoder) problem(n *yaml.Node, path, hint, message string, args ...any) {
	d.problems = append(d.problems, Problem{
		File: d.file, Line: n.Line, Column: n.Column, Path: path, Message: fmt.Sprintf(message, args...), Hint: hint,
	})
}

// value decodes n into v, which is settable. enum is the field's enum tag.
func (d *strictDecoder) value(n *yaml.Node, v reflect.Value, path, enum string) {
	if n.Kind == yaml.AliasNode || n.Anchor != "" {
		d.problem(n, path, "write the value out", "anchors and aliases are not allowed")
		return
	}
	if v.Type() == reflect.TypeFor[yaml.Node]() {
		v.Set(reflect.ValueOf(*n))
		return
	}
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		d.text(n, u, path)
		return
	}
	if v.Type() == reflect.TypeFor[time.Duration]() {
		d.duration(n, v, path)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.value(n, v.Elem(), path, enum)
	case reflect.Struct:
		d.object(n, v, path)
	case reflect.Slice:
		d.list(n, v, path, enum)
	case reflect.Map:
		d.dict(n, v, path)
	default:
		d.scalar(n, v, path, enum)
	}
}

func (d *strictDecoder) object(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.MappingNode {
		d.problem(n, path, "", "must be a mapping of fields, not %s", kindName(n))
		return
	}
	names, index := structFields(v.Type())
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, val := n.Content[i], n.Content[i+1]
		at := Join(path, key.Value)
		if line, dup := seen[key.Value]; dup {
			d.problem(key, at, "keep one", "set twice, first on line %d", line)
			continue
		}
		seen[key.Value] = key.Line
		f, ok := index[key.Value]
		if !ok {
			hint := "allowed here: " + strings.Join(names, ", ")
			if near := spelling.Nearest(key.Value, names); near != "" {
				hint = fmt.Sprintf("did you mean %q? %s", near, hint)
			}
			d.problem(key, path, hint, "unknown field %q", key.Value)
			continue
		}
		d.places[at] = linePlace{val.Line, val.Column}
		if val.Kind != yaml.ScalarNode {
			d.places[at] = linePlace{key.Line, key.Column}
		}
		if val.Tag == "!!null" {
			continue // as if absent: the default stands
		}
		d.value(val, v.Field(f), at, v.Type().Field(f).Tag.Get("enum"))
	}
}

// structFields gives the YAML names of a struct's fields in order, and where they are.
func structFields(t reflect.Type) (names []string, index map[string]int) {
	index = map[string]int{}
	for i := range t.NumField() {
		if name := t.Field(i).Tag.Get("yaml"); name != "" {
			names = append(names, name)
			index[name] = i
		}
	}
	return names, index
}

func (d *strictDecoder) list(n *yaml.Node, v reflect.Value, path, enum string) {
	if n.Kind != yaml.SequenceNode {
		d.problem(n, path, "write [a, b], or one item a line after a dash", "must be a list, not %s", kindName(n))
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
	for i, c := range n.Content {
		at := fmt.Sprintf("%s[%d]", path, i)
		d.places[at] = linePlace{c.Line, c.Column}
		d.value(c, v.Index(i), at, enum)
	}
}

func (d *strictDecoder) dict(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.MappingNode {
		d.problem(n, path, "", "must be a mapping, not %s", kindName(n))
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		at := Join(path, key.Value)
		k := reflect.ValueOf(key.Value)
		if v.MapIndex(k).IsValid() {
			d.problem(key, at, "keep one", "set twice")
			continue
		}
		elem := reflect.New(v.Type().Elem()).Elem()
		d.value(n.Content[i+1], elem, at, "")
		v.SetMapIndex(k, elem)
	}
}

func (d *strictDecoder) text(n *yaml.Node, u encoding.TextUnmarshaler, path string) {
	if n.Kind != yaml.ScalarNode {
		d.problem(n, path, "", "must be one value, not %s", kindName(n))
		return
	}
	if err := u.UnmarshalText([]byte(n.Value)); err != nil {
		d.problem(n, path, "", "%q: %s", runview.Cut(n.Value, 60), err)
	}
}

func (d *strictDecoder) duration(n *yaml.Node, v reflect.Value, path string) {
	parsed, err := model.ParseDuration(n.Value)
	if n.Kind != yaml.ScalarNode || err != nil {
		d.problem(n, path, "write it like 30s, 5m, 1h30m or 28d", "not a duration: %q", runview.Cut(n.Value, 60))
		return
	}
	v.SetInt(int64(parsed))
}

func (d *strictDecoder) scalar(n *yaml.Node, v reflect.Value, path, enum string) {
	if n.Kind != yaml.ScalarNode {
		d.problem(n, path, "", "must be one value, not %s", kindName(n))
		return
	}
	var err error
	switch v.Kind() {
	case reflect.String:
		if allowed := strings.Split(enum, ","); enum != "" && !slices.Contains(allowed, n.Value) {
			d.problem(n, path, "allowed: "+strings.Join(allowed, ", "), "%q is not a value of it", runview.Cut(n.Value, 60))
			return
		}
		if n.Tag != "!!str" && enum == "" {
			d.problem(n, path, "put it in quotes", "must be a string, not %s", kindName(n))
			return
		}
		v.SetString(n.Value)
	case reflect.Bool:
		if n.Tag != "!!bool" {
			err = errors.New("must be true or false")
			break
		}
		v.SetBool(strings.EqualFold(n.Value, "true"))
	case reflect.Int, reflect.Int64:
		var i int64
		if i, err = strconv.ParseInt(n.Value, 10, 64); err != nil || v.OverflowInt(i) {
			err = errors.New("must be a whole number")
			break
		}
		v.SetInt(i)
	case reflect.Float64:
		var f float64
		if f, err = strconv.ParseFloat(n.Value, 64); err != nil || f != f {
			err = errors.New("must be a number")
			break
		}
		v.SetFloat(f)
	default:
		panic("strict decode: no rule for " + v.Type().String()) // unreachable unless the config struct grows a new type
	}
	if err != nil {
		d.problem(n, path, "", "%s, not %q", err, runview.Cut(n.Value, 60))
	}
}

func Join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func kindName(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	default:
		return "the value " + strconv.Quote(runview.Cut(n.Value, 60))
	}
}
