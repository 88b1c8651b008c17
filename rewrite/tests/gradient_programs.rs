//! Gradients of programs: control flow, calls and recursion against central differences; ties against PyTorch's
//! values; what is refused, and by what words.

use relax_program::frontend::{Program, RunOptions, print, print_and_parse, run as interpret};
use relax_program::signature::{Dims, random_value};
use relax_program::spec::Context;
use relax_rewrite::finite_differences::{Outcome, compare};
use relax_rewrite::pass::Settings;
use relax_rewrite::passes::gradient::Options;
use relax_rewrite::pipeline::{Failed, PIPELINE, Unwatched, run};
use relax_semantics::check::Phase;
use relax_semantics::random::Random;
use relax_semantics::value::Value;
use relax_symbolic::Prover;
use relax_syntax::Name;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::dtype::DType;
use relax_syntax::ir::Module;
use relax_syntax::span::Source;

/// Programs, each with a function `main`; integers among the parameters are drawn from 0 to 3.
const PROGRAMS: &[(&str, &str)] = &[
    (
        "broadcast by name and by accident",
        "def main(a: Tensor((\"n\",), \"f64\"), b: Tensor((\"m\",), \"f64\")):
    return sum(exp(multiply(a, tanh(b))))
",
    ),
    (
        "several uses",
        "def main(x: Tensor((\"n\", \"m\"), \"f64\")):
    y = sin(x)
    z = multiply(x, y)
    return sum(multiply(add(z, y), add(z, x)))
",
    ),
    (
        "tuples, casts and a dataflow block",
        "def main(x: Tensor((\"n\", 2), \"f64\"), p: Tuple[Tensor((\"n\",), \"f64\"), Tensor((2,), \"i64\")], w: Tensor((2,), \"f64\")):
    n = sym_var()
    with dataflow():
        parts = split(x, 2, axis=1)
        a = flatten(parts[0])
        t = (a, (p[0], x))
        u = t[1]
        b = multiply(u[0], exp(t[0]))
        c = match_cast(b, Tensor((n,), \"f64\"))
        output(c)
    d = multiply(expand_dims(c, 1), w)
    return (sum(square(d)), c)
",
    ),
    (
        "a branch on data",
        "def main(x: Tensor((\"n\",), \"f64\"), w: Tensor((), \"f64\")):
    s = sum(x)
    c = greater(s, const(0.0, \"f64\"))
    if c:
        y = multiply(x, exp(w))
        z = square(w)
    else:
        y = sin(x)
        z = s
    return add(sum(multiply(y, y)), multiply(z, w))
",
    ),
    (
        "a branch in a branch",
        "def main(x: Tensor((\"n\",), \"f64\"), c: Tensor((), \"bool\")):
    if c:
        d = greater(sum(x), const(0.5, \"f64\"))
        if d:
            y = square(x)
        else:
            y = exp(x)
    else:
        y = x
    return sum(multiply(y, sin(x)))
",
    ),
    (
        "calls, also of several results",
        "def layer(x: Tensor((\"n\", \"k\"), \"f64\"), w: Tensor((\"k\", \"m\"), \"f64\")):
    y = matmul(x, w)
    return (tanh(y), sum(y, axis=[0]))

def main(x: Tensor((\"n\", \"k\"), \"f64\"), w: Tensor((\"k\", \"k\"), \"f64\")):
    a = layer(x, w)
    b = layer(a[0], w)
    return add(sum(b[0]), sum(multiply(a[1], b[1])))
",
    ),
    (
        "recursion",
        "def power(x: Tensor((\"n\",), \"f64\"), k: Tensor((), \"i64\")) -> Tensor((\"n\",), \"f64\"):
    n = sym_var()
    c = less_equal(k, const(0, \"i64\"))
    if c:
        y = ones((n,), \"f64\")
    else:
        y = multiply(x, power(sin(x), subtract(k, const(1, \"i64\"))))
    return y

def main(x: Tensor((\"n\",), \"f64\"), k: Tensor((), \"i64\")):
    return sum(power(x, k))
",
    ),
    (
        "a closure that is lifted",
        "def main(x: Tensor((\"n\", 3), \"f64\"), w: Tensor((3,), \"f64\")):
    n = sym_var()
    y = multiply(x, w)
    return mean(softplus(y))
",
    ),
    (
        "a parameter that does not count",
        "def main(x: Tensor((\"n\",), \"f64\"), w: Tensor((2, 3), \"f64\")):
    return sum(floor(add(x, sum(w))))
",
    ),
    (
        "dims that are not known",
        "def main(x: Tensor((\"n\", 3), \"f64\"), y: Tensor(ndim=2, dtype=\"f64\")):
    return sum(square(sum(multiply(x, y), axis=[1])))
",
    ),
];

#[test]
fn programs_agree_with_differences() {
    for (what, text) in PROGRAMS {
        let module = differentiated(text, &[]).unwrap_or_else(|why| panic!("{what}: {why:?}"));
        print_and_parse(&module).unwrap_or_else(|why| panic!("{what}: {why}"));
        let function = module.function("main").expect("there is one");
        let params = function.lambda.params.clone();
        let is_float = |at: &usize| {
            let tensor = function.param_annotation(params[*at]).as_tensor();
            tensor.and_then(|tensor| tensor.dtype) == Some(DType::F64)
        };
        let wrt: Vec<usize> = (0..params.len()).filter(is_float).collect();
        let (mut agree, mut nonzero) = (0, 0);
        for round in 0..16_u64 {
            let mut sizes = Random::new(round, "sizes");
            let names = function.dims.iter().filter(|dim| dim.in_signature);
            let dims: Dims = names.map(|dim| (dim.name.clone(), sizes.int(&(0..=4)))).collect();
            let values = params.iter().map(|&param| {
                let mut random = Random::new(round, &function.var(param).name);
                let annotation = function.param_annotation(param);
                random_value(annotation, &dims, &mut random, &(0..=3), 1 << 20)
                    .unwrap_or_else(|_| unranked(&dims, &mut random))
            });
            let values: Vec<Value> = values.collect();
            let outcome = compare(&module, "main", &wrt, &values, round);
            let outcome =
                outcome.unwrap_or_else(|why| panic!("{what}, {dims:?}: {why}\n{}", print(&module)));
            if let Outcome::Agree { nonzero: found, .. } = outcome {
                agree += 1;
                nonzero += found;
            }
        }
        assert!(agree >= 3, "{what}: only {agree} calls ran");
        assert!(nonzero > 0 || what.contains("does not count"), "{what}: all gradients are 0");
    }
}

/// A matrix with the dims of another one, or with one column.
fn unranked(dims: &Dims, random: &mut Random) -> Value {
    let rows = usize::try_from(*dims.values().next().unwrap_or(&2)).expect("an extent");
    let columns = if random.int(&(0..=1)) == 0 { 1 } else { 3 };
    Value::Tensor(random.normal_tensor(DType::F64, &[rows, columns]))
}

/// What PyTorch 2.15 gives at ties and kinks, in f64: `torch.autograd.grad` of the sum of the result.
const TIES: &[(&str, &str, &str, &str)] = &[
    ("x: Tensor((3,), \"f64\")", "relu(x)", "[0, 1, -1]", "[0, 1, 0]"),
    ("x: Tensor((2,), \"f64\")", "abs(x)", "[0, 2]", "[0, 1]"),
    (
        "x: Tensor((3,), \"f64\")",
        "maximum(x, const([1.0, 3.0, 2.0], \"f64\"))",
        "[1, 2, 3]",
        "[0.5, 0, 1]",
    ),
    (
        "x: Tensor((3,), \"f64\")",
        "maximum(const([1.0, 2.0, 3.0], \"f64\"), x)",
        "[1, 3, 2]",
        "[0.5, 1, 0]",
    ),
    (
        "x: Tensor((3,), \"f64\")",
        "minimum(x, const([1.0, 3.0, 2.0], \"f64\"))",
        "[1, 2, 3]",
        "[0.5, 1, 0]",
    ),
    (
        "x: Tensor((2, 4), \"f64\")",
        "max(x, axis=[1])",
        "[[1, 3, 3, 0], [2, 2, 2, 2]]",
        "[[0, 0.5, 0.5, 0], [0.25, 0.25, 0.25, 0.25]]",
    ),
    (
        "x: Tensor((2, 3), \"f64\")",
        "max(x)",
        "[[1, 3, 3], [2, 2, 2]]",
        "[[0, 0.5, 0.5], [0, 0, 0]]",
    ),
    (
        "x: Tensor((2, 3), \"f64\")",
        "min(x, axis=[0])",
        "[[1, 3, 3], [1, 2, 3]]",
        "[[0.5, 0, 0.5], [0.5, 1, 0.5]]",
    ),
    ("x: Tensor((5,), \"f64\")", "clip(x, 0, 3)", "[0, 3, 4, -1, 1]", "[0, 0, 0, 0, 1]"),
    (
        "x: Tensor((1, 1, 4), \"f64\")",
        "max_pool1d(x, [2], [1])",
        "[[[1, 1, 1, 0]]]",
        "[[[1, 1, 1, 0]]]",
    ),
    ("x: Tensor((3,), \"f64\")", "leakyrelu(x, alpha=0.5)", "[0, 1, -1]", "[0.5, 1, 0.5]"),
    ("x: Tensor((3,), \"f64\")", "std(x)", "[2, 2, 2]", "[0, 0, 0]"),
    ("x: Tensor((3,), \"f64\")", "prod(x)", "[0, 2, 3]", "[6, 0, 0]"),
    ("x: Tensor((3,), \"f64\")", "prod(x)", "[0, 0, 3]", "[0, 0, 0]"),
    ("x: Tensor((4,), \"f64\")", "cumprod(x, axis=0)", "[2, 0, 3, 0]", "[1, 8, 0, 0]"),
    (
        "x: Tensor((3,), \"f64\")",
        "power(x, const([2.0, 0.0, 1.0], \"f64\"))",
        "[0, 2, 3]",
        "[0, 0, 1]",
    ),
    ("x: Tensor((1,), \"f64\")", "power(const([0.0], \"f64\"), x)", "[2]", "[0]"),
    ("x: Tensor((2,), \"f64\")", "floor(x)", "[1, 1.5]", "[0, 0]"),
    (
        "x: Tensor((3,), \"f64\")",
        "scatter_elements(x, const([0, 0, 1], \"i64\"), const([1.0, 1.0, 2.0], \"f64\"), reduction=\"max\")",
        "[1, 2, 3]",
        "[0.3333333333333333, 0.5, 1]",
    ),
    (
        "x: Tensor((2,), \"f64\")",
        "softplus(x, beta=1.0, threshold=1.0)",
        "[1, 2]",
        "[0.7310585786300049, 1]",
    ),
    (
        "x: Tensor((3,), \"f64\")",
        "multiply(sort(x), const([1.0, 2.0, 3.0], \"f64\"))",
        "[2, 2, 1]",
        "[2, 3, 1]",
    ),
    ("x: Tensor((3,), \"f64\")", "median(x)", "[1, 1, 2]", "[0.5, 0.5, 0]"),
    ("x: Tensor((4,), \"f64\")", "median(x)", "[3, 1, 2, 4]", "[0, 0, 1, 0]"),
];

#[test]
fn ties_are_those_of_pytorch() {
    for (params, call, at, want) in TIES {
        let text = format!("def main({params}):\n    return sum({call})\n");
        let module = differentiated(&text, &[]).unwrap_or_else(|why| panic!("{call}: {why:?}"));
        let annotation =
            module.function("main").map(|f| f.param_annotation(f.lambda.params[0]).clone());
        let annotation = annotation.expect("there is one");
        let value =
            |text: &str| Context::default().read("x", text, Some(&annotation)).expect("a value");
        let options = RunOptions::default();
        let got = interpret(&module, "main_adjoint", vec![value(at)], &options).result;
        let Ok(Value::Tuple(parts)) = got else { panic!("{call}: {got:?}") };
        let Value::Tuple(gradients) = &parts[1] else { panic!("{call}: no gradients") };
        let (Value::Tensor(got), Value::Tensor(want)) = (&gradients[0], value(want)) else {
            panic!("{call}: no tensors")
        };
        let apart = (got.to_floats() - want.to_floats()).mapv(f64::abs);
        assert!(apart.iter().all(|apart| *apart <= 1e-15), "{call} at {at}: {got:?}, not {want:?}");
    }
}

/// Programs that are refused, the parameters that are named, and a part of the message.
const REFUSED: &[(&str, &[&str], &str)] = &[
    (
        "def main(x: Tensor((\"n\",), \"f32\")):\n    y = unique(x)\n    return sum(y)\n",
        &[],
        "`unique` has no adjoint here: equal elements share one element of the result",
    ),
    (
        "def main(x: Tensor((3,), \"f32\"), u: Tensor((3,), \"f32\")):\n    return sum(scatter_elements(x, const([0, 0, 1], \"i64\"), u, reduction=\"mul\"))\n",
        &[],
        "`scatter_elements` has no adjoint here: with the reduction `mul`",
    ),
    (
        "def main(x: Tensor((\"n\",), \"f32\")):\n    return exp(x)\n",
        &[],
        "a loss is a float tensor of rank 0",
    ),
    (
        "def main(x: Tensor((\"n\",), \"f32\"), i: Tensor((2,), \"i64\")):\n    return sum(take(x, i))\n",
        &["i"],
        "`i` is `Tensor((2,), \"i64\")`, and gradients are of float tensors",
    ),
    (
        "def main(weight: Tensor((), \"f32\")):\n    return weight\n",
        &["wight"],
        "`main` has no parameter `wight`",
    ),
    ("def main(w: Tensor((), \"f32\")):\n    return w\n", &["w", "w"], "`w` is named twice"),
    (
        "def main(w: Tensor((), \"f32\")):\n    return w\n\ndef main_adjoint(w: Tensor((), \"f32\")):\n    return w\n",
        &[],
        "the module has an `main_adjoint` already",
    ),
    (
        "def main(w: Tensor((), \"f32\")):\n    _ = print(format=\"here\")\n    return w\n",
        &[],
        "`main` has an effect",
    ),
    (
        "def main(x: Tensor((\"n\", 4), \"f32\")):\n    n = sym_var()\n    return sum(call_tir(double, [x], Tensor((n, 4), \"f32\")))\n\n@tensorir_function\ndef double(X: Buffer((\"n\", 4), \"f32\"), Y: Buffer((\"n\", 4), \"f32\")):\n    n = sym_var()\n    for i, j in grid(n, 4):\n        with block(\"double\"):\n            Y[i, j] = X[i, j] * 2.0\n",
        &[],
        "`call_tir` has no adjoint here: adjoints of tensor programs are not derived",
    ),
    (
        "def main(x: Tensor((\"n\",), \"f32\"), f: Callable([Tensor((\"k\",), \"f32\")], Tensor((\"k\",), \"f32\"))):\n    return sum(f(x))\n",
        &[],
        "calls of closures are not differentiated",
    ),
    (
        "def other(x: Tensor((2,), \"f32\")) -> Tensor((), \"f32\"):\n    ...\n\ndef main(x: Tensor((2,), \"f32\")):\n    return other(x)\n",
        &[],
        "`other` is called, whose body is not known",
    ),
];

#[test]
fn refusals_name_the_cause() {
    for (text, wrt, part) in REFUSED {
        match differentiated(text, wrt) {
            Ok(module) => panic!("{part}: it is not refused:\n{}", print(&module)),
            Err(found) => assert!(found.message.contains(part), "{part}: {}", found.message),
        }
    }
}

fn differentiated(text: &str, wrt: &[&str]) -> Result<Module, Box<Diagnostic>> {
    let program = Program::load(Source::new("program", text));
    assert!(!program.has_errors(), "{:?}\n{text}", program.diagnostics);
    let wrt = wrt.iter().map(Name::new).collect();
    let settings = Settings {
        gradient: Options { function: Some(Name::new("main")), wrt, ..Options::default() },
        ..Settings::default()
    };
    let apply = |module: &Module, route: &_| {
        run(module, route, &settings, &mut Prover::new(), &mut Unwatched).map_err(|failed| {
            match failed {
                Failed::Refused { mut diagnostics, .. } => Box::new(diagnostics.remove(0)),
                Failed::Broken { diagnostics, module, .. } => {
                    panic!("not well-formed: {diagnostics:?}\n{}", print(&module))
                }
                Failed::Stopped { why, .. } => panic!("{why}"),
            }
        })
    };
    let ingested = apply(&program.module, &PIPELINE.to(Phase::P0))?;
    apply(&ingested, &PIPELINE.named("gradient").expect("it is a pass"))
}

const CALLS: &str = r#"
def f(x: Tensor(("n",), "f64")) -> Tensor(("n",), "f64"):
    n = sym_var()
    func_attr("private", True)
    return tanh(multiply(x, x))

def g(x: Tensor(("n",), "f64")) -> Tensor(("n",), "f64"):
    n = sym_var()
    return f(f(x))

def main(x: Tensor(("n",), "f64")) -> Tensor((), "f64"):
    n = sym_var()
    return sum(add(g(x), f(x)))
"#;

#[test]
fn what_called_functions_compute_is_computed_once() {
    let module = differentiated(CALLS, &["x"]).unwrap_or_else(|why| panic!("{why:?}"));
    let names: Vec<&str> = module.functions().map(|function| function.name.as_str()).collect();
    assert_eq!(names, ["f", "g", "main", "main_adjoint"]);
    let printed = print(&module);
    let (before, adjoint) = printed.split_once("def main_adjoint").expect("an adjoint");
    assert_eq!(adjoint.matches("tanh(").count(), 3, "{printed}");
    assert!(before.contains("g(x)"), "the function itself stays: {printed}");
}

/// What a call in a program begins with, and what takes its place.
type Edit<'a> = (&'a str, &'a dyn Fn(&str) -> String);

/// A sign, the other of two operands that is not transposed, one row in the place of the sum over a stretched axis.
#[test]
fn wrong_gradients_are_found() {
    let text = "def main(x: Tensor((\"n\", \"k\"), \"f64\"), w: Tensor((\"k\", \"k\"), \"f64\"), b: Tensor((\"k\",), \"f64\")):\n    return sum(sin(matmul(add(x, b), w)))\n";
    let printed = print(&differentiated(text, &[]).expect("it is differentiated"));
    let dims: Dims = [("n".into(), 3), ("k".into(), 2)].into_iter().collect();
    let outcome = |text: &str| {
        let program = Program::load(Source::new("edited", text));
        assert!(!program.has_errors(), "{:?}\n{text}", program.diagnostics);
        let function = program.module.function("main").expect("there is one");
        let values = function.lambda.params.iter().map(|&param| {
            let mut random = Random::new(1, &function.var(param).name);
            random_value(function.param_annotation(param), &dims, &mut random, &(0..=3), 1 << 20)
        });
        let values: Vec<Value> = values.collect::<Result<_, _>>().expect("dims are bound");
        compare(&program.module, "main", &[0, 1, 2], &values, 1)
    };
    assert_eq!(outcome(&printed), Ok(Outcome::Agree { gradients: 3, nonzero: 3 }));
    let edits: [Edit; 3] = [
        ("cos(", &|value| format!("negative({value})")),
        ("permute_dims(w", &|_| "w".to_owned()),
        ("collapse_sum_to(", &|value| {
            let (_, arguments) = value.split_once('(').expect("a call");
            let (cotangent, _) = arguments.split_once(',').expect("two arguments");
            format!("take({cotangent}, const(0, \"i64\"), axis=0)")
        }),
    ];
    for (call, edit) in edits {
        let mut found = 0;
        let lines = printed.lines().map(|line| match line.split_once(" = ") {
            Some((left, value)) if value.starts_with(call) => {
                found += 1;
                format!("{left} = {}\n", edit(value))
            }
            _ => format!("{line}\n"),
        });
        let edited: String = lines.collect();
        assert_eq!(found, 1, "{call}\n{printed}");
        let outcome = outcome(&edited);
        assert!(outcome.is_err(), "{call}: {outcome:?}\n{edited}");
    }
}
