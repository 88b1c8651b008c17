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
    visit_expr_uses(expr, &mut |var| {
        used.insert(var);
    });
}

/// Adds every variable in an atom.
pub fn atom_uses(atom: &Atom, used: &mut BTreeSet<VarId>) {
    visit_atom_uses(atom, &mut |var| {
        used.insert(var);
    });
}

/// Calls `visit` on every variable that an expression reads, nested bodies included, as often as it reads it.
pub fn visit_expr_uses(expr: &Expr, visit: &mut dyn FnMut(VarId)) {
    match expr {
        Expr::Atom(atom) | Expr::Get(atom, _) | Expr::MatchCast(atom, _) => {
            visit_atom_uses(atom, visit);
        }
        Expr::Call { callee, args, attrs } => {
            if let Callee::Var(var) = callee {
                visit(*var);
            }
            let attrs = attrs.iter().map(|(_, atom)| atom);
            args.iter().chain(attrs).for_each(|atom| visit_atom_uses(atom, visit));
        }
        Expr::If { condition, then, otherwise } => {
            visit_atom_uses(condition, visit);
            visit_body_uses(then, visit);
            visit_body_uses(otherwise, visit);
        }
        Expr::Closure(lambda) => {
            if let Some(body) = &lambda.body {
                visit_body_uses(body, visit);
            }
        }
    }
}

fn visit_body_uses(body: &Body, visit: &mut dyn FnMut(VarId)) {
    body.bindings().for_each(|binding| visit_expr_uses(&binding.expr, visit));
    visit_atom_uses(&body.result, visit);
}

/// Calls `visit` on every variable in an atom.
pub fn visit_atom_uses(atom: &Atom, visit: &mut dyn FnMut(VarId)) {
    match atom {
        Atom::Var(var) => visit(*var),
        Atom::Tuple(items) | Atom::List(items) => {
            items.iter().for_each(|item| visit_atom_uses(item, visit));
        }
        _ => {}
    }
}
