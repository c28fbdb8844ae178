package steptest

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/inference-responder/responder/internal/fault"
	"github.com/inference-responder/responder/internal/gitops"
	"github.com/inference-responder/responder/internal/kube"
)

// Object implements [step.Objects]: Deployment serving/chat as what was synced
// last makes it, with what Live has of its own.
func (g *Git) Object(_ context.Context, id kube.ObjectID) ([]byte, error) {
	switch {
	case g.ClusterDown != nil:
		return nil, g.ClusterDown
	case id != kube.ObjectID{Group: "apps", Kind: "Deployment", Namespace: "serving", Name: "chat"}:
		return nil, &fault.Error{Reason: fault.NotFound, Message: "no " + id.String()}
	}
	values := map[string]string{}
	if n := len(g.App.History); n > 0 {
		values = maps.Clone(g.Commits[g.at(g.App.History[n-1].Revisions[0])].Values)
	}
	maps.Copy(values, g.Live)
	return deployment(values), nil
}

// deployment is Deployment serving/chat with these values.
func deployment(values map[string]string) []byte {
	container := map[string]any{"name": "vllm", "image": values["image"], "command": []string{"vllm", "serve"}}
	args := []string{"--port=8000"}
	spec := map[string]any{}
	for _, k := range slices.Sorted(maps.Keys(values)) {
		if strings.HasPrefix(k, "--") && values[k] != "" {
			args = append(args, k+"="+values[k])
		}
	}
	if n, err := strconv.Atoi(values["replicas"]); err == nil {
		spec["replicas"] = n
	}
	container["args"] = args
	spec["template"] = map[string]any{"spec": map[string]any{"containers": []any{container}}}
	data, err := json.Marshal(map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment", "spec": spec,
		"metadata": map[string]any{"name": "chat", "namespace": "serving"},
	})
	if err != nil {
		panic(err) // unreachable: it is maps and texts
	}
	return data
}

// Try implements [step.Objects].
func (g *Git) Try(_ context.Context, _ string, manifest []byte) ([]byte, error) {
	g.Tried = append(g.Tried, string(manifest))
	if g.Admits == nil {
		return manifest, nil
	}
	return g.Admits(string(manifest))
}

// touch is a change of one value of the one manifest.
func (g *Git) touch(variable, from, to string) gitops.Touch {
	return gitops.Touch{
		Variable: variable, File: File, Line: 7, Path: variable, From: from, To: to,
		Kind: "Deployment", Name: "chat", Container: g.Container, Form: cmp.Or(g.Form, "--flag=value"),
	}
}
