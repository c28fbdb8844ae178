package step_test

import (
	"fmt"
	"testing"

	"github.com/inference-responder/responder/internal/engine"
	"github.com/inference-responder/responder/internal/gitops"
)

// TestEditorReadsTheTable: the editor takes no word behind a flag without a value
// for its value, and finds it again once it is false.
func TestEditorReadsTheTable(t *testing.T) {
	target := gitops.Target{Kind: "Deployment", Name: "chat"}
	for _, p := range engine.Unstated().Programs() {
		for _, f := range p.Flags {
			if !f.Changeable() || f.Kind != engine.Bool && f.Kind != engine.Switch {
				continue
			}
			v := gitops.Variable{Flag: f.Name, Switch: f.Kind == engine.Switch}
			files := []gitops.File{{Path: "chat.yaml", Data: fmt.Appendf(nil, `apiVersion: apps/v1
kind: Deployment
metadata: {name: chat}
spec: {template: {spec: {containers: [{name: engine, image: vllm/vllm-openai, args: [serve, --%s, llama]}]}}}
`, f.Name)}}
			if places, err := gitops.Locate(files, target, v); err != nil || places[0].Value != "true" {
				t.Errorf("--%s llama: %+v, %v", f.Name, places, err)
			}
			e, err := gitops.Set(files, target, v, "false")
			if err != nil {
				t.Errorf("--%s to false: %v", f.Name, err)
				continue
			}
			if places, err := gitops.Locate(e.Files, target, v); err != nil || places[0].Missing != v.Switch || !v.Switch && places[0].Value != "false" {
				t.Errorf("--%s is false, and is found as %+v, %v", f.Name, places, err)
			}
		}
	}
}
