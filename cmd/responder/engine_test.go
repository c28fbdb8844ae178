package main

import (
	"net/http"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/inference-responder/responder/internal/engine/golden/goldentest"
)

// engines are those that scripts started, by their names.
type engines map[string]*goldentest.Engine

// startEngine NAME starts an engine, whose address is $NAME; NAME wrong, NAME hang and
// NAME right change how it answers.
func (e engines) start(t *testing.T) func(*testscript.TestScript, bool, []string) {
	t.Helper()
	return func(ts *testscript.TestScript, _ bool, args []string) {
		name := ts.Name() + args[0]
		if len(args) == 1 {
			e[name] = goldentest.Start(t, goldentest.Options{Token: "sesame"})
			ts.Setenv(args[0], e[name].URL)
			return
		}
		e[name].Change(func(o *goldentest.Options) {
			o.Broken, o.Handler = args[1] == "wrong", nil
			if args[1] == "hang" {
				o.Handler = func(_ http.ResponseWriter, r *http.Request) bool { <-r.Context().Done(); return true }
			}
		})
	}
}
