package gitops

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/yaml"
)

// TestTextsStayTexts: a value stays the same text for Kubernetes and Argo CD, whose
// parser reads YAML 1.1.
func TestTextsStayTexts(t *testing.T) {
	files := []File{{Path: "a.yaml", Data: []byte(goodHead + "        args:\n        - --dtype\n        - auto\n        - --port=1\n        env:\n        - name: MODE\n          value: fast\n")}}
	for _, value := range []string{
		"on", "On", "OFF", "yes", "No", "y", "N", "~", "null", "Null", "010", "0o17", "0b1", "0x1F", "1_000", "1e3", "+1", "0.5", ".5", "12:30", "2026-01-02", "=", "x",
	} {
		for flag, at := range map[string]func(container map[string]any) any{
			"dtype":    func(c map[string]any) any { return c["args"].([]any)[1] },
			"MODE":     func(c map[string]any) any { return c["env"].([]any)[0].(map[string]any)["value"] },
			"NEW_MODE": func(c map[string]any) any { return c["env"].([]any)[1].(map[string]any)["value"] },
			"seed": func(c map[string]any) any {
				text, _ := c["args"].([]any)[3].(string)
				return strings.TrimPrefix(text, "--seed=")
			},
		} {
			e, err := setOne(files, deployment, Variable{Flag: flag}, value)
			if err != nil {
				t.Fatalf("%s to %q: %v", flag, value, err)
			}
			var object struct {
				Spec struct {
					Template struct {
						Spec struct{ Containers []map[string]any }
					}
				}
			}
			if err := yaml.Unmarshal(e.Files[0].Data, &object); err != nil {
				t.Fatal(err)
			}
			if got := at(object.Spec.Template.Spec.Containers[0]); got != any(value) {
				t.Errorf("%s to %q is %s for Kubernetes:\n%s", flag, value, fmt.Sprintf("%T %v", got, got), diffOf(e.Old, e.Files))
			}
		}
	}
}
