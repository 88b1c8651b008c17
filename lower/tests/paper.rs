//! The figures of the paper that show a program before and after some passes: what the passes make of
//! the first is the second, up to the names of variables.

use relax_lower::pipeline::PIPELINE;
use relax_program::frontend::{Program, print};
use relax_rewrite::canonical::{canonical_function, canonical_program};
use relax_rewrite::pass::{Device, Settings};
use relax_rewrite::pipeline::{Route, Unwatched, run};
use relax_semantics::check::Phase;
use relax_semantics::ops::lookup;
use relax_symbolic::Prover;
use relax_syntax::Name;
use relax_syntax::facts::Facts;
use relax_syntax::ir::{Atom, Callee, Definition, Expr, Function, Module};
use relax_syntax::span::Source;
use std::path::Path;

/// Figure 9, first step: pattern analysis and FuseOps.
const GROUPED: &str = "normalize,annotate_tir_op_pattern,fuse_ops";
/// Figure 9, second step: FuseTensorIR.
const FUSED: &str = "normalize,annotate_tir_op_pattern,fuse_ops,fuse_tir,eliminate_dead_code";

/// Figure 12: partial library lowering.
const LOWERED: &str = "normalize,lower_to_library";

/// Figure 11: workspace lifting.
const LIFTED: &str = "normalize,lift_workspaces";

/// Figure 10: memory planning, of dims without bounds and of calls that were not fused.
const PLANNED: &str = "cpu/legalize_ops,lower_call_tir,canonicalize_bindings,plan_memory";

/// The same where graphs are captured.
const PLANNED_ON_DEVICES: &str = "legalize_ops,lower_call_tir,canonicalize_bindings,plan_memory";

/// The figures of graph capture, where every call is a launch: the passes to P2.2 but those that fuse.
const CAPTURED: &str = "normalize,fold_constant,eliminate_checks,eliminate_broadcasts,canonicalize_bindings,eliminate_dead_code,\
                        lower_views,legalize_ops,eliminate_dead_code,lower_operators,lift_workspaces,lower_call_tir,\
                        canonicalize_bindings,plan_memory,rewrite_cuda_graph";

/// What the figures call tensor programs that we make of operators.
const KERNELS: &[(&str, &str)] = &[
    ("legal_exp", "exp_each"),
    ("legal_permute_dims", "swap_axes"),
    ("legal_permute_dims_1", "swap_axes"),
    ("legal_relu", "relu_each"),
];

/// What no figure shows: that storages are released.
const UNSHOWN: &str = "memory.kill_storage";

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
    ("extra_shape_calls", GROUPED, "extra_shape_grouped", &["main", "fused_add_relu"]),
    ("memory_plan_before", PLANNED, "memory_plan_after", &["main"]),
    (
        "workspace_before",
        LIFTED,
        "workspace_after",
        &["main", "mm_split_k", "small", "small_split_k"],
    ),
    (
        "cuda_graph_before",
        CAPTURED,
        "cuda_graph_captured",
        &["main", "cuda_graph_alloc", "cuda_graph_capture"],
    ),
];

fn after(name: &str, passes: &str) -> Module {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../corpus/paper").join(name);
    let text = std::fs::read_to_string(path.with_extension("rx")).expect("the figure is there");
    let program = Program::load(Source::new(name, text.as_str()));
    assert!(!program.has_errors(), "{name}: {:#?}", program.diagnostics);
    // The libraries of the figures are those of NVIDIA devices, and so are graphs.
    let (target, passes) = match passes.split_once('/') {
        Some((_, passes)) => (Device::Cpu, passes),
        None => (Device::Cuda, passes),
    };
    let route = match Phase::parse(passes) {
        Some(phase) => PIPELINE.to(phase),
        None => PIPELINE.named(passes).expect("the passes are registered"),
    };
    // A figure that records a later phase is in normal form already.
    let recorded = Phase::of_module(&program.module).expect("the figure is well-formed");
    let route = match route {
        Route::Passes(passes) if passes.iter().any(|pass| pass.until < recorded) => {
            Route::Passes(Vec::new())
        }
        route => route,
    };
    let settings = Settings { device: target, ..Settings::default() };
    run(&program.module, &route, &settings, &mut Prover::new(), &mut Unwatched)
        .unwrap_or_else(|ended| panic!("{name}: {ended:#?}"))
}

/// Results are declared by the passes, and deduced in the figures.
fn undeclared(function: &Function) -> Function {
    let mut function = function.clone();
    function.lambda.result = None;
    if let Some(body) = &mut function.lambda.body {
        for block in &mut body.blocks {
            block.bindings.iter_mut().for_each(|binding| in_words(&mut binding.expr));
            block.bindings.retain(|binding| !matches!(&binding.expr, Expr::Call { callee: Callee::Operator(name), .. } if name == UNSHOWN));
        }
    }
    canonical_function(&function)
}

/// Names as the figures have them, and equal dims written alike.
fn in_words(expr: &mut Expr) {
    let Expr::Call { callee, args, .. } = expr else { return };
    match callee {
        Callee::Operator(name) => {
            let row = lookup(name).expect("the program is well-formed");
            *name = Name::new(row.name);
        }
        Callee::Global(name) => {
            if let Some((_, shown)) = KERNELS.iter().find(|(ours, _)| name == ours) {
                *name = Name::new(*shown);
            }
        }
        Callee::Var(_) => {}
    }
    let mut prover = Prover::new();
    for arg in args {
        if let Atom::Shape(dims) = arg {
            dims.iter_mut().for_each(|dim| *dim = prover.simplify(dim));
        }
    }
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
    // Where graphs are captured, a result has memory that nothing else had before.
    let made = after("memory_plan_before", PLANNED_ON_DEVICES);
    let other = after("memory_plan_after", "normalize");
    assert!(
        canonical(&made, "main").0 != canonical(&other, "main").0,
        "the last storage is another"
    );
}
