package step

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/playbook"
)

// Fields returns the declaration of the struct T: of a kind's parameters, or of
// its evidence. Names come from the json tags and types from the Go types. The
// other tags are doc, unit, required, default, min, max, enum (values separated by
// commas) and type, or elem of a map's values, where the Go type does not tell. A type with a method Enum
// lists its values itself. Fields of embedded structs follow in their place.
func Fields[T any]() []playbook.Field { return fieldsOf(reflect.TypeFor[T]()) }

func fieldsOf(t reflect.Type) []playbook.Field {
	var out []playbook.Field
	for f := range t.Fields() {
		if f.Anonymous {
			out = append(out, fieldsOf(f.Type)...)
			continue
		}
		out = append(out, fieldOf(f))
	}
	return out
}

func fieldOf(f reflect.StructField) playbook.Field {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	out := playbook.Field{
		Name: name, Type: typeOf(f.Type), Doc: f.Tag.Get("doc"), Unit: f.Tag.Get("unit"), Required: f.Tag.Get("required") != "",
		Min: limitOf(f.Tag.Get("min")), Max: limitOf(f.Tag.Get("max")),
	}
	if name, ok := f.Tag.Lookup("type"); ok {
		out.Type.Name = playbook.TypeName(name)
	}
	if name, ok := f.Tag.Lookup("elem"); ok {
		out.Type.Elem = &playbook.Type{Name: playbook.TypeName(name)}
	}
	if values, ok := f.Tag.Lookup("enum"); ok {
		out.Enum = strings.Split(values, ",")
	} else if e, ok := reflect.Zero(f.Type).Interface().(interface{ Enum() []string }); ok {
		out.Enum = e.Enum()
	}
	if text, ok := f.Tag.Lookup("default"); ok {
		out.Default = defaultOf(out.Type.Name, text)
	}
	return out
}

func typeOf(t reflect.Type) playbook.Type {
	elem := func(name playbook.TypeName) playbook.Type {
		e := typeOf(t.Elem())
		return playbook.Type{Name: name, Elem: &e}
	}
	switch {
	case t == reflect.TypeFor[Duration]():
		return playbook.Type{Name: playbook.Duration}
	case t == reflect.TypeFor[time.Time]():
		return playbook.Type{Name: playbook.Timestamp}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return typeOf(t.Elem())
	case reflect.String:
		return playbook.Type{Name: playbook.String}
	case reflect.Bool:
		return playbook.Type{Name: playbook.Bool}
	case reflect.Int, reflect.Int64:
		return playbook.Type{Name: playbook.Int}
	case reflect.Float64:
		return playbook.Type{Name: playbook.Double}
	case reflect.Slice:
		return elem(playbook.List)
	case reflect.Map:
		return elem(playbook.Map)
	case reflect.Struct:
		return playbook.Type{Name: playbook.Object, Fields: fieldsOf(t)}
	}
	panic(fmt.Sprintf("step: a field cannot have the Go type %s", t)) // unreachable unless a kind declares such a field: a test builds them all
}

func defaultOf(t playbook.TypeName, text string) any {
	var v any = text
	var err error
	switch t {
	case playbook.Bool:
		v, err = strconv.ParseBool(text)
	case playbook.Int:
		v, err = strconv.Atoi(text)
	case playbook.Double:
		v, err = strconv.ParseFloat(text, 64)
	}
	if err != nil {
		panic("step: a default does not fit its type: " + err.Error()) // unreachable unless a tag is wrong: a test builds all kinds
	}
	return v
}

func limitOf(text string) *float64 {
	if text == "" {
		return nil
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic("step: a bound is not a number: " + err.Error()) // unreachable unless a tag is wrong: a test builds all kinds
	}
	return &v
}
