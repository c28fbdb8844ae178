package playbook

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// schemaObject is a JSON Schema, or a part of one. encoding/json sorts its
// keys, so the generated file is stable.
type schemaObject map[string]any

// Schema returns the JSON Schema (draft 2020-12) of playbook documents, with
// the parameters of these kinds. It is for editors; loading checks far more.
func Schema(kinds []Kind) []byte {
	defs := schemaObject{
		"duration": schemaObject{
			"type": "string", "pattern": `^([0-9]+(ms|[smhdwy]))+$`,
			"description": "A duration such as 30s, 5m, 1h30m or 2d.",
		},
		"expression": schemaObject{"type": "string", "pattern": `\$\{`, "description": "${CEL} that yields the value."},
		"name":       schemaObject{"type": "string", "pattern": nameForm.String()},
		"autonomy":   wordsSchema("How far a run may go without a person.", "observe", "suggest", "auto"),
		"edge":       edgeSchema(),
		"next": schemaObject{"oneOf": []any{
			schemaObject{"$ref": "#/$defs/name"},
			schemaObject{"type": "array", "minItems": 1, "items": schemaObject{"$ref": "#/$defs/edge"}},
		}},
		"retry": closed(nil, schemaObject{
			"attempts": numberSchema(NumberAttempts), "backoff": numberSchema(NumberBackoff),
		}),
		"approve": closed([]string{"by", "within"}, schemaObject{
			"by": oneOrMore(schemaObject{"type": "string", "pattern": `^((service|node)\.owners|(user|group):[^\s:]+)$`, "description": "Who may decide. node.owners are the owners of the pool that the lever's node is in, by node_pools of the configuration; of a node in no pool, the service's."}), "within": numberSchema(NumberApprove),
			"on_expiry": wordsSchema("Outcome if nobody decides in time. It never approves.", string(ExpiryEscalate), string(ExpiryDeny)),
			"quorum":    numberSchema(NumberQuorum),
			"always":    schemaObject{"type": "boolean", "description": "Ask even at level auto."},
		}),
		"guards": closed(nil, schemaObject{
			"cooldown": numberSchema(NumberCooldown), "evidence_age": numberSchema(NumberEvidenceAge), "min_ready": numberSchema(NumberMinReady),
		}),
		"verify": verifySchema(),
		"state":  stateSchema(kinds, defsOf(kinds)),

		"gathering": gatheringSchema(kinds, defsOf(kinds)),
	}
	maps.Copy(defs, defsOf(kinds))
	root := closed([]string{"apiVersion", "kind", "metadata", "spec"}, schemaObject{
		"apiVersion": schemaObject{"const": APIVersion},
		"kind":       schemaObject{"const": "Playbook"},
		"metadata": closed([]string{"name", "runbook"}, schemaObject{
			"name":        described(def("name"), "Its name, by which configuration, policy and other playbooks mean it."),
			"title":       described(text(), "One line for people."),
			"description": described(text(), "What it is for, and why it is built as it is."),
			"runbook":     described(text(), "The runbook that it encodes: an address, or its name."),
		}),
		"spec": closed([]string{"match", "start", "states"}, schemaObject{
			"match": schemaObject{"oneOf": []any{text(), schemaObject{"type": "array", "items": text()}}, "description": "Alertmanager matchers, of which one must match. Empty list: no alert starts it, only people, loans and other playbooks."}, "services": described(oneOrMore(text()), "Names of the services that it is only for. Default: all."),
			"autonomy": described(def("autonomy"), "How far a run may go without a person, at most."), "start": described(def("name"), "The state in which a run begins."),
			"let": schemaObject{
				"type": "object", "propertyNames": schemaObject{"pattern": letForm.String()}, "additionalProperties": text(),
				"description": "Names for CEL expressions, which conditions and ${...} can use.",
			},
			"states": schemaObject{
				"description": "The states by their names.",
				"type":        "object", "minProperties": 1, "maxProperties": maxStates,
				"propertyNames": def("name"), "additionalProperties": def("state"),
			},
		}),
	})
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["title"] = "Responder playbook"
	root["$defs"] = defs
	out, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		panic("playbook: schema cannot be encoded: " + err.Error()) // unreachable unless a default is not JSON
	}
	return append(out, '\n')
}

