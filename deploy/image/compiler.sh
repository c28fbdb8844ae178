#!/usr/bin/env bash
# Print the C compiler for linux/ARCH: this machine's own for its own platform, else Debian's cross compiler.
# Say what to install where there is none.
set -euo pipefail

arch=$1
case $arch in
amd64) compiler=x86_64-linux-gnu-gcc packages='gcc-x86-64-linux-gnu libc6-dev-amd64-cross' ;;
arm64) compiler=aarch64-linux-gnu-gcc packages='gcc-aarch64-linux-gnu libc6-dev-arm64-cross' ;;
*)
	echo "image: the agent is built for amd64 and arm64, not for $arch: name others in AGENT_ARCHITECTURES" >&2
	exit 1
	;;
esac
others=$(go env GOHOSTARCH)
if [ "$(go env GOHOSTOS)/$others" = "linux/$arch" ]; then
	compiler=$(go env CC) packages='gcc libc6-dev' others=
fi

# Only with the files that the linker needs does a compiler know where libc.so is.
case $($compiler -print-file-name=libc.so 2>/dev/null || true) in
/*) echo "$compiler" ;;
*)
	echo "image: the agent's image for linux/$arch needs the C compiler $compiler and its C library" >&2
	echo "image: install them (Debian, Ubuntu): apt-get install $packages" >&2
	echo "image: or leave this platform of the agent out: make image AGENT_ARCHITECTURES=$others" >&2
	exit 1
	;;
esac
