package sandbox

import (
	"os"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
	"go.yaml.in/yaml/v3"
)

// The sandbox fires what a cluster with deploy/'s rules fires.
func TestRulesAreThoseOfDeploy(t *testing.T) {
	data, err := os.ReadFile("../../deploy/prometheus/inference-slo.rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Groups []struct {
			Rules []struct {
				Record, Alert, Expr string
				Labels, Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	records, alerts, labels := map[string]string{}, map[string]string{}, map[string]map[string]string{}
	for _, g := range doc.Groups {
		for _, r := range g.Rules {
			if r.Record != "" {
				records[r.Record] = "(" + r.Expr + ")"
			} else {
				alerts[r.Alert], labels[r.Alert] = r.Expr, r.Labels
			}
		}
	}
	for _, r := range rules() {
		expr := alerts[r.alert]
		for name, body := range records {
			expr = strings.ReplaceAll(expr, name+" ", body+" ")
		}
		if want, got := normal(t, expr), normal(t, r.expr()); got != want {
			t.Errorf("%s:\n deploy:  %s\n sandbox: %s", r.alert, want, got)
		}
		l := labels[r.alert]
		if l["severity"] != "critical" || l["slo"] != r.slo || l["short"] != r.short || l["long"] != r.long {
			t.Errorf("%s: deploy labels it %v", r.alert, l)
		}
	}
}

// normal is the expression as the parser writes it, without parentheses.
func normal(t *testing.T, expr string) string {
	t.Helper()
	e, err := parser.ParseExpr(expr)
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	return strings.NewReplacer("(", "", ")", "", " ", "").Replace(e.String())
}
