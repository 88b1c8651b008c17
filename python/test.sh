#!/bin/sh
# Tests the Python package with a library that Cargo built: python/test.sh target/debug/librelaxc.so [ARGUMENT OF PYTEST ...]
#
# The packages of requirements.txt are installed once, into a folder beside the library. Exit codes: 0 the tests pass, 4 there is no Python 3.11
# or no packages.
set -eu

root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
library=$1
shift
built=$(CDPATH='' cd -- "$(dirname -- "$library")" && pwd)
environment=$built/python-packages

missing() {
    echo "$1" >&2
    exit 4
}
python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || missing "there is no Python 3.11 or later"
if ! cmp -s "$root/python/requirements.txt" "$environment/requirements.txt"; then
    rm -rf "$environment"
    python3 -m venv "$environment" || missing "python3 has no venv"
    "$environment/bin/pip" install --quiet --disable-pip-version-check -r "$root/python/requirements.txt" ||
        missing "the packages of python/requirements.txt cannot be installed"
    cp "$root/python/requirements.txt" "$environment/requirements.txt"
fi

# As a wheel lays it out, away from the sources.
package=$(mktemp -d)
trap 'rm -rf "$package"' EXIT
cp -r "$root/python/relaxc" "$package/relaxc"
cp "$built/$(basename -- "$library")" "$package/relaxc/_native.abi3.so"
cd "$package"
# A library of the whole workspace is linked with z3; that of a wheel is not.
export LD_LIBRARY_PATH="${Z3_LIBRARY_PATH_OVERRIDE:-$root/.cache/z3/lib}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
PYTHONPATH=$package PYTHONDONTWRITEBYTECODE=1 RELAXC_CORPUS=$root/corpus \
    "$environment/bin/python" -m pytest -q -p no:cacheprovider "$root/python/tests" "$@"
PYTHONPATH=$package PYTHONDONTWRITEBYTECODE=1 "$environment/bin/python" -m mypy.stubtest relaxc --ignore-missing-stub
