package cli

import (
	"fmt"
	"go/ast"
	"go/doc/comment"
	"go/parser"
	"go/token"
	"reflect"
	"strings"

	"github.com/inference-responder/responder/internal/api"
)

const apiEndpoints = `## Endpoints

Every request but those for health, readiness and metrics carries a credential with the scope in the second column:
see [authentication](../how-to/authentication.md). An answer that is not a success is ` + "`" + `{"error": ` + "…}`" + ` with a
[Problem](#problem). Requests with an unknown field are refused.

| request | scope | answer |
|---|---|---|
| ` + "`POST /api/v1/alertmanager`" + ` | intake | 200 once the notification of Alertmanager is on disk |
| ` + "`GET /api/v1/runs`" + ` | read | [RunList](#runlist); ` + "`service`, `playbook`, `open` and `limit`" + ` select |
| ` + "`POST /api/v1/runs`" + ` | start | [RunDetail](#rundetail), 201 for a new run; body [StartRequest](#startrequest); the header ` + "`Idempotency-Key`" + ` names the request |
| ` + "`GET /api/v1/runs/{run}`" + ` | read | [RunDetail](#rundetail) |
| ` + "`GET /api/v1/runs/{run}/events`" + ` | read | one [Event](#event) a line; ` + "`from`" + ` is the first seq, ` + "`follow=1`" + ` goes on until the run ends |
| ` + "`POST /api/v1/runs/{run}/approve`, `deny`, `replan`" + ` | approve | [RunDetail](#rundetail); body [DecisionRequest](#decisionrequest) |
| ` + "`POST /api/v1/runs/{run}/cancel`, `resolve`, `release`, `proceed`" + ` | cancel, resolve, release; release for proceed | [RunDetail](#rundetail); body [DecisionRequest](#decisionrequest) |
| ` + "`GET /api/v1/alerts`" + ` | read | [AlertList](#alertlist); ` + "`firing`, `no_run`, `alert` (the beginning of an episode) and `limit`" + ` select |
| ` + "`GET /api/v1/report`" + ` | read | [DigestPage](#digestpage); ` + "`since` (a time), `until`, `service`, `playbook`, `before` and `limit` (at most 200 runs looked at)" + ` select |
| ` + "`GET /api/v1/report/preview`" + ` | read | [ReportPreview](#reportpreview); ` + "`name` of a report of the configuration, and `since` (a time)" + ` |
| ` + "`GET`, `POST`, `DELETE /api/v1/pauses`" + ` | read, pause, unpause | [PauseList](#pauselist); body [PauseRequest](#pauserequest), for DELETE also as query |
| ` + "`GET /api/v1/ladder`" + ` | read | [LeverList](#leverlist); ` + "`service` and `playbook`" + ` select |
| ` + "`POST /api/v1/ladder/promote`" + ` | promote | [LeverList](#leverlist); body [Promotion](#promotion) |
| ` + "`GET /api/v1/last-good`" + ` | read | [LastGoodList](#lastgoodlist); ` + "`service`" + ` selects |
| ` + "`GET /api/v1/services`" + ` | read | [ServiceList](#servicelist) |
| ` + "`GET /api/v1/nodes`" + ` | read | [NodeList](#nodelist); the cluster is read at most every 30 seconds |
| ` + "`GET /api/v1/playbooks`" + ` | read | [PlaybookList](#playbooklist) |
| ` + "`GET /api/v1/audit`" + ` | read | [AuditPage](#auditpage); ` + "`from`, `limit`, `stream` and `kind`" + ` select |
| ` + "`GET /api/v1/audit/checkpoint`" + ` | read | the latest signed checkpoint, as a signed note |
| ` + "`GET /api/v1/audit/export`" + ` | admin | a copy of the journal |
| ` + "`GET /api/v1/journal`" + ` | read | [JournalStatus](#journalstatus) |
| ` + "`POST /api/v1/journal/archive`" + ` | admin | [JournalArchive](#journalarchive); body [JournalArchiveRequest](#journalarchiverequest) |
| ` + "`GET`, `DELETE /api/v1/sessions`" + ` | sessions | [SessionList](#sessionlist); body of DELETE [SessionEnd](#sessionend) |
| ` + "`GET /api/v1/sandbox`" + ` | read | [Sandbox](#sandbox); 404 if the cluster is real |
| ` + "`POST /api/v1/sandbox/fire`" + ` | start | [SandboxFired](#sandboxfired), 202 if a scenario is named; body [SandboxFire](#sandboxfire); 404 if the cluster is real |
| ` + "`GET /api/v1/version`" + ` | read | the version of the program |
| ` + "`GET /readyz`" + ` | | [Readiness](#readiness) |
| ` + "`GET /healthz`" + ` | | text |
| ` + "`GET /metrics`" + ` | metrics | text |

`

