//! The interpreter on programs in text: meaning, traps, races, threads.

use super::{Mode, Options, check, run};
use crate::ops::Limits;
use crate::stop::Stop;
use crate::tensor::{Number, Tensor, array};
use relax_syntax::dtype::DType;
use relax_syntax::ir::{Module, TensorProgram};
use relax_syntax::parse::parse_file;
use relax_syntax::raise::raise_module;
use relax_syntax::resolve::resolve_file;
use relax_syntax::span::Source;

fn module(text: &str) -> Module {
    let (file, found) = parse_file(&Source::new("test.rx", text));
    assert_eq!(found, [], "{text}");
    let (module, found) = resolve_file(&file);
    assert_eq!(found, [], "{text}");
    module
}

/// The only program of a text, after a round trip through print and parse.
fn program(text: &str) -> TensorProgram {
    let text = format!("@tensorir_function\n{text}");
    let first = module(&text);
    let printed = relax_syntax::print::print_file(&raise_module(&first));
    assert_eq!(module(&printed), first, "{printed}");
    let found = first.definitions.first().expect("one definition").name().clone();
    first.tensor_program(&found).expect("a tensor program").clone()
}

fn floats(shape: &[usize], values: &[f64]) -> Tensor {
    Tensor::from_floats(DType::F32, array(shape, values.to_vec()))
}

fn ints(dtype: DType, shape: &[usize], values: &[i128]) -> Tensor {
    Tensor::from_ints(dtype, array(shape, values.to_vec()))
}

fn fresh(shape: &[usize]) -> Tensor {
    Tensor::undefined(DType::F32, shape)
}

fn lock_step() -> Options {
    Options { mode: Mode::LockStep, ..Options::default() }
}

/// Both modes, which must agree.
fn last(text: &str, buffers: Vec<Tensor>, scalars: &[i64]) -> Tensor {
    let program = program(text);
    assert_eq!(check(&program), [], "{text}");
    let mut results = [Options::default(), lock_step()].map(|options| {
        let outcome = run(&program, buffers.clone(), scalars, &options);
        outcome.unwrap_or_else(|stop| panic!("{stop}\n{text}")).pop().expect("an output")
    });
    assert!(results[0].same_as(&results[1]), "{text}");
    std::mem::replace(&mut results[0], fresh(&[0]))
}

fn trap(text: &str, buffers: Vec<Tensor>, scalars: &[i64], options: &Options) -> (String, String) {
    match run(&program(text), buffers, scalars, options) {
        Err(Stop::Trap(trap)) => (trap.id, trap.message),
        other => panic!("expected a trap, found {other:?}"),
    }
}

fn codes(text: &str) -> Vec<&'static str> {
    check(&program(text)).iter().map(|found| found.code).collect()
}

const MATMUL: &str = r#"
def mm(X: Buffer(("n", "k"), "f32"), W: Buffer(("k", "m"), "f32"), Y: Buffer(("n", "m"), "f32")):
    for i, j, k0 in grid(n, m, k):
        with block("mm"):
            with init():
                Y[i, j] = 0.0
            Y[i, j] += X[i, k0] * W[k0, j]
"#;

