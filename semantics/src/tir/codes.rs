//! The diagnostics of tensor programs.

relax_syntax::diagnostic_codes! {
    MISMATCH = "RX0401", "operands of different dtypes",
        "Nothing converts silently: both operands, and the value and the buffer it is stored to, \
         have the same dtype. A literal takes the dtype of the other side. Write a cast by the \
         dtype's name: `f32(i) * X[i]`, `i64(index[i]) + 1`.";
    UNDEFINED_OPERATION = "RX0402", "no such operation on this dtype",
        "`/` is for floats (integers have `//`), bits and shifts are for integers (`& | ^` for \
         bools too), `exp` and its like are for floats. Cast the operand, or use the operation of \
         its dtype.";
    INDEX_COUNT = "RX0403", "wrong number of indices",
        "A load or store has one index for each dim of the buffer. Elements of a buffer of rank 0 \
         are written `B[()]`.";
    NOT_AN_INTEGER = "RX0404", "an integer is needed",
        "Indices, loop bounds and the values and extents of block axes are integers, of any integer \
         dtype.";
    NOT_A_CONDITION = "RX0405", "a condition is needed",
        "What `if`, `select`, `and`, `or` and `not` ask is a bool: write `x != 0`.";
    LITERAL_RANGE = "RX0406", "literal out of range",
        "A literal takes the dtype of the other side, and has to be one of its values. A cast wraps: \
         `u8(300)` is 44.";
    ARITY = "RX0407", "wrong number of operands",
        "`pow` takes two operands, `fma` three, every other function of scalars one.";
    UNBOUND_DIM = "RX0408", "a symbolic variable that nothing binds",
        "Each symbolic variable of a tensor program stands alone as a dim of some parameter, or is \
         itself a parameter (`n: int`): otherwise a call would not say its value.";
    SCOPE = "RX0409", "not visible here",
        "A scalar or buffer is bound once, before it is used, and is visible to the end of the body \
         it is bound in.";
    BARRIER = "RX0410", "misplaced barrier",
        "A barrier makes the threads of a thread block wait for each other: it stands inside a \
         `thread_binding(…, \"threadIdx.x\")` loop, with no parallel, vectorized, sharded or \
         blockIdx loop between the outermost threadIdx loop and the barrier.";
    MEMORY_SCOPE = "RX0411", "a buffer its reader cannot see",
        "A `shared` buffer belongs to one thread block: it is allocated outside the threadIdx loops \
         and inside every blockIdx loop that uses it. A `local` buffer belongs to one thread: it is \
         allocated inside every thread_binding loop that uses it.";
    TOO_DEEP = "RX0412", "nested too deeply",
        "Expressions nest up to 200 levels, statements up to 100. Name a part of it with a scalar: \
         `t = …`.";
    UPDATE = "RX0413", "no such update",
        "A store may combine with `+= -= *= /=`. Other updates are written out: \
         `B[i] = max(B[i], e)`.";
    CHECK = "RX0415", "malformed check",
        "`check(condition, \"take/C4\", \"an index must be less than {}, found {}\", n, i)` stops the \
         program with the trap of that id where the condition is false. The id is two words with a \
         `/` between them; each `{}` of the message stands for one integer after it.";
    THREAD_AXIS = "RX0414", "not a thread axis",
        "`thread_binding` takes one of blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x, threadIdx.y, \
         threadIdx.z; one axis is bound at most once in a nest, and blocks contain threads.";
    ONE_THREAD = "RX0416", "a parallel loop on one thread",
        "The iterations of a `parallel` loop are not proved to touch elements of their own: two of them may \
         access one element that either writes. On the processor the loop runs in order, on one thread, \
         so that its values are those of the interpreter; `relax run --lock-step` shows a race, if there \
         is one. Indices that are arithmetic on loop variables, dims and literals can be decided.";
}
