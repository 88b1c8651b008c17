# The part `compilers` of setup.sh: C compilers beside the system's, which the tests compile kernels with as well.

compilers="gcc-11 clang-14 clang-16 clang-19"

absent() {
    for one in $compilers; do
        command -v "$one" >/dev/null 2>&1 || printf '%s ' "$one"
    done
}

if [ -n "$(absent)" ]; then
    # shellcheck disable=SC2046 # names without spaces
    need_packages "some C compilers are missing: install them" $(absent)
    [ -z "$(absent)" ] || fail "still missing: $(absent)" 4
fi
echo "C compilers: cc $compilers" >&2
