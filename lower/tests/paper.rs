//! The figures of the paper that show a program before and after some passes: what the passes make of
//! the first is the second, up to the names of variables.

use relax_corpus::pipeline::{Program, print};
use relax_lower::pipeline::PIPELINE;
use relax_rewrite::canonical::{canonical_function, canonical_program};
use relax_rewrite::pass::{Settings, Target};
use relax_rewrite::pipeline::{Unwatched, run};
use relax_symbolic::Prover;
use relax_syntax::ir::{Definition, Function, Module};
use relax_syntax::span::Source;
use std::path::Path;

/// Figure 9, first step: pattern analysis and FuseOps.
const GROUPED: &str = "normalize,annotate_tir_op_pattern,fuse_ops";
/// Figure 9, second step: FuseTensorIR.
const FUSED: &str = "normalize,annotate_tir_op_pattern,fuse_ops,fuse_tir,eliminate_dead_code";

/// Figure 12: partial library lowering.
const LOWERED: &str = "normalize,lower_to_library";

/// Before, the passes, after, and the definitions of the figure.
const FIGURES: &[(&str, &str, &str, &[&str])] = &[
    ("fuse_relu_initial", GROUPED, "fuse_relu_grouped", &["main", "fused_mm_relu", "mm", "relu"]),
    ("fuse_relu_initial", FUSED, "fuse_relu_fused", &["main", "fused_mm_relu"]),
    (
        "fuse_relu_static_initial",
        GROUPED,
        "fuse_relu_static_grouped",
        &["main", "fused_mm_relu", "mm", "relu"],
    ),
    ("fuse_relu_static_initial", FUSED, "fuse_relu_static_fused", &["main", "fused_mm_relu"]),
    (
        "decode_q4_initial",
        GROUPED,
        "decode_q4_grouped",
        &["main", "fused_decode_q4_mm", "decode_q4", "mm"],
    ),
    ("decode_q4_initial", FUSED, "decode_q4_fused", &["main", "fused_decode_q4_mm"]),
    ("partial_lowering_before", LOWERED, "partial_lowering_after", &["main", "mm"]),
];

fn after(name: &str, passes: &str) -> Module {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus/paper").join(name);
    let text = std::fs::read_to_string(path.with_extension("rx")).expect("the figure is there");
    let program = Program::load(Source::new(name, text.as_str()));
    assert!(!program.has_errors(), "{name}: {:#?}", program.diagnostics);
    let route = PIPELINE.named(passes).expect("the passes are registered");
    // The libraries of the figures are those of NVIDIA devices.
    let settings = Settings { target: Target::Cuda, ..Settings::default() };
    run(&program.module, &route, &settings, &mut Prover::new(), &mut Unwatched)
        .unwrap_or_else(|ended| panic!("{name}: {ended:#?}"))
}

/// Results are declared by the passes, and deduced in the figures.
fn undeclared(function: &Function) -> Function {
    let mut function = canonical_function(function);
    function.lambda.result = None;
    function
}

fn canonical<'m>(module: &'m Module, name: &str) -> (Definition, &'m Definition) {
    let found = module.definitions.iter().find(|definition| definition.name() == name);
    let found = found.unwrap_or_else(|| panic!("there is no `{name}`:\n{}", print(module)));
    let canonical = match found {
        Definition::Graph(function) => Definition::Graph(undeclared(function)),
        Definition::Tensor(program) => Definition::Tensor(canonical_program(program)),
    };
    (canonical, found)
}

#[test]
fn the_figures_are_what_the_passes_make() {
    for (before, passes, shown, names) in FIGURES {
        let made = after(before, passes);
        let figure = after(shown, "normalize");
        for name in *names {
            let (ours, _) = canonical(&made, name);
            let (theirs, _) = canonical(&figure, name);
            assert!(ours == theirs, "{before} to {shown}: {name}\n{ours:#?}\n{theirs:#?}");
        }
    }
}

#[test]
fn a_figure_that_differs_is_found() {
    let made = after("fuse_relu_initial", FUSED);
    let other = after("fuse_relu_static_fused", "normalize");
    for name in ["main", "fused_mm_relu"] {
        assert!(canonical(&made, name).0 != canonical(&other, name).0, "{name}: 8 is not n");
    }
}
