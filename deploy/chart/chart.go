// Package chart is the Helm chart that installs the service and its node agents. Its
// roles and rules are those of deploy/kubernetes and deploy/prometheus, copied because a
// chart holds all its files. The rest of deploy/kubernetes, and deploy/agent, are rendered from the chart.
package chart

//go:generate cp ../kubernetes/rbac.yaml ../kubernetes/levers.yaml files/
//go:generate cp ../prometheus/responder.rules.yaml ../prometheus/inference-engine.rules.yaml ../prometheus/gpu.rules.yaml files/rules/
//go:generate go test -run ^TestBase$ . -update
