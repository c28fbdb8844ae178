package policy

import (
	"encoding/json"

	"github.com/inference-responder/responder/internal/playbook"
)

// schemaObject is a JSON Schema, or a part of one. encoding/json sorts its
// keys, so the generated file is stable.
type schemaObject map[string]any

// Schema returns the JSON Schema (draft 2020-12) of policy documents. It is for
// editors; loading checks far more.
func Schema() []byte {
	rule := schemaObject{
		"name": def("name"),
		"when": text("CEL condition. Default: always."),
	}
	var forms []any
	for _, e := range language() {
		rule[e.key] = e.schema()
		forms = append(forms, schemaObject{"required": []string{e.key}})
	}
	one := closed([]string{"name"}, rule)
	one["oneOf"] = forms
	root := closed([]string{"apiVersion", "kind", "metadata", "spec"}, schemaObject{
		"apiVersion": schemaObject{"const": playbook.APIVersion},
		"kind":       schemaObject{"const": "Policy"},
		"metadata":   closed([]string{"name"}, schemaObject{"name": def("name"), "description": text("What it is for.")}),
		"spec":       closed([]string{"rules"}, schemaObject{"rules": schemaObject{"type": "array", "maxItems": maxRules, "items": one}}),
	})
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "Responder policy"
	root["$defs"] = schemaObject{
		"name": schemaObject{"type": "string", "pattern": nameForm.String()},
		"duration": schemaObject{
			"type": "string", "pattern": `^([0-9]+(ms|[smhdwy]))+$`,
			"description": "A duration such as 30s, 5m, 1h30m or 2d.",
		},
	}
	out, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		panic("policy: schema cannot be encoded: " + err.Error()) // unreachable: it is made of texts and numbers
	}
	return append(out, '\n')
}

func (e effectDoc) schema() schemaObject {
	if e.fields == nil {
		out := schemaObject{"description": e.doc}
		for k, v := range e.form {
			if k != "description" {
				out[k] = v
			}
		}
		return out
	}
	props, required := schemaObject{}, []string(nil)
	for _, f := range e.fields {
		form := schemaObject{"description": f.doc}
		if f.form["$ref"] != nil {
			form["allOf"] = []any{f.form}
		} else {
			for k, v := range f.form {
				if k != "description" {
					form[k] = v
				}
			}
		}
		props[f.name] = form
		if f.required {
			required = append(required, f.name)
		}
	}
	out := closed(required, props)
	out["description"] = e.doc
	if e.any {
		out["minProperties"] = 1
	}
	return out
}

func def(name string) schemaObject { return schemaObject{"$ref": "#/$defs/" + name} }

func text(doc string) schemaObject {
	return schemaObject{"type": "string", "minLength": 1, "description": doc}
}

func truth() schemaObject { return schemaObject{"type": "boolean"} }

func whole(least, most int) schemaObject {
	return schemaObject{"type": "integer", "minimum": least, "maximum": most}
}

func list(item schemaObject) schemaObject {
	return schemaObject{"type": "array", "minItems": 1, "items": item}
}

func oneOrMore(item schemaObject) schemaObject {
	return schemaObject{"oneOf": []any{item, list(item)}}
}

// closed returns an object with these properties and no others.
func closed(required []string, properties schemaObject) schemaObject {
	s := schemaObject{"type": "object", "additionalProperties": false, "properties": properties}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}
