package playbook

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Reference returns the reference of all checks and levers as Markdown:
// parameters, evidence, types and defaults, as declared.
func Reference(kinds []Kind) []byte {
	var b strings.Builder
	b.WriteString("# Steps\n\nGenerated from the declarations of the steps; do not edit.\n\n")
	b.WriteString("A check reads the world and yields evidence, which conditions read as `out.FIELD` in its own state and as\n" +
		"`STATE.FIELD` later. A lever changes one thing and can undo it. Every parameter also takes `${CEL}` of its type.\n")
	variablesReference(&b)
	sorted := slices.Clone(kinds)
	slices.SortStableFunc(sorted, func(a, b Kind) int { return cmp.Compare(a.Name, b.Name) })
	for _, role := range []Role{RoleCheck, RoleLever} {
		title := map[Role]string{RoleCheck: "Checks", RoleLever: "Levers"}[role]
		fmt.Fprintf(&b, "\n## %s\n", title)
		for _, k := range sorted {
			if k.Role == role {
				reference(&b, k)
			}
		}
	}
	return []byte(b.String())
}

// variablesReference writes the variables that a condition or ${...} can name, in
// addition to the evidence of checks.
func variablesReference(b *strings.Builder) {
	b.WriteString("\n## Variables\n\nConditions and `${...}` can name these, the evidence of the checks below, and the names of `let`.\n" +
		"A dash in the name of a state or of evidence is an underscore in its variable.\n" +
		"\n| variable | type | meaning |\n|---|---|---|\n")
	text := func(name string, t TypeName, doc string) {
		evidenceRows(b, "", Field{Name: name, Type: Type{Name: t}, Doc: doc})
	}
	text("run", String, "ID of the run.")
	text("now", Timestamp, "The time.")
	text("since", Duration, "Time since the change took effect. Only in `verify.burn.error_ratio`.")
	evidenceRows(b, "", Field{Name: "alert", Type: Type{Name: Object, Fields: alertFields()}, Doc: "The alert that started the run. A label that an alert may lack needs `has(alert.labels.NAME)`."})
	evidenceRows(b, "", Field{Name: "alerts", Type: Type{Name: List, Elem: &Type{Name: Object}}, Doc: "The alerts of the run that fire, each as `alert` without annotations, oldest first, at most 100. When none fires: the one that started the run. A run whose parameters an alert changes before anything was done looks again."})
	evidenceRows(b, "", Field{Name: "service", Type: Type{Name: Object, Fields: ServiceFields()}, Doc: "The service, as the catalog has it."})
	evidenceRows(b, "", Field{Name: "out", Type: Type{Name: Object}, Doc: "Evidence of this state: in the `next` of a check, and the facts of its plan in that of a lever."})
	evidenceRows(b, "", Field{Name: "STATE", Type: Type{Name: Object, Fields: toldFields()}, Doc: "Evidence of an earlier check, by the name of its state. A notify with `once` has these, there and as `out`:"})
	evidenceRows(b, "", Field{Name: "NAME", Type: Type{Name: Object, Fields: gatheredFields(nil)}, Doc: "Evidence of a gather, by its own name: what its check declares, and:"})
	numbersReference(b)
	words := make([]string, 0, len(signals()))
	for _, s := range SignalsOf(StateLever) {
		words = append(words, string(s))
	}
	fmt.Fprintf(b, "\nThe `next` of a lever also has signals, which stand alone in `when`: `%s`. A gate has `approved`, `denied` and `expired`.\n", strings.Join(words, "`, `"))
}

// numbersReference writes which numbers and durations of a state can be
// expressions.
func numbersReference(b *strings.Builder) {
	b.WriteString("\nThese numbers and durations can be `${...}`. A run evaluates them when it enters the state, and those of `verify`\n" +
		"with the proof. A duration may also be its text. A value that is out of its limits, NaN or cannot be evaluated refuses\n" +
		"the lever; any other state fails. `step.by` and the parameters of steps can be `${...}`, too.\n" +
		"\n| number | type | allowed | default | meaning |\n|---|---|---|---|---|\n")
	for _, f := range numberFields() {
		fmt.Fprintf(b, "| `%s` | %s | %s | %s | %s |\n", f.Name, f.Type.Name, limitsOf(f), defaultWord(f), cell(f.Doc))
	}
	b.WriteString("\n`min(a, b)` and `max(a, b)` take two numbers or two durations.\n")
}

