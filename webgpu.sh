#!/bin/sh
# Sees to a device of WebGPU: ./webgpu.sh
#
# Where Vulkan has none on this machine, installs Mesa's software one, which runs on the processor. With it
#     cargo test -p relax-webgpu --features wgpu --test corpus
# holds the corpus, and `cargo build --release -p relax-cli --features wgpu` makes `relax run --backend wgpu`.
set -eu

fail() {
    printf 'error: %s\n' "$1" >&2
    exit "${2:-2}"
}

if [ $# -ne 0 ]; then
    fail "this script takes no arguments"
fi

# Whether the loader of Vulkan and a driver for it are there.
is_there() {
    ldconfig -p 2>/dev/null | grep -q 'libvulkan\.so\.1' || return 1
    for folder in /usr/share/vulkan/icd.d /etc/vulkan/icd.d /usr/local/share/vulkan/icd.d; do
        for driver in "$folder"/*.json; do
            [ -e "$driver" ] && return 0
        done
    done
    return 1
}

if is_there; then
    echo "Vulkan has a driver here" >&2
    exit 0
fi
if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    fail "Vulkan has no driver: install one (on Debian: sudo apt-get install mesa-vulkan-drivers libvulkan1) and try again" 4
fi
echo "installing mesa-vulkan-drivers and libvulkan1" >&2
apt-get update -qq >&2 || fail "apt-get update failed" 4
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends mesa-vulkan-drivers libvulkan1 >&2 \
    || fail "apt-get could not install mesa-vulkan-drivers" 4
is_there || fail "Vulkan still has no driver" 4
