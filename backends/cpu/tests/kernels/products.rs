//! Products of matrices that are called as such: every form that is found, at sizes around those of tiles,
//! against the interpreter within the bound that `relax_runtime::program::Numerics` states.

use super::cases::{Case, case};
use super::native::build_all;
use relax_emit::print_c;
use relax_lower::passes::narrow_sums;
use relax_program::frontend::Program;
use relax_rewrite::pass::Settings;
use relax_rewrite::pipeline::{self, Route, Unwatched};
use relax_runtime::program::Numerics;
use relax_semantics::tensor::{Elements, Number, Tensor};
use relax_semantics::tir::{Options, run};
use relax_symbolic::Prover;
use relax_syntax::dtype::DType;
use relax_syntax::ir::{Definition, Module, TensorProgram};
use relax_syntax::span::Source;

/// Extents of rows, columns and terms: nothing, single ones, primes, and one off the sizes of tiles.
const SIZES: &[[i64; 3]] = &[
    [0, 3, 2],
    [3, 0, 2],
    [3, 2, 0],
    [1, 1, 1],
    [1, 7, 5],
    [1, 65, 33],
    [7, 1, 13],
    [2, 63, 9],
    [5, 64, 17],
    [6, 65, 7],
    [7, 31, 16],
    [13, 33, 8],
    [14, 16, 3],
    [15, 17, 11],
    [17, 66, 5],
    [29, 15, 31],
    [2, 3, 385],
    [1, 3, 771],
    [3, 130, 40],
    [172, 3, 5],
    [181, 5, 2],
    // Few columns: each number of lanes, more rows than are cut at once, several blocks of terms.
    [9, 2, 8],
    [17, 4, 400],
    [17, 5, 12],
    [23, 16, 386],
    [8, 9, 770],
    [1041, 2, 3],
    [12, 80, 10],
    // Sums over many terms, which several parts form slices of.
    [2, 3, 1000],
    [5, 7, 1300],
    [1, 2, 4097],
    [1, 1, 9000],
];

/// Programs of which `narrow_sums` forms the sums in f32: all but `blocked`, whose sums are of f32.
const NARROWED: usize = 13;

/// Each program stores `max(sum + bias, 0)` or the sum, so that an error of the sum is none larger after.
const PROGRAMS: &str = r#"
@tensorir_function
def plain(X: Buffer(("m", "k"), "f32"), W: Buffer(("k", "n"), "f32"), Y: Buffer(("m", "n"), "f32")):
    m, k, n = sym_var(), sym_var(), sym_var()
    T = alloc_buffer((m, n), "f64", "global")
    for i, j in grid(m, n):
        T[i, j] = 0.0
        for l in range(k):
            T[i, j] += f64(X[i, l]) * f64(W[l, j])
        Y[i, j] = f32(T[i, j])

@tensorir_function
def turned(X: Buffer(("k", "m"), "f32"), W: Buffer(("n", "k"), "f32"), Y: Buffer(("m", "n"), "f32")):
    m, k, n = sym_var(), sym_var(), sym_var()
    T = alloc_buffer((m, n), "f64", "global")
    for i, j in grid(m, n):
        T[i, j] = 0.0
        for l in range(k):
            T[i, j] += f64(W[j, l]) * f64(X[l, i])
        Y[i, j] = f32(T[i, j])

@tensorir_function
def finished(X: Buffer(("m", "k"), "f32"), W: Buffer(("k", "n"), "f32"), B: Buffer(("n",), "f32"), Y: Buffer(("m", "n"), "f32")):
    m, k, n = sym_var(), sym_var(), sym_var()
    T = alloc_buffer((m, n), "f64", "global")
    for i, j in grid(m, n):
        T[i, j] = 0.0
        for l in range(k):
            T[i, j] += f64(X[i, l]) * f64(W[l, j])
        Y[i, j] = max(f32(T[i, j]), 0.0)