// numberSchema returns the schema of a number or duration of a state, by its
// path. It may be an expression.
func numberSchema(path string) schemaObject { return fieldSchema(numberField(path)) }

func def(name string) schemaObject { return schemaObject{"$ref": "#/$defs/" + name} }

func text() schemaObject { return schemaObject{"type": "string", "minLength": 1} }

func oneOrMore(item schemaObject) schemaObject {
	return schemaObject{"oneOf": []any{item, schemaObject{"type": "array", "minItems": 1, "items": item}}}
}

func channelsSchema() schemaObject {
	s := oneOrMore(def("name"))
	s["description"] = "Configured channels to notify. Default: those marked default."
	return s
}

func wordsSchema(doc string, words ...string) schemaObject {
	return schemaObject{"type": "string", "enum": words, "description": doc}
}

// described returns a schema with a description.
func described(s schemaObject, doc string) schemaObject {
	s["description"] = doc
	return s
}

// closed returns an object with these properties and no others.
func closed(required []string, properties schemaObject) schemaObject {
	s := schemaObject{"type": "object", "additionalProperties": false, "properties": properties}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

func edgeSchema() schemaObject {
	words := make([]string, 0, len(signals()))
	for _, s := range signals() {
		words = append(words, string(s))
	}
	s := closed([]string{"to"}, schemaObject{
		"when":  schemaObject{"type": "string", "description": "CEL condition, or a signal of a lever or gate."},
		"on":    wordsSchema("Signal of a lever or gate.", words...),
		"to":    def("name"),
		"label": schemaObject{"type": "string", "description": "Text in diagrams."},
	})
	s["not"] = schemaObject{"required": []string{"when", "on"}}
	return s
}

func measureSchema() schemaObject {
	var names []string
	for _, m := range Measures {
		names = append(names, m.Name)
	}
	return schemaObject{
		"type": "string", "pattern": `^\s*engine\.(` + strings.Join(names, "|") + `)\s+(<|<=|>|>=|==)\s+(\S+|\$\{.+\})\s*$`,
		"description": "A measure of the service's engine, by its own series, e.g. engine.preemptions_per_second == 0.",
	}
}

func verifySchema() schemaObject {
	expectation := closed([]string{"query", "op", "value"}, schemaObject{
		"query": described(text(), "PromQL, one number."), "op": wordsSchema("Comparison that must hold.", ops()...), "value": numberSchema(numberLimit),
		"name": schemaObject{"type": "string", "minLength": 1, "maxLength": maxWords, "description": "What the query measures, in words; shown in place of the expression."},
		"unit": schemaObject{"type": "string", "minLength": 1, "maxLength": maxWords, "description": "Unit of the number. A unit that begins with ratio is shown in percent."},
	})
	s := closed(nil, schemaObject{
		"also":   oneOrMore(schemaObject{"anyOf": []any{expectation, measureSchema()}}),
		"within": numberSchema(numberProof), "hold": numberSchema(numberProofHold), "interval": numberSchema(numberInterval),
		"until": oneOrMore(schemaObject{"anyOf": []any{expectation, measureSchema()}}),
		"burn": closed([]string{"error_ratio", "objective"}, schemaObject{
			"error_ratio": schemaObject{"type": "string", "pattern": `\$\{\s*since\s*\}`, "description": "PromQL with ${since}, the window from the fix to now."},
			"objective":   numberSchema(numberObjective),
			"max":         numberSchema(numberMaxBurn),
		}),
		"traffic": closed([]string{"query", "min_rate"}, schemaObject{
			"query": described(text(), "PromQL, requests per second."), "min_rate": numberSchema(numberMinRate), "min_share": numberSchema(numberMinShare),
		}),
		"allow_no_traffic": schemaObject{"type": "boolean", "description": "Let the proof hold without traffic."},
	})
	own := schemaObject{"required": []string{"within", "hold", "until"}, "anyOf": []any{
		schemaObject{"required": []string{"traffic"}}, schemaObject{"required": []string{"allow_no_traffic"}},
	}}
	s["if"], s["then"] = schemaObject{"anyOf": []any{
		schemaObject{"required": []string{"until"}}, schemaObject{"required": []string{"burn"}}, schemaObject{"required": []string{"traffic"}},
	}}, own
	s["description"] = "The proof that the change helped. Default: the service's objectives. also adds conditions; until replaces the objectives. Queries read at most the last hour."
	return s
}

// waitSchema returns the schema of wait: a duration, or a check that must hold.
func waitSchema(kinds []Kind) schemaObject {
	var checks []string
	for _, k := range kinds {
		if k.Role == RoleCheck {
			checks = append(checks, k.Name)
		}
	}
	slices.Sort(checks)
	return schemaObject{"oneOf": []any{def("duration"), def("expression"), closed([]string{"check", "until", "within"}, schemaObject{
		"check": wordsSchema("The check that is asked again and again.", checks...), "with": schemaObject{"type": "object"},
		"until": schemaObject{"type": "string", "minLength": 1, "description": "CEL over the check's evidence: what is waited for."},
		"hold":  numberSchema(NumberHold), "every": numberSchema(NumberEvery), "within": numberSchema(NumberWithin),
	})}, "description": "Waits for a time, or until a check has held."}
}

// stateSchema returns the schema of a state: of one kind, with the fields of
// that kind.
func stateSchema(kinds []Kind, with schemaObject) schemaObject {
	names := map[StateKind][]string{}
	for _, k := range kinds {
		role := StateKind(k.Role)
		names[role] = append(names[role], k.Name)
	}
	kind := map[StateKind]schemaObject{
		StateGather: {
			"type": "object", "minProperties": 1, "maxProperties": maxGather, "propertyNames": def("name"), "additionalProperties": def("gathering"),
			"description": "Runs several checks side by side; each evidence has its own name.",
		},
		StateCheck:  wordsSchema("Reads the world, changes nothing.", slices.Sorted(slices.Values(names[StateCheck]))...),
		StateLever:  wordsSchema("One mutating, reversible, single-variable change.", slices.Sorted(slices.Values(names[StateLever]))...),
		StateGate:   {"type": "string", "minLength": 1, "description": "A human decision: the question."},
		StateWait:   waitSchema(kinds),
		StateDivert: described(def("name"), "Hands over to another playbook: its name."),
		StateNotify: {"type": "string", "minLength": 1, "description": "Tells people: the text."},
		StateEnd:    wordsSchema("How the run ends.", string(EndResolved), string(EndEscalated), string(EndNoAction)),
	}
	field := schemaObject{
		"title": described(text(), "One line for people. Default: the name."), "with": schemaObject{"type": "object", "description": "What the step is given."},
		"next": described(def("next"), "Where the run goes: the first edge that holds."), "on_error": described(def("name"), "Where it goes when the check fails."),
		"timeout": numberSchema(NumberTimeout), "retry": def("retry"), "autonomy": def("autonomy"),
		"approve": def("approve"), "verify": def("verify"), "guards": def("guards"), "to": channelsSchema(),
		"once": schemaObject{"type": "string", "minLength": 1, "description": "Tells people only if no other run has told the same text in this incident, within the last hour. out.first says whether this run did."},
		"step": closed([]string{"by", "times"}, schemaObject{
			"by":    schemaObject{"anyOf": []any{schemaObject{"type": "number"}, def("expression")}, "description": "What each step changes: of kube.scale, kube.autoscaler and gitops.set_replicas the replicas to add, of gitops.set_flag the difference to the value of the step before."},
			"times": numberSchema(NumberTimes),
			"via":   schemaObject{"$ref": "#/$defs/name", "description": "The gather or check state that the run enters between two steps. Its edges lead to the next step, or elsewhere. Without it, the next step follows at once."},
		}),
		"undo": oneOrMore(wordsSchema("A verdict after which the change is taken back at once, whatever its class says.", string(OnNoEffect), string(OnInconclusive))),
	}
	required := map[StateKind][]string{
		StateCheck: {"next"}, StateGather: {"next"}, StateLever: {"next"}, StateGate: {"approve", "next"}, StateNotify: {"next"}, StateWait: {"next"},
	}
	var forms []any
	for _, k := range stateKinds() {
		props := schemaObject{k: kind[StateKind(k)]}
		for _, f := range fieldsOf(StateKind(k)) {
			props[f] = field[f]
		}
		forms = append(forms, closed(append([]string{k}, required[StateKind(k)]...), props))
	}
	s := schemaObject{"oneOf": forms}
	if steps := stepsSchema(kinds, with); len(steps) > 0 {
		s["allOf"] = steps
	}
	return s
}

// gatheringSchema returns the schema of one check of a gather.
func gatheringSchema(kinds []Kind, with schemaObject) schemaObject {
	kinds = slices.DeleteFunc(slices.Clone(kinds), func(k Kind) bool { return k.Role != RoleCheck })
	names := make([]string, 0, len(kinds))
	for _, k := range kinds {
		names = append(names, k.Name)
	}
	slices.Sort(names)
	s := closed([]string{"check"}, schemaObject{"check": wordsSchema("Reads the world, changes nothing.", names...), "with": schemaObject{"type": "object"}})
	if steps := stepsSchema(kinds, with); len(steps) > 0 {
		s["allOf"] = steps
	}
	return s
}

// stepsSchema returns which parameters follow from the kind of a step.
func stepsSchema(kinds []Kind, with schemaObject) []any {
	var steps []any
	for _, k := range kinds {
		needs := []string{}
		if d, ok := with["with."+k.Name].(schemaObject); ok && d["required"] != nil {
			needs = []string{"with"}
		}
		steps = append(steps, schemaObject{
			"if":   schemaObject{"properties": schemaObject{string(k.Role): schemaObject{"const": k.Name}}, "required": []string{string(k.Role)}},
			"then": schemaObject{"properties": schemaObject{"with": def("with." + k.Name)}, "required": needs},
		})
	}
	return steps
}

// defsOf returns the definitions of the kinds' parameters.
func defsOf(kinds []Kind) schemaObject {
	out := schemaObject{}
	for _, k := range kinds {
		s := fieldsSchema(k.With)
		s["description"] = k.Doc
		if len(k.OneOf) > 0 {
			var groups []any
			for _, group := range k.OneOf {
				if k.Steps != nil && k.Steps.Relative && slices.Contains(group, k.Steps.Param) {
					groups = append(groups, schemaObject{"not": schemaObject{"required": group}}) // step may give it
					continue
				}
				var one []any
				for _, name := range group {
					one = append(one, schemaObject{"required": []string{name}})
				}
				groups = append(groups, schemaObject{"oneOf": one})
			}
			s["allOf"] = groups
		}
		out["with."+k.Name] = s
	}
	return out
}

func fieldsSchema(fields []Field) schemaObject {
	props, required := schemaObject{}, []string(nil)
	for _, f := range fields {
		props[f.Name] = fieldSchema(f)
		if f.Required {
			required = append(required, f.Name)
		}
	}
	return closed(required, props)
}

// fieldSchema returns the schema of one parameter: its constant form, or an
// expression.
func fieldSchema(f Field) schemaObject {
	s := schemaObject{}
	switch f.Type.Name {
	case String, Query:
		s["type"] = "string"
		if len(f.Enum) > 0 {
			s["anyOf"] = []any{schemaObject{"enum": f.Enum}, def("expression")}
		}
	case Int, Double:
		n := schemaObject{"type": map[TypeName]string{Int: "integer", Double: "number"}[f.Type.Name]}
		if f.Min != nil {
			n["minimum"] = *f.Min
		}
		if f.Max != nil {
			n["maximum"] = *f.Max
		}
		if f.Above != nil {
			n["exclusiveMinimum"] = *f.Above
		}
		if f.Below != nil {
			n["exclusiveMaximum"] = *f.Below
		}
		s["anyOf"] = []any{n, def("expression")}
	case Bool:
		s["anyOf"] = []any{schemaObject{"type": "boolean"}, def("expression")}
	case Duration:
		s["anyOf"] = []any{def("duration"), def("expression")}
	case List:
		s["type"] = "array"
		s["items"] = fieldSchema(elemField("", f.Type))
	case Map:
		s["type"] = "object"
		s["additionalProperties"] = fieldSchema(elemField("", f.Type))
	case Object:
		s = fieldsSchema(f.Type.Fields)
	}
	if doc := describe(f); doc != "" {
		s["description"] = doc
	}
	if f.Default != nil {
		s["default"] = plainDefault(f.Default)
	}
	return s
}

// describe returns a field's documentation with its unit.
func describe(f Field) string {
	if f.Unit == "" {
		return f.Doc
	}
	if f.Doc == "" {
		return "In " + f.Unit + "."
	}
	return f.Doc + " In " + f.Unit + "."
}
