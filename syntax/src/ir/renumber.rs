//! Canonical ids: variables numbered in the order of the text, unused ones dropped.

use super::graph::{Atom, Block, BlockKind, Body, Callee, Expr, Function, Lambda, VarId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Renumbers the variables of a function in the order in which its text binds them. Two functions
/// with the same text are equal after it.
pub fn renumber(function: &mut Function) {
    let mut order = Vec::with_capacity(function.vars.len());
    lambda_order(&function.lambda, &mut order);
    let new: BTreeMap<VarId, VarId> = order
        .iter()
        .enumerate()
        .map(|(index, &old)| (old, VarId(u32::try_from(index).expect("as many as before"))))
        .collect();
    if new.len() == function.vars.len() && new.iter().all(|(old, new)| old == new) {
        return;
    }
    function.vars = order.iter().map(|old| function.vars[old.0 as usize].clone()).collect();
    rename_lambda(&mut function.lambda, &new);
}

fn lambda_order(lambda: &Lambda, order: &mut Vec<VarId>) {
    order.extend(&lambda.params);
    if let Some(body) = &lambda.body {
        body_order(body, order);
    }
}

fn body_order(body: &Body, order: &mut Vec<VarId>) {
    for binding in body.bindings() {
        match &binding.expr {
            Expr::If { then, otherwise, .. } => {
                body_order(then, order);
                body_order(otherwise, order);
                order.push(binding.var);
            }
            Expr::Closure(lambda) => {
                order.push(binding.var);
                lambda_order(lambda, order);
            }
            _ => order.push(binding.var),
        }
    }
}

/// Variables with those in their place.
pub type Renaming = BTreeMap<VarId, VarId>;

fn rename_var(var: &mut VarId, new: &Renaming) {
    *var = *new.get(var).expect("invariant: every variable that is used is bound in the function");
}

fn rename_lambda(lambda: &mut Lambda, new: &Renaming) {
    lambda.params.iter_mut().for_each(|param| rename_var(param, new));
    if let Some(body) = &mut lambda.body {
        rename_body(body, new);
    }
}

/// Replaces every variable in a body, which has a new one for each.
///
/// # Panics
/// When there is none for a variable.
pub fn rename_body(body: &mut Body, new: &Renaming) {
    body.blocks.iter_mut().for_each(|block| rename_block(block, new));
    rename_atom(&mut body.result, new);
}

fn rename_block(block: &mut Block, new: &Renaming) {
    if let BlockKind::Dataflow { outputs } = &mut block.kind {
        outputs.iter_mut().for_each(|var| rename_var(var, new));
    }
    for binding in &mut block.bindings {
        rename_var(&mut binding.var, new);
        rename_expr(&mut binding.expr, new);
    }
}

fn rename_expr(expr: &mut Expr, new: &Renaming) {
    match expr {
        Expr::Atom(atom) | Expr::Get(atom, _) | Expr::MatchCast(atom, _) => rename_atom(atom, new),
        Expr::Call { callee, args, attrs } => {
            if let Callee::Var(var) = callee {
                rename_var(var, new);
            }
            args.iter_mut().for_each(|atom| rename_atom(atom, new));
            attrs.iter_mut().for_each(|(_, atom)| rename_atom(atom, new));
        }
        Expr::If { condition, then, otherwise } => {
            rename_atom(condition, new);
            rename_body(then, new);
            rename_body(otherwise, new);
        }
        Expr::Closure(lambda) => rename_lambda(Arc::make_mut(lambda), new),
    }
}

fn rename_atom(atom: &mut Atom, new: &Renaming) {
    match atom {
        Atom::Var(var) => rename_var(var, new),
        Atom::Tuple(items) | Atom::List(items) => {
            items.iter_mut().for_each(|item| rename_atom(item, new));
        }
        _ => {}
    }
}