@tensorir_function
def blocked(X: Buffer(("m", "k"), "f32"), W: Buffer(("k", "n"), "f32"), Y: Buffer(("m", "n"), "f32")):
    m, k, n = sym_var(), sym_var(), sym_var()
    for i, j, l in grid(m, n, k):
        with block("mm"):
            with init():
                Y[i, j] = 0.0
            Y[i, j] += X[i, l] * W[l, j]

@tensorir_function
def batched(X: Buffer((2, "m", 3, "k"), "f32"), W: Buffer((2, "k", 3, "n"), "f32"), Y: Buffer((2, 3, "m", "n"), "f32")):
    m, k, n = sym_var(), sym_var(), sym_var()
    T = alloc_buffer((2, 3, m, n), "f64", "global")
    for b, h, i, j in grid(2, 3, m, n):
        T[b, h, i, j] = 0.0
        for l in range(k):
            T[b, h, i, j] += f64(X[b, i, h, l]) * f64(W[b, l, h, j])
        Y[b, h, i, j] = f32(T[b, h, i, j])

@tensorir_function
def merged(X: Buffer((3, "m", "k"), "f32"), W: Buffer(("k", "n"), "f32"), Y: Buffer((3, "m", "n"), "f32")):
    m, k, n = sym_var(), sym_var(), sym_var()
    T = alloc_buffer((3, m, n), "f64", "global")
    for b, i, j in grid(3, m, n):
        T[b, i, j] = 0.0
        for l in range(k):
            T[b, i, j] += f64(X[b, i, l]) * f64(W[l, j])
        Y[b, i, j] = f32(T[b, i, j])

@tensorir_function
def column(X: Buffer(("m", "k"), "f32"), W: Buffer(("k",), "f32"), Y: Buffer(("m",), "f32")):
    m, k = sym_var(), sym_var()
    T = alloc_buffer((m,), "f64", "global")
    for i in range(m):
        T[i] = 0.0
        for l in range(k):
            T[i] += f64(X[i, l]) * f64(W[l])
        Y[i] = f32(T[i])

@tensorir_function
def row(X: Buffer(("k",), "f32"), W: Buffer(("k", "n"), "f32"), Y: Buffer(("n",), "f32")):
    k, n = sym_var(), sym_var()
    T = alloc_buffer((n,), "f64", "global")
    for j in range(n):
        T[j] = 0.0
        for l in range(k):
            T[j] += f64(X[l]) * f64(W[l, j])
        Y[j] = f32(T[j])

