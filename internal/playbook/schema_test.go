package playbook

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"testing"

	"go.yaml.in/yaml/v3"
)

// validator knows the words of JSON Schema that ours uses, and fails on any other.
type validator struct {
	t    *testing.T
	root map[string]any
}

// valid reports why v does not satisfy the schema; "" when it does.
func (k validator) valid(schema map[string]any, v any, path string) string {
	for word, arg := range schema {
		if why := k.word(schema, word, arg, v, path); why != "" {
			return why
		}
	}
	return ""
}

func (k validator) word(schema map[string]any, word string, arg, v any, path string) string {
	object, _ := v.(map[string]any)
	switch word {
	case "$schema", "title", "description", "default", "$defs", "then", "properties", "maxProperties", "exclusiveMaximum", "minimum", "maximum", "minLength":
		return k.properties(schema, word, object, path)
	case "$ref":
		name := arg.(string)[len("#/$defs/"):]
		def, ok := k.root["$defs"].(map[string]any)[name].(map[string]any)
		if !ok {
			k.t.Fatalf("%s is not defined", name)
		}
		return k.valid(def, v, path)
	case "type":
		if !isType(v, arg.(string)) {
			return fmt.Sprintf("%s: %v is no %s", path, v, arg)
		}
	case "const":
		if !reflect.DeepEqual(v, arg) {
			return fmt.Sprintf("%s: %v is not %v", path, v, arg)
		}
	case "enum":
		if !slices.Contains(arg.([]any), v) {
			return fmt.Sprintf("%s: %v is none of %v", path, v, arg)
		}
	case "pattern":
		if s, ok := v.(string); ok && !regexp.MustCompile(arg.(string)).MatchString(s) {
			return fmt.Sprintf("%s: %q does not match %s", path, s, arg)
		}
	case "exclusiveMinimum":
		if f, ok := v.(float64); ok && f <= arg.(float64) {
			return fmt.Sprintf("%s: %v is not above %v", path, f, arg)
		}
	case "minItems", "items":
		return k.items(word, arg, v, path)
	case "required":
		for _, name := range arg.([]any) {
			if _, ok := object[name.(string)]; object != nil && !ok {
				return fmt.Sprintf("%s: %s is missing", path, name)
			}
		}
	case "additionalProperties", "propertyNames", "minProperties":
		return k.others(schema, word, arg, object, path)
	case "oneOf", "anyOf", "allOf", "not", "if":
		return k.combined(schema, word, arg, v, path)
	default:
		k.t.Fatalf("%s: the schema says %s, which this test does not know", path, word)
	}
	return ""
}

func (k validator) properties(schema map[string]any, word string, object map[string]any, path string) string {
	if word != "properties" {
		return ""
	}
	for name, sub := range schema["properties"].(map[string]any) {
		if v, ok := object[name]; ok {
			if why := k.valid(sub.(map[string]any), v, path+"."+name); why != "" {
				return why
			}
		}
	}
	return ""
}

func (k validator) others(schema map[string]any, word string, arg any, object map[string]any, path string) string {
	known, _ := schema["properties"].(map[string]any)
	for name, v := range object {
		switch {
		case word == "propertyNames":
			if why := k.valid(arg.(map[string]any), name, path+" name"); why != "" {
				return why
			}
		case word == "additionalProperties" && known[name] == nil:
			if arg == false {
				return fmt.Sprintf("%s: unknown %s", path, name)
			}
			if why := k.valid(arg.(map[string]any), v, path+"."+name); why != "" {
				return why
			}
		}
	}
	return ""
}

func (k validator) items(word string, arg, v any, path string) string {
	list, ok := v.([]any)
	if !ok {
		return ""
	}
	if word == "minItems" && len(list) < int(arg.(float64)) {
		return path + ": too few"
	}
	if word == "items" {
		for i, item := range list {
			if why := k.valid(arg.(map[string]any), item, fmt.Sprintf("%s[%d]", path, i)); why != "" {
				return why
			}
		}
	}
	return ""
}

func (k validator) combined(schema map[string]any, word string, arg, v any, path string) string {
	if word == "not" {
		if k.valid(arg.(map[string]any), v, path) == "" {
			return path + ": is what it must not be"
		}
		return ""
	}
	if word == "if" {
		if k.valid(arg.(map[string]any), v, path) == "" {
			return k.valid(schema["then"].(map[string]any), v, path)
		}
		return ""
	}
	good, last := 0, ""
	for _, sub := range arg.([]any) {
		if why := k.valid(sub.(map[string]any), v, path); why == "" {
			good++
		} else {
			last = why
		}
	}
	switch {
	case word == "oneOf" && good != 1, word == "anyOf" && good == 0, word == "allOf" && last != "":
		return fmt.Sprintf("%s: %s: %d hold; %s", path, word, good, last)
	}
	return ""
}

func isType(v any, name string) bool {
	switch v := v.(type) {
	case string:
		return name == "string"
	case bool:
		return name == "boolean"
	case float64:
		return name == "number" || (name == "integer" && v == float64(int64(v)))
	case []any:
		return name == "array"
	case map[string]any:
		return name == "object"
	default:
		return name == "null"
	}
}

// asJSON reads YAML as an editor's schema check sees it.
func asJSON(t *testing.T, file string) any {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := yaml.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// The schema accepts what loads, and refuses the mistakes that a schema can see.
func TestSchema(t *testing.T) {
	k := validator{t: t}
	if err := json.Unmarshal(Schema(testKinds()), &k.root); err != nil {
		t.Fatal(err)
	}
	good, err := filepath.Glob("testdata/good/*.yaml")
	if err != nil || len(good) == 0 {
		t.Fatal(good, err)
	}
	for _, file := range good {
		if why := k.valid(k.root, asJSON(t, file), "$"); why != "" {
			t.Errorf("%s: %s", file, why)
		}
	}
	for _, name := range []string{
		"wrong-version", "missing-everything", "unknown-fields", "wrong-types", "bad-names", "durations",
		"when-and-on", "two-kinds", "unknown-steps", "unknown-parameter", "approve-details",
		"autonomy", "traffic", "burn", "enum-and-bounds", "fields-of-other-kinds", "outcome-and-divert", "gate-without-approve",
	} {
		if why := k.valid(k.root, asJSON(t, "testdata/bad/"+name+".yaml"), "$"); why == "" {
			t.Errorf("%s: the schema sees nothing wrong", name)
		}
	}
}
