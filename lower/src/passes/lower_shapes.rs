//! Dims and annotations become computation (paper §4.5): a heap holds the values of symbolic
//! variables, and every check that an annotation stands for becomes a call.
//!
//! The interpreter checks a whole annotation in two steps: kinds, ranks and dtypes of all values in
//! order, which binds variables that stand alone; then all other dims. So do the calls made here, and
//! each fails with the trap of the check that it is a part of. A variable that a branch binds has a
//! slot of its own, which nothing after the branch reads.

mod checks;
mod code;
mod expressions;
mod scope;

use code::Code;
use relax_rewrite::names::Defined;
use relax_rewrite::pass::{Exactness, Pass, PassContext};
use relax_semantics::check::Phase;
use relax_syntax::annotation::{Annotation, Extents, TensorType};
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::ir::{Body, Definition, Function, Module};

/// The record.
pub static PASS: Pass = Pass {
    name: "lower_shapes",
    doc: "Puts the values of symbolic variables in a heap, makes every check of a value a call, and \
          leaves annotations out.",
    from: Phase::P22,
    to: Phase::P23,
    until: Phase::P23,
    exactness: Exactness::Exact,
    run,
};

// A pass has this signature whether it can refuse a program or not.
#[allow(clippy::unnecessary_wraps)]
fn run(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    let mut result = module.clone();
    let defined = Defined::of(module);
    let (mut slots, mut checks) = (0, 0);
    for definition in &mut result.definitions {
        let Definition::Graph(function) = definition else { continue };
        *function = match &function.lambda.body {
            Some(body) => lowered(&defined, function, body, &mut slots, &mut checks),
            None => declared(function),
        };
    }
    context.count("made", slots, "slots");
    context.count("made", checks, "checks");
    Ok(result)
}

fn lowered(
    defined: &Defined,
    function: &Function,
    body: &Body,
    slots: &mut usize,
    checks: &mut usize,
) -> Function {
    let mut code = Code::of(defined, function);
    code.boundary();
    let result = code.statements(body);
    let result = code.checked_result(result);
    *slots += code.slots();
    *checks += code.checks;
    let (vars, body) = code.finish(result);
    let mut rebuilt = function.clone();
    rebuilt.vars = vars;
    without_annotations(&mut rebuilt);
    rebuilt.lambda.body = Some(body);
    rebuilt
}

/// Parameters take anything: what they must be is checked in the body.
fn without_annotations(function: &mut Function) {
    function.vars.iter_mut().for_each(|info| info.annotation = None);
    for param in &function.lambda.params {
        function.vars[param.0 as usize].annotation = Some(Annotation::Object);
    }
    function.lambda.result = Some(Annotation::Object);
    function.dims.clear();
}

/// A function that is defined elsewhere has no body to check dims in.
fn declared(function: &Function) -> Function {
    let mut rebuilt = function.clone();
    for info in &mut rebuilt.vars {
        info.annotation = info.annotation.as_ref().map(without_dims);
    }
    rebuilt.lambda.result = rebuilt.lambda.result.as_ref().map(without_dims);
    rebuilt.dims.clear();
    rebuilt
}

fn without_dims(annotation: &Annotation) -> Annotation {
    let ranked = |extents: &Extents| match extents.rank() {
        Some(rank) => Extents::Rank(rank),
        None => Extents::Unknown,
    };
    match annotation {
        Annotation::Tuple(items) => Annotation::Tuple(items.iter().map(without_dims).collect()),
        Annotation::Shape(extents) => Annotation::Shape(ranked(extents)),
        Annotation::Callable(_) => Annotation::Callable(None),
        other => match other.as_tensor() {
            Some(TensorType { extents, dtype }) => {
                Annotation::Tensor(TensorType { extents: ranked(extents), dtype: *dtype })
            }
            None => other.clone(),
        },
    }
}
