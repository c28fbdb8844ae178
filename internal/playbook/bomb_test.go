package playbook

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/inference-responder/responder/internal/yamldoc"
)

// Input made to cost: each is answered in moments and with words, whatever it
// unfolds to.
func TestBombs(t *testing.T) {
	repeat := func(s string) string { return strings.Repeat(s, (yamldoc.MaxFile-2048)/len(s)) }
	good := document1("x")
	condition := func(expr string) string {
		return "apiVersion: responder/v1alpha1\nkind: Playbook\nmetadata: {name: x, runbook: y}\nspec:\n  match: 'a=b'\n  start: look\n" +
			"  states:\n    done: {end: no-action}\n    look:\n      check: kube.workload\n      next: [{to: done, when: '" + expr + "'}, {to: done}]\n"
	}
	states := func(body string, n int) string {
		var b strings.Builder
		b.WriteString("apiVersion: responder/v1alpha1\nkind: Playbook\nmetadata: {name: x, runbook: y}\nspec:\n  match: 'a=b'\n  start: s0\n  states:\n    done: {end: no-action}\n")
		for i := range n {
			b.WriteString(strings.ReplaceAll(strings.ReplaceAll(body, "NEXT", "s"+strconv.Itoa(i+1)), "THIS", "s"+strconv.Itoa(i)))
		}
		b.WriteString("    s" + strconv.Itoa(n) + ": {end: no-action}\n")
		return b.String()
	}
	for name, text := range map[string]string{
		"brackets":          "a: " + repeat("["),
		"braces":            repeat("{a: "),
		"indents":           strings.Repeat(" ", 1000) + repeat("- "),
		"keys":              repeat("a: 1\n"),
		"different keys":    states("    THIS: {}\n", 60_000),
		"documents":         repeat("---\na\n"),
		"good documents":    strings.Repeat("---\n"+good, yamldoc.MaxDocs+1),
		"aliases":           "a: &a [" + repeat("*a,") + "]",
		"laughs":            "a: &a [x]\n" + strings.Repeat("b: [*a,*a]\n", 1000),
		"one line":          "a: '" + repeat("x") + "'",
		"quotes":            "a: \"" + repeat(`\"`) + "\"",
		"nul":               repeat("\x00"),
		"matchers":          strings.Replace(good, `'{alertname="x"}'`, "["+strings.Repeat(`'a=~"(x{1000}){1}y{900}z{800}"',`, 64)+"]", 1),
		"long matcher":      strings.Replace(good, `'{alertname="x"}'`, "'a=~\""+repeat("(a|b)")+"\"'", 1),
		"parentheses":       condition(repeat("(") + "1"),
		"long condition":    condition("true" + repeat(" || true")),
		"nested condition":  condition(strings.Repeat("[", 2000)),
		"macros":            condition(strings.Repeat("[1].all(a, ", 60) + "true" + strings.Repeat(")", 60)),
		"dollars":           strings.Replace(good, "{end: no-action}", "{notify: '"+repeat("${")+"'}", 1),
		"many expressions":  states("    THIS: {notify: '"+strings.Repeat("${run}", 50)+"', next: NEXT}\n", 200),
		"chain of states":   states("    THIS: {notify: 'x', next: NEXT}\n", 20_000),
		"states, all edges": states("    THIS: {check: kube.workload, next: ["+strings.Repeat("{to: NEXT, when: 'out.ready > 0'},", 30)+"{to: NEXT}]}\n", 240),
		"long query":        states("    THIS: {check: prometheus.query, with: {query: 'sum("+strings.Repeat("(", 3000)+"'}, next: NEXT}\n", 3),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			_, err := Parse("bomb.yaml", []byte(text), testKinds())
			if took := time.Since(began); took > 30*time.Second {
				t.Errorf("took %v", took)
			} else if took > 2*time.Second {
				t.Logf("took %v", took)
			}
			if err != nil && len(err.Error()) > 256<<10 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}
