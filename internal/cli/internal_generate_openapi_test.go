package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// answers are files of internal/api/testdata, with the type of package api that each has.
var answers = map[string]string{
	"run": "RunDetail", "runs": "RunList", "event": "Event", "alerts": "AlertList", "services": "ServiceList", "playbooks": "PlaybookList",
	"pauses": "PauseList", "ladder": "LeverList", "last_good": "LastGoodList", "audit": "AuditPage", "journal": "JournalStatus",
	"journal_archive": "JournalArchive", "journal_request": "JournalArchiveRequest", "readyz": "Readiness", "start": "StartRequest",
	"decide": "DecisionRequest", "sandbox": "Sandbox", "sandbox_fire": "SandboxFire", "sandbox_fired": "SandboxFired", "pause": "PauseRequest",
	"promote": "Promotion", "digest_page": "DigestPage", "report_preview": "ReportPreview",
}

// A client that is generated from the document has a type for each answer, and it fits.
func TestOpenAPI(t *testing.T) {
	var document object
	if err := json.Unmarshal([]byte(openAPI()), &document); err != nil {
		t.Fatal(err)
	}
	schemas := document["components"].(object)["schemas"].(object)
	var refs func(at string, v any)
	refs = func(at string, v any) {
		switch v := v.(type) {
		case object:
			if to, ok := v["$ref"].(string); ok && schemas[strings.TrimPrefix(to, "#/components/schemas/")] == nil {
				t.Errorf("%s leads to %s, which is not there", at, to)
			}
			for k := range v {
				refs(at+"/"+k, v[k])
			}
		case []any:
			for _, x := range v {
				refs(at, x)
			}
		}
	}
	refs("", document)
	for _, file := range slices.Sorted(maps.Keys(answers)) {
		data, err := os.ReadFile(filepath.Join("..", "api", "testdata", file+".golden.json"))
		if err != nil {
			t.Fatal(err)
		}
		var answer any
		if err := json.Unmarshal(data, &answer); err != nil {
			t.Fatal(err)
		}
		if wrong := mismatch(schemas, object{"$ref": "#/components/schemas/" + answers[file]}, answer); wrong != "" {
			t.Errorf("%s.golden.json is no %s: %s", file, answers[file], wrong)
		}
	}
}

// mismatch returns why a value does not have a schema; empty: it does. Properties that the
// schema does not name are mismatches, too: the document would not have all.
func mismatch(schemas, schema object, v any) string {
	known := flattened(schemas, schema)
	kind, _ := known["type"].(string)
	switch got := fmt.Sprintf("%T", v); kind {
	case "":
		return ""
	case "string", "boolean", "number", "integer":
		want := map[string]string{"string": "string", "boolean": "bool", "number": "float64", "integer": "float64"}[kind]
		if got != want {
			return fmt.Sprintf("%v is no %s", v, kind)
		}
		return ""
	}
	if list, ok := v.([]any); ok && kind == "array" {
		for _, x := range list {
			if wrong := mismatch(schemas, known["items"].(object), x); wrong != "" {
				return "[]: " + wrong
			}
		}
		return ""
	}
	members, ok := v.(object)
	if !ok || kind != "object" {
		return fmt.Sprintf("%v is no %s", v, kind)
	}
	properties, _ := known["properties"].(object)
	for name, member := range members {
		of, there := properties[name].(object)
		if !there {
			of, there = known["additionalProperties"].(object)
		}
		if !there {
			return name + ": the schema does not have it"
		}
		if wrong := mismatch(schemas, of, member); wrong != "" {
			return name + ": " + wrong
		}
	}
	for _, name := range known["required"].([]any) {
		if _, there := members[name.(string)]; !there {
			return fmt.Sprint(name, ": is missing")
		}
	}
	return ""
}

// flattened returns a schema with what it refers to and what it is composed of.
func flattened(schemas, schema object) object {
	if to, ok := schema["$ref"].(string); ok {
		schema = schemas[strings.TrimPrefix(to, "#/components/schemas/")].(object)
	}
	out := maps.Clone(schema)
	properties, required := object{}, []any{}
	add := func(s object) {
		if p, ok := s["properties"].(object); ok {
			maps.Copy(properties, p)
		}
		if r, ok := s["required"].([]any); ok {
			required = append(required, r...)
		}
	}
	add(schema)
	if all, ok := schema["allOf"].([]any); ok {
		for _, part := range all {
			add(flattened(schemas, part.(object)))
		}
	}
	out["properties"], out["required"] = properties, required
	return out
}
