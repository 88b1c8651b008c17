# The part `z3` of setup.sh: the SMT solver, in .cache/z3/, where the build looks for it.

platform=$(uname -s)-$(uname -m)
# The checksum and the path of the library on this platform.
line=$(grep -F "  $platform " "$root/symbolic/z3/library.sha256") \
    || fail "z3 is not known for $platform: build with --no-default-features, or with a libz3 of your own (see .cargo/config.toml)" 4
# The library of aarch64 is built for a newer C library than some systems have; a program that links it would not start there.
if [ "$platform" = Linux-aarch64 ]; then
    libc=$(getconf GNU_LIBC_VERSION 2>/dev/null) || libc='no glibc'
    [ "$(printf '%s\n' 'glibc 2.38' "$libc" | sort -V | head -n 1)" = 'glibc 2.38' ] \
        || fail "z3 for aarch64 needs glibc 2.38, and here is $libc: build with --no-default-features, or with a libz3 of your own (see .cargo/config.toml)" 4
fi
checksum=${line%% *}
library=${line##* }
# The name that the linker looks for.
case $library in
    *.dylib) link=libz3.dylib ;;
    *) link=libz3.so ;;
esac

is_whole() {
    [ -f "$1/$library" ] && [ -e "$1/lib/$link" ] || return 1
    sum=$(sha256 "$1/$library")
    [ "${sum%% *}" = "$checksum" ]
}

unpack() {
    unpack_members "$1" "$2" z3/ "$library" 'include/*.h' && ln -s "${library##*/}" "$2/lib/$link"
}

fetch_package z3 "$root/.cache/z3" "$root/symbolic/z3/requirements.txt"
