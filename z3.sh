#!/bin/sh
# Fetches the SMT solver z3 into .cache/z3/, where the build looks for it: ./z3.sh
#
# The first run fetches the published package (39 MB) with pip; later ones only check that it is there. What arrives is
# held against checksums, and gets its name in the cache only when it is whole.
set -eu

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
place=$here/.cache/z3
platform=$(uname -s)-$(uname -m)
. "$here/scripts/fetching.sh"

if [ $# -ne 0 ]; then
    fail "this script takes no arguments"
fi

sha256() {
    if command -v sha256sum >/dev/null 2>&1; then sha256sum "$1"; else shasum -a 256 "$1"; fi | cut -d ' ' -f 1
}

# The checksum and the path of the library on this platform.
line=$(grep -F "  $platform " "$here/symbolic/z3/library.sha256") \
    || fail "z3 is not known for $platform: build with --no-default-features, or with a libz3 of your own (see .cargo/config.toml)" 4
checksum=${line%% *}
library=${line##* }
# What the linker looks for.
case $library in
    *.dylib) link=libz3.dylib ;;
    *) link=libz3.so ;;
esac

# Whether a folder holds the very library of the package.
is_whole() {
    [ -f "$1/$library" ] && [ -e "$1/lib/$link" ] && [ "$(sha256 "$1/$library")" = "$checksum" ]
}

unpack='
import os, sys, zipfile
wheel, folder, library, link = sys.argv[1:]
with zipfile.ZipFile(wheel) as archive:
    for name in archive.namelist():
        header = name.startswith("z3/include/") and name.endswith(".h")
        if name != "z3/" + library and not header:
            continue
        inside = name[len("z3/"):]
        path = os.path.join(folder, *inside.split("/"))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(archive.read(name))
os.symlink(os.path.basename(library), os.path.join(folder, "lib", link))
'

fetch() {
    need_pip
    mkdir -p "$here/.cache"
    work=$(mktemp -d "$here/.cache/fetch.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    trap 'exit 130' HUP INT TERM
    mkdir "$work/z3"
    echo "fetching z3" >&2
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes --only-binary :all: \
        --dest "$work" --requirement "$here/symbolic/z3/requirements.txt" >&2 \
        || fail "z3 could not be fetched (see above); nothing was kept" 4
    python3 -c "$unpack" "$work"/*.whl "$work/z3" "$library" "$link" \
        || fail "the package could not be unpacked; nothing was kept"
    is_whole "$work/z3" || fail "the package does not hold the expected library; nothing was kept"
    # What was there is of another version or damaged, or another run was faster.
    if [ -e "$place" ] && ! is_whole "$place"; then
        mv "$place" "$work/old" || fail "$place could not be replaced"
    fi
    python3 -c 'import os, sys; os.rename(*sys.argv[1:])' "$work/z3" "$place" 2>/dev/null || is_whole "$place" \
        || fail "$place could not be created"
    rm -rf "$work"
    trap - EXIT HUP INT TERM
}

is_whole "$place" || fetch
