package config

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"go.yaml.in/yaml/v3"

	"github.com/inference-responder/responder/internal/rights"
	"github.com/inference-responder/responder/internal/runview"
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

// strictDecode fills the struct that into points to from the one YAML document
// in data. Unknown and repeated fields, wrong types, aliases and a second
// document are problems with their place. Struct fields carry the tags yaml
// (the name), doc (for the reference) and enum (the allowed strings). It returns
// the places of what was set, for problems that are found later; nil if the file
// is not YAML.
func strictDecode(file string, data []byte, into any) (places, yamldoc.Problems) {
	if n := values(data); n > maxConfigValues {
		return nil, yamldoc.Problems{{File: file, Line: 1, Column: 1, Message: fmt.Sprintf("the file has about %d values, more than %d", n, maxConfigValues)}}
	}
	var problems yamldoc.Problems
	doc := yamldoc.Single(file, data, maxConfigBytes, &problems)
	if doc == nil && len(problems) > 0 {
		return nil, problems
	}
	if doc == nil || doc.Root.Tag == "!!null" {
		return places{}, problems
	}
	d := strictDecoder{doc: doc, places: places{}}
	d.value(doc.Root, reflect.ValueOf(into).Elem(), "", "")
	return d.places, problems
}

// places holds where in a file things were set, by their path: a value, or the
// name of a field that holds more.
type places map[string]linePlace

type linePlace struct{ line, column int }

// of returns the place of a path, or of the nearest thing around it that was
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

// values returns how many values a document has at most: each begins after one
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

// nodeDecoder is a value that no tags declare: it reads its node and reports the
// problems of it.
type nodeDecoder interface {
	DecodeYAML(doc *yamldoc.Document, n *yaml.Node, path string)
}

type strictDecoder struct {
	doc    *yamldoc.Document
	places places
}

func (d *strictDecoder) problem(n *yaml.Node, path, hint, message string, args ...any) {
	d.doc.Report(n, path, fmt.Sprintf(message, args...), hint)
}

// value decodes n into v, which is settable. enum is the field's enum tag.
func (d *strictDecoder) value(n *yaml.Node, v reflect.Value, path, enum string) {
	if own, ok := v.Addr().Interface().(nodeDecoder); ok {
		own.DecodeYAML(d.doc, n, path)
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
		d.problem(n, path, "", "must be a mapping of fields, not %s", yamldoc.Describe(n))
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
			d.problem(key, path, yamldoc.DidYouMean(key.Value, names), "unknown field %q", key.Value)
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

// structFields returns the YAML names of a struct's fields in order, and where they are.
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
		d.problem(n, path, "write [a, b], or one item a line after a dash", "must be a list, not %s", yamldoc.Describe(n))
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
		d.problem(n, path, "", "must be a mapping, not %s", yamldoc.Describe(n))
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
		d.problem(n, path, "", "must be one value, not %s", yamldoc.Describe(n))
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
		d.problem(n, path, "", "must be one value, not %s", yamldoc.Describe(n))
		return
	}
	var err error
	switch v.Kind() {
	case reflect.String:
		if allowed := strings.Split(enum, ","); enum != "" && !slices.Contains(allowed, n.Value) {
			d.problem(n, path, replacement(allowed, n.Value), "must be one of %s, not %q", strings.Join(allowed, ", "), runview.Cut(n.Value, 60))
			return
		}
		if n.Tag != "!!str" && enum == "" {
			d.problem(n, path, "put it in quotes", "must be a string, not %s", yamldoc.Describe(n))
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

// replacement returns what a value of an older configuration became; empty: it was none.
func replacement(allowed []string, value string) string {
	if value != "decide" || !slices.Contains(allowed, string(rights.Approve)) {
		return ""
	}
	return "decide became one scope for each right: write those of approve, cancel, pause, unpause, resolve, release, promote and start that the person needs, e.g. [approve, cancel, pause]; auth.rights says about which services"
}

// Join returns the path of a field below a path.
func Join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
