//! Gradients on the compiled route: `main_adjoint` goes through the whole pipeline to machine code and gives what the
//! interpreter gives, with one compilation for all shapes.

use relax_cpu::{Cache, Compiler};
use relax_driver::{KernelCheck, Target, build_cpu, lower};
use relax_lower::program::Around;
use relax_program::compare::Relation;
use relax_program::frontend::{Program, RunOptions, run as interpret};
use relax_program::signature::{Dims, random_value};
use relax_reference::{Printed, register, to_machine, to_semantics};
use relax_rewrite::pass::Settings;
use relax_rewrite::pipeline::{PIPELINE, Unwatched, run};
use relax_rewrite::verify::compare_values;
use relax_runtime::program::Numerics;
use relax_runtime::{Limits as MachineLimits, Module as Machine};
use relax_semantics::check::Phase;
use relax_semantics::ops::Limits;
use relax_semantics::random::Random;
use relax_semantics::value::Value;
use relax_symbolic::Prover;
use relax_syntax::ir::Module;
use relax_syntax::span::Source;
use std::collections::BTreeMap;

const SIZES: [i64; 6] = [1, 0, 2, 3, 5, 7];

/// Programs, and what they leave to the interpreter: a broadcast whose dims are decided at run time has a version for equal
/// dims alone, forwards as backwards.
const PROGRAMS: &[(&str, &[&str])] = &[
    // Broadcast by name and by accident.
    (
        "def main(a: Tensor((\"n\",), \"f64\"), b: Tensor((\"m\",), \"f64\"), c: Tensor((\"n\", 1), \"f64\")):
    return sum(multiply(c, exp(multiply(a, tanh(b)))))
",
        &["builtin.check_operator", "builtin.run_operator"],
    ),
    // A layer, its loss, and a read at places of the data.
    (
        "def main(
    x: Tensor((\"n\", \"k\"), \"f64\"), w: Tensor((\"k\", 5), \"f64\"), b: Tensor((5,), \"f64\"),
    t: Tensor((\"n\",), \"i64\"), e: Tensor((4, 5), \"f64\"),
):
    h = layer_norm(add(gelu(add(matmul(x, w), b)), take(e, t, axis=0)), b, b, axes=[-1])
    return nll_loss(log_softmax(h), t)
",
        &[],
    ),
    // Windows, a maximum, and reductions.
    (
        "def main(x: Tensor((\"n\", 2, 6, 7), \"f64\"), w: Tensor((3, 2, 3, 3), \"f64\")):
    y = max_pool2d(relu(conv2d(x, w, padding=[1, 1])), [2, 2], [2, 2])
    return add(sum(variance(y, axis=[2, 3])), sum(max(x, axis=[1])))
",
        &[],
    ),
    // Shared heads and a mask.
    (
        "def main(
    q: Tensor((2, \"s\", 4, 3), \"f64\"), k: Tensor((2, \"s\", 2, 3), \"f64\"), v: Tensor((2, \"s\", 2, 3), \"f64\")
):
    return sum(square(attention(q, k, v, causal_mask=\"TopLeft\")))
",
        &[],
    ),
    // Branches, a call, and recursion.
    (
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
        &[],
    ),
];

#[test]
fn compiled_gradients_are_those_of_the_interpreter() {
    for (text, left) in PROGRAMS {
        let module = differentiated(text);
        let machine = compiled(text, &module, left);
        let function = module.function("main_adjoint").expect("the pass made it");
        let mut compared = 0;
        for round in 0..12_usize {
            let variables = function.dims.iter().filter(|dim| dim.in_signature).enumerate();
            let dims: Dims = variables
                .map(|(at, dim)| (dim.name.clone(), SIZES[(round + at * (1 + round / 6)) % 6]))
                .collect();
            let arguments = function.lambda.params.iter().map(|&param| {
                let mut random = Random::new(round as u64, &function.var(param).name);
                let annotation = function.param_annotation(param);
                random_value(annotation, &dims, &mut random, &(0..=3), 1 << 20)
                    .expect("it is bound")
            });
            let arguments: Vec<Value> = arguments.collect();
            let options = RunOptions::default();
            let want = interpret(&module, "main_adjoint", arguments.clone(), &options).result;
            let given: Vec<_> =
                arguments.iter().map(|value| to_machine(value).expect("a tensor")).collect();
            let got = machine.function("main_adjoint").expect("it is there").call(&given);
            match (want, got) {
                (Ok(want), Ok(got)) => {
                    let got = to_semantics(&got, &mut |_| None).expect("a tuple");
                    compare_values(Relation::Close, &want, &got, &arguments)
                        .unwrap_or_else(|why| panic!("{dims:?}: {why}\n{text}"));
                    compared += 1;
                }
                (Err(_), Err(_)) => {}
                (want, got) => panic!("{dims:?}: {want:?}, {got:?}\n{text}"),
            }
        }
        assert!(compared >= 2, "only {compared} calls ran:\n{text}");
    }
}

fn differentiated(text: &str) -> Module {
    let program = Program::load(Source::new("program", text));
    assert!(!program.has_errors(), "{:?}\n{text}", program.diagnostics);
    let settings = Settings::default();
    let mut module = program.module;
    for route in [PIPELINE.to(Phase::P0), PIPELINE.named("gradient").expect("it is a pass")] {
        module = run(&module, &route, &settings, &mut Prover::new(), &mut Unwatched)
            .unwrap_or_else(|failed| panic!("{failed:?}\n{text}"));
    }
    module
}

fn compiled(text: &str, module: &Module, left: &[&str]) -> Machine {
    let lowered = lower(&Target::default(), module, &Settings::default(), &mut Unwatched)
        .unwrap_or_else(|failed| panic!("{failed:?}\n{text}"))
        .module;
    let (externals, source) = (BTreeMap::new(), Source::new("program", text));
    let around = Around { externals: &externals, source: &source, signatures: module };
    let folder = tempfile::tempdir().expect("a folder for the cache");
    let compiler = Compiler::of_system().expect("a C compiler");
    let cache = Cache::at(folder.path());
    let image = build_cpu(
        &lowered,
        &around,
        Numerics::Reassociated,
        (&compiler, &cache),
        KernelCheck::default(),
    );
    let bytes = image.unwrap_or_else(|error| panic!("{error}\n{text}")).to_bytes();
    let mut machine =
        Machine::load_with(&bytes, MachineLimits { threads: 2, ..MachineLimits::default() })
            .unwrap_or_else(|error| panic!("{error}"));
    let interpreted: Vec<&str> = machine.missing().into_iter().collect();
    assert_eq!(
        interpreted, left,
        "left to the interpreter:
{text}"
    );
    register(&mut machine, &Limits::default(), &Printed::default()).expect("the library has them");
    machine
}
