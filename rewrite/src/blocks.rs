//! What blocks look like after bindings were taken out: none is empty, and no two plain ones are
//! adjacent.

use relax_syntax::ir::{Block, BlockKind, Body};
use std::collections::BTreeSet;

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

/// A block without the bindings at some places.
pub(crate) fn take_out(block: &mut Block, places: &BTreeSet<usize>) {
    let bindings = std::mem::take(&mut block.bindings).into_iter().enumerate();
    block.bindings =
        bindings.filter(|(at, _)| !places.contains(at)).map(|(_, binding)| binding).collect();
}
