package sandbox

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/parser"

	slorules "github.com/inference-responder/responder/internal/slo/rules"
)

// The sandbox fires what a cluster fires whose rules 'responder slo rules' made of the
// default objectives, for all services in one rule.
func TestRulesAreThoseOfObjectives(t *testing.T) {
	t.Run("vllm", func(t *testing.T) { compareRules(t, "vllm", 0.5, 0.05) })
	t.Run("sglang", func(t *testing.T) { compareRules(t, "sglang", 0.6, 0.1) })
}

func compareRules(t *testing.T, engine string, ttft, tpot float64) {
	const month, by = 28 * 24 * time.Hour, "namespace, service, model_name"
	service := slorules.Service{Name: "s", Engine: engine, SLOs: []slorules.SLO{
		{Name: "ttft", Indicator: "ttft", Objective: 0.99, Window: month, Threshold: ttft, By: by},
		{Name: "tpot", Indicator: "tpot", Objective: 0.99, Window: month, Threshold: tpot, By: by},
	}}
	objectives, _, err := service.Objectives()
	if err != nil {
		t.Fatal(err)
	}
	alerts := map[string]slorules.Rule{}
	for _, o := range objectives {
		g, _, err := o.Group()
		if err != nil {
			t.Fatal(err)
		}
		records := map[string]string{}
		for _, r := range g.Rules {
			if r.Record != "" {
				records[r.Record] = "(" + r.Expr + ")"
				continue
			}
			for name, body := range records {
				r.Expr = strings.ReplaceAll(r.Expr, name+`{slo_id="`+o.ID+`"}`, body)
			}
			alerts[r.Alert] = r
		}
	}
	for _, r := range rules(engine) {
		made := alerts[r.alert]
		if want, got := normal(t, made.Expr), normal(t, r.expr()); got != want {
			t.Errorf("%s:\n objective: %s\n sandbox:   %s", r.alert, want, got)
		}
		if l := made.Labels; l["severity"] != "critical" || l["short"] != r.short || l["long"] != r.long {
			t.Errorf("%s: its rule has the labels %v", r.alert, l)
		}
	}
}

// older are the names that engines of former versions export: an engine has one of them.
var older = regexp.MustCompile(`orrate[^]]*\]`)

// normal is the expression as the parser writes it, without parentheses and [older].
func normal(t *testing.T, expr string) string {
	t.Helper()
	e, err := parser.ParseExpr(expr)
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	return older.ReplaceAllString(strings.NewReplacer("(", "", ")", "", " ", "").Replace(e.String()), "")
}
