//go:build e2e && levers

package e2e

import "testing"

// podLevers end pods, or take nodes from them.
func podLevers() []*leverRun {
	cordoned := []string{"get", "node", "NODE", "-o", "jsonpath={.spec.unschedulable}"}
	return []*leverRun{
		{
			name: "replace", lever: "kube.replace_pod", with: "pod: POD, drain: 1s", slow: true, steps: true, shows: scaledNow("deployment/NAME"),
			meddle: []string{"scale", "deployment/NAME", "--replicas=5"}, lacks: `resources: ["deployments/scale"], verbs: ["patch"]`,
		},
		{name: "evict", lever: "pod.evict", with: "pod: POD", pool: true, steps: true, keeps: true, lacks: `resources: ["nodes"], verbs: ["patch"]`},
		{
			name: "cordon", lever: "node.cordon", with: "node: NODE", pool: true, shows: cordoned, meddle: []string{"uncordon", "NODE"},
			lacks: `resources: ["nodes"], verbs: ["patch"]`,
		},
		{
			name: "taint", lever: "node.taint", with: "node: NODE", pool: true, shows: []string{"get", "node", "NODE", "-o", "jsonpath={.spec.taints}"},
			meddle: []string{"taint", "node", "NODE", "responder.dev/out-"}, lacks: `resources: ["nodes"], verbs: ["patch"]`,
		},
		{
			name: "drain", lever: "node.drain", with: "node: NODE", pool: true, steps: true, shows: cordoned, meddle: []string{"uncordon", "NODE"},
			lacks: `resources: ["nodes"], verbs: ["patch"]`,
		},
		{
			name: "moved", lever: "pod.evict_from_node", with: "node: NODE", pool: true, steps: true, keeps: true, ready: outEarlier,
			lacks: `resources: ["nodes"], verbs: ["patch"]`,
		},
		{ // who takes the request up changes its label: that ends no run
			name: "reset", lever: "gpu.reset_request", with: "node: NODE, via: label, reason: row remapping failed", pool: true,
			shows: []string{"get", "node", "NODE", "-o", `jsonpath={.metadata.labels.responder\.dev/gpu-reset}`}, lacks: `resources: ["nodes"], verbs: ["patch"]`,
		},
		// Without GPUs the conditions of a node are the whole proof that it is healthy.
		{
			name: "uncordon", lever: "node.uncordon", with: "node: NODE, healthy_for: 1ms", pool: true, bare: true, ready: outEarlier, shows: cordoned, meddle: []string{"cordon", "NODE"},
			lacks: `resources: ["nodes"], verbs: ["patch"]`,
		},
		{
			name: "untaint", lever: "node.untaint", with: "node: NODE, healthy_for: 1ms", pool: true, bare: true, ready: outEarlier, shows: []string{"get", "node", "NODE", "-o", "jsonpath={.spec.taints}"},
			meddle: []string{"taint", "node", "NODE", "responder.dev/out:NoSchedule"}, lacks: `resources: ["nodes"], verbs: ["patch"]`,
		},
	}
}

// outEarlier has the node taken out by an earlier run.
func outEarlier(t *testing.T, w *leverRuns, r *leverRun) {
	t.Helper()
	n, err := w.client.Node(t.Context(), r.node)
	if err != nil {
		t.Fatal(err)
	}
	nodeLever{kind: r.lever}.before(t, w.client, n)
}
