package cluster

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/prometheus/alertmanager/pkg/labels"
	"go.yaml.in/yaml/v3"

	"github.com/inference-responder/responder/internal/engine"
	"github.com/inference-responder/responder/internal/playbook"
	"github.com/inference-responder/responder/internal/step/kinds"
)

// The receiver to add to Alertmanager gets every alert of the shipped rules, and of
// those that are made of objectives, that a shipped playbook is for.
func TestReceiverGetsWhatPlaybooksMatch(t *testing.T) {
	data, err := os.ReadFile("../../../deploy/alertmanager/receiver.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var c struct {
		Route struct {
			Routes []struct {
				Receiver string   `yaml:"receiver"`
				Matchers []string `yaml:"matchers"`
			} `yaml:"routes"`
		} `yaml:"route"`
	}
	if err := yaml.Unmarshal(data, &c); err != nil {
		t.Fatal(err)
	}
	routed := func(alert string) bool {
		for _, r := range c.Route.Routes {
			all := len(r.Matchers) > 0
			for _, text := range r.Matchers {
				m, err := labels.ParseMatcher(text)
				if err != nil {
					t.Fatal(err)
				}
				all = all && m.Name == "alertname" && m.Matches(alert)
			}
			if all && r.Receiver == "responder" {
				return true
			}
		}
		return false
	}
	shipped, err := playbook.LoadDir("../../../playbooks", kinds.Declarations())
	if err != nil {
		t.Fatal(err)
	}
	alerts := append([]string{"GPUNodeRepaired"}, objectiveAlerts(t)...)
	for _, file := range []string{"inference-engine.rules.yaml", "gpu.rules.yaml"} {
		alerts = append(alerts, alertsIn(t, file)...)
	}
	matched := 0
	for _, name := range alerts {
		a := playbook.Alert{Status: playbook.Firing, Labels: map[string]string{"alertname": name, "node": "gpu-17"}}
		if len(shipped.Match(a)) == 0 {
			continue
		}
		if matched++; !routed(name) {
			t.Errorf("a playbook is for %s, and the receiver does not get it", name)
		}
	}
	if matched < 5 {
		t.Errorf("of %v only %d are for playbooks", alerts, matched)
	}
}

// alertsIn names the alerts of a shipped file of rules.
func alertsIn(t *testing.T, file string) (names []string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("../../../deploy/prometheus", file))
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Groups []struct{ Rules []struct{ Alert string } }
	}
	if err := yaml.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	for _, g := range doc.Groups {
		for _, r := range g.Rules {
			names = append(names, r.Alert)
		}
	}
	return names
}

// objectiveAlerts names the alerts that `responder slo rules` makes of all indicators.
func objectiveAlerts(t *testing.T) []string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "responder.yaml")
	config := "auth: {insecure: true}\nservices:\n  - namespace: serving\n    workload: {name: chat}\n    engine: vllm\n    slos:\n"
	for _, indicator := range engine.Indicators() {
		config += "      - {name: " + indicator + ", objective: 0.9, window: 28d"
		if indicator != engine.Errors {
			config += ", threshold: 0.5"
		}
		config += "}\n"
	}
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	services, err := RuleServices(t.Context(), file, false)
	if err != nil {
		t.Fatal(err)
	}
	objectives, _, err := services[0].Objectives()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, o := range objectives {
		g, _, err := o.Group()
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range g.Rules {
			if r.Alert != "" {
				out = append(out, r.Alert)
			}
		}
	}
	return out
}
