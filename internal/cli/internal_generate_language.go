package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step/kinds"
)

// schema is a JSON Schema, as far as the reference of the language reads it.
type schema struct {
	Ref         string            `json:"$ref"`
	Const       any               `json:"const"`
	Enum        []string          `json:"enum"`
	Type        string            `json:"type"`
	Description string            `json:"description"`
	Default     any               `json:"default"`
	Pattern     string            `json:"pattern"`
	Properties  map[string]schema `json:"properties"`
	Required    []string          `json:"required"`
	Items       *schema           `json:"items"`
	Additional  json.RawMessage   `json:"additionalProperties"`
	AnyOf       []schema          `json:"anyOf"`
	OneOf       []schema          `json:"oneOf"`
	Defs        map[string]schema `json:"$defs"`
}

// languageReference describes the fields of a playbook, from the schema of the language.
func languageReference() string {
	var root schema
	if err := json.Unmarshal(playbook.Schema(kinds.Declarations()), &root); err != nil {
		panic(err) // the program's own schema
	}
	var b strings.Builder
	b.WriteString(generatedNote + "# Fields of a playbook\n\nWhat they mean together is in [the playbook language](../how-to/playbooks.md); " +
		"what stands under `with` is in [checks and levers](steps.md).\n")
	writeRows(&b, root)
	for _, name := range slices.Sorted(maps.Keys(root.Defs)) {
		def := root.Defs[name]
		switch {
		case strings.HasPrefix(name, "with."): // steps.md has them
		case name == "state":
			fmt.Fprintf(&b, "\n## state\n\nOne of these, told apart by the first field.\n")
			for _, kind := range def.OneOf {
				fmt.Fprintf(&b, "\n### %s\n", kind.Required[0])
				writeRows(&b, kind)
			}
		default:
			fmt.Fprintf(&b, "\n## %s\n", name)
			if text := strings.TrimSpace(def.Description + " " + def.form()); text != "" {
				b.WriteString("\n" + text + "\n")
			}
			writeRows(&b, def)
		}
	}
	return b.String()
}

func writeRows(b *strings.Builder, s schema) {
	if len(s.Properties) == 0 {
		return
	}
	b.WriteString("\n| field | is | meaning |\n|---|---|---|\n")
	s.rows(b, "")
}

// rows writes a line for each field, and for the fields of objects in it.
func (s schema) rows(b *strings.Builder, path string) {
	names := slices.Sorted(maps.Keys(s.Properties))
	slices.SortStableFunc(names, func(x, y string) int { // those that are required first
		return strings.Compare(fmt.Sprint(!slices.Contains(s.Required, x)), fmt.Sprint(!slices.Contains(s.Required, y)))
	})
	for _, name := range names {
		f := s.Properties[name]
		is := f.kind()
		if slices.Contains(s.Required, name) {
			is += ", required"
		}
		if f.Default != nil {
			is += fmt.Sprintf("; default `%v`", f.Default)
		}
		fmt.Fprintf(b, "| `%s%s` | %s | %s |\n", path, name, is, strings.ReplaceAll(f.about(), "|", "\\|"))
		f.rows(b, path+name+".")
		for _, nested := range f.alternatives() {
			if nested.Items != nil {
				continue // a list of what stands here alone
			}
			for _, one := range append(nested.alternatives(), nested) {
				one.rows(b, path+name+".")
			}
		}
	}
}

func (s schema) alternatives() []schema { return append(slices.Clone(s.AnyOf), s.OneOf...) }

// about returns the description of a field, or of its first alternative that has one.
func (s schema) about() string {
	if s.Description != "" {
		return s.Description
	}
	for _, one := range s.alternatives() {
		if text := one.about(); text != "" {
			return text
		}
	}
	return ""
}

// form describes the values of a definition without fields.
func (s schema) form() string {
	switch {
	case len(s.Properties) > 0:
		return ""
	case s.Pattern != "":
		return "Text that matches `" + s.Pattern + "`."
	}
	return "One of " + s.kind() + "."
}

// fewWords is how many words of an enumeration are listed.
const fewWords = 12

// kind describes what a value is.
func (s schema) kind() string {
	switch {
	case s.Ref != "":
		name := strings.TrimPrefix(s.Ref, "#/$defs/")
		if strings.HasPrefix(name, "with.") {
			return "see [steps](steps.md)"
		}
		return "[" + name + "](#" + name + ")"
	case s.Const != nil:
		return fmt.Sprintf("`%v`", s.Const)
	case len(s.Enum) > fewWords:
		return "one of " + fmt.Sprint(len(s.Enum)) + " [checks or levers](steps.md)"
	case len(s.Enum) > 0:
		return "`" + strings.Join(s.Enum, "`, `") + "`"
	case len(s.alternatives()) > 0:
		var kinds []string
		for _, one := range s.alternatives() {
			if k := one.kind(); !slices.Contains(kinds, k) {
				kinds = append(kinds, k)
			}
		}
		return strings.Join(kinds, " or ")
	case s.Items != nil:
		return "list of " + s.Items.kind()
	}
	var each schema
	if json.Unmarshal(s.Additional, &each) == nil && each.kindSet() {
		return "map of names to " + each.kind()
	}
	switch s.Type {
	case "":
		return "anything"
	case "string":
		return "text"
	}
	return s.Type
}

func (s schema) kindSet() bool { return s.Ref != "" || s.Type != "" || len(s.alternatives()) > 0 }
