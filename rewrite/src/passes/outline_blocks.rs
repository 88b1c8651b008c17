//! A dataflow block that gives one value becomes a private function and a call of it: the other way of
//! `inline_private_functions`. So a part of a program is planned, cached or looked at by itself.
//!
//! Its bindings stay together and in order, so that they stop the program where they did. What is deduced
//! in the function is deduced without the facts of the function around; where that is not enough, all
//! blocks of that function stay.

use super::eliminate_checks::functions_with_errors;
use crate::blocks::for_each_dataflow;
use crate::in_place::updated_in_place;
use crate::outline::{Label, Outline, outlined};
use crate::pass::{Exactness, Pass, PassContext};
use crate::verify::is_private;
use relax_semantics::check::Phase;
use relax_syntax::Name;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::ir::{Block, BlockKind, Expr, Function, Module};
use std::collections::BTreeSet;

/// The record.
pub static PASS: Pass = Pass {
    name: "outline_blocks",
    doc: "Turns dataflow blocks of public functions that give one value into private functions.",
    from: Phase::P0,
    to: Phase::P0,
    until: Phase::P1,
    exactness: Exactness::Exact,
    run,
};

// A pass has this signature whether it can refuse a program or not.
#[allow(clippy::unnecessary_wraps)]
fn run(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    let mut stays = BTreeSet::new();
    let (mut result, mut made) = outlined_but(module, context, &stays);
    loop {
        let errors = functions_with_errors(&result, context);
        // The functions made lie in the text where the ones around do.
        if errors.is_subset(&stays) {
            break;
        }
        stays.extend(errors);
        (result, made) = outlined_but(module, context, &stays);
    }
    context.count("made", made, "private functions");
    Ok(result)
}

/// The module with blocks outlined but for those of some functions, and how many were.
fn outlined_but(module: &Module, context: &PassContext, stays: &BTreeSet<Name>) -> (Module, usize) {
    outlined(module, context.checked, &mut |function, rebuilt, outline| {
        let wanted = !is_private(function)
            && !stays.contains(&function.name)
            && updated_in_place(module, function).is_empty();
        if let Some(body) = rebuilt.lambda.body.as_mut().filter(|_| wanted) {
            for_each_dataflow(body, &mut |block| replace(function, block, outline));
        }
    })
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
