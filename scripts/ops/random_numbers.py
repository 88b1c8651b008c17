"""Random bits and dropout in training: expectations from Philox4x32-10 (Salmon et al. 2011) as NumPy computes it here.

`python3 scripts/ops/random_numbers.py` compares `philox` with the known answers of Random123 and, where `jax` is installed, the
bits and the next state of each call with `jax.lax.rng_bit_generator(..., algorithm=RandomAlgorithm.RNG_PHILOX)` on the processor.
"""

import numpy as np

from rxgen import DTYPES, FLOATS, OpFile, Shape, round_to, run, tensor, trap

ALL = 0xFFFFFFFF
KNOWN = [
    ([0] * 4, [0] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    ([ALL] * 4, [ALL] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    ([0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344], [0xA4093822, 0x299F31D0],
     [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1]),
]
STATES = [[1, 2, 3, 4], [0, 0, 0, 0], [1, 2, ALL, 7], [1, 2, ALL, ALL], [ALL] * 4]


def philox(counter, key):
    counter, key = list(counter), list(key)
    for _ in range(10):
        p, q = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [(q >> 32) ^ counter[1] ^ key[0], q & ALL, (p >> 32) ^ counter[3] ^ key[1], p & ALL]
        key = [(key[0] + 0x9E3779B9) & ALL, (key[1] + 0xBB67AE85) & ALL]
    return counter


def random_bits(state, shape, stream=0):
    """The next state, and the bits."""
    count = int(np.prod(shape, dtype=np.int64))
    low, key = state[2] | state[3] << 32, state[0] | state[1] << 32
    start = low | ((key + stream) % 2**64) << 64
    blocks = -(-count // 4)
    words = []
    for block in range(blocks):
        at = (start + block) % 2**128
        words += philox([at >> shift & ALL for shift in (0, 32, 64, 96)], state[:2])
    end = (low + blocks) % 2**64
    bits = np.array(words[:count], np.uint32).reshape(shape)
    return np.array([*state[:2], end & ALL, end >> 32], np.uint32), bits


def compared_with_jax(calls):
    import jax
    import jax.numpy as jnp

    for state, shape in calls:
        algorithm = jax.lax.RandomAlgorithm.RNG_PHILOX
        key = jnp.array(state, jnp.uint32)
        theirs = jax.lax.rng_bit_generator(key, shape, dtype=jnp.uint32, algorithm=algorithm)
        for ours, their in zip(random_bits(state, shape), theirs):
            np.testing.assert_array_equal(ours, np.asarray(their))
    bits = jnp.array(random_bits([1, 2, 3, 4], (99,))[1])
    theirs = jax.lax.bitcast_convert_type((bits >> 9) | np.uint32(0x3F800000), jnp.float32) - 1
    np.testing.assert_array_equal(uniform(np.asarray(bits)), np.asarray(theirs))
    print(f"equal to jax {jax.__version__}: {len(calls)} calls")


def uniform(bits):
    return (bits >> 9).astype(np.float32) * np.float32(2.0**-23)


def words(values):
    return np.array(values, np.uint32)


def bits_file():
    f = OpFile("random_bits", "Philox4x32-10, as `jax.lax.rng_bit_generator` with RNG_PHILOX gives it (scripts/ops/random_numbers.py).")
    params = [("state", tensor([4], "u32")), ("s", 'Shape(["n"])')]
    both = f"Tuple[{tensor([4], 'u32')}, {tensor(['n'], 'u32')}]"
    calls = [(state, (n,)) for state in STATES for n in (0, 1, 3, 4, 5, 13)]
    f.function("vector", params, "random_bits(state, shape(n))",
               [run("vector", [words(state), Shape(*shape)], random_bits(state, shape)) for state, shape in calls], both)
    shapes = [(2, 3), (0, 3), (1, 1), (5, 0)]
    calls += [(STATES[0], shape) for shape in shapes]
    f.function("matrix", [("state", tensor([4], "u32")), ("s", 'Shape(["n", "m"])')], "random_bits(state, shape(n, m))",
               [run("matrix", [words(STATES[0]), Shape(*shape)], random_bits(STATES[0], shape)) for shape in shapes])
    f.function("scalar", params[:1], "random_bits(state, ())",
               [run("scalar", [words(STATES[2])], random_bits(STATES[2], ()))])
    f.function("of_a_shape_value", [params[0], ("s", "Shape(ndim=2)")], "random_bits(state, s)[1]",
               [run("of_a_shape_value", [words(STATES[0]), Shape(2, 1)], random_bits(STATES[0], (2, 1))[1])])
    for stream in (1, ALL):
        name = f"stream_{stream}"
        f.function(name, params, f"random_bits(state, shape(n), stream={stream})",
                   [run(name, [words(state), Shape(5)], random_bits(state, (5,), stream)) for state in (STATES[0], STATES[4])])
    # Two calls one after the other draw what one call draws, where the first one uses its blocks up.
    whole = random_bits(STATES[2], (12,))
    f.function("continued", params[:1],
               ["first = random_bits(state, (8,))", "second = random_bits(first[0], (4,))",
                "return (second[0], concat((first[1], second[1]), axis=0))"],
               [run("continued", [words(STATES[2])], whole)])
    bits = random_bits(STATES[0], (6,))[1]
    f.function("uniform", params[:1],
               ["bits = random_bits(state, (6,))[1]", 'high = astype(right_shift(bits, const(9, "u32")), "f32")',
                'return multiply(high, const(1.1920928955078125e-07, "f32"))'],
               [run("uniform", [words(STATES[0])], uniform(bits))])
    f.function("never_negative", params, "random_bits(state, (n - 2,))[1]",
               [run("never_negative", [words(STATES[0]), Shape(3)], random_bits(STATES[0], (1,))[1]),
                trap("random_bits/C1", "never_negative", [words(STATES[0]), Shape(1)])])
    f.function("any_state", [("state", 'Tensor(ndim=1, dtype="u32")')], "random_bits(state, (2,))[1]",
               [run("any_state", [words(STATES[0])], random_bits(STATES[0], (2,))[1]),
                trap("random_bits/C2", "any_state", [words([1, 2, 3])])])
    f.refused("state_of_two", [("state", tensor([2], "u32"))], "random_bits(state, (2,))", "RX0501")
    f.refused("state_of_i32", [("state", tensor([4], "i32"))], "random_bits(state, (2,))", "RX0501")
    f.refused("state_of_rank_2", [("state", tensor([2, 2], "u32"))], "random_bits(state, (2,))", "RX0501")
    f.refused("stream_negative", params[:1], "random_bits(state, (2,), -1)", "RX0501")
    f.refused("stream_too_large", params[:1], "random_bits(state, (2,), 4294967296)", "RX0501")
    f.refused("shape_below_zero", params[:1], "random_bits(state, (2, -1))", "RX0501")
    f.write()
    return calls


def dropped(x, rate, state, stream=0):
    """As the operator table says it."""
    name = next(name for name, dtype in DTYPES.items() if dtype == x.dtype)
    wide = np.float64 if name == "f64" else np.float32
    bits = random_bits(state, x.shape, stream)[1]
    kept = bits.astype(np.float64) >= np.floor(rate * 2.0**32)
    with np.errstate(all="ignore"):
        scaled = (x.astype(wide) * wide(1 / (1 - rate))).astype(x.dtype)
    zero = np.zeros((), x.dtype)
    return np.where(kept, scaled, zero), kept.astype(x.dtype)


def dropout(f):
    """What the file of dropout has beside inference."""
    state = STATES[0]
    param = ("state", tensor([4], "u32"))
    for dtype in FLOATS:
        x = round_to(dtype, np.linspace(-3, 3, 12).reshape(3, 4))
        name = f"{dtype}_drawn"
        both = f"Tuple[{tensor(['n', 'm'], dtype)}, {tensor(['n', 'm'], dtype)}]"
        f.function(name, [("x", tensor(["n", "m"], dtype)), param], "dropout(x, 0.3, state)", [
            run(name, [part, words(state)], dropped(part, 0.3, state)) for part in (x, x[:1, :1], x[:2, :1], x[:0])
        ], both)
    x = np.linspace(1, 13, 13, dtype=np.float32)
    f32 = [("x", tensor(["n"], "f32")), param]
    special = np.array([np.nan, np.inf, -np.inf, -0.0] * 4, np.float32)
    f.function("of_specials", f32, "dropout(x, 0.5, state)",
               [run("of_specials", [special, words(state)], dropped(special, 0.5, state))])
    tiny = 1 - 2.0**-53
    for name, rate in [("nothing", 0.0), ("hardly_anything", 2.0**-40), ("nearly_everything", tiny)]:
        f.function(f"drops_{name}", f32, f"dropout(x, {rate!r}, state)",
                   [run(f"drops_{name}", [x, words(state)], dropped(x, rate, state))])
    # The factor is 2 ** 17, beyond f16, and this is the first key of which the first element is kept.
    rate, drawn = 1 - 2.0**-17, [55699, 0, 0, 0]
    f16 = [np.array([x], np.float16) for x in (0.0, 2.0**-14, 1.0)]
    f.function("factor_beyond_f16", [("x", tensor(["n"], "f16")), param], f"dropout(x, {rate!r}, state)",
               [run("factor_beyond_f16", [x, words(drawn)], dropped(x, rate, drawn)) for x in f16])
    f.function("streams", f32, "(dropout(x, 0.5, state)[1], dropout(x, 0.5, state, stream=7)[1])",
               [run("streams", [x, words(s)], (dropped(x, 0.5, s)[1], dropped(x, 0.5, s, 7)[1])) for s in (state, [0] * 4)])
    f.refused("state_of_two", [("x", tensor(["n"], "f32")), ("state", tensor([2], "u32"))], "dropout(x, 0.5, state)", "RX0501")
    f.refused("state_of_f32", [("x", tensor(["n"], "f32")), ("state", tensor([4], "f32"))], "dropout(x, 0.5, state)", "RX0501")
    f.refused("integers_drawn", [("x", tensor(["n"], "i32")), param], "dropout(x, 0.5, state)", "RX0501")
    f.refused("stream_without_state", [("x", tensor(["n"], "f32"))], "dropout(x, 0.5, stream=1)", "RX0501")
    f.refused("stream_negative", f32, "dropout(x, 0.5, state, -1)", "RX0501")


def main():
    for counter, key, expected in KNOWN:
        assert philox(counter, key) == expected
    return bits_file()


if __name__ == "__main__":
    compared_with_jax(main())
