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

// apiReference describes the requests and answers of the API from the source of their types.
func apiReference() string {
	var b strings.Builder
	b.WriteString(generatedNote + "# HTTP API\n\n")
	types := ""
	for _, file := range apiFiles() {
		if file.Doc != nil {
			_, text, _ := strings.Cut(file.Doc.Text(), "# Fields")
			b.WriteString("`/api/v1` and `-o json` answer the same JSON.\n\n" + markdownDoc("# Fields"+text))
		}
		types += apiTypes(file)
	}
	b.WriteString(endpointTable() + types)
	return strings.TrimSuffix(b.String(), "\n")
}

// apiFiles returns the files of package api that have its types.
func apiFiles() []*ast.File {
	var out []*ast.File
	for _, name := range []string{"doc.go", "run.go", "event.go", "lever.go", "gate.go", "service.go", "session.go", "sandbox.go", "alert.go", "node.go", "journal.go", "request.go", "dryrun.go", "policy.go", "report.go", "period.go", "backup.go"} {
		source, err := api.Source.ReadFile(name)
		if err != nil {
			panic("cli: " + err.Error()) // unreachable: the files are embedded by name
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, source, parser.ParseComments)
		if err != nil {
			panic("cli: " + err.Error()) // unreachable: the file was compiled
		}
		out = append(out, file)
	}
	return out
}

// An apiStruct is a type of package api.
type apiStruct struct {
	name, doc string
	fields    *ast.FieldList
}

// structsOf returns the structs of a file, in its order.
func structsOf(file *ast.File) []apiStruct {
	var out []apiStruct
	for _, decl := range file.Decls {
		general, ok := decl.(*ast.GenDecl)
		if !ok || general.Tok != token.TYPE {
			continue
		}
		for _, spec := range general.Specs {
			named := spec.(*ast.TypeSpec) // unreachable otherwise: the declaration is one of types
			if fields, ok := named.Type.(*ast.StructType); ok {
				out = append(out, apiStruct{named.Name.Name, general.Doc.Text(), fields.Fields})
			}
		}
	}
	return out
}

// apiStructs returns the structs of package api by their names.
func apiStructs() map[string]apiStruct {
	out := map[string]apiStruct{}
	for _, file := range apiFiles() {
		for _, s := range structsOf(file) {
			out[s.name] = s
		}
	}
	return out
}

func markdownDoc(text string) string {
	var p comment.Parser
	printer := comment.Printer{HeadingLevel: 2, HeadingID: func(*comment.Heading) string { return "" }}
	return string(printer.Markdown(p.Parse(text))) + "\n"
}

// apiTypes describes every struct of a file.
func apiTypes(file *ast.File) string {
	var b strings.Builder
	for _, s := range structsOf(file) {
		fmt.Fprintf(&b, "## %s\n\n%s| field | type | |\n|---|---|---|\n", s.name, markdownDoc(s.doc))
		for _, f := range s.fields.List {
			b.WriteString(apiField(f))
		}
		b.WriteString("\n")
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
