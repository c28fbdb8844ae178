package step

import (
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"

	"github.com/inference-responder/responder/internal/playbook"
)

// TestMeasured: every measure that a proof may name is PromQL for each engine, or
// refused where the engine exports no series of it.
func TestMeasured(t *testing.T) {
	for _, engine := range []string{"vllm", "sglang"} {
		for _, m := range playbook.Measures {
			got, err := measured(playbook.MeasurePrefix+m.Name, playbook.Service{Engine: engine, Selector: `service="chat"`})
			if err != nil {
				if engine == "vllm" || !strings.Contains(err.Error(), "exports no series") {
					t.Errorf("%s of %s: %v", m.Name, engine, err)
				}
				continue
			}
			if _, err := parser.ParseExpr(got); err != nil || !strings.Contains(got, `{service="chat"}`) {
				t.Errorf("%s of %s: %s: %v", m.Name, engine, got, err)
			}
		}
	}
	if got, err := measured("up", playbook.Service{}); got != "up" || err != nil {
		t.Errorf("PromQL became %q, %v", got, err)
	}
}
