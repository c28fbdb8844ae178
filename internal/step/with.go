package step

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/playbook"
)

// Duration is a time.Duration that is encoded like 5m.
type Duration time.Duration

// MarshalJSON encodes the form of the playbook language.
func (d Duration) MarshalJSON() ([]byte, error) {
	return json.Marshal(playbook.FormatDuration(time.Duration(d)))
}

// UnmarshalJSON decodes the form of the playbook language.
func (d *Duration) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("want a duration like 5m, got %s", b)
	}
	v, err := playbook.ParseDuration(s)
	*d = Duration(v)
	return err
}

// Decode decodes parameters strictly by their declaration and fills in
// defaults. Playbooks were checked when they were loaded; this check covers
// values of expressions and callers other than playbooks.
func Decode[T any](k playbook.Kind, with map[string]any) (T, error) {
	var out T
	full := map[string]any{}
	for _, f := range k.With {
		v, given := with[f.Name]
		switch {
		case given && v != nil:
			if err := within(f, v); err != nil {
				return out, Invalid("%s: %s %s", k.Name, f.Name, err)
			}
			full[f.Name] = stored(v)
		case f.Required:
			return out, Invalid("%s: %s is missing", k.Name, f.Name)
		case f.Default != nil:
			full[f.Name] = f.Default
		}
	}
	for _, name := range slices.Sorted(maps.Keys(with)) {
		if !slices.ContainsFunc(k.With, func(f playbook.Field) bool { return f.Name == name }) {
			return out, Invalid("%s: unknown parameter %q; it knows %s", k.Name, name, names(k.With))
		}
	}
	for _, group := range k.OneOf {
		n := 0
		for _, name := range group {
			if _, ok := full[name]; ok {
				n++
			}
		}
		if n != 1 {
			return out, Invalid("%s: give exactly one of %s, not %d", k.Name, strings.Join(group, ", "), n)
		}
	}
	b, err := json.Marshal(full)
	if err != nil {
		return out, Invalid("%s: parameters: %v", k.Name, err)
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&out); err != nil {
		return out, Invalid("%s: parameters: %v", k.Name, err)
	}
	return out, nil
}

func stored(v any) any {
	if d, ok := v.(time.Duration); ok {
		return playbook.FormatDuration(d)
	}
	return v
}

func names(fields []playbook.Field) string {
	if len(fields) == 0 {
		return "none"
	}
	var out []string
	for _, f := range fields {
		out = append(out, f.Name)
	}
	return strings.Join(out, ", ")
}

// within checks the bounds and the allowed values of a field.
func within(f playbook.Field, v any) error {
	if s, ok := v.(string); ok && len(f.Enum) > 0 && !slices.Contains(f.Enum, s) {
		return fmt.Errorf("is %q; allowed are %s", s, strings.Join(f.Words(), ", "))
	}
	var n float64
	switch v := v.(type) {
	case int:
		n = float64(v)
	case int64:
		n = float64(v)
	case float64:
		n = v
	default:
		return nil
	}
	if f.Min != nil && !(n >= *f.Min) {
		return fmt.Errorf("is %v, less than %v", v, *f.Min)
	}
	if f.Max != nil && !(n <= *f.Max) {
		return fmt.Errorf("is %v, more than %v", v, *f.Max)
	}
	return nil
}

// Invalid returns an error with the reason invalid.
func Invalid(format string, args ...any) error {
	return &fault.Error{Reason: fault.Invalid, Message: fmt.Sprintf(format, args...)}
}

// EncodeJSON encodes one of our own structs.
func EncodeJSON(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		panic("step: cannot encode: " + err.Error()) // unreachable unless a struct of this package holds NaN or a channel
	}
	return b
}
