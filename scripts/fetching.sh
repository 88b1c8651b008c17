# What the scripts that fetch something share. They read it with `.`, and have `set -eu`.

# Says why and ends: with 2 where something was asked for that is not there, with 4 where the machine lacks something.
fail() {
    printf 'error: %s\n' "$1" >&2
    exit "${2:-2}"
}

# Installs packages of Debian, where that is for us to do; else says the first text, as what is missing.
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
