package kube

import "testing"

// A label or annotation that something acts on can change how requests are served.
func TestMatters(t *testing.T) {
	for path, want := range map[string]bool{
		"containers[vllm].image":                         true,
		"containers[vllm].args[--uvicorn-log-level]":     false,
		"annotations[kubectl.kubernetes.io/restartedAt]": false,
		"annotations[kubernetes.io/change-cause]":        false,
		"labels[team]":                                           false,
		"labels[app.kubernetes.io/version]":                      false,
		"annotations[checksum/config]":                           true,
		"annotations[sidecar.istio.io/inject]":                   true,
		"annotations[k8s.v1.cni.cncf.io/networks]":               true,
		"annotations[vault.hashicorp.com/agent-inject]":          true,
		"labels[app]":                                            true,
		"labels[istio.io/rev]":                                   true,
		"annotations[sidecar.istio.io/proxyMemoryLimit-version]": true,
	} {
		if got := Matters(path); got != want {
			t.Errorf("%s: matters %t, want %t", path, got, want)
		}
	}
}
