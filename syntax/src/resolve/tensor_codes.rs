//! The codes of tensor programs as text (RX0250–RX0299); what their IR must satisfy is RX04.

crate::diagnostic_codes! {
    STATEMENT = "RX0250", "a statement that does not belong into a tensor program",
        "A tensor program has loops, `with block(\"name\"):`, `if`, stores `B[i] = e` and `B[i] += e`, scalars `t = e`, `alloc_buffer`, `barrier()`, `sym_var()` and `func_attr`. It returns nothing: it writes to its last parameters.";
    PARAMETER = "RX0251", "not a parameter of a tensor program",
        "A parameter is a buffer, `X: Buffer((\"n\", 128), \"f32\")`, or an integer, `m: int`. Pass other scalars as buffers of rank 0.";
    LOOP = "RX0252", "not a loop",
        "`for i, j in grid(n, 128):`, `for i in range(n):` (or `serial`, `parallel`, `vectorized`, `unroll`, each with one or two bounds), `thread_binding(n, \"blockIdx.x\")`, `shard(2, \"mesh[0]\", mesh_dim=0)`.";
    BLOCK = "RX0253", "not a block",
        "`with block(\"name\"):` begins with its axes, if it names them: `vi = spatial(n, i)`, `vk = reduce(128, k)`; then comes `with init():`, if there is one, then the statements.";
    UNKNOWN = "RX0254", "a name that nothing binds",
        "A name in a tensor program is a parameter, a symbolic variable, a loop variable, a scalar or an allocated buffer, bound before it is used in the same body or one around it.";
    BOUND_ONCE = "RX0255", "a scalar that is bound again",
        "A scalar is bound once: `t = e` names a value, it does not change one. Within one body the name may be used anew; in a nested body that would look as if the outer scalar changed. Keep what changes in a buffer: `acc = alloc_buffer((), \"f32\", \"local\")`, `acc[()] += x`.";
    EXPRESSION = "RX0256", "an expression that does not belong into a tensor program",
        "Scalars are computed with `+ - * / // % & | ^ << >> ~`, comparisons, `and or not`, `select(c, a, b)`, casts such as `f32(x)`, `min max ceildiv abs exp log sqrt rsqrt tanh erf sigmoid floor ceil round sin cos pow fma`, and loads `B[i, j]`.";
    ALLOC = "RX0257", "not an allocation",
        "`alloc_buffer((n, 256), \"f32\", \"shared\")`: a shape of symbolic expressions, a dtype, and a scope, one of \"global\" (the default), \"shared\", \"local\".";
    TARGET = "RX0258", "nothing that can be stored to",
        "The left side of a store is an element of a buffer, `B[i, j]`; of a buffer of rank 0, `B[()]`.";
}
