#!/usr/bin/env bash
# Build the programs that Argo CD's repo-server runs, once, into the user's
# cache, as build.sh does for the servers:
#
#   sources.sh sourcebox   helm, kustomize
#   sources.sh appsetbox   argocd-applicationset-controller, the definition of ApplicationSet
#
# It stands apart from build.sh because that one's text is part of its results'
# names: a line more there builds every server anew. With the service compiled
# and argobox built before, each takes a minute on two cores.
set -euo pipefail

what=${1:-sourcebox}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
case $what in
sourcebox | appsetbox) cd "$here/../$what" ;;
*)
	echo "sources.sh: unknown target '$what'; want sourcebox or appsetbox" >&2
	exit 2
	;;
esac
export GOWORK=off GOFLAGS=''

inputs=(go.mod go.sum)
for file in *.go; do [ -f "$file" ] && inputs+=("$file"); done
key=$({
	cat "${inputs[@]}" "$here/sources.sh"
	go version
	go env GOOS GOARCH
} | sha256sum | cut -d' ' -f1)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/responder-e2e
out=$cache/$key

# The settings of build are those of what was compiled before: the service's for
# sourcebox, argobox's for appsetbox.
build_sourcebox() {
	go build -buildvcs=false -ldflags '-s -w' -o "$1/" helm.sh/helm/v3/cmd/helm sigs.k8s.io/kustomize/kustomize/v5
}

build_appsetbox() {
	CGO_ENABLED=0 go build -buildvcs=false -tags kustomize_disable_go_plugin_support -ldflags '-s -w' -o "$1/argocd-applicationset-controller" .
	mkdir "$1/crds"
	install -m 644 "$(go list -m -f '{{.Dir}}' github.com/argoproj/argo-cd/v2)"/manifests/crds/applicationset-crd.yaml "$1/crds/"
}

# One build at a time; whoever waited finds the result of the first.
mkdir -p "$cache"
exec 9>"$cache/$what.lock"
flock 9
if [ ! -d "$out" ]; then
	echo "sources.sh: building $what; the first time takes a minute" >&2
	tmp=$(mktemp -d "$cache/.$what.XXXXXX")
	trap 'rm -rf "$tmp"' EXIT
	"build_$what" "$tmp" >&2
	chmod 755 "$tmp"
	mv "$tmp" "$out" # complete or absent, never half
	trap - EXIT
fi
echo "$out"