// apiReference describes the requests and answers of the API from the source of their types.
func apiReference() string {
	var b strings.Builder
	b.WriteString(generatedNote + "# HTTP API\n\n")
	types := ""
	for _, name := range []string{"doc.go", "run.go", "event.go", "lever.go", "gate.go", "service.go", "session.go", "sandbox.go", "alert.go", "node.go", "journal.go", "request.go", "dryrun.go", "policy.go", "report.go", "period.go", "backup.go"} {
		source, err := api.Source.ReadFile(name)
		if err != nil {
			panic("cli: " + err.Error()) // unreachable: the files are embedded by name
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, source, parser.ParseComments)
		if err != nil {
			panic("cli: " + err.Error()) // unreachable: the file was compiled
		}
		if file.Doc != nil {
			_, text, _ := strings.Cut(file.Doc.Text(), "# Fields")
			b.WriteString("`/api/v1` and `-o json` answer the same JSON.\n\n" + markdownDoc("# Fields"+text))
		}
		types += apiTypes(file)
	}
	b.WriteString(apiEndpoints + types)
	return strings.TrimSuffix(b.String(), "\n")
}

func markdownDoc(text string) string {
	var p comment.Parser
	printer := comment.Printer{HeadingLevel: 2, HeadingID: func(*comment.Heading) string { return "" }}
	return string(printer.Markdown(p.Parse(text))) + "\n"
}

// apiTypes describes every struct of a file.
func apiTypes(file *ast.File) string {
	var b strings.Builder
	for _, decl := range file.Decls {
		general, ok := decl.(*ast.GenDecl)
		if !ok || general.Tok != token.TYPE {
			continue
		}
		for _, spec := range general.Specs {
			named := spec.(*ast.TypeSpec) // unreachable otherwise: the declaration is one of types
			fields, ok := named.Type.(*ast.StructType)
			if !ok {
				continue
			}
			fmt.Fprintf(&b, "## %s\n\n%s| field | type | |\n|---|---|---|\n", named.Name.Name, markdownDoc(general.Doc.Text()))
			for _, f := range fields.Fields.List {
				b.WriteString(apiField(f))
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}

func apiField(f *ast.Field) string {
	if len(f.Names) == 0 {
		return fmt.Sprintf("| | %s | its fields |\n", apiType(f.Type))
	}
	name, options, _ := strings.Cut(reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("json"), ",")
	what := apiType(f.Type)
	if options != "" {
		what += ", optional"
	}
	return fmt.Sprintf("| `%s` | %s | %s |\n", name, what, tableCell(strings.TrimSpace(f.Comment.Text())))
}

// apiType is the type of a field as JSON has it.
func apiType(t ast.Expr) string {
	switch t := t.(type) {
	case *ast.StarExpr:
		return apiType(t.X)
	case *ast.ArrayType:
		return "list of " + apiType(t.Elt)
	case *ast.MapType:
		return "object of " + apiType(t.Value)
	case *ast.SelectorExpr:
		return map[string]string{"Time": "time", "RawMessage": "any"}[t.Sel.Name]
	case *ast.Ident:
		if word, plain := map[string]string{
			"string": "string", "bool": "boolean", "int": "number", "int64": "number", "uint64": "number", "float64": "number", "any": "any",
		}[t.Name]; plain {
			return word
		}
		return fmt.Sprintf("[%s](#%s)", t.Name, strings.ToLower(t.Name))
	default:
		return ""
	}
}
