//! Blocks of a body: the way to those that a pass works on, and what they look like after bindings were
//! taken out.

use relax_syntax::ir::{Binding, Block, BlockKind, Body, Expr, VarId};
use relax_syntax::resolve::{atom_uses, expr_uses};
use std::collections::BTreeSet;

/// Puts the blocks of a body in order, none empty, no two plain ones adjacent; bodies within it are left to whoever changed them.
pub fn tidy(body: &mut Body) {
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

/// Calls `rebuild` on each binding of a body, with the bindings so far, to which it may add some that stand before; bodies within it
/// are left to `rebuild`.
pub fn with_bindings_before(
    body: &mut Body,
    rebuild: &mut dyn FnMut(&mut Binding, &mut Vec<Binding>),
) {
    for block in &mut body.blocks {
        let mut bindings = Vec::with_capacity(block.bindings.len());
        for mut binding in std::mem::take(&mut block.bindings) {
            rebuild(&mut binding, &mut bindings);
            bindings.push(binding);
        }
        block.bindings = bindings;
    }
}

/// Calls `visit` on each dataflow block of a body and of the branches in it.
pub fn for_each_dataflow(body: &mut Body, visit: &mut dyn FnMut(&mut Block)) {
    for block in &mut body.blocks {
        match block.kind {
            BlockKind::Dataflow { .. } => visit(block),
            BlockKind::Plain => for_each_branch(block, &mut |body| for_each_dataflow(body, visit)),
        }
    }
}

/// Makes outputs of what dataflow blocks bind and something after them uses, in a body and in the branches of it.
pub fn export_used(body: &mut Body) {
    let mut used = BTreeSet::new();
    atom_uses(&body.result, &mut used);
    for block in body.blocks.iter_mut().rev() {
        if let BlockKind::Dataflow { outputs } = &mut block.kind {
            let bound = block.bindings.iter().map(|binding| binding.var);
            let missing = bound.filter(|var| used.contains(var) && !outputs.contains(var));
            let missing: Vec<VarId> = missing.collect();
            outputs.extend(missing);
        }
        block.bindings.iter().for_each(|binding| expr_uses(&binding.expr, &mut used));
        for_each_branch(block, &mut export_used);
    }
}

/// Calls `visit` on each block of a body, and then on those of the branches in it.
pub fn for_each_block(body: &mut Body, visit: &mut dyn FnMut(&mut Block)) {
    for block in &mut body.blocks {
        visit(block);
        for_each_branch(block, &mut |body| for_each_block(body, visit));
    }
}

/// Calls `visit` on each binding of a body and of the branches in it, on an `if` after its branches.
pub fn for_each_binding(body: &mut Body, visit: &mut dyn FnMut(&mut Binding)) {
    for block in &mut body.blocks {
        for_each_branch(block, &mut |body| for_each_binding(body, visit));
        block.bindings.iter_mut().for_each(&mut *visit);
    }
}

/// Calls `visit` on the bodies of the branches in a block.
pub fn for_each_branch(block: &mut Block, visit: &mut dyn FnMut(&mut Body)) {
    for binding in &mut block.bindings {
        if let Expr::If { then, otherwise, .. } = &mut binding.expr {
            visit(then);
            visit(otherwise);
        }
    }
}

/// A block without the bindings at some places.
pub fn take_out(block: &mut Block, places: &BTreeSet<usize>) {
    let bindings = std::mem::take(&mut block.bindings).into_iter().enumerate();
    block.bindings =
        bindings.filter(|(at, _)| !places.contains(at)).map(|(_, binding)| binding).collect();
}
