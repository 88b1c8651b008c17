//! The schedule of the processor as text. It runs in the interpreter, which watches its threads for races, and gives the
//! values of the program. Planted mistakes are found there: a wrong bound, a missing tail, two threads on one element.

use ndarray::ArrayD;
use relax_driver::{Target, lower};
use relax_program::compare::{Relation, compare};
use relax_program::frontend::{Program, RunOptions, print, run};
use relax_rewrite::pass::{Device, Settings};
use relax_rewrite::pipeline::Unwatched;
use relax_runtime::program::Numerics;
use relax_semantics::stop::Stop;
use relax_semantics::tensor::Tensor;
use relax_semantics::tir::Mode;
use relax_semantics::value::Value;
use relax_syntax::dtype::DType;
use relax_syntax::ir::Module;
use relax_syntax::span::Source;

const PROGRAMS: &str = r#"
def soft(x: Tensor(("n", "m"), "f32")):
    return softmax(x)

def epilogue(x: Tensor(("n", 5), "f32"), w: Tensor((5, 7), "f32"), b: Tensor((7,), "f32")):
    return relu(add(matmul(x, w), b))

def batch(x: Tensor(("n", "m", 5), "f32"), y: Tensor(("n", 5, 7), "f32")):
    return relu(matmul(x, y))

def convolution(x: Tensor((1, 3, "n", "m"), "f32"), k: Tensor((4, 3, 3, 3), "f32")):
    return relu(nn.conv2d(x, k, padding=[1, 1, 1, 1]))

def columns(x: Tensor(("n", "m"), "f32")):
    return sum(x, axis=[0])
"#;

/// Each function with the shapes of its arguments at `n` and `m`.
type Shapes = fn(usize, usize) -> Vec<Vec<usize>>;
const CALLS: [(&str, Shapes); 5] = [
    ("soft", |n, m| vec![vec![n, m]]),
    ("epilogue", |n, _| vec![vec![n, 5], vec![5, 7], vec![7]]),
    ("batch", |n, m| vec![vec![n, m, 5], vec![n, 5, 7]]),
    ("convolution", |n, m| vec![vec![1, 3, n, m], vec![4, 3, 3, 3]]),
    ("columns", |n, m| vec![vec![n, m]]),
];

const SIZES: [(usize, usize); 6] = [(1, 1), (2, 3), (3, 2), (7, 1), (1, 8), (5, 9)];

/// How a mistake shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shows {
    /// As `tir/race`.
    Race,
    /// As another value, or as another trap.
    Value,
}

/// The function that is called, the kernel, its text, what stands there instead, and how that shows.
type Edit = (&'static str, &'static str, &'static str, &'static str, Shows);
const EDITS: [Edit; 16] = [
    ("soft", "legal_softmax", "Y[i0, i5] =", "Y[i0 // 2, i5] =", Shows::Race),
    ("soft", "legal_softmax", "for i3 in grid(n1)", "for i3 in parallel(n1)", Shows::Race),
    ("soft", "legal_softmax", "M[i0] = -inf", "M[0] = -inf", Shows::Race),
    ("soft", "legal_softmax", "for i5 in grid(n1)", "for i5 in grid(n1 - 1)", Shows::Value),
    ("soft", "legal_softmax", "parallel(n0)", "parallel(n0 - 1)", Shows::Value),
    ("epilogue", "fused_matmul_bias_relu", "lv2[i0, i1] =", "lv2[i0, 0] =", Shows::Race),
    ("epilogue", "fused_matmul_bias_relu", "grid(5)", "parallel(5)", Shows::Race),
    ("epilogue", "fused_matmul_bias_relu", "parallel(7)", "parallel(6)", Shows::Value),
    ("epilogue", "fused_matmul_bias_relu", "b[i1]", "b[i1 // 2]", Shows::Value),
    ("batch", "fused_matmul_relu", "lv1[i0, i1, i2] =", "lv1[i0 // 2, i1, i2] =", Shows::Race),
    ("batch", "fused_matmul_relu", "grid(m, 7)", "grid(m, 6)", Shows::Value),
    (
        "convolution",
        "fused_conv2d_relu",
        "lv1[i0, i1, i2, i3] =",
        "lv1[i0, i1, 0, i3] =",
        Shows::Race,
    ),
    ("convolution", "fused_conv2d_relu", "parallel(n)", "parallel(n - 1)", Shows::Value),
    ("columns", "legal_sum", "for i1 in grid(n0)", "for i1 in parallel(n0)", Shows::Race),
    ("columns", "legal_sum", "Y[i0] =", "Y[i0 // 2] =", Shows::Race),
    ("columns", "legal_sum", "parallel(n1)", "parallel(n1 - 1)", Shows::Value),
];

