# The part `onnx-tests` of setup.sh: the backend tests of ONNX, in .cache/onnx/. To run them all:
# RELAX_ONNX_TESTS="$PWD/.cache/onnx" cargo test -p relax-import --test conformance

is_whole() {
    [ -d "$1/node" ]
}

unpack() {
    unpack_members "$1" "$2" onnx/backend/test/data/ 'node/*'
}

# The data is the same in the packages of all platforms: one is pinned.
fetch_package "the tests of ONNX" "$root/.cache/onnx" "$root/import/tests/requirements.txt" \
    --python-version 3.11 --implementation cp --platform manylinux2014_x86_64
