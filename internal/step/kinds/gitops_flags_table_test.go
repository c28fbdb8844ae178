package kinds_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/inference-responder/responder/internal/engine"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/step/git"
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
			e, err := gitops.SetAll(files, target, []gitops.Assignment{{Variable: v, Value: "false"}})
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

// TestEveryFlagCanBeSet: no flag that a run may change is refused for what goes
// with it, neither in a list of arguments nor in one that patches put together.
func TestEveryFlagCanBeSet(t *testing.T) {
	target := gitops.Target{Kind: "Deployment", Name: "chat", Path: "prod"}
	files := func(args string) []gitops.File {
		return []gitops.File{
			{Path: "prod/kustomization.yaml", Data: []byte("resources: [chat.yaml]\npatches:\n- target: {kind: Deployment, name: chat}\n  patch: |\n    - {op: add, path: /spec/template/spec/containers/0/args/-, value: --uvicorn-log-level=info}\n")},
			{Path: "prod/chat.yaml", Data: fmt.Appendf(nil, "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: chat}\nspec: {template: {spec: {containers: [{name: engine, image: vllm/vllm-openai, args: [serve, llama%s]}]}}}\n", args)},
		}
	}
	tried := 0
	for _, name := range []string{"vllm", "sglang", "dynamo", "kserve"} {
		e, _ := engine.Named(name)
		for _, flag := range e.Flags() {
			for _, value := range []string{"true", "1", "0.5", "8192", "100000", "auto"} {
				f, refused := e.Check(flag, value)
				if refused != nil {
					continue
				}
				for _, in := range [][]gitops.File{files(", --" + flag + "=" + value)[1:], files(", --" + flag + "=" + value)} {
					_, err := git.CheckFlags(git.FlagRules{
						Service: "serving/chat", Engine: name,
						Look: lookIn(in, target),
					}, []gitops.Assignment{{Variable: gitops.Variable{Flag: f.Name}, Value: value}})
					if err != nil && (strings.Contains(err.Error(), "cannot be told") || strings.Contains(err.Error(), "credential")) {
						t.Errorf("%s: --%s=%s: %v", name, flag, value, err)
					}
					tried++
				}
				break
			}
		}
	}
	if tried < 100 {
		t.Errorf("%d were tried", tried)
	}
}
