#!/usr/bin/env bash
# Build Flux's source-, kustomize- and helm-controller, once, into the user's
# cache, as build.sh does for the other servers, and print the directory that holds
# them and the definitions of their objects. Cold it takes about 7 minutes on two cores.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../fluxbox"
export GOWORK=off GOFLAGS='' CGO_ENABLED=0

key=$({
	cat go.mod go.sum "$here/flux.sh"
	go version
	go env GOOS GOARCH
} | sha256sum | cut -d' ' -f1)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/responder-e2e
out=$cache/$key

# One build at a time; whoever waited finds the result of the first.
mkdir -p "$cache"
exec 9>"$cache/fluxbox.lock"
flock 9
if [ ! -d "$out" ]; then
	echo "flux.sh: building Flux's controllers; the first time takes 7 minutes" >&2
	tmp=$(mktemp -d "$cache/.fluxbox.XXXXXX")
	trap 'rm -rf "$tmp"' EXIT
	mkdir "$tmp/crds"
	for module in source-controller kustomize-controller helm-controller; do
		go build -buildvcs=false -ldflags '-s -w' -o "$tmp/" "github.com/fluxcd/$module" >&2
		install -m 644 "$(go list -m -f '{{.Dir}}' "github.com/fluxcd/$module")"/config/crd/bases/*.yaml "$tmp/crds/"
	done
	chmod 755 "$tmp"
	mv "$tmp" "$out" # complete or absent, never half
	trap - EXIT
fi
echo "$out"
