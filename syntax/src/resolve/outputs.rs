//! The outputs of dataflow blocks whose text does not list them: what is used after the block.

use crate::ir::{Atom, BlockKind, Body, Callee, Expr, VarId};
use std::collections::BTreeSet;

/// Fills in the outputs of the blocks of `body` whose variables are in `open`.
pub(super) fn complete_outputs(body: &mut Body, open: &BTreeSet<usize>) {
    let mut used = BTreeSet::new();
    atom_uses(&body.result, &mut used);
    for block in body.blocks.iter_mut().rev() {
        if let BlockKind::Dataflow { outputs } = &mut block.kind {
            let bound = block.bindings.iter().map(|binding| binding.var);
            let implicit =
                bound.filter(|var| open.contains(&(var.0 as usize)) && used.contains(var));
            outputs.extend(implicit);
        }
        for binding in &mut block.bindings {
            if let Expr::If { then, otherwise, .. } = &mut binding.expr {
                complete_outputs(then, open);
                complete_outputs(otherwise, open);
            }
            expr_uses(&binding.expr, &mut used);
        }
    }
}

/// Adds every variable that an expression reads, nested bodies included.
pub fn expr_uses(expr: &Expr, used: &mut BTreeSet<VarId>) {
    match expr {
        Expr::Atom(atom) | Expr::Get(atom, _) | Expr::MatchCast(atom, _) => atom_uses(atom, used),
        Expr::Call { callee, args, attrs } => {
            if let Callee::Var(var) = callee {
                used.insert(*var);
            }
            args.iter().chain(attrs.iter().map(|(_, atom)| atom)).for_each(|a| atom_uses(a, used));
        }
        Expr::If { condition, then, otherwise } => {
            atom_uses(condition, used);
            body_uses(then, used);
            body_uses(otherwise, used);
        }
        Expr::Closure(lambda) => {
            if let Some(body) = &lambda.body {
                body_uses(body, used);
            }
        }
    }
}

fn body_uses(body: &Body, used: &mut BTreeSet<VarId>) {
    body.bindings().for_each(|binding| expr_uses(&binding.expr, used));
    atom_uses(&body.result, used);
}

/// Adds every variable in an atom.
pub fn atom_uses(atom: &Atom, used: &mut BTreeSet<VarId>) {
    match atom {
        Atom::Var(var) => {
            used.insert(*var);
        }
        Atom::Tuple(items) | Atom::List(items) => {
            items.iter().for_each(|item| atom_uses(item, used));
        }
        _ => {}
    }
}