// reference writes one kind.
func reference(b *strings.Builder, k Kind) {
	fmt.Fprintf(b, "\n### %s\n", k.Name)
	if k.Doc != "" {
		fmt.Fprintf(b, "\n%s\n", strings.TrimSpace(k.Doc))
	}
	if len(k.With) == 0 {
		b.WriteString("\nIt takes no parameters.\n")
	} else {
		b.WriteString("\n| parameter | type | default | meaning |\n|---|---|---|---|\n")
		for _, f := range k.With {
			fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", f.Name, typeCell(f), defaultWord(f), cell(meaning(f)))
		}
	}
	if k.Steps != nil {
		fmt.Fprintf(b, "\n`%s` can be changed in steps: `step: {by: ..., times: ...}`.\n", k.Steps.Param)
	}
	for _, group := range k.OneOf {
		fmt.Fprintf(b, "\nExactly one of `%s` is given.\n", strings.Join(group, "`, `"))
	}
	if len(k.Out) == 0 {
		return
	}
	b.WriteString("\n| evidence | type | meaning |\n|---|---|---|\n")
	for _, f := range k.Out {
		evidenceRows(b, "", f)
	}
}

// evidenceRows writes a field and, prefixed with its name, its nested fields.
func evidenceRows(b *strings.Builder, prefix string, f Field) {
	fmt.Fprintf(b, "| `%s%s` | %s | %s |\n", prefix, f.Name, typeCell(f), cell(meaning(f)))
	inner, suffix := f.Type, "."
	if inner.Name == List && inner.Elem != nil {
		inner, suffix = *inner.Elem, "[]."
	}
	if inner.Name == Object {
		for _, sub := range inner.Fields {
			evidenceRows(b, prefix+f.Name+suffix, sub)
		}
	}
}

// typeCell returns a field's type and unit.
func typeCell(f Field) string {
	if f.Unit == "" {
		return typeWord(f.Type)
	}
	return typeWord(f.Type) + ", " + f.Unit
}

func typeWord(t Type) string {
	switch {
	case t.Name == List && t.Elem != nil:
		return "list of " + typeWord(*t.Elem)
	case t.Name == Map && t.Elem != nil:
		return "map to " + typeWord(*t.Elem)
	default:
		return string(t.Name)
	}
}

func defaultWord(f Field) string {
	switch {
	case f.Required:
		return "required"
	case f.Default != nil:
		return fmt.Sprintf("`%v`", plainDefault(f.Default))
	default:
		return ""
	}
}

// meaning returns a field's documentation with its words and limits.
func meaning(f Field) string {
	parts := []string{}
	if f.Doc != "" {
		parts = append(parts, f.Doc)
	}
	if len(f.Enum) > 0 {
		parts = append(parts, "One of `"+strings.Join(f.Words(), "`, `")+"`.")
	}
	if limits := limitsOf(f); limits != "" {
		parts = append(parts, strings.ToUpper(limits[:1])+limits[1:]+".")
	}
	return strings.Join(parts, " ")
}

// limitsOf describes the limits of a number or duration; empty: it has none.
func limitsOf(f Field) string {
	show := func(v float64) string { return fmt.Sprint(v) }
	if f.Type.Name == Duration {
		show = func(v float64) string { return FormatDuration(time.Duration(v * float64(time.Second))) }
	}
	least := f.Min
	if f.Type.Name == Duration && least != nil && *least == 0 {
		least = nil
	}
	switch {
	case f.Above != nil && f.Below != nil:
		return fmt.Sprintf("more than %s, less than %s", show(*f.Above), show(*f.Below))
	case f.Above != nil && f.Max != nil:
		return fmt.Sprintf("more than %s, at most %s", show(*f.Above), show(*f.Max))
	case f.Above != nil:
		return "more than " + show(*f.Above)
	case least != nil && f.Max != nil:
		return fmt.Sprintf("from %s to %s", show(*least), show(*f.Max))
	case least != nil:
		return "at least " + show(*least)
	case f.Max != nil:
		return "at most " + show(*f.Max)
	default:
		return ""
	}
}

// cell escapes text for a table.
func cell(s string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(s), " "), "|", `\|`)
}
