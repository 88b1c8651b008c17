//! Dataflow blocks become plain ones: what they promise has been used.

use relax_rewrite::blocks::{for_each_branch, tidy};
use relax_rewrite::pass::{Exactness, Pass, PassContext};
use relax_semantics::check::Phase;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::ir::{BlockKind, Body, Definition, Module};

/// The record.
pub static PASS: Pass = Pass {
    name: "to_non_dataflow",
    doc: "Turns dataflow blocks into plain ones, so that calls may have effects.",
    from: Phase::P0,
    to: Phase::P0,
    until: Phase::P1,
    exactness: Exactness::Exact,
    run,
};

// A pass has this signature whether it can refuse a program or not.
#[allow(clippy::unnecessary_wraps)]
fn run(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    let mut result = module.clone();
    let mut blocks = 0;
    for definition in &mut result.definitions {
        if let Definition::Graph(function) = definition
            && let Some(body) = &mut function.lambda.body
        {
            plain(body, &mut blocks);
        }
    }
    context.count("opened", blocks, "dataflow blocks");
    Ok(result)
}

fn plain(body: &mut Body, opened: &mut usize) {
    for block in &mut body.blocks {
        if matches!(block.kind, BlockKind::Dataflow { .. }) {
            block.kind = BlockKind::Plain;
            *opened += 1;
        }
        for_each_branch(block, &mut |branch| plain(branch, opened));
    }
    tidy(body);
}
