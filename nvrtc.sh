#!/bin/sh
# Fetches NVRTC, the compiler of CUDA, into .cache/nvrtc/, where the tests look for it: ./nvrtc.sh --fetch
#
# The first run fetches the published package (25 MB) with pip; later ones only check that it is there. What arrives is
# held against checksums, and gets its name in the cache only when it is whole. It needs neither a device nor a driver.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
place=$here/.cache/nvrtc
. "$here/scripts/fetching.sh"

if [ "$*" != "--fetch" ]; then
    fail "usage: ./nvrtc.sh --fetch"
fi
if [ "$(uname -s)-$(uname -m)" != Linux-x86_64 ]; then
    fail "NVRTC is fetched for Linux on x86_64 only" 4
fi

unpack='
import sys, zipfile
wheel, folder = sys.argv[1:]
with zipfile.ZipFile(wheel) as archive:
    for name in ("libnvrtc.so.12", "libnvrtc-builtins.so.12.4"):
        with open(folder + "/" + name, "wb") as file:
            file.write(archive.read("nvidia/cuda_nvrtc/lib/" + name))
'

# Whether a folder holds the very files of the package.
is_whole() {
    (cd "$1" && sha256sum --check --status "$here/backends/cuda/nvrtc/libraries.sha256") 2>/dev/null
}

fetch() {
    need_pip
    mkdir -p "$here/.cache"
    work=$(mktemp -d "$here/.cache/fetch.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    trap 'exit 130' HUP INT TERM
    mkdir "$work/nvrtc"
    echo "fetching NVRTC" >&2
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes --only-binary :all: \
        --dest "$work" --requirement "$here/backends/cuda/nvrtc/requirements.txt" >&2 \
        || fail "NVRTC could not be fetched (see above); nothing was kept" 4
    python3 -c "$unpack" "$work"/*.whl "$work/nvrtc" || fail "the package could not be unpacked; nothing was kept"
    is_whole "$work/nvrtc" || fail "the package does not hold the expected libraries; nothing was kept"
    # What was there is of another version or damaged, or another run was faster.
    if [ -e "$place" ] && ! is_whole "$place"; then
        mv "$place" "$work/old" || fail "$place could not be replaced"
    fi
    mv -T "$work/nvrtc" "$place" 2>/dev/null || is_whole "$place" || fail "$place could not be created"
    rm -rf "$work"
    trap - EXIT HUP INT TERM
}

is_whole "$place" || fetch
