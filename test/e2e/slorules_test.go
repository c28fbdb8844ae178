//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/inference-responder/responder/test/e2e/rig"
)

// Two hours of good requests, two in which a fifth is slow, and good ones again: pages
// and tickets fire, and end. The shares are those of the windows.
const slothIncident = `
rule_files: [%s]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series:
      - {series: 'vllm:time_to_first_token_seconds_count{namespace="serving",service="chat",pod="a"}', values: '0+300x1000'}
      - {series: 'vllm:time_to_first_token_seconds_bucket{namespace="serving",service="chat",pod="a",le="0.5"}', values: '0+300x120 36240+240x119 65100+300x760'}
    promql_expr_test:
      - {eval_time: 110m, expr: 'group by (sloth_severity) (ALERTS{sloth_slo="first-token",alertstate="firing"})', exp_samples: []}
      - eval_time: 200m
        expr: 'group by (sloth_severity) (ALERTS{sloth_slo="first-token",alertstate="firing"})'
        exp_samples: [{labels: '{sloth_severity="page"}', value: 1}, {labels: '{sloth_severity="ticket"}', value: 1}]
      - {eval_time: 200m, expr: 'round(sum(slo:sli_error:ratio_rate1h{sloth_slo="first-token"}), 0.001)', exp_samples: [{labels: '{}', value: 0.2}]}
      - {eval_time: 240m, expr: 'round(sum(slo:sli_error:ratio_rate2h{sloth_slo="first-token"}), 0.001)', exp_samples: [{labels: '{}', value: 0.2}]}
      - {eval_time: 610m, expr: 'group by (sloth_severity) (ALERTS{sloth_slo="first-token",alertstate="firing"})', exp_samples: []}
`

// What slo rules makes of documents are rules to promtool, and those of a Sloth document
// pass the same test of promtool as Sloth's own do.
func TestRulesOfDocuments(t *testing.T) {
	t.Parallel()
	data, dir := filepath.Join(rig.Repository(), "internal", "slo", "rules", "testdata"), t.TempDir()
	written := map[string]string{}
	for _, name := range []string{"sloth", "openslo"} {
		out, err := exec.CommandContext(t.Context(), rig.BuildResponder(t, false), "slo", "rules", "-f", filepath.Join(data, name+".yaml")).Output()
		if err != nil {
			t.Fatalf("slo rules of %s: %v", name, err)
		}
		written[name] = filepath.Join(dir, name+".rules.yaml")
		if err := os.WriteFile(written[name], out, 0o600); err != nil {
			t.Fatal(err)
		}
		check(t, "promtool", "check", "rules", written[name])
	}
	for name, rules := range map[string]string{"ours": written["sloth"], "Sloth's": filepath.Join(data, "sloth.rules.yaml")} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "test.yaml")
			if err := os.WriteFile(file, []byte(fmt.Sprintf(slothIncident, rules)), 0o600); err != nil {
				t.Fatal(err)
			}
			check(t, "promtool", "test", "rules", file)
		})
	}
}
