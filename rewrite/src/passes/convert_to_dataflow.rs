//! Bindings without effect and without control flow that follow each other become one dataflow block, the
//! author's blocks among them: fusion, patterns and libraries work in dataflow blocks, and so work on all of a
//! function, however it is written.
//!
//! No binding changes places, so the program stops where it did.

use super::map_functions;
use crate::blocks::{export_used, for_each_branch, tidy};
use crate::pass::{Exactness, Pass, PassContext};
use relax_semantics::check::{Phase, forbidden_in_dataflow};
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::ir::{Binding, Block, BlockKind, Body, Module, VarId};

/// The record.
pub static PASS: Pass = Pass {
    name: "convert_to_dataflow",
    doc: "Makes dataflow blocks, as long as they can be, of bindings without effect and without control flow.",
    from: Phase::P0,
    to: Phase::P0,
    until: Phase::P1,
    exactness: Exactness::Exact,
    run,
};

// A pass has this signature whether it can refuse a program or not.
#[allow(clippy::unnecessary_wraps)]
fn run(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    let mut taken = 0;
    let checked = context.checked;
    let result = map_functions(module, &mut |function| {
        let mut rebuilt = function.clone();
        let annotations = &checked.annotations[&function.name];
        let is_pure = |binding: &Binding| {
            let has_effect = |name: &_| checked.impure.contains(name);
            let annotation = |var: VarId| &annotations[var.0 as usize];
            forbidden_in_dataflow(module, &has_effect, &annotation, &binding.expr).is_none()
        };
        let body = rebuilt.lambda.body.as_mut().expect("invariant: only such are mapped");
        convert(body, &is_pure, &mut taken);
        export_used(body);
        rebuilt
    });
    context.count("took", taken, "bindings into dataflow blocks");
    Ok(result)
}

fn convert(body: &mut Body, is_pure: &dyn Fn(&Binding) -> bool, taken: &mut usize) {
    let mut blocks: Vec<Block> = Vec::new();
    for mut block in std::mem::take(&mut body.blocks) {
        for_each_branch(&mut block, &mut |branch| convert(branch, is_pure, taken));
        match block.kind {
            BlockKind::Dataflow { .. } => append(&mut blocks, block),
            BlockKind::Plain => {
                for binding in block.bindings {
                    let pure = is_pure(&binding);
                    *taken += usize::from(pure);
                    let kind = if pure {
                        BlockKind::Dataflow { outputs: Vec::new() }
                    } else {
                        BlockKind::Plain
                    };
                    append(&mut blocks, Block { kind, bindings: vec![binding] });
                }
            }
        }
    }
    body.blocks = blocks;
    tidy(body);
}

/// Adds a block; one of dataflow is joined with one that ends where it begins.
fn append(blocks: &mut Vec<Block>, mut block: Block) {
    if let BlockKind::Dataflow { outputs: more } = &mut block.kind
        && let Some(Block { kind: BlockKind::Dataflow { outputs }, bindings }) = blocks.last_mut()
    {
        outputs.append(more);
        bindings.append(&mut block.bindings);
    } else {
        blocks.push(block);
    }
}
