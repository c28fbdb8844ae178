#!/usr/bin/env bash
# Build the server of kubectl's commands, once, into the user's cache, from the
# modules of kubebox, as build.sh does for the other servers, and print the directory
# that holds it. Cold it takes 2 minutes on two cores.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../kubebox"
export GOWORK=off GOFLAGS='' CGO_ENABLED=0

key=$({
	cat go.mod go.sum kubectl/*.go "$here/kubectl.sh"
	go version
	go env GOOS GOARCH
} | sha256sum | cut -d' ' -f1)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/responder-e2e
out=$cache/$key

# One build at a time; whoever waited finds the result of the first.
mkdir -p "$cache"
exec 9>"$cache/kubectl.lock"
flock 9
if [ ! -d "$out" ]; then
	echo "kubectl.sh: building kubectl; the first time takes 2 minutes" >&2
	tmp=$(mktemp -d "$cache/.kubectl.XXXXXX")
	trap 'rm -rf "$tmp"' EXIT
	go build -buildvcs=false -ldflags '-s -w' -o "$tmp/kubectl" ./kubectl >&2
	chmod 755 "$tmp"
	mv "$tmp" "$out" # complete or absent, never half
	trap - EXIT
fi
echo "$out"
