#!/bin/sh
# Fetches what the build and the tests need beside the repository: ./setup.sh [PART ...]
#
# z3          the SMT solver that the prover links (39 MB); the default
# minilm      the weights of the sentence encoder (84 MB)
# nvrtc       the CUDA compiler, for Linux on x86_64 (25 MB); no device and no driver needed
# onnx-tests  the backend tests of ONNX (18 MB)
# webgpu      a Vulkan driver; installs Mesa's software device where the machine has none
# compilers   gcc-11, clang-14, clang-16 and clang-19 of Debian 12, for the tests of kernels; installs those that are missing
# mpi         OpenMPI of Debian, and the library that relax run --mpi loads; installs what is missing, and builds for a minute
#
# Packages come from PyPI with pinned hashes, are unpacked into .cache/, and are checked again on every run.
# Exit codes: 0 everything is there, 2 wrong usage or a broken package, 4 the machine lacks something.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
. "$root/scripts/fetching.sh"

if [ "$*" = --help ]; then
    sed -n '2,/^set -eu/s/^# \{0,1\}//p' "$root/setup.sh"
    exit 0
fi
if [ $# -eq 0 ]; then
    set -- z3
fi
for part; do
    case $part in
        z3 | minilm | nvrtc | onnx-tests | webgpu | compilers | mpi) ;;
        *) fail "there is no part '$part': choose among z3, minilm, nvrtc, onnx-tests, webgpu, compilers and mpi" ;;
    esac
done
for part; do
    # A subshell each: parts define functions of the same names, and a trap that removes unfinished work.
    (. "$root/scripts/setup/$part.sh")
done
