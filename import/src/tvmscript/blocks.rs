//! Axes of blocks. TVM writes each axis out; the language leaves out those that are the loops themselves.

use super::tree::{
    arguments, call, callee, expr, expressions, items, mapped, name, name_of, names_in,
};
use relax_syntax::Name;
use relax_syntax::ast::{Expr, ExprKind, Statement, StatementKind};
use std::collections::{BTreeMap, BTreeSet};

/// Extents of the loops around, by variable.
type Loops = BTreeMap<Name, Expr>;

/// With loops in the place of axes that are those loops from beginning to end.
pub(super) fn implicit(body: Vec<Statement>) -> Vec<Statement> {
    turned(body, &Loops::new())
}

fn turned(body: Vec<Statement>, loops: &Loops) -> Vec<Statement> {
    body.into_iter()
        .map(|line| Statement { kind: one(line.kind, loops), span: line.span })
        .collect()
}

fn one(kind: StatementKind, loops: &Loops) -> StatementKind {
    match kind {
        StatementKind::For { targets, iterator, body } => {
            let mut loops = loops.clone();
            let bounds = arguments(&iterator);
            for (place, target) in targets.iter().enumerate() {
                let whole = callee(&iterator) == Some("grid")
                    || bounds.iter().filter(|b| !matches!(b.value.kind, ExprKind::Str(_))).count()
                        == 1;
                match bounds.get(place).filter(|_| whole) {
                    Some(extent) => _ = loops.insert(target.name.clone(), extent.value.clone()),
                    None => _ = loops.remove(&target.name),
                }
            }
            StatementKind::For { targets, iterator, body: turned(body, &loops) }
        }
        StatementKind::If { condition, then, otherwise, else_span } => StatementKind::If {
            condition,
            then: turned(then, loops),
            otherwise: turned(otherwise, loops),
            else_span,
        },
        StatementKind::With { context, body } if callee(&context) == Some("block") => {
            let body = turned(body, loops);
            StatementKind::With { context, body: block(body, loops) }
        }
        other => other,
    }
}

/// The axis that a line binds: its variable, whether it is of a reduction, and the value.
pub(super) fn axis(line: &Statement) -> Option<(Name, bool, &Expr, &Expr)> {
    let StatementKind::Assign { target, value, .. } = &line.kind else { return None };
    let reduce = match callee(value)? {
        "spatial" => false,
        "reduce" => true,
        _ => return None,
    };
    let [extent, of] = arguments(value) else { return None };
    Some((Name::new(name_of(target)?), reduce, &extent.value, &of.value))
}

/// Names in the indices of stores.
pub(super) fn stored(body: &[Statement]) -> BTreeSet<Name> {
    let mut names = BTreeSet::new();
    let mut targets = Vec::new();
    collect(body, &mut targets);
    for target in targets {
        if let ExprKind::Subscript { indices, .. } = &target.kind {
            let indices = indices.iter().flat_map(items);
            indices.for_each(|index| names_in(index, &mut |name| _ = names.insert(name.clone())));
        }
    }
    names
}

fn collect<'s>(body: &'s [Statement], targets: &mut Vec<&'s Expr>) {
    for line in body {
        match &line.kind {
            StatementKind::Assign { target, .. } | StatementKind::Update { target, .. } => {
                targets.push(target);
            }
            StatementKind::If { then, otherwise, .. } => {
                collect(then, targets);
                collect(otherwise, targets);
            }
            StatementKind::For { body, .. } | StatementKind::With { body, .. } => {
                collect(body, targets);
            }
            _ => {}
        }
    }
}

