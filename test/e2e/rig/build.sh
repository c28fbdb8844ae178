#!/usr/bin/env bash
# Build the programs the tests and the linter need, once, into the user's cache:
#
#   build.sh kubebox   etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubectl, kwok, drain-verdicts
#   build.sh argobox   argocd-server, argocd-repo-server, argocd-application-controller, argocd (git's askpass), their CRDs
#   build.sh tools     golangci-lint, gofumpt, govulncheck
#
# Prints the directory that holds them. The directory's name is a hash of what
# went in, so a second call costs nothing and a changed go.mod builds afresh.
# Cold, kubebox takes 10 to 12 minutes on two cores, argobox about 6 and the tools about 5.
set -euo pipefail

what=${1:-kubebox}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repo=$(cd "$here/../../.." && pwd)
case $what in
kubebox | argobox) source=$repo/test/e2e/$what ;;
tools) source=$repo/tools ;;
*)
	echo "build.sh: unknown target '$what'; want kubebox, argobox or tools" >&2
	exit 2
	;;
esac

# The caller's flags are for the service's module, not for these.
export GOWORK=off GOFLAGS='' CGO_ENABLED=0

cd "$source"
inputs=(go.mod go.sum)
for file in *.go; do [ -f "$file" ] && inputs+=("$file"); done
key=$({
	cat "${inputs[@]}" "$here/build.sh"
	go version
	go env GOOS GOARCH
} | sha256sum | cut -d' ' -f1)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/responder-e2e
out=$cache/$key

if [ -d "$out" ]; then
	echo "$out"
	exit 0
fi

build_kubebox() {
	local dir=$1 version minor flags='' package
	version=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
	minor=$(cut -d. -f2 <<<"$version")
	for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
		flags+=" -X $package.gitVersion=$version -X $package.gitMajor=1 -X $package.gitMinor=$minor"
	done
	go build -buildvcs=false -ldflags "-s -w $flags" -o "$dir/kubebox" .
	for package in etcd kube-apiserver kube-controller-manager kube-scheduler kubectl kwok drain-verdicts; do
		ln -s kubebox "$dir/$package"
	done
}

build_argobox() {
	local dir=$1 module version role
	module=github.com/argoproj/argo-cd/v2
	version=$(go list -m -f '{{.Version}}' $module)
	# kustomize imports plugin, which would bind every symbol at start.
	go build -buildvcs=false -tags kustomize_disable_go_plugin_support \
		-ldflags "-s -w -X $module/common.version=${version#v}" -o "$dir/argobox" .
	for role in argocd-server argocd-repo-server argocd-application-controller argocd; do
		ln -s argobox "$dir/$role"
	done
	# The definitions of Application and AppProject have to be those of the servers.
	mkdir "$dir/crds"
	install -m 644 "$(go list -m -f '{{.Dir}}' $module)"/manifests/crds/application-crd.yaml "$dir/crds/"
	install -m 644 "$(go list -m -f '{{.Dir}}' $module)"/manifests/crds/appproject-crd.yaml "$dir/crds/"
}

build_tools() {
	local dir=$1 package
	for package in $(go list tool); do
		go build -buildvcs=false -ldflags '-s -w' -o "$dir/$(basename "${package%/v[0-9]*}")" "$package"
	done
}

# One build at a time; whoever waited finds the result of the first.
mkdir -p "$cache"
exec 9>"$cache/$what.lock"
flock 9
if [ ! -d "$out" ]; then
	echo "build.sh: building $what; the first time takes minutes" >&2
	tmp=$(mktemp -d "$cache/.$what.XXXXXX")
	trap 'rm -rf "$tmp"' EXIT
	"build_$what" "$tmp" >&2
	chmod 755 "$tmp"
	mv "$tmp" "$out" # complete or absent, never half
	trap - EXIT
fi
echo "$out"
