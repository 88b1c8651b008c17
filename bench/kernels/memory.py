"""What memory gives to who reads, and to who writes as much as it reads, by threads.

    python3 bench/kernels/memory.py [MEBIBYTES]

Each thread has its part of the arrays. A copy counts what is read and what is written; a processor that fetches a line
before it writes to it moves half as much again, which `past caches` (stores that do not fetch) saves. Least of many runs.
"""

import ctypes
import os
import subprocess
import sys
import tempfile
import threading

from run import least
import numpy as np

SOURCE = """
#include <stdint.h>
#include <string.h>
#ifdef __AVX__
#include <immintrin.h>
#endif
typedef float lanes __attribute__((vector_size(64), may_alias));
float read(const lanes *from, lanes *to, int64_t count) {
    lanes sums[8] = {0};
    for (int64_t k = 0; k + 8 <= count; k += 8)
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++) sums[i] += from[k + i];
    for (int i = 1; i < 8; i++) sums[0] += sums[i];
    return sums[0][0];
}
void copy(const lanes *from, lanes *restrict to, int64_t count) {
    for (int64_t k = 0; k < count; k++) to[k] = from[k];
}
void past(const lanes *from, lanes *restrict to, int64_t count) {
#ifdef __AVX__
    const float *a = (const float *)from;
    for (int64_t k = 0; k < count * 16; k += 8) _mm256_stream_ps((float *)to + k, _mm256_load_ps(a + k));
    _mm_sfence();
#else
    memcpy(to, from, count * 64);
#endif
}
"""
WAYS = {"read": ("read", 1), "copy": ("copy", 2), "copy past caches": ("past", 2)}


def rate(function, count, moved, bytes_each, arrays):
    part = bytes_each // count // 64
    starts = [[array.ctypes.data + -array.ctypes.data % 64 + at * part * 64 for array in arrays] for at in range(count)]

    def work(at):
        function(*map(ctypes.c_void_p, starts[at]), ctypes.c_int64(part))

    def all_parts():
        threads = [threading.Thread(target=work, args=[at]) for at in range(1, count)]
        for thread in threads:
            thread.start()
        work(0)
        for thread in threads:
            thread.join()

    return moved * part * 64 * count / least(all_parts, 1.0) / 1e9


def main():
    bytes_each = int(sys.argv[1] if sys.argv[1:] else "128") << 20
    with tempfile.TemporaryDirectory() as folder:
        source, target = os.path.join(folder, "memory.c"), os.path.join(folder, "memory.so")
        open(source, "w").write(SOURCE)
        flags = ["-O3", "-march=native", "-fno-tree-loop-distribute-patterns", "-shared", "-fPIC"]
        subprocess.run(["cc", *flags, "-o", target, source], check=True)
        library = ctypes.CDLL(target)
        arrays = [np.ones(bytes_each + 64, np.uint8) for _ in range(2)]
        print("| GB/s of {} MiB | {} |".format(bytes_each >> 20, " | ".join(WAYS)))
        print("|---" * (len(WAYS) + 1) + "|")
        for count in range(1, (os.cpu_count() or 1) + 1):
            rates = [rate(getattr(library, name), count, moved, bytes_each, arrays) for name, moved in WAYS.values()]
            print(f"| {count} thread{'s' * (count > 1)} |" + "".join(f" {found:.1f} |" for found in rates), flush=True)


if __name__ == "__main__":
    main()
