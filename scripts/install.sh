#!/bin/sh
# Installs the runtime for C, C++ and what calls C: scripts/install.sh PREFIX [FOLDER]
#
# PREFIX/include/relax_runtime.h, PREFIX/lib/librelax_capi.a and .so, PREFIX/lib/pkgconfig/relax.pc, and PREFIX/bin/relax.
# FOLDER has the libraries (and maybe the command) that cargo made; without it they are built for release.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
if [ $# -lt 1 ] || [ $# -gt 2 ] || [ "$1" = --help ]; then
    sed -n '2,/^set -eu/s/^# \{0,1\}//p' "$0"
    [ "${1:-}" = --help ] && exit 0
    exit 2
fi
mkdir -p "$1"
prefix=$(CDPATH='' cd -- "$1" && pwd)
if [ $# -eq 2 ]; then
    made=$2
else
    (cd "$root" && cargo build --release --locked -p relax-capi -p relax-cli)
    made=${CARGO_TARGET_DIR:-$root/target}/release
fi
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' "$root/Cargo.toml" | head -n 1)
mkdir -p "$prefix/include" "$prefix/lib/pkgconfig" "$prefix/bin"
cp "$root/backends/runtime/include/relax_runtime.h" "$prefix/include/"
cp "$made/librelax_capi.a" "$prefix/lib/"
found=
for shared in librelax_capi.so librelax_capi.dylib; do
    if [ -e "$made/$shared" ]; then
        cp "$made/$shared" "$prefix/lib/"
        found=$shared
    fi
done
[ -n "$found" ] || { echo "error: $made has no shared library relax_capi" >&2; exit 2; }
if [ -e "$made/relax" ]; then cp "$made/relax" "$prefix/bin/"; fi
cat > "$prefix/lib/pkgconfig/relax.pc" <<END
prefix=$prefix
libdir=\${prefix}/lib
includedir=\${prefix}/include

Name: relax
Description: Runtime of modules that the relax compiler made
Version: $version
Cflags: -I\${includedir}
Libs: -L\${libdir} -Wl,-rpath,\${libdir} -lrelax_capi
Libs.private: -lpthread -ldl -lm
END
echo "installed in $prefix: pkg-config relax, with PKG_CONFIG_PATH=$prefix/lib/pkgconfig" >&2
