#!/usr/bin/env bash
# Install the Debian packages the end-to-end tests run: the real Prometheus and
# Alertmanager, Redis and git for Argo CD, a C compiler for what stands in for
# NVIDIA's driver library, a browser for the page, and what commands of the documentation need. Does nothing where they are
# there already.
set -euo pipefail

missing=()
[ -x /usr/bin/prometheus ] || missing+=(prometheus)
[ -x /usr/bin/prometheus-alertmanager ] || missing+=(prometheus-alertmanager)
[ -x /usr/bin/redis-server ] || missing+=(redis-server)
command -v git >/dev/null || missing+=(git)
command -v chromium >/dev/null || command -v google-chrome >/dev/null || missing+=(chromium)
command -v gcc >/dev/null || missing+=(gcc libc6-dev)
for program in jq openssl curl; do command -v $program >/dev/null || missing+=($program); done
[ ${#missing[@]} -eq 0 ] && exit 0

if ! command -v apt-get >/dev/null; then
	echo "packages.sh: no apt-get here; install ${missing[*]} yourself (programs of these names)" >&2
	exit 1
fi
if [ "$(id -u)" -ne 0 ]; then
	echo "packages.sh: ${missing[*]} missing and you are not root; run: sudo $0" >&2
	exit 1
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
export DEBIAN_FRONTEND=noninteractive
if ! { apt-get update && apt-get install -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
	cat "$log" >&2
	echo "packages.sh: apt-get could not install ${missing[*]}" >&2
	exit 1
fi
echo "installed: ${missing[*]}"
