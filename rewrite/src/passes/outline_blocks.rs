//! A dataflow block that gives one value becomes a private function and a call of it: the other way of
//! `inline_private_functions`. So a part of a program is planned, cached or looked at by itself.
//!
//! Its bindings stay together and in order, so that they stop the program where they did. What is deduced
//! in the function is deduced without the facts of the function around; where that is not enough, all
//! blocks of that function stay.

use super::eliminate_checks::functions_with_errors;
use crate::blocks::for_each_dataflow;
use crate::mutated::mutated;
use crate::outline::{Label, Made, Outline};
use crate::pass::{Exactness, Pass, PassContext};
use crate::verify::is_private;
use relax_semantics::check::Phase;
use relax_syntax::Name;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::ir::{Block, BlockKind, Definition, Expr, Function, Module};
use std::collections::BTreeSet;

/// The record.
pub static PASS: Pass = Pass {
    name: "outline_blocks",
    doc: "Turns dataflow blocks of public functions that give one value into private functions.",
    from: Phase::P0,
    to: Phase::P0,
    exactness: Exactness::Exact,
    run,
};

// A pass has this signature whether it can refuse a program or not.
#[allow(clippy::unnecessary_wraps)]
fn run(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    let mut stays = BTreeSet::new();
    let (mut result, mut made) = outlined(module, context, &stays);
    loop {
        let errors = functions_with_errors(&result, context);
        // The functions made lie in the text where the ones around do.
        if errors.is_subset(&stays) {
            break;
        }
        stays.extend(errors);
        (result, made) = outlined(module, context, &stays);
    }
    context.count("made", made, "private functions");
    Ok(result)
}

/// The module with blocks outlined but for those of some functions, and how many were.
fn outlined(module: &Module, context: &PassContext, stays: &BTreeSet<Name>) -> (Module, usize) {
    let names = module.definitions.iter().map(|definition| definition.name().clone());
    let mut known = Made::new(names.collect());
    let mut definitions = Vec::with_capacity(module.definitions.len());
    let mut made = 0;
    for definition in &module.definitions {
        let wanted = match definition {
            Definition::Graph(function) => {
                Some(function).filter(|f| !is_private(f) && !stays.contains(&f.name))
            }
            Definition::Tensor(_) => None,
        };
        let Some(function) = wanted.filter(|function| mutated(module, function).is_empty()) else {
            definitions.push(definition.clone());
            continue;
        };
        let annotations = &context.checked.annotations[&function.name];
        let mut outline = Outline::new(function, annotations, &mut known);
        let mut rebuilt = function.clone();
        if let Some(body) = &mut rebuilt.lambda.body {
            for_each_dataflow(body, &mut |block| replace(function, block, &mut outline));
        }
        made += outline.functions.len();
        definitions.push(Definition::Graph(rebuilt));
        definitions.extend(outline.functions.into_iter().map(Definition::Graph));
    }
    (Module { attrs: module.attrs.clone(), definitions }, made)
}

/// Outlines a block whose last binding is all that is seen of it.
fn replace(function: &Function, block: &mut Block, outline: &mut Outline) {
    let BlockKind::Dataflow { outputs } = &block.kind else { return };
    let gives_last = block.bindings.len() > 1
        && block.bindings.last().is_some_and(|last| *outputs == [last.var]);
    // A cast may bind a dim that the function around goes on to use.
    let casts = block.bindings.iter().any(|b| matches!(b.expr, Expr::MatchCast(..)));
    if !gives_last || casts {
        return;
    }
    let members = std::mem::take(&mut block.bindings);
    let name = format!("{}_block", function.name);
    let label = Label { name, marks: Vec::new(), first: Vec::new() };
    block.bindings = vec![outline.group(label, members)];
}
