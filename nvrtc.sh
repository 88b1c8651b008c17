#!/bin/sh
# Fetches NVRTC, the compiler of CUDA, into .cache/nvrtc/, where the tests look for it: ./nvrtc.sh --fetch
#
# The first run fetches the published package (25 MB) with pip; later ones only check that it is there. What arrives is
# held against checksums, and gets its name in the cache only when it is whole. It needs neither a device nor a driver.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
place=$here/.cache/nvrtc

fail() {
    printf 'error: %s\n' "$1" >&2
    exit "${2:-2}"
}

if [ "$*" != "--fetch" ]; then
    fail "usage: ./nvrtc.sh --fetch"
fi
if [ "$(uname -s)-$(uname -m)" != Linux-x86_64 ]; then
    fail "NVRTC is fetched for Linux on x86_64 only" 4
fi

# python3 and pip; installed where that is for us to do.
need_pip() {
    if python3 -m pip --version >/dev/null 2>&1; then
        return
    fi
    if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
        fail "pip is missing: install python3 and pip (on Debian: sudo apt-get install python3-pip) and try again" 4
    fi
    echo "installing python3-pip" >&2
    apt-get update -qq >&2 || fail "apt-get update failed" 4
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-pip >&2 \
        || fail "apt-get could not install python3-pip" 4
}

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