fn argument(shape: &[usize], seed: usize) -> Value {
    let count = shape.iter().product();
    let values = (0..count).map(|at| ((at * 7 + seed * 3 + 5) % 11) as f64 / 4.0 - 1.0);
    let values = ArrayD::from_shape_vec(shape, values.collect()).expect("as many as the shape has");
    Value::Tensor(Tensor::from_floats(DType::F32, values))
}

fn call(module: &Module, function: &str, arguments: &[Value]) -> Result<Value, Stop> {
    let options = RunOptions { loops: Mode::LockStep, ..RunOptions::default() };
    run(module, function, arguments.to_vec(), &options).result
}

/// What each call of a function gives, beside what it gave in the program.
fn held(program: &Module, scheduled: &Module, function: &str) -> Vec<Result<(), String>> {
    let (_, shapes) = CALLS.iter().find(|(name, _)| *name == function).expect("a function");
    let each = SIZES.iter().map(|&(n, m)| {
        let shapes = shapes(n, m);
        let arguments: Vec<Value> =
            shapes.iter().zip(0..).map(|(shape, seed)| argument(shape, seed)).collect();
        let want = call(program, function, &arguments).expect("a value");
        let got = call(scheduled, function, &arguments).map_err(|stop| stop.to_string())?;
        compare(Relation::Close, &want, &got)
    });
    each.collect()
}

fn loaded(text: String) -> Module {
    let program = Program::load(Source::new("schedules", text));
    assert!(!program.has_errors(), "{:?}", program.diagnostics);
    program.module
}

fn scheduled(program: &Module, numerics: Numerics) -> Module {
    let target = Target::of(Device::Cpu, numerics);
    let lowered = lower(&target, program, &Settings::default(), &mut Unwatched);
    lowered.unwrap_or_else(|failed| panic!("{failed:?}")).module
}

#[test]
fn schedules_run_in_the_interpreter_without_races() {
    let program = loaded(PROGRAMS.to_owned());
    for numerics in [Numerics::Exact, Numerics::Reassociated] {
        let text = print(&scheduled(&program, numerics));
        assert!(text.matches(" in parallel(").count() > 10, "{text}");
        let read = loaded(text);
        for (function, _) in CALLS {
            for result in held(&program, &read, function) {
                result.unwrap_or_else(|why| panic!("{function}: {why}\n{}", print(&read)));
            }
        }
    }
}

#[test]
fn mistakes_in_schedules_are_found() {
    let program = loaded(PROGRAMS.to_owned());
    let text = print(&scheduled(&program, Numerics::Reassociated));
    for (function, kernel, from, to, shows) in EDITS {
        let start = text.find(&format!("def {kernel}(")).expect("the kernel");
        let (before, after) = text.split_at(start);
        assert!(after.contains(from), "`{from}` is not in {after}");
        let edited = loaded(format!("{before}{}", after.replacen(from, to, 1)));
        let found = held(&program, &edited, function);
        let wrong: Vec<String> = found.into_iter().filter_map(Result::err).collect();
        let is_race = |why: &String| why.contains("tir/race");
        let is_found = match shows {
            Shows::Race => wrong.iter().any(is_race),
            Shows::Value => wrong.iter().any(|why| !is_race(why)),
        };
        assert!(is_found, "{kernel}: `{to}` in the place of `{from}` shows as {wrong:?}");
    }
}
