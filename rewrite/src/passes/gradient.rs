//! Reverse-mode automatic differentiation (TVM's pass `Gradient`): for a function that gives a scalar loss, a
//! function beside it that gives its result and the gradients of parameters.
//!
//! The new function has the bindings of the old one, and after them, in reverse order, the adjoints of those
//! that the loss depends on. Several cotangents of one variable are added in the order of the text. An `if`
//! becomes a second `if` on the same condition whose branches repeat the bindings of the first one's, and go
//! backwards through them. A called function is inlined, so that nothing is computed twice. Where it stays, since it calls
//! itself, say, it gets a pullback of its own, which takes the arguments and the cotangents of the result and repeats the
//! call; so recursion needs no list of intermediate values.

mod cotangent;
mod functions;
mod reverse;
mod segments;

use crate::inlined::with_calls_inlined;
use crate::names::Names;
use crate::pass::{Exactness, Pass, PassContext};
use crate::passes::bind_params::entry;
use functions::{Gradients, Pending};
use relax_semantics::check::codes::GRADIENT;
use relax_semantics::check::{Checked, Phase, check};
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::dtype::DType;
use relax_syntax::facts::Facts;
use relax_syntax::ir::{Definition, Function, Module, VarId};
use relax_syntax::span::Span;
pub use segments::Segments;
use segments::cut;

/// Runs by name, after ingestion; which function and parameters is in `Settings::gradient`.
pub static PASS: Pass = Pass {
    name: "gradient",
    doc: "Adds the function main_adjoint, which gives the result of main and the gradients of its loss, by reverse-mode \
          automatic differentiation.",
    from: Phase::P0,
    to: Phase::P0,
    until: Phase::P0,
    exactness: Exactness::Exact,
    run,
};

/// What is differentiated, and by what.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The function; `None`: the entry of the module.
    pub function: Option<Name>,
    /// Names of its parameters (TVM's `require_grads`); none: every float tensor.
    pub wrt: Vec<Name>,
    /// What the function is cut into.
    pub segments: Segments,
    /// The cotangent of the loss.
    pub seed: Seed,
}

/// The attribute of functions that the pass makes. What they compute is used once for the most part: cotangents are added in place.
pub const ADJOINT: &str = "adjoint";

/// The cotangent of the loss, by which all gradients are multiplied.
#[derive(Clone, Debug, Default)]
pub enum Seed {
    /// 1: gradients are those of the loss.
    #[default]
    One,
    /// A further, last parameter of the adjoint, a scalar of the dtype of the loss: the scale of loss scaling. It has this name, or
    /// that with a number.
    Parameter(Name),
}

/// The name of the function that the pass adds for one.
#[must_use]
pub fn adjoint_name(function: &Name) -> Name {
    Name::new(format!("{function}_adjoint"))
}

fn run(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    let options = context.settings.gradient.clone();
    let Some(function) = chosen(module, &options)? else { return Ok(module.clone()) };
    let wrt = parameters(function, &options)?;
    let name = &function.name;
    let inlined = inlined(module, context.facts, name);
    let whole = inlined.as_ref().map_or((module, context.checked), |(own, checked)| (own, checked));
    let cut = cut(whole, context.facts, name, &options.segments);
    let (own, checked) = cut.as_ref().map_or(whole, |(own, checked)| (own, checked));
    let function = own.function(name).expect("invariant: it was found");
    let mut gradients = Gradients {
        pending: Pending { module: own, checked, names: Names::of(own), pullbacks: Vec::new() },
        facts: context.facts,
        made: Vec::new(),
    };
    gradients.main(function, &wrt, &options.seed)?;
    let made = std::mem::take(&mut gradients.made);
    context.count("differentiated", made.len(), "functions");
    let mut result = module.clone();
    let is_new = |one: &&Definition| module.definitions.iter().all(|old| old.name() != one.name());
    let segments = own.definitions.iter().filter(is_new).cloned();
    result.definitions.extend(segments.chain(made.into_iter().map(Definition::Graph)));
    Ok(result)
}

/// The module with the calls of a function inlined, and what the check knows of it. `None` where there are none.
fn inlined(module: &Module, facts: &mut dyn Facts, name: &Name) -> Option<(Module, Checked)> {
    let made = with_calls_inlined(module, name, facts).ok().flatten()?;
    let checked = check(&made, facts, Phase::P0);
    Some((made, checked))
}

/// The function that is named, or the entry of the module; none where it has none.
fn chosen<'m>(module: &'m Module, options: &Options) -> Result<Option<&'m Function>, Diagnostic> {
    let Some(name) = &options.function else { return Ok(entry(module)) };
    let found = module.function(name).filter(|function| function.lambda.body.is_some());
    let message = || format!("the module has no function `{name}` with a body");
    found.map(Some).ok_or_else(|| Diagnostic::error(GRADIENT, Span::default(), message()))
}

fn parameters(function: &Function, options: &Options) -> Result<Vec<VarId>, Diagnostic> {
    let params = &function.lambda.params;
    if options.wrt.is_empty() {
        let floats =
            params.iter().copied().filter(|&param| is_float(function.param_annotation(param)));
        let floats: Vec<VarId> = floats.collect();
        if floats.is_empty() {
            let message = format!("no parameter of `{}` is a float tensor", function.name);
            return Err(Diagnostic::error(GRADIENT, function.span, message));
        }
        return Ok(floats);
    }
    let mut wrt = Vec::new();
    for name in &options.wrt {
        let named = params.iter().find(|&&param| function.var(param).name == *name);
        let Some(&param) = named else {
            let names: Vec<&str> =
                params.iter().map(|&param| function.var(param).name.as_str()).collect();
            let message = format!("`{}` has no parameter `{name}`", function.name);
            let hint = relax_syntax::suggest::hint(name, &names);
            let help = hint.unwrap_or_else(|| format!("its parameters: {}", names.join(", ")));
            return Err(Diagnostic::error(GRADIENT, function.span, message).with_help(help));
        };
        let annotation = function.param_annotation(param);
        if !is_float(annotation) {
            let message = format!(
                "`{name}` is `{annotation}`, and gradients are of float tensors whose dtype is known"
            );
            return Err(Diagnostic::error(GRADIENT, function.var(param).span, message));
        }
        if wrt.contains(&param) {
            let message = format!("`{name}` is named twice");
            return Err(Diagnostic::error(GRADIENT, function.var(param).span, message));
        }
        wrt.push(param);
    }
    Ok(wrt)
}

fn is_float(annotation: &Annotation) -> bool {
    annotation.as_tensor().and_then(|tensor| tensor.dtype).is_some_and(DType::is_float)
}

/// A part of a program that cannot be differentiated.
fn refused(span: Span, message: String) -> Diagnostic {
    Diagnostic::error(GRADIENT, span, message)
}
