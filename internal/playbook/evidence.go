package playbook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"

	"github.com/inference-responder/responder/internal/yamldoc"
)

// decodeEvidence converts the JSON of a check to values of the types its kind
// declares. Fields that are absent or null stay absent; reading them is an
// error. Undeclared fields are ignored, because an older run's evidence may
// have them.
func decodeEvidence(data json.RawMessage, fields []Field) (map[string]any, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var raw any
	if err := dec.Decode(&raw); err != nil {
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one JSON value")
	}
	v, err := typed(raw, Type{Name: Object, Fields: fields})
	if err != nil {
		return nil, err
	}
	o, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("null instead of an object")
	}
	return o, nil
}

// typed converts a decoded JSON value to the declared type. nil stays nil.
func typed(raw any, typ Type) (any, error) {
	if raw == nil {
		return nil, nil
	}
	switch typ.Name {
	case Object:
		return typedObject(raw, typ.Fields)
	case Map:
		return typedMap(raw, typ.Elem)
	case List:
		return typedList(raw, typ.Elem)
	case Bool:
		if b, ok := raw.(bool); ok {
			return b, nil
		}
	case Int, Double:
		if n, ok := raw.(json.Number); ok {
			return typedNumber(n, typ.Name)
		}
	case String, Query:
		if s, ok := raw.(string); ok {
			return s, nil
		}
	case Duration:
		if s, ok := raw.(string); ok {
			return typedDuration(s)
		}
	case Timestamp:
		if s, ok := raw.(string); ok {
			t, err := time.Parse(time.RFC3339Nano, s)
			if err != nil {
				return nil, fmt.Errorf("not a timestamp: %q", yamldoc.Clip(s))
			}
			return t, nil
		}
	}
	return nil, fmt.Errorf("want %s, got %s", typ.Name, jsonKind(raw))
}

func typedObject(raw any, fields []Field) (any, error) {
	in, ok := raw.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("want an object, got %s", jsonKind(raw))
	}
	out := make(map[string]any, len(fields))
	for _, f := range fields {
		v, err := typed(in[f.Name], f.Type)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		if v != nil {
			out[f.Name] = v
		}
	}
	return out, nil
}

func typedMap(raw any, elem *Type) (any, error) {
	in, ok := raw.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("want a map, got %s", jsonKind(raw))
	}
	out := make(map[string]any, len(in))
	for k, rv := range in {
		v, err := typedElem(rv, elem)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", yamldoc.Clip(k), err)
		}
		out[k] = v
	}
	return out, nil
}

func typedList(raw any, elem *Type) (any, error) {
	in, ok := raw.([]any)
	if !ok {
		return nil, fmt.Errorf("want a list, got %s", jsonKind(raw))
	}
	out := make([]any, len(in))
	for i, rv := range in {
		v, err := typedElem(rv, elem)
		if err != nil {
			return nil, fmt.Errorf("[%d]: %w", i, err)
		}
		out[i] = v
	}
	return out, nil
}

// typedElem converts an element of a list or map. A null element is an error.
func typedElem(raw any, elem *Type) (any, error) {
	if raw == nil {
		return nil, errors.New("null")
	}
	if elem == nil {
		return untyped(raw), nil
	}
	return typed(raw, *elem)
}

// untyped converts a value of an undeclared element type. Numbers become
// doubles.
func untyped(raw any) any {
	switch v := raw.(type) {
	case json.Number:
		f, err := v.Float64()
		if err != nil {
			return v.String()
		}
		return f
	case []any:
		for i := range v {
			v[i] = untyped(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = untyped(v[k])
		}
	}
	return raw
}

func typedNumber(n json.Number, want TypeName) (any, error) {
	if i, err := strconv.ParseInt(n.String(), 10, 64); err == nil {
		if want == Int {
			return i, nil
		}
		return float64(i), nil
	}
	f, err := n.Float64()
	if err != nil {
		return nil, fmt.Errorf("number out of range: %s", yamldoc.Clip(n.String()))
	}
	if want == Double {
		return f, nil
	}
	if f != math.Trunc(f) || math.Abs(f) >= 1<<53 {
		return nil, fmt.Errorf("want a whole number, got %s", yamldoc.Clip(n.String()))
	}
	return int64(f), nil
}

func typedDuration(s string) (any, error) {
	if d, err := ParseDuration(s); err == nil {
		return d, nil
	}
	d, err := time.ParseDuration(s) // evidence may carry Go's form: 1.5s, -3m
	if err != nil {
		return nil, fmt.Errorf("not a duration: %q", yamldoc.Clip(s))
	}
	return d, nil
}

func jsonKind(raw any) string {
	switch raw.(type) {
	case bool:
		return "a bool"
	case json.Number:
		return "a number"
	case string:
		return "a string"
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	default:
		return "null"
	}
}
