package gitops

import (
	"encoding/json"
	"strings"
	"testing"
)

// liveDeployment returns a Deployment as the API server does.
func liveDeployment(t *testing.T, container map[string]any, more ...any) []byte {
	t.Helper()
	container["name"] = "vllm"
	data, err := json.Marshal(map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{"name": "chat", "namespace": "serving", "annotations": map[string]string{"note": "--- a: b\n<<<<<<< x\t\"q\" " + strings.Repeat("long ", 400)}},
		"spec": map[string]any{"replicas": 3, "template": map[string]any{
			"metadata": map[string]any{"labels": map[string]string{"app": "chat"}},
			"spec":     map[string]any{"containers": append([]any{container}, more...)},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestLive: a live object is read by the rules of Git. A value that is not in it is an
// error, not "not set".
func TestLive(t *testing.T) {
	target := Target{Kind: "Deployment", Namespace: "serving", Name: "chat", Path: "apps/chat", ValueFiles: []string{"values.yaml"}}
	args := func(words ...string) map[string]any { return map[string]any{"args": words} }
	proxy := map[string]any{"name": "proxy", "image": "envoy", "args": []string{"--max-num-seqs=1"}}
	env := func(list ...any) map[string]any {
		return map[string]any{"command": []string{"sh", "-c", "vllm serve m $EXTRA"}, "env": list}
	}
	scaler := []byte(`{"kind":"HorizontalPodAutoscaler","metadata":{"name":"chat","namespace":"serving"},"spec":{"minReplicas":2,"maxReplicas":6,"scaleTargetRef":{"kind":"Deployment","name":"chat"}}}`)
	planner := []byte(`{"kind":"DynamoGraphDeployment","metadata":{"name":"llm","namespace":"serving"},"spec":{"services":{
		"Prefill":{"componentType":"worker","subComponentType":"prefill","replicas":1},"Decode":{"componentType":"worker","subComponentType":"decode","replicas":5},
		"Planner":{"componentType":"planner","extraPodSpec":{"mainContainer":{"args":["--config","{\"prefill_min_endpoint\": 1, \"decode_min_endpoint\": 2}"]}}}}}}`)
	seqs := Variable{Flag: "max-num-seqs"}
	for name, tt := range map[string]struct {
		objects [][]byte
		target  func(*Target)
		v       Variable
		want    string
		err     string
	}{
		"one word":       {objects: [][]byte{liveDeployment(t, args("serve", "--max-num-seqs=256"))}, v: seqs, want: "256"},
		"two words":      {objects: [][]byte{liveDeployment(t, args("serve", "--max_num_seqs", "256"))}, v: seqs, want: "256"},
		"the last one":   {objects: [][]byte{liveDeployment(t, args("--max-num-seqs=1", "--max-num-seqs=2"))}, v: seqs, want: "2"},
		"boolean":        {objects: [][]byte{liveDeployment(t, args("--no-enable-prefix-caching"))}, v: Variable{Flag: "enable-prefix-caching"}, want: "false"},
		"in a script":    {objects: [][]byte{liveDeployment(t, map[string]any{"command": []string{"sh", "-c", "exec vllm serve m \\\n  --max-num-seqs 256"}})}, v: seqs, want: "256"},
		"in a variable":  {objects: [][]byte{liveDeployment(t, env(map[string]any{"name": "EXTRA", "value": "--max-num-seqs=256"}))}, v: seqs, want: "256"},
		"not set":        {objects: [][]byte{liveDeployment(t, args("serve"))}, v: seqs, want: "(not set)"},
		"of a container": {objects: [][]byte{liveDeployment(t, args("--max-num-seqs=256"), proxy)}, target: func(t *Target) { t.Container = "vllm" }, v: seqs, want: "256"},
		"another container": {
			objects: [][]byte{liveDeployment(t, args("--max-num-seqs=256"))}, target: func(t *Target) { t.Container = "kserve-container" }, v: seqs,
			err: `has no container "kserve-container" (it has: vllm)`,
		},
		"several containers": {objects: [][]byte{liveDeployment(t, args("--max-num-seqs=256"), proxy)}, v: seqs, err: "set in 2 places"},
		"from a ConfigMap": {
			objects: [][]byte{liveDeployment(t, env(map[string]any{"name": "EXTRA", "valueFrom": map[string]any{"configMapKeyRef": map[string]any{"name": "c", "key": "k"}}}))},
			v:       Variable{Flag: "EXTRA"}, err: "comes from a secret or from the running pod",
		},
		"from all of one": {
			objects: [][]byte{liveDeployment(t, map[string]any{"args": []string{"serve"}, "envFrom": []any{map[string]any{"configMapRef": map[string]any{"name": "tuning"}}}})},
			v:       seqs, err: "takes variables from configMap tuning",
		},
		"a credential":   {objects: [][]byte{liveDeployment(t, args("--api-key=s3cret"))}, v: Variable{Flag: "api-key"}, err: "holds a credential"},
		"another object": {objects: [][]byte{liveDeployment(t, args("--max-num-seqs=256"))}, target: func(t *Target) { t.Name = "other" }, v: seqs, err: "no manifest"},
		"replicas":       {objects: [][]byte{liveDeployment(t, args())}, v: Variable{Replicas: true}, want: "3"},
		"lower bound":    {objects: [][]byte{liveDeployment(t, args()), scaler}, v: Variable{Replicas: true}, want: "2"},
		"a bound of Dynamo's planner": {objects: [][]byte{planner}, target: func(t *Target) {
			*t = Target{Kind: "DynamoGraphDeployment", Namespace: "serving", Name: "llm", Component: "Decode"}
		}, v: Variable{Replicas: true}, want: "2"},
		"upper bound": {objects: [][]byte{liveDeployment(t, args()), scaler}, v: Variable{Replicas: true, Bound: "max"}, want: "6"},
	} {
		t.Run(name, func(t *testing.T) {
			at := target
			if tt.target != nil {
				tt.target(&at)
			}
			got, err := Live(tt.objects, at, tt.v)
			switch {
			case tt.err != "":
				if err == nil || !strings.Contains(err.Error(), tt.err) || strings.Contains(err.Error(), "live-0") || strings.Contains(err.Error(), "s3cret") {
					t.Errorf("got %q and %v, want ...%s...", got, err, tt.err)
				}
			case err != nil || got.String() != tt.want:
				t.Errorf("got %q and %v, want %q", got, err, tt.want)
			}
		})
	}
}

// TestLiveImage: the image is the engine's, not a sidecar's.
func TestLiveImage(t *testing.T) {
	target := Target{Kind: "Deployment", Namespace: "serving", Name: "chat"}
	engine := map[string]any{"image": "vllm/vllm-openai:v0.11", "args": []string{"--model=m"}}
	proxy := map[string]any{"name": "proxy", "image": "envoy:1"}
	for name, objects := range map[string][]byte{"alone": liveDeployment(t, engine), "beside a sidecar": liveDeployment(t, engine, proxy)} {
		if got, err := LiveImage(objects, target); err != nil || got.Value != "vllm/vllm-openai:v0.11" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	target.Container = "proxy"
	if got, err := LiveImage(liveDeployment(t, engine, proxy), target); err != nil || got.Value != "envoy:1" {
		t.Errorf("named: %q, %v", got, err)
	}
	target.Container = "engine"
	if got, err := LiveImage(liveDeployment(t, engine, proxy), target); err == nil || !strings.Contains(err.Error(), `has no container "engine" (it has: vllm, proxy)`) {
		t.Errorf("not there: %q, %v", got, err)
	}
	target.Container = ""
	if got, err := LiveImage(liveDeployment(t, map[string]any{"image": "a"}, proxy), target); err == nil {
		t.Errorf("neither runs an engine, and it is %q", got)
	}
}
