//! `decompose_ops_for_inference` and `decompose_ops_for_training` keep every bit: each operator in each float dtype, at dims among which
//! are 0, 1, 2 and primes, with NaN, infinities and zeros among the elements.

use ndarray::ArrayD;
use relax_program::frontend::{Program, RunOptions, print, run as interpret};
use relax_program::signature::{Dims, random_value};
use relax_rewrite::pass::Settings;
use relax_rewrite::pipeline::{PIPELINE, Unwatched, run};
use relax_semantics::random::Random;
use relax_semantics::tensor::Tensor;
use relax_semantics::value::Value;
use relax_symbolic::Prover;
use relax_syntax::Name;
use relax_syntax::ir::Module;
use relax_syntax::span::Source;

const CHANNELS: &str = "g: Tensor((\"c\",), DT), b: Tensor((\"c\",), DT), m: Tensor((\"c\",), DT), v: Tensor((\"c\",), DT)";

/// The operator, parameters beside `x`, the call, and the pass for which it is written as others.
const CASES: &[(&str, &str, &str, &str, &str)] = &[
    ("batch_norm", "\"n\", \"c\"", CHANNELS, "batch_norm(x, g, b, m, v, axis=1)", "training"),
    (
        "batch_norm",
        "\"n\", \"c\", \"h\"",
        CHANNELS,
        "batch_norm(x, g, b, m, v, axis=1, epsilon=0.0, momentum=0.3)",
        "training",
    ),
    (
        "batch_norm",
        "\"c\"",
        CHANNELS,
        "batch_norm(x, g, b, m, v, axis=-1, scale=False)",
        "training",
    ),
    (
        "batch_norm",
        "\"n\", \"c\", \"h\"",
        CHANNELS,
        "batch_norm(x, g, b, m, v, axis=1, momentum=1, center=False)",
        "training",
    ),
    (
        "batch_norm",
        "\"n\", \"c\", \"h\"",
        CHANNELS,
        "batch_norm(x, g, b, m, v, axis=1, training=False)",
        "inference",
    ),
    (
        "batch_norm",
        "\"n\", \"c\"",
        CHANNELS,
        "batch_norm(x, g, b, m, v, axis=1, scale=False, center=False, training=False)",
        "inference",
    ),
    (
        "layer_norm",
        "\"n\", \"c\", \"h\"",
        "g: Tensor((\"c\", \"h\"), DT), b: Tensor((\"c\", \"h\"), DT)",
        "layer_norm(x, g, b, axes=[1, -1])",
        "training",
    ),
    (
        "layer_norm",
        "\"n\", \"c\"",
        "g: Tensor((\"c\",), DT), b: Tensor((\"c\",), DT)",
        "layer_norm(x, g, b, axes=-1, epsilon=0.0, scale=False)",
        "training",
    ),
    ("dropout", "\"n\", \"c\"", "u: Tensor((), DT)", "dropout(x, 0.3)", "inference"),
    ("dropout", "\"n\", \"c\"", "s: Tensor((4,), \"u32\")", "dropout(x, 0.3, s)", "training"),
    (
        "dropout",
        "\"n\", \"c\", \"h\"",
        "s: Tensor((4,), \"u32\")",
        "dropout(x, 0.75, s, 4294967295)",
        "training",
    ),
    (
        "dropout",
        "\"n\", \"c\", \"h\"",
        "s: Tensor((4,), \"u32\")",
        "dropout(x, 0.9999847412109375, s)",
        "training",
    ),
    ("dropout", "\"n\"", "s: Tensor((4,), \"u32\")", "dropout(x, 0, s, stream=1)", "training"),
];

const SIZES: [i64; 6] = [0, 1, 2, 3, 7, 13];

fn decomposed(module: &Module, purpose: &str) -> Module {
    let route = PIPELINE.named(&format!("decompose_ops_for_{purpose}")).expect("it is a pass");
    let settings = Settings::default();
    run(module, &route, &settings, &mut Prover::new(), &mut Unwatched).expect("it is well-formed")
}

