//! What a module says for its functions: which there are, what they write to, which have effects, and the
//! names that they bind.

use super::tree::{arguments, callee, expressions, items, name_of, taken};
use relax_syntax::Name;
use relax_syntax::ast::{Def, Expr, ExprKind, Parameter, Statement, StatementKind};
use std::collections::{BTreeMap, BTreeSet};

/// What a module says for its functions.
pub(super) struct Around {
    /// Names of functions.
    pub(super) functions: BTreeSet<Name>,
    /// Tensor programs, and how many of their last buffers are outputs.
    pub(super) programs: BTreeMap<Name, usize>,
    /// Functions that may have effects.
    pub(super) impure: BTreeSet<Name>,
}

pub(super) fn is_int(parameter: &Parameter) -> bool {
    parameter.annotation.as_ref().is_some_and(|annotation| name_of(annotation) == Some("int"))
}

/// Names that statements bind, but for symbolic variables.
pub(super) fn bound(statements: &[Statement]) -> BTreeSet<Name> {
    let mut names = BTreeSet::new();
    for line in statements {
        match &line.kind {
            StatementKind::Assign { target, value, .. }
                if !items(value).iter().all(|part| callee(part) == Some("sym_var")) =>
            {
                items(target).into_iter().filter_map(name_of).for_each(|name| {
                    names.insert(Name::new(name));
                });
            }
            StatementKind::For { targets, body, .. } => {
                names.extend(targets.iter().map(|target| target.name.clone()));
                names.extend(bound(body));
            }
            StatementKind::With { body, .. } => names.extend(bound(body)),
            StatementKind::If { then, otherwise, .. } => {
                names.extend(bound(then));
                names.extend(bound(otherwise));
            }
            _ => {}
        }
    }
    names
}

pub(super) fn around(statements: &[Statement]) -> Around {
    let defs: Vec<&Def> = statements
        .iter()
        .filter_map(|line| match &line.kind {
            StatementKind::Def(def) => Some(def.as_ref()),
            _ => None,
        })
        .collect();
    let functions = defs.iter().map(|def| def.name.name.clone()).collect();
    let (graphs, tensors): (Vec<&Def>, Vec<&Def>) =
        defs.iter().partition(|def| def.decorators.is_empty());
    let mut programs: BTreeMap<Name, usize> =
        tensors.iter().map(|def| (def.name.name.clone(), 1)).collect();
    let mut calls: BTreeMap<Name, BTreeSet<Name>> = BTreeMap::new();
    for def in &graphs {
        let called = calls.entry(def.name.name.clone()).or_default();
        let mut visit = |expr: &Expr| {
            visit_calls(expr, &mut |call| {
                let what = callee(call).unwrap_or_default();
                called.insert(Name::new(what));
                let program = taken(call, 0, &[]).and_then(name_of).map(Name::new);
                let outs = taken(call, 2, &[]).or_else(|| arguments(call).last().map(|a| &a.value));
                if let (Some(program), Some(outs)) = (program, outs)
                    && matches!(what, "call_tir" | "call_tir_inplace")
                    && programs.contains_key(&program)
                {
                    programs.insert(program, items(outs).len());
                }
            });
        };
        expressions(&def.body, &mut visit);
    }
    let mut impure: BTreeSet<Name> =
        ["call_packed", "call_tir_inplace"].map(Name::new_static).into();
    loop {
        let found = calls.iter().filter(|(name, called)| {
            !impure.contains(*name) && called.iter().any(|name| impure.contains(name))
        });
        let found: Vec<Name> = found.map(|(name, _)| name.clone()).collect();
        if found.is_empty() {
            return Around { functions, programs, impure };
        }
        impure.extend(found);
    }
}

fn visit_calls(tree: &Expr, visit: &mut dyn FnMut(&Expr)) {
    match &tree.kind {
        ExprKind::Call { arguments, .. } => {
            visit(tree);
            arguments.iter().for_each(|argument| visit_calls(&argument.value, visit));
        }
        ExprKind::Tuple(items) | ExprKind::List(items) => {
            items.iter().for_each(|item| visit_calls(item, visit));
        }
        ExprKind::Subscript { base, .. } => visit_calls(base, visit),
        _ => {}
    }
}
