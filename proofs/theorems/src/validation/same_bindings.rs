//! Functions of the same bindings in the same order: dataflow blocks around them say that they are pure, and mean nothing
//! when a program runs.

use relax_syntax::Name;
use relax_syntax::ir::references::texts_from;
use relax_syntax::ir::{Block, BlockKind, Body, Definition, Expr, Module};

/// Whether a function of one module, with all that it reaches, differs from that of another module, and in dataflow blocks
/// alone. Whether a function is compared at all shows where it is compared with itself, so that is not answered here.
pub(super) fn differs_in_blocks_alone(before: &Module, after: &Module, name: &Name) -> bool {
    let (before, after) = (texts_from(before, name), texts_from(after, name));
    let bindings = |texts: &[Option<&Definition>]| -> Vec<Option<Definition>> {
        texts.iter().map(|definition| definition.map(without_blocks)).collect()
    };
    before != after && bindings(&before) == bindings(&after)
}

fn without_blocks(definition: &Definition) -> Definition {
    let mut definition = definition.clone();
    if let Definition::Graph(function) = &mut definition
        && let Some(body) = &mut function.lambda.body
    {
        open(body);
    }
    definition
}

/// Makes one plain block of all blocks of a body, and of its branches.
fn open(body: &mut Body) {
    let blocks = std::mem::take(&mut body.blocks);
    let mut bindings: Vec<_> = blocks.into_iter().flat_map(|block| block.bindings).collect();
    for binding in &mut bindings {
        if let Expr::If { then, otherwise, .. } = &mut binding.expr {
            open(then);
            open(otherwise);
        }
    }
    body.blocks = vec![Block { kind: BlockKind::Plain, bindings }];
}
