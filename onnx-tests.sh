#!/bin/sh
# The backend tests of ONNX as judge of the import: ./onnx-tests.sh
#
# The first run fetches the published package (18 MB) with pip into .cache/onnx/; what arrives is held against its
# checksum. Then every test is imported and run. RELAX_BLESS=1 ./onnx-tests.sh writes the table of docs/ONNX.md.
# ./onnx-tests.sh --fetch only fetches.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
place=$here/.cache/onnx
. "$here/scripts/fetching.sh"

unpack='
import os, sys, zipfile
wheel, folder = sys.argv[1:]
inside = "onnx/backend/test/data/"
with zipfile.ZipFile(wheel) as archive:
    for name in archive.namelist():
        if not name.startswith(inside + "node/") or name.endswith("/"):
            continue
        path = os.path.join(folder, *name[len(inside):].split("/"))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(archive.read(name))
'

fetch() {
    need_pip
    mkdir -p "$here/.cache"
    work=$(mktemp -d "$here/.cache/fetch.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    trap 'exit 130' HUP INT TERM
    mkdir "$work/data"
    echo "fetching the tests of ONNX" >&2
    # The data is the same in the packages of all platforms: one is pinned.
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes --only-binary :all: \
        --python-version 3.11 --implementation cp --platform manylinux2014_x86_64 \
        --dest "$work" --requirement "$here/import/tests/requirements.txt" >&2 \
        || fail "the tests could not be fetched (see above); nothing was kept" 4
    python3 -c "$unpack" "$work"/*.whl "$work/data" || fail "the package could not be unpacked; nothing was kept"
    [ -d "$work/data/node" ] || fail "the package does not hold the tests; nothing was kept"
    mv -T "$work/data" "$place" 2>/dev/null || [ -d "$place/node" ] || fail "$place could not be created"
    rm -rf "$work"
    trap - EXIT HUP INT TERM
}

[ -d "$place/node" ] || fetch
if [ "$*" = --fetch ]; then
    exit 0
fi
RELAX_ONNX_TESTS=$place exec cargo test --quiet --locked --package relax-import --test conformance \
    --manifest-path "$here/Cargo.toml" -- "$@"