@tensorir_function
def panels_by_130(X: Buffer(("m", "k"), "f32"), P: Buffer((3, "k", 64), "f32"), Y: Buffer(("m", 130), "f32")):
    m, k = sym_var(), sym_var()
    T = alloc_buffer((m, 130), "f64", "global")
    for i, j in grid(m, 130):
        T[i, j] = 0.0
        for l in range(k):
            T[i, j] += f64(X[i, l]) * f64(P[j // 64, l, j % 64])
        Y[i, j] = f32(T[i, j])

@tensorir_function
def panels_by_64(X: Buffer(("m", "k"), "f32"), P: Buffer((1, "k", 64), "f32"), Y: Buffer(("m", 64), "f32")):
    m, k = sym_var(), sym_var()
    T = alloc_buffer((m, 64), "f64", "global")
    for i, j in grid(m, 64):
        T[i, j] = 0.0
        for l in range(k):
            T[i, j] += f64(X[i, l]) * f64(P[j // 64, l, j % 64])
        Y[i, j] = f32(T[i, j])

@tensorir_function
def panels_by_63(X: Buffer(("m", "k"), "f32"), P: Buffer((1, "k", 64), "f32"), Y: Buffer(("m", 63), "f32")):
    m, k = sym_var(), sym_var()
    T = alloc_buffer((m, 63), "f64", "global")
    for i, j in grid(m, 63):
        T[i, j] = 0.0
        for l in range(k):
            T[i, j] += f64(X[i, l]) * f64(P[j // 64, l, j % 64])
        Y[i, j] = max(f32(T[i, j]), 0.0)

@tensorir_function
def panels_by_1(X: Buffer(("m", "k"), "f32"), P: Buffer((1, "k", 64), "f32"), Y: Buffer(("m", 1), "f32")):
    m, k = sym_var(), sym_var()
    T = alloc_buffer((m, 1), "f64", "global")
    for i, j in grid(m, 1):
        T[i, j] = 0.0
        for l in range(k):
            T[i, j] += f64(X[i, l]) * f64(P[j // 64, l, j % 64])
        Y[i, j] = f32(T[i, j])

@tensorir_function
def panels_of_16(X: Buffer(("m", "k"), "f32"), P: Buffer((5, "k", 16), "f32"), Y: Buffer(("m", 70), "f32")):
    m, k = sym_var(), sym_var()
    T = alloc_buffer((m, 70), "f64", "global")
    for i, j in grid(m, 70):
        T[i, j] = 0.0
        for l in range(k):
            T[i, j] += f64(X[i, l]) * f64(P[j // 16, l, j % 16])
        Y[i, j] = f32(T[i, j])

@tensorir_function
def panels_of_32(X: Buffer(("m", "k"), "f32"), P: Buffer((3, "k", 32), "f32"), Y: Buffer(("m", 65), "f32")):
    m, k = sym_var(), sym_var()
    T = alloc_buffer((m, 65), "f64", "global")
    for i, j in grid(m, 65):
        T[i, j] = 0.0
        for l in range(k):
            T[i, j] += f64(X[i, l]) * f64(P[j // 32, l, j % 32])
        Y[i, j] = f32(T[i, j])
"#;

/// The programs with matrices of f64, and their sums.
fn text_in_f64() -> String {
    PROGRAMS.replace("f64(", "(").replace("f32(", "(").replace("\"f32\"", "\"f64\"")
}

fn loaded(text: &str) -> Module {
    let program = Program::load(Source::new("products", text));
    assert!(!program.has_errors(), "{:?}", program.diagnostics);
    program.module
}

fn programs() -> Vec<TensorProgram> {
    programs_of(loaded(PROGRAMS))
}

fn programs_of(module: Module) -> Vec<TensorProgram> {
    let definitions = module.definitions.into_iter();
    definitions
        .filter_map(|definition| match definition {
            Definition::Tensor(program) => Some(program),
            Definition::Graph(_) => None,
        })
        .collect()
}

#[test]
fn products_are_within_their_bound() {
    products_are_near(PROGRAMS, "rx_product(");
}

#[test]
fn products_of_f64_are_within_their_bound() {
    products_are_near(&text_in_f64(), "rx64_product(");
}

/// A sum in f64 of products of f32 elements, which no routine forms: it reads what lies in memory.
#[test]
fn f64_products_of_f32_matrices_stay_loops() {
    let text = "@tensorir_function\n\
                def wide(X: Buffer((\"m\", \"k\"), \"f32\"), W: Buffer((\"k\", \"n\"), \"f32\"), \
                Y: Buffer((\"m\", \"n\"), \"f64\")):\n    \
                    m, k, n = sym_var(), sym_var(), sym_var()\n    \
                    for i, j in grid(m, n):\n        \
                        Y[i, j] = 0.0\n        \
                        for l in range(k):\n            \
                            Y[i, j] += f64(X[i, l]) * f64(W[l, j])\n";
    let programs = programs_of(loaded(text));
    let built = build_all(&programs, Numerics::Reassociated);
    let sizes = [7, 9, 40];
    let value = |name: &str| sizes["mnk".find(name).expect("it is one of them")];
    let case = case(&programs[0], &value, 1).expect("it is small");
    assert_eq!(
        hold(&programs[0], &case, &built.kernels[0].run(&case).expect("a value"), &sizes),
        63
    );
}

/// Compares all products of a text, each of which is a call of this routine.
fn products_are_near(text: &str, routine: &str) {
    let module = loaded(text);
    let c = print_c(&module, &mut Prover::new(), Numerics::Reassociated).text;
    let calls = ["(", "&& "].map(|before| c.matches(&format!("{before}{routine}")).count());
    assert_eq!(calls.iter().sum::<usize>(), 14);
    let programs = programs_of(module);
    let built = build_all(&programs, Numerics::Reassociated);
    let mut compared = 0;
    for kernel in &built.kernels {
        for (sizes, seed) in SIZES.iter().zip(0..) {
            let value = |name: &str| match name {
                "m" => sizes[0],
                "n" => sizes[1],
                _ => sizes[2],
            };
            let Some(case) = case(kernel.program, &value, seed) else {
                // Panels of so many terms are more than a case may have.
                assert!(kernel.program.name.starts_with("panels_"), "{}", kernel.program.name);
                continue;
            };
            let got = kernel.run(&case).expect("a value");
            compared += hold(kernel.program, &case, &got, sizes);
        }
    }
    assert!(compared > 10_000, "{compared}");
}

/// The same sums where the text says that they are formed in f32, as the interpreter and as a kernel forms them.
#[test]
fn narrowed_sums_are_within_the_bound() {
    let module = loaded(PROGRAMS);
    let route = Route::Passes(vec![&narrow_sums::PASS]);
    let narrowed =
        pipeline::run(&module, &route, &Settings::default(), &mut Prover::new(), &mut Unwatched);
    let narrowed = programs_of(narrowed.expect("no program is refused"));
    let wide = programs();
    assert_eq!(narrowed.iter().zip(&wide).filter(|(a, b)| a != b).count(), NARROWED);
    let built = build_all(&narrowed, Numerics::Reassociated);
    for (kernel, wide) in built.kernels.iter().zip(&wide) {
        assert_eq!(kernel.program.name, wide.name);
        for (sizes, seed) in SIZES.iter().zip(0..).step_by(3) {
            let value = |name: &str| match name {
                "m" => sizes[0],
                "n" => sizes[1],
                _ => sizes[2],
            };
            let Some(case) = case(wide, &value, seed) else { continue };
            let options = Options::default();
            let text = run(kernel.program, case.tensors.clone(), &case.ints, &options);
            hold(wide, &case, &text.expect("a value"), sizes);
            hold(wide, &case, &kernel.run(&case).expect("a value"), sizes);
        }
    }
}

/// Compares what came of a case; the interpreter also sums the magnitudes.
fn hold(program: &TensorProgram, case: &Case, got: &[Tensor], sizes: &[i64; 3]) -> usize {
    let options = Options::default();
    let want = run(program, case.tensors.clone(), &case.ints, &options).expect("a value");
    let positive: Vec<Tensor> = case.tensors.iter().map(magnitudes).collect();
    let sums = run(program, positive, &case.ints, &options).expect("a value");
    let last = want.len() - 1;
    let dtype = want[last].dtype();
    for at in 0..want[last].len() {
        let [want, sum, got] =
            [&want[last], &sums[last], &got[last]].map(|tensor| tensor.number(at).as_f64());
        let terms = sizes[2] as f64;
        let bound = match dtype {
            // One rounding more: the interpreter's result is an f32.
            DType::F32 => (terms + 3.0) * f64::powi(2.0, -24) * sum,
            // The interpreter rounds each addition of the text, too.
            _ => (2.0 * terms + 4.0) * f64::powi(2.0, -53) * sum,
        };
        let name = &program.name;
        assert!((want - got).abs() <= bound, "{name} {sizes:?}: {want} {got} at {at}");
    }
    want[last].len()
}

fn magnitudes(tensor: &Tensor) -> Tensor {
    let shape = ndarray::IxDyn(tensor.shape());
    let value = |at: usize| match tensor.number(at) {
        Number::Float(value) => value.abs(),
        Number::Int(value) => value as f64,
    };
    let values = (0..tensor.len()).map(value).collect();
    let values = ndarray::ArrayD::from_shape_vec(shape, values).expect("as many elements");
    Tensor::from_elements(tensor.dtype(), Elements::Float(values))
}
