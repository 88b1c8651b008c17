//! What blocks look like after bindings were taken out: none is empty, and no two plain ones are
//! adjacent.

use relax_syntax::ir::{Block, BlockKind, Body};

/// Puts the blocks of a body in order; bodies within it are left to whoever changed them.
pub(crate) fn tidy(body: &mut Body) {
    let mut blocks: Vec<Block> = Vec::with_capacity(body.blocks.len());
    for mut block in std::mem::take(&mut body.blocks) {
        if block.bindings.is_empty() {
            continue;
        }
        match blocks.last_mut() {
            Some(last) if last.kind == BlockKind::Plain && block.kind == BlockKind::Plain => {
                last.bindings.append(&mut block.bindings);
            }
            _ => blocks.push(block),
        }
    }
    body.blocks = blocks;
}
