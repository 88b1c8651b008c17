//! The traps that belong to no operator's constraint: what there is to say about each.

/// One trap.
pub struct TrapInfo {
    /// `match_cast/dim`
    pub id: &'static str,
    /// One line.
    pub title: &'static str,
    /// What it means and what to do.
    pub explanation: &'static str,
}

const fn trap(id: &'static str, title: &'static str, explanation: &'static str) -> TrapInfo {
    TrapInfo { id, title, explanation }
}

/// Sorted by id.
pub static TRAPS: &[TrapInfo] = &[
    trap(
        "annotation/dim",
        "a value has another dim than its annotation",
        "The interpreter holds every annotated binding of a checked program against the value. That it fails means that deduction was wrong: please report the program.",
    ),
    trap(
        "annotation/dtype",
        "a value has another dtype than its annotation",
        "The interpreter holds every annotated binding of a checked program against the value. That it fails means that deduction was wrong: please report the program.",
    ),
    trap(
        "annotation/kind",
        "a value has another kind than its annotation",
        "The interpreter holds every annotated binding of a checked program against the value. That it fails means that deduction was wrong: please report the program.",
    ),
    trap(
        "annotation/rank",
        "a value has another number of dims than its annotation",
        "The interpreter holds every annotated binding of a checked program against the value. That it fails means that deduction was wrong: please report the program.",
    ),
    trap(
        "bound/lower",
        "a symbolic variable is below its lower bound",
        "`n = sym_var(lower_bound=1)` promises a least value. It is checked where the variable is bound: at a function's parameters or at a match_cast.",
    ),
    trap(
        "bound/multiple_of",
        "a symbolic variable is not the declared multiple",
        "`n = sym_var(multiple_of=8)` promises that 8 divides the variable. It is checked where the variable is bound.",
    ),
    trap(
        "bound/upper",
        "a symbolic variable is above its upper bound",
        "`n = sym_var(upper_bound=64)` promises a greatest value. It is checked where the variable is bound.",
    ),
    trap(
        "boundary/arguments",
        "an argument list that the function does not take",
        "The arguments of a call do not go with the parameters of the function.",
    ),
    trap(
        "boundary/arity",
        "a wrong number of arguments",
        "A function is called with as many arguments as it has parameters.",
    ),
    trap(
        "boundary/dim",
        "a dim at a function boundary is not what the annotation says",
        "Parameters bind their variables from left to right; then every dim is compared with its annotation. Results are compared at `return` in the same way. Look at the values in the message: one of the two places is wrong.",
    ),
    trap(
        "boundary/dtype",
        "a dtype at a function boundary is not what the annotation says",
        "Nothing is cast silently. Give a value of the dtype of the annotation, or cast with `astype`.",
    ),
    trap(
        "boundary/kind",
        "a value at a function boundary is of another kind",
        "For example a tensor where the annotation says `Shape`.",
    ),
    trap(
        "boundary/rank",
        "the number of dims at a function boundary is not what the annotation says",
        "The annotation of the parameter or result has another number of dims than the value.",
    ),
    trap(
        "boundary/stage",
        "a tensor that one worker alone has, on a mesh without this worker",
        "With the placement `O[k]` worker k of an axis of the mesh alone has the tensor. Run the program on a mesh with more than k workers along this axis.",
    ),
    trap(
        "call/arguments",
        "a call of a function value with the wrong arguments",
        "A function that is passed as a value is called with as many arguments as its declared signature has parameters.",
    ),
    trap(
        "call/dim",
        "a dim of an argument is not what the signature of the called value says",
        "A variable that holds a function is called by the signature in its annotation: its own variables are bound from left to right, then every dim is compared.",
    ),
    trap(
        "call/dtype",
        "a dtype of an argument is not what the signature of the called value says",
        "Nothing is cast silently: the argument has the dtype that the annotation of the called variable declares.",
    ),
    trap(
        "call/external",
        "a function without a body was called",
        "A body that is `...` declares a function that is defined elsewhere. It checks, but it cannot be run here.",
    ),
    trap(
        "call/kind",
        "what was called is no function",
        "A variable that is called holds a value that is no function.",
    ),
    trap(
        "call/rank",
        "the number of dims of an argument is not what the signature of the called value says",
        "The argument has as many dims as the annotation of the called variable declares.",
    ),
    trap(
        "dim/value",
        "a symbolic expression has no value",
        "It divides by zero, leaves the range of i64, or has a variable that is not bound.",
    ),
    trap(
        "if/kind",
        "a condition is no bool scalar",
        "The condition of an `if` is a bool scalar, a tensor of rank 0 or a `Prim(\"bool\")`.",
    ),
    trap(
        "library/unknown",
        "there is no library function of this name",
        "`call_dps_library` and `call_packed` call functions by name. The interpreter knows reference versions of some; this one is not among them.",
    ),
    trap(
        "match_cast/dim",
        "a match_cast found another dim",
        "`match_cast(value, annotation)` binds the variables of the annotation that are not bound yet, left to right, and then compares every dim. One of them differs.",
    ),
    trap(
        "match_cast/dtype",
        "a match_cast found another dtype",
        "The value's dtype is not that of the annotation. A match_cast checks, it does not convert: use `astype`.",
    ),
    trap(
        "match_cast/kind",
        "a match_cast found another kind of value",
        "For example a shape where the annotation says `Tensor`.",
    ),
    trap(
        "match_cast/rank",
        "a match_cast found another number of dims",
        "The value has another number of dims than the annotation of the match_cast.",
    ),
    trap(
        "memory/overwritten",
        "a tensor is read whose bytes were given to another one",
        "Two tensors lie in a storage and share bytes. A kernel has written to one of them, so the other holds nothing any more. A plan may reuse bytes only after the last read of what they held.",
    ),
    trap(
        "memory/released",
        "memory is used after its release",
        "`kill_tensor` and `kill_storage` end the life of a tensor, under all its names. It may not be read later, not be a result of the entry function, and nothing is released twice.",
    ),
    trap(
        "memory/shared",
        "a kernel is passed two tensors that share bytes, and writes to one",
        "The buffers of a tensor program are apart: what it writes to one, it does not find in another. Give the output bytes of its own, or write a program that updates one buffer in place.",
    ),
    trap(
        "param/missing",
        "an external constant has no value",
        "`param(\"name\", …)` stands for a tensor of the file given with --params (safetensors or GGUF).",
    ),
    trap(
        "ranks/alone",
        "a collective in a run of one rank",
        "Operators called `spmd.…` take part in a collective of several ranks. `relax run --ranks N` runs all ranks of a program in one process; a group of one rank needs no other one.",
    ),
    trap(
        "ranks/copies",
        "copies of a result that differ between ranks",
        "With the placement `R` every rank has the whole result. After the run the copies are compared, bit for bit. Where they differ the local program has a fault: a reduction is missing, say.",
    ),
    trap(
        "ranks/deadlock",
        "a rank that waits for one that never comes",
        "A rank waits in a collective, and another rank of its group has ended or waits in another group. All ranks of a group call the same collectives in the same order; of a send these are the sender and the receiver.",
    ),
    trap(
        "ranks/mesh",
        "a collective that does not fit the mesh of the run",
        "A collective names a mesh, an axis of it, the number of workers along this axis and the rank of the caller. The run has another mesh, or the caller another rank.",
    ),
    trap(
        "ranks/mismatch",
        "ranks of one group in different collectives",
        "All ranks of a group call the same collective with the same attributes. Both places are shown.",
    ),
    trap(
        "ranks/shard",
        "a result whose shards have the wrong extents",
        "The shard of rank i of n rows over p ranks has `min(max(n - i * c, 0), c)` rows, with `c = ceildiv(n, p)`. Of what rank k alone has, the others have no rows. The ranks returned others.",
    ),
    trap(
        "ranks/timeout",
        "a rank that the others wait for in vain",
        "Ranks are processes of their own (`relax run --mpi`), and one of them did not come to a collective, or to its end, within `--rank-timeout`. It computes for longer than that, or it hangs. All ranks end.",
    ),
    trap(
        "return/dim",
        "a result has another dim than declared",
        "What is declared after `->` is checked when the function returns, wherever deduction could not decide it. A dim of the value differs from the declared one, or the declared one has no value.",
    ),
    trap(
        "return/dtype",
        "a result has another dtype than declared",
        "The tensor that the function returns has another dtype than its declared result.",
    ),
    trap(
        "return/kind",
        "a result is of another kind than declared",
        "The function returns a value of another kind, such as a tuple where a tensor is declared.",
    ),
    trap(
        "return/rank",
        "a result has another number of dims than declared",
        "The value that the function returns has another number of dims, or a tuple another number of fields, than the declared result.",
    ),
    trap(
        "shape/negative",
        "a dim would be negative",
        "A symbolic expression such as `n - 4` gives a dim, and for these values it is below 0. A lower bound (`sym_var(lower_bound=4)`) excludes such values.",
    ),
    trap(
        "tir/axis_range",
        "an axis of a block leaves its range",
        "`vi = spatial(n, e)` promises 0 <= e < n for every iteration.",
    ),
    trap(
        "tir/divergent_barrier",
        "not every thread reaches a barrier",
        "A `barrier()` must be reached by all threads of a block or by none; here a condition separates them.",
    ),
    trap(
        "tir/division_by_zero",
        "an integer division by zero in a tensor program",
        "Integer `//` and `%` have no result for a divisor of 0. Guard it with `if` or `select`.",
    ),
    trap(
        "tir/out_of_bounds",
        "an index of a tensor program is outside of its buffer",
        "Every index is at least 0 and below the dim of its buffer. The message has the index and the dim.",
    ),
    trap(
        "tir/overflow",
        "an index computation leaves the range of i64",
        "Integer arithmetic on indices is exact; what leaves i64 is an error.",
    ),
    trap(
        "tir/race",
        "two iterations that may run at once touch the same element",
        "In lock-step mode iterations of `parallel`, `vectorized` and thread-bound loops run side by side. Two of them touched the same element, at least one wrote it, and no barrier lies between. Scheduling must never change a result: give each iteration its own elements, or make the loop serial.",
    ),
    trap(
        "tir/shift",
        "a shift by a negative number or by the width of the dtype or more",
        "`a << b` and `a >> b` want 0 <= b < the number of bits of the dtype.",
    ),
    trap(
        "tir/uninitialized",
        "a tensor program reads an element that nothing has written",
        "A fresh buffer and an output buffer hold nothing. Write the element first, for a reduction in `with init():`.",
    ),
    trap(
        "tuple/index",
        "an index into a tuple is out of range",
        "`t[i]` wants 0 <= i < the number of items.",
    ),
    trap(
        "tuple/kind",
        "a field of something that is no tuple",
        "`t[0]` takes a field of a tuple, and the value is something else.",
    ),
    trap(
        "undefined/read",
        "an operator reads an element that nothing has written",
        "`empty` and `alloc_tensor` give tensors without content. Their elements must be written before they are read.",
    ),
    trap(
        "variable/unbound",
        "a variable has no value",
        "The program uses a variable before it is bound; `relax check` says where.",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sorted_and_explained() {
        assert!(TRAPS.windows(2).all(|pair| pair[0].id < pair[1].id));
        assert!(TRAPS.iter().all(|trap| trap.explanation.len() > 30));
    }
}
