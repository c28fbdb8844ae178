package kinds_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/inference-responder/responder/internal/step/kinds"
)

// TestEveryLeverConforms fails for a lever that no test of this directory holds to
// the contract: it is named in no test function that calls steptest.TestLever.
func TestEveryLeverConforms(t *testing.T) {
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	held := map[string]bool{}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			for _, kind := range heldToContract(decl) {
				held[kind] = true
			}
		}
	}
	for name, kind := range kinds.All() {
		if kind.Check == nil && !held[name] {
			t.Errorf("lever %s has no conformance test: call steptest.TestLever for it, as docs/contributing/add-a-lever.md says", name)
		}
	}
}

// heldToContract returns the texts in a function that calls steptest.TestLever, among
// which are the kinds that it calls it for.
func heldToContract(decl ast.Decl) (texts []string) {
	calls := false
	ast.Inspect(decl, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			pkg, ok := n.X.(*ast.Ident)
			calls = calls || ok && pkg.Name == "steptest" && n.Sel.Name == "TestLever"
		case *ast.BasicLit:
			if text, err := strconv.Unquote(n.Value); err == nil {
				texts = append(texts, text)
			}
		}
		return true
	})
	if !calls {
		return nil
	}
	return texts
}
