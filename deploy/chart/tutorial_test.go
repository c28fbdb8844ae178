package chart_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestTutorialValues renders the values of the tutorial: whoever follows it has never seen
// the chart, and cannot tell its mistakes from theirs.
func TestTutorialValues(t *testing.T) {
	page, err := os.ReadFile("../../docs/tutorial-kind.md")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile("(?ms)^```yaml\n(.*?)^```").FindSubmatch(page)
	if m == nil {
		t.Fatal("the tutorial has no values")
	}
	var values map[string]any
	if err := yaml.Unmarshal(m[1], &values); err != nil {
		t.Fatal(err)
	}
	files, err := render(values)
	if err != nil {
		t.Fatal(err)
	}
	there := objects(t, files)
	for _, name := range []string{
		"Deployment responder/responder", "Service responder/responder", "Secret responder/responder-tls", "Secret responder/responder-tokens",
		"ServiceMonitor responder/responder", "AlertmanagerConfig responder/responder",
	} {
		if there[name] == nil {
			t.Errorf("the tutorial asks for %s, which the chart does not make of its values", name)
		}
	}
	config := there["ConfigMap responder/responder-config"]["data"].(map[string]any)["responder.yaml"].(string)
	for _, said := range []string{"autonomy: observe", "url: http://prometheus-operated.monitoring:9090"} {
		if !strings.Contains(config, said) {
			t.Errorf("the tutorial says %q, and the chart does not:\n%s", said, config)
		}
	}
}
