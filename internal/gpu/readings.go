package gpu

import (
	"fmt"
	"reflect"
	"strings"
)

// absent is implemented by every Reading.
type absent interface{ Why() Absence }

// Missing returns the unknown readings of a GPU with their encoded names and
// reasons. It walks the type, so that it covers readings added later. History is
// excluded.
func Missing(g GPU) []ReadError {
	var out []ReadError
	EachReading(reflect.ValueOf(g), func(name string, v reflect.Value) {
		if r, ok := v.Interface().(absent); ok && r.Why() != "" {
			out = append(out, ReadError{What: name, Why: r.Why()})
		}
	})
	return out
}

// EachReading calls each for every [Reading] of a GPU, with the name under which
// it is encoded. History and errors are left out.
func EachReading(gpu reflect.Value, each func(name string, reading reflect.Value)) {
	walk(gpu, "", each)
}

// history are the fields that walk leaves out.
var history = map[string]bool{"minutes": true, "stretches": true, "baseline": true, "events": true, "errors": true}

// walk calls each for every Reading below v.
func walk(v reflect.Value, name string, each func(string, reflect.Value)) {
	if _, ok := v.Interface().(absent); ok {
		each(name, v)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			tag, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			if tag == "" || history[tag] {
				continue
			}
			if name != "" {
				tag = name + "." + tag
			}
			walk(v.Field(i), tag, each)
		}
	case reflect.Slice:
		for i := range v.Len() {
			walk(v.Index(i), fmt.Sprintf("%s[%d]", name, i), each)
		}
	default: // no reading
	}
}

// losable is implemented by a pointer to every Reading.
type losable interface{ lose(Absence) }

func (r *Reading[T]) lose(why Absence) { *r = Unknown[T](why) }

// WithoutReadings is the GPU with every reading replaced by why there is none. What it
// is (UUID, index, name), its links and MIG instances, its events and its
// history stay.
func (g GPU) WithoutReadings(why Absence) GPU {
	links := make([]NVLink, len(g.NVLinks))
	copy(links, g.NVLinks)
	g.NVLinks = links
	history, baseline := g.Minutes, g.Baseline
	g.Minutes, g.Baseline = nil, Baseline{}
	unread(reflect.ValueOf(&g).Elem(), why)
	g.Minutes, g.Baseline = history, baseline
	return g
}

// unread loses every reading below v, which is addressable.
func unread(v reflect.Value, why Absence) {
	if r, ok := v.Addr().Interface().(losable); ok {
		r.lose(why)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				unread(v.Field(i), why)
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			unread(v.Index(i), why)
		}
	default: // no reading in it
	}
}