fn block(body: Vec<Statement>, loops: &Loops) -> Vec<Statement> {
    let (axes, rest): (Vec<Statement>, Vec<Statement>) =
        body.into_iter().partition(|line| axis(line).is_some());
    let stored = stored(&rest);
    let mut used = BTreeSet::new();
    expressions(&rest, &mut |expr| names_in(expr, &mut |name| _ = used.insert(name.clone())));
    let mut names: BTreeMap<Name, Name> = BTreeMap::new();
    let plain = axes.iter().all(|line| {
        let Some((variable, reduce, extent, value)) = axis(line) else { return false };
        let Some(of) = name_of(value).map(Name::new) else { return false };
        let Some(whole) = loops.get(&of) else { return false };
        let full = matches!(extent.kind, ExprKind::None)
            || relax_syntax::print::print_expression(extent)
                == relax_syntax::print::print_expression(whole);
        let again = names.values().any(|other| *other == of) || used.contains(&of);
        let implied = used.contains(&variable) && reduce != stored.contains(&variable);
        names.insert(variable, of);
        full && !again && implied
    });
    if plain {
        return rest.iter().map(|line| renamed(line, &names)).collect();
    }
    // Written out, each axis has its extent.
    let lines = axes.into_iter().map(|mut line| {
        let extent = axis(&line)
            .filter(|(_, _, extent, _)| matches!(extent.kind, ExprKind::None))
            .and_then(|(_, _, _, value)| loops.get(name_of(value)?).cloned());
        if let (Some(extent), StatementKind::Assign { value, .. }) = (extent, &mut line.kind)
            && let ExprKind::Call { arguments, .. } = &mut value.kind
        {
            arguments[0].value = extent;
        }
        line
    });
    lines.chain(rest).collect()
}

/// A statement with other names.
pub(super) fn renamed(line: &Statement, names: &BTreeMap<Name, Name>) -> Statement {
    let turn = |tree: &Expr| {
        let new = names.get(name_of(tree)?)?;
        Some(name(new, tree.span))
    };
    let of = |tree: &Expr| mapped(tree, &turn);
    let all = |body: &[Statement]| body.iter().map(|line| renamed(line, names)).collect();
    let kind = match &line.kind {
        StatementKind::Assign { target, annotation, value } => StatementKind::Assign {
            target: of(target),
            annotation: annotation.as_ref().map(of),
            value: of(value),
        },
        StatementKind::Update { target, op, value } => {
            StatementKind::Update { target: of(target), op: *op, value: of(value) }
        }
        StatementKind::If { condition, then, otherwise, else_span } => StatementKind::If {
            condition: of(condition),
            then: all(then),
            otherwise: all(otherwise),
            else_span: *else_span,
        },
        StatementKind::For { targets, iterator, body } => {
            StatementKind::For { targets: targets.clone(), iterator: of(iterator), body: all(body) }
        }
        StatementKind::With { context, body } => {
            StatementKind::With { context: context.clone(), body: all(body) }
        }
        StatementKind::Expr(given) => StatementKind::Expr(of(given)),
        StatementKind::Return(given) => StatementKind::Return(of(given)),
        other => other.clone(),
    };
    Statement { kind, span: line.span }
}

/// What scalars around a block were computed from, by name.
pub(super) type Scalars = BTreeMap<Name, BTreeSet<Name>>;

/// The axes of a block that the language leaves out: the loops that it uses, in order, through scalars as well.
pub(super) fn explicit(
    body: &[Statement],
    loops: &[(Name, Expr)],
    scalars: &Scalars,
) -> Vec<Statement> {
    let through = |names: BTreeSet<Name>| {
        let behind = names.iter().filter_map(|name| scalars.get(name)).flatten().cloned();
        names.iter().cloned().chain(behind).collect::<BTreeSet<Name>>()
    };
    let mut used = BTreeSet::new();
    expressions(body, &mut |expr| names_in(expr, &mut |name| _ = used.insert(name.clone())));
    let (used, stored) = (through(used), through(stored(body)));
    let mut names = BTreeMap::new();
    let mut lines = Vec::new();
    for (variable, extent) in loops.iter().filter(|(variable, _)| used.contains(variable)) {
        let axis = Name::new(format!("v_{variable}"));
        let kind = if stored.contains(variable) { "T.axis.spatial" } else { "T.axis.reduce" };
        let span = extent.span;
        let parts = [extent.clone(), expr(ExprKind::Name(variable.clone()), span)];
        let parts = parts.map(super::tree::argument).into();
        lines.push(super::tree::assign(name(&axis, span), None, call(kind, parts, span)));
        names.insert(variable.clone(), axis);
    }
    lines.extend(body.iter().map(|line| renamed(line, &names)));
    lines
}
