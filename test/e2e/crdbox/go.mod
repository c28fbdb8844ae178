// The modules whose definitions of API objects the tests put into the cluster. Nothing
// of them is built. A module of its own: none of this may enter the service's
// dependency graph.
module github.com/inference-responder/responder/test/e2e/crdbox

go 1.26.0

require (
	github.com/argoproj/argo-rollouts v1.9.1
	github.com/kedacore/keda/v2 v2.21.0
	github.com/prometheus-operator/prometheus-operator v0.85.0
	sigs.k8s.io/gateway-api v1.5.1
)
