#!/bin/sh
# Sees to a device of WebGPU: ./webgpu.sh
#
# Where Vulkan has none on this machine, installs Mesa's software one, which runs on the processor. With it
#     cargo test --workspace --features relax-cli/wgpu --test device_corpus
# holds the corpus, and `cargo build --release -p relax-cli --features wgpu` makes `relax run --backend wgpu`.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
. "$here/scripts/fetching.sh"

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
need_packages "Vulkan has no driver: install one" mesa-vulkan-drivers libvulkan1
is_there || fail "Vulkan still has no driver" 4
