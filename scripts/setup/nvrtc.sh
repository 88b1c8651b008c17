# The part `nvrtc` of setup.sh: the CUDA compiler, in .cache/nvrtc/, where the tests look for it. `relax` itself
# reads the folder's name from the environment variable RELAX_NVRTC.

if [ "$(uname -s)-$(uname -m)" != Linux-x86_64 ]; then
    fail "NVRTC is fetched for Linux on x86_64 only" 4
fi

is_whole() {
    matches_checksums "$1" "$root/backends/cuda/nvrtc/libraries.sha256"
}

unpack() {
    unpack_members "$1" "$2" nvidia/cuda_nvrtc/lib/ libnvrtc.so.12 libnvrtc-builtins.so.12.4
}

fetch_package NVRTC "$root/.cache/nvrtc" "$root/backends/cuda/nvrtc/requirements.txt"
