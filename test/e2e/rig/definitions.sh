#!/usr/bin/env bash
# Print the files that define objects of other projects' APIs, as their modules have
# them. The module cache keeps them: nothing is built.
#
#   definitions.sh httproute | scaledobject | rollout | servicemonitor | prometheusrule | alertmanagerconfig
set -euo pipefail

case ${1:-} in
httproute) module=sigs.k8s.io/gateway-api file=config/crd/standard/gateway.networking.k8s.io_httproutes.yaml ;;
scaledobject) module=github.com/kedacore/keda/v2 file=config/crd/bases/keda.sh_scaledobjects.yaml ;;
rollout) module=github.com/argoproj/argo-rollouts file=manifests/crds/rollout-crd.yaml ;;
servicemonitor | prometheusrule | alertmanagerconfig)
	module=github.com/prometheus-operator/prometheus-operator file=example/prometheus-operator-crd/monitoring.coreos.com_$1s.yaml
	;;
*)
	echo "definitions.sh: unknown definition '${1:-}'; want httproute, scaledobject, rollout, servicemonitor, prometheusrule or alertmanagerconfig" >&2
	exit 2
	;;
esac
cd "$(dirname "${BASH_SOURCE[0]}")/../crdbox"
export GOWORK=off GOFLAGS=''
go mod download "$module" >&2
echo "$(go list -m -f '{{.Dir}}' "$module")/$file"