/// A random value in which some floats are special.
fn with_specials(value: Value, round: u64, name: &Name) -> Value {
    let Value::Tensor(tensor) = &value else { return value };
    if !tensor.dtype().is_float() {
        return value;
    }
    let mut random = Random::new(round, &format!("specials of {name}"));
    let specials = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 1e9, 1e-9];
    let often = if round.is_multiple_of(2) { 200 } else { 8 };
    let changed: ArrayD<f64> = tensor.to_floats().mapv(|element| {
        let at = usize::try_from(random.int(&(0..=often))).expect("it is not negative");
        specials.get(at).copied().unwrap_or(element)
    });
    Value::Tensor(Tensor::from_floats(tensor.dtype(), changed))
}

fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Tensor(a), Value::Tensor(b)) => a.same_as(b),
        (Value::Tuple(a), Value::Tuple(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        _ => false,
    }
}

/// The first call in which two modules differ.
fn difference(before: &Module, after: &Module) -> Option<String> {
    let function = before.function("f").expect("there is one");
    let called = |module: &Module, values: &[Value]| {
        let name = Name::new("f");
        interpret(module, &name, values.to_vec(), &RunOptions::default()).result
    };
    for round in 0..24_u64 {
        let mut sizes = Random::new(round, "sizes");
        let names = function.dims.iter().filter(|dim| dim.in_signature);
        let dims: Dims = names
            .map(|dim| {
                let at = usize::try_from(sizes.int(&(0..=5))).expect("it is not negative");
                (dim.name.clone(), SIZES[at])
            })
            .collect();
        let values = function.lambda.params.iter().map(|&param| {
            let name = &function.var(param).name;
            let (annotation, mut random) =
                (function.param_annotation(param), Random::new(round, name));
            let value = random_value(annotation, &dims, &mut random, &(0..=3), 1 << 20);
            with_specials(value.expect("dims are bound"), round, name)
        });
        let values: Vec<Value> = values.collect();
        let [ours, theirs] = [before, after]
            .map(|module| called(module, &values).unwrap_or_else(|stop| panic!("{stop:?}")));
        if !same(&ours, &theirs) {
            return Some(format!("{dims:?}: {ours:?}\n{theirs:?}\n{}", print(after)));
        }
    }
    None
}

fn program(dims: &str, params: &str, call: &str, dtype: &str) -> Module {
    let dtype = format!("\"{dtype}\"");
    let text = format!("def f(x: Tensor(({dims},), DT), {params}):\n    return {call}\n");
    let program = Program::load(Source::new("case", text.replace("DT", &dtype)));
    assert!(!program.has_errors(), "{:?}\n{text}", program.diagnostics);
    program.module
}

#[test]
fn decompositions_keep_every_bit() {
    for (operator, dims, params, call, purpose) in CASES {
        for dtype in ["f16", "bf16", "f32", "f64"] {
            let module = program(dims, params, call, dtype);
            let after = decomposed(&module, purpose);
            let text = print(&after);
            assert!(!text.contains(&format!("{operator}(")), "{call}\n{text}");
            if let Some(why) = difference(&module, &after) {
                panic!("{call} in {dtype}: {why}");
            }
            let other = if *purpose == "training" { "inference" } else { "training" };
            assert_eq!(print(&decomposed(&module, other)), print(&module), "{call}");
        }
    }
}

/// Another operator, factor or stream.
#[test]
fn wrong_decompositions_are_found() {
    let edits = [
        (0, "f32", "add(", "subtract("),
        (0, "f32", "variance(", "mean("),
        (6, "f32", "sqrt(", "square("),
        (9, "f16", "greater_equal(", "less("),
        (9, "f64", "1.4285714285714286", "1.4285714285714284"),
        (10, "f32", "4294967295", "4294967294"),
    ];
    for (at, dtype, from, to) in edits {
        let (_, dims, params, call, purpose) = CASES[at];
        let module = program(dims, params, call, dtype);
        let text = print(&decomposed(&module, purpose));
        assert!(text.contains(from), "{from}\n{text}");
        let edited = Program::load(Source::new("edited", text.replacen(from, to, 1)));
        assert!(!edited.has_errors(), "{:?}\n{text}", edited.diagnostics);
        assert!(difference(&module, &edited.module).is_some(), "{call}: {from}");
    }
}
