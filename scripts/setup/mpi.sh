# The part `mpi` of setup.sh: OpenMPI, and the library by which `relax run --mpi` uses it, in .cache/mpi/, where the tests look for it.
# `relax` itself looks beside its executable, and in the folder that the environment variable RELAX_MPI names.

has_libclang() {
    [ -n "$(find /usr/lib /usr/local/lib -name 'libclang*.so*' ! -name 'libclang-cpp*' 2>/dev/null | head -n 1)" ]
}

absent() {
    command -v mpirun >/dev/null 2>&1 || printf 'openmpi-bin '
    command -v mpicc >/dev/null 2>&1 || printf 'libopenmpi-dev '
    # It reads the headers of MPI.
    has_libclang || printf 'libclang-dev '
}

if [ -n "$(absent)" ]; then
    # shellcheck disable=SC2046 # names without spaces
    need_packages "OpenMPI, or what its bindings are made with, is missing: install it" $(absent)
    [ -z "$(absent)" ] || fail "still missing: $(absent)" 4
fi
cargo build --release --locked --quiet --manifest-path "$root/backends/mpi/engine/Cargo.toml" \
    --target-dir "$root/.cache/mpi/build" || fail "the library for MPI could not be built (see above)" 4
# A process that runs keeps what it has loaded.
cp "$root/.cache/mpi/build/release/librelax_mpi.so" "$root/.cache/mpi/new.so"
mv -f "$root/.cache/mpi/new.so" "$root/.cache/mpi/librelax_mpi.so"
echo "MPI: RELAX_MPI=$root/.cache/mpi" >&2