#[test]
fn matrix_product() {
    let text = MATMUL.trim_start();
    let x = floats(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let w = floats(&[3, 2], &[1.0, -1.0, 0.5, 2.0, 0.0, 1.0]);
    let y = last(text, vec![x.clone(), w, fresh(&[2, 2])], &[]);
    assert!(y.same_as(&floats(&[2, 2], &[2.0, 6.0, 6.5, 12.0])), "{y:?}");
    let bad = vec![x, floats(&[2, 2], &[0.0; 4]), fresh(&[2, 2])];
    let (id, message) = trap(text, bad, &[], &Options::default());
    assert_eq!(id, "boundary/dim");
    assert_eq!(message, "dim 0 of `W` is k = 3, found 2");
    // Without iterations nothing is written, not even by `init`.
    let empty = vec![floats(&[1, 0], &[]), floats(&[0, 1], &[]), fresh(&[1, 1])];
    assert_eq!(last(text, empty, &[]).undefined_elements(), Some(&[true][..]));
}

#[test]
fn explicit_axes_and_tiles() {
    let text = r#"def sums(X: Buffer(("n", 6), "i32"), Y: Buffer(("n",), "i32")):
    for i, ko, ki in grid(n, 3, 2):
        with block("sum"):
            vi = spatial(n, i)
            vk = reduce(6, ko * 2 + ki)
            with init():
                Y[vi] = 0
            Y[vi] += X[vi, vk]
"#;
    let x = ints(DType::I32, &[2, 6], &[1, 2, 3, 4, 5, 6, 10, 20, 30, 40, 50, 60]);
    let y = last(text, vec![x, Tensor::undefined(DType::I32, &[2])], &[]);
    assert!(y.same_as(&ints(DType::I32, &[2], &[21, 210])), "{y:?}");
    let outside = text.replace("reduce(6", "reduce(5");
    let x = ints(DType::I32, &[1, 6], &[0; 6]);
    let buffers = vec![x, Tensor::undefined(DType::I32, &[1])];
    let (id, message) = trap(&outside, buffers, &[], &Options::default());
    assert_eq!(
        (id.as_str(), message.as_str()),
        ("tir/axis_range", "the axis `vk` is 5, outside of 0..5")
    );
}

#[test]
fn scalars_branches_and_lazy_operands() {
    let text = r#"def shift(X: Buffer(("n",), "f32"), Y: Buffer(("n",), "f32"), by: int):
    for i in range(n):
        from0 = i - by
        if from0 >= 0 and X[from0] > 0.0:
            Y[i] = X[from0] * 2
        else:
            Y[i] = select(i < 1, -1.0, X[i - 1])
"#;
    let y = last(text, vec![floats(&[4], &[3.0, -1.0, 2.0, 5.0]), fresh(&[4])], &[1]);
    assert!(y.same_as(&floats(&[4], &[-1.0, 6.0, -1.0, 4.0])), "{y:?}");
}

const TREE: &str = r#"def tree(X: Buffer((8,), "f32"), Y: Buffer((1,), "f32")):
    s = alloc_buffer((8,), "f32", "shared")
    for tx in thread_binding(8, "threadIdx.x"):
        s[tx] = X[tx]
        barrier()
        for step in range(3):
            half = 4 >> step
            if tx < half:
                s[tx] += s[tx + half]
            barrier()
        if tx == 0:
            Y[0] = s[0]
"#;

#[test]
fn threads_run_phase_by_phase() {
    let x = floats(&[8], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
    let y = last(TREE, vec![x.clone(), fresh(&[1])], &[]);
    assert!(y.same_as(&floats(&[1], &[36.0])), "{y:?}");
    // Without the barrier of the loop a thread reads what another writes.
    let racy = TREE.replace(
        "                s[tx] += s[tx + half]\n            barrier()\n",
        "                s[tx] += s[tx + half]\n",
    );
    let (id, message) = trap(&racy, vec![x, fresh(&[1])], &[], &lock_step());
    assert_eq!(id, "tir/race");
    assert!(message.contains("tx = 1 writes `s[1]`"), "{message}");
}

#[test]
fn nested_threads_join() {
    let text = r#"def transpose(X: Buffer((2, 3), "f32"), Y: Buffer((3, 2), "f32")):
    for bx in thread_binding(2, "blockIdx.x"):
        t = alloc_buffer((2, 3), "f32", "shared")
        for ty in thread_binding(2, "threadIdx.y"):
            for tx in thread_binding(3, "threadIdx.x"):
                l = alloc_buffer((), "f32", "local")
                l[()] = X[ty, tx] + f32(bx)
                t[ty, tx] = l[()]
                barrier()
                if bx == 0:
                    Y[tx, ty] = t[ty, 2 - tx]
"#;
    let x = floats(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let y = last(text, vec![x, fresh(&[3, 2])], &[]);
    assert!(y.same_as(&floats(&[3, 2], &[3.0, 6.0, 2.0, 5.0, 1.0, 4.0])), "{y:?}");
}

#[test]
fn divergent_barriers_are_traps() {
    let text = r#"def f(Y: Buffer((4,), "f32")):
    for tx in thread_binding(4, "threadIdx.x"):
        if tx < 2:
            barrier()
        Y[tx] = 0.0
"#;
    let (id, message) = trap(text, vec![fresh(&[4])], &[], &Options::default());
    assert_eq!(id, "tir/divergent_barrier");
    assert_eq!(
        message,
        "the thread tx = 0 waits at this barrier, but the thread tx = 2 ends without reaching it"
    );
}

#[test]
fn races_between_iterations() {
    let cases = [
        ("parallel(n)", "Y[0] += X[i]", true),
        ("vectorized(n)", "Y[i // 2] = X[i]", true),
        ("thread_binding(n, \"blockIdx.x\")", "Y[i] = X[0]", false),
        ("parallel(n)", "Y[i] = X[n - 1 - i]", false),
        ("range(n)", "Y[0] = X[i]", false),
        ("unroll(n)", "Y[0] = X[i]", false),
    ];
    for (kind, store, races) in cases {
        let text = format!(
            "def f(X: Buffer((\"n\",), \"f32\"), Y: Buffer((\"n\",), \"f32\")):\n    for i in {kind}:\n        {store}\n"
        );
        let buffers = vec![floats(&[4], &[1.0; 4]), floats(&[4], &[0.0; 4])];
        assert!(run(&program(&text), buffers.clone(), &[], &Options::default()).is_ok());
        let outcome = run(&program(&text), buffers, &[], &lock_step());
        match outcome {
            Err(Stop::Trap(trap)) if races => assert_eq!(trap.id, "tir/race"),
            Ok(_) if !races => {}
            other => panic!("{text}: {other:?}"),
        }
    }
}

#[test]
fn reads_of_many_iterations_race_with_one_write() {
    // All read the element; the last writes it.
    let text = r#"def f(X: Buffer((1,), "f32"), Y: Buffer((5, 3), "f32")):
    for i, in grid(1):
        for b in thread_binding(5, "blockIdx.x"):
            for t in thread_binding(3, "threadIdx.x"):
                Y[b, t] = X[0]
                if b == 4 and t == 2:
                    X[0] = 1.0
"#;
    let text = text.replace("for i, in grid(1)", "for i in grid(1)");
    let buffers = vec![floats(&[1], &[2.0]), fresh(&[5, 3])];
    let (id, _) = trap(&text, buffers, &[], &lock_step());
    assert_eq!(id, "tir/race");
}

#[test]
fn traps_name_what_went_wrong() {
    let cases: [(&str, &str, &str); 6] = [
        ("Y[0] = X[3]", "tir/out_of_bounds", "index 3 is outside of 0..3 in dim 0 of `X`, at X[3]"),
        (
            "Y[0 - 1] = X[0]",
            "tir/out_of_bounds",
            "index -1 is outside of 0..3 in dim 0 of `Y`, at Y[-1]",
        ),
        ("Y[0] = Y[1] + X[0]", "tir/uninitialized", "nothing was written to `Y[1]` before"),
        (
            "Y[0] = X[0] // (X[0] - X[0])",
            "tir/division_by_zero",
            "`2147483647 // 0` divides by zero",
        ),
        (
            "Y[9223372036854775807 + i] = X[0]",
            "tir/overflow",
            "`9223372036854775807 + 1` leaves the range of i64",
        ),
        (
            "Y[0] = X[0] << 32",
            "tir/shift",
            "`2147483647 << 32` shifts i32 by a count outside of 0 to 31",
        ),
    ];
    for (store, id, message) in cases {
        let text = format!(
            "def f(X: Buffer((3,), \"i32\"), Y: Buffer((3,), \"i32\")):\n    for i in range(1, 2):\n        {store}\n"
        );
        let x = ints(DType::I32, &[3], &[i128::from(i32::MAX), 1, 2]);
        let found =
            trap(&text, vec![x, Tensor::undefined(DType::I32, &[3])], &[], &Options::default());
        assert_eq!(found, (id.to_owned(), message.to_owned()));
    }
}

#[test]
fn the_boundary_is_checked() {
    let text = r#"def f(X: Buffer(("n", "n * 2"), "f32"), m: int, n: int):
    n = sym_var(lower_bound=1, upper_bound=8, multiple_of=2)
    X[0, 0] = f32(m)
"#;
    let options = Options::default();
    let case = |shape: &[usize], n: i64| {
        trap(text, vec![Tensor::undefined(DType::F32, shape)], &[7, n], &options).0
    };
    assert_eq!(case(&[2, 5], 2), "boundary/dim");
    assert_eq!(case(&[2, 4], 3), "boundary/dim");
    assert_eq!(case(&[2], 2), "boundary/rank");
    assert_eq!(case(&[0, 0], 0), "bound/lower");
    assert_eq!(case(&[10, 20], 10), "bound/upper");
    assert_eq!(case(&[3, 6], 3), "bound/multiple_of");
    let x = vec![ints(DType::I32, &[2, 4], &[0; 8])];
    assert_eq!(trap(text, x, &[7, 2], &options).0, "boundary/dtype");
    let x = last(text, vec![Tensor::full(DType::F32, &[2, 4], Number::Int(0))], &[7, 2]);
    assert_eq!(x.number(0), Number::Float(7.0));
}

#[test]
fn arithmetic_in_every_dtype() {
    let text = |dtype: DType| {
        format!(
            "def f(A: Buffer((\"n\",), \"{dtype}\"), B: Buffer((\"n\",), \"{dtype}\"), C: Buffer((\"n\",), \"{dtype}\")):\n    for i in range(n):\n        C[i] = min(A[i] * B[i] - 3, max(A[i] % B[i], A[i] // B[i])) + A[i]\n"
        )
    };
    let (a, b) = ([7, 100, 3, 90], [2, 3, 5, 7]);
    for dtype in DType::ALL.into_iter().filter(|&dtype| dtype != DType::Bool) {
        let wrap = |value: i128| {
            if dtype.is_float() { value } else { crate::round::wrap_to(dtype, value) }
        };
        let expected: Vec<i128> = (0..4)
            .map(|i| {
                let (a, b): (i128, i128) = (a[i], b[i]);
                wrap(wrap(wrap(a * b) - 3).min((a % b).max(a / b)) + a)
            })
            .collect();
        let tensor = |values: &[i128]| ints(dtype, &[4], values);
        let c =
            last(&text(dtype), vec![tensor(&a), tensor(&b), Tensor::undefined(dtype, &[4])], &[]);
        assert!(c.same_as(&tensor(&expected)), "{dtype}: {c:?} {expected:?}");
    }
}

#[test]
fn data_wraps_and_casts_saturate() {
    let text = r#"def f(X: Buffer((3,), "f32"), A: Buffer((1,), "i64"), Y: Buffer((5,), "i8")):
    for i in range(3):
        Y[i] = i8(X[i])
    Y[3] = i8(i32(300))
    A[0] = A[0] + 1
    Y[4] = i8(A[0] >> 63)
"#;
    let x = floats(&[3], &[1e9, f64::NAN, -3.9]);
    let a = ints(DType::I64, &[1], &[i128::from(i64::MAX)]);
    let y = last(text, vec![x, a, Tensor::undefined(DType::I8, &[5])], &[]);
    assert!(y.same_as(&ints(DType::I8, &[5], &[127, 0, -3, 44, -1])), "{y:?}");
}

#[test]
fn ill_formed_programs_are_rejected() {
    let with = |store: &str| {
        codes(&format!(
            "def f(X: Buffer((\"n\",), \"f32\"), I: Buffer((\"n\",), \"i32\"), Y: Buffer((\"n\",), \"f32\")):\n    for i in range(n):\n        {store}\n"
        ))
    };
    assert_eq!(with("Y[i] = X[i] + I[i]"), ["RX0401"]);
    assert_eq!(with("Y[i] = i"), ["RX0401"]);
    assert_eq!(with("I[i] = 1.5"), ["RX0401"]);
    assert_eq!(with("I[i] = I[i] / 2"), ["RX0402"]);
    assert_eq!(with("I[i] = 3000000000"), ["RX0406"]);
    assert_eq!(with("Y[i] = exp(I[i])"), ["RX0402", "RX0401"][..1]);
    assert_eq!(with("Y[i, 0] = 1.0"), ["RX0403"]);
    assert_eq!(with("Y[X[i]] = 1.0"), ["RX0404"]);
    assert_eq!(with("Y[i] = select(I[i], 1.0, 2.0)"), ["RX0405"]);
    assert_eq!(with("I[i] /= 2"), ["RX0402"]);
    assert_eq!(with("barrier()"), ["RX0410"]);
    assert_eq!(with("Y[i] = select(1 < 2, 1 << 3, 2)"), ["RX0402"]);
    let unbound = "def f(X: Buffer((\"n * 2\",), \"f32\")):\n    X[0] = 0.0\n";
    assert_eq!(codes(unbound), ["RX0408"]);
    let scope = "def f(X: Buffer((4,), \"f32\")):\n    l = alloc_buffer((1,), \"f32\", \"local\")\n    for t in thread_binding(4, \"threadIdx.x\"):\n        l[0] = 0.0\n        X[t] = l[0]\n";
    assert_eq!(codes(scope), ["RX0411", "RX0411"]);
    let axis = "def f(X: Buffer((4,), \"f32\")):\n    for t in thread_binding(4, \"thread.x\"):\n        X[t] = 0.0\n";
    assert_eq!(codes(axis), ["RX0414"]);
}

#[test]
fn resources_are_limited() {
    let text = "def f(X: Buffer((1,), \"f32\")):\n    for i in range(9223372036854775807):\n        pass\n";
    let limits = Limits { steps: 1000, tensor_bytes: 64, ..Limits::default() };
    let options = Options { limits, mode: Mode::Sequential };
    let outcome = run(&program(text), vec![fresh(&[1])], &[], &options);
    assert!(matches!(outcome, Err(Stop::Exhausted { resource: "steps", .. })), "{outcome:?}");
    let text =
        "def f(X: Buffer((1,), \"f32\")):\n    b = alloc_buffer((17,), \"f32\")\n    b[0] = 0.0\n";
    let outcome = run(&program(text), vec![fresh(&[1])], &[], &options);
    assert!(matches!(outcome, Err(Stop::Exhausted { resource: "memory", .. })), "{outcome:?}");
}

#[test]
fn an_allocation_is_fresh_each_time() {
    let text = r#"def f(Y: Buffer((3,), "i32")):
    for i in range(3):
        t = alloc_buffer((1,), "i32")
        if i == 0:
            t[0] = 5
        Y[i] = t[0]
"#;
    let buffers = vec![Tensor::undefined(DType::I32, &[3])];
    let (id, message) = trap(text, buffers, &[], &Options::default());
    assert_eq!(
        (id.as_str(), message.as_str()),
        ("tir/uninitialized", "nothing was written to `t[0]` before")
    );
}
