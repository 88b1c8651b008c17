//! Small trees, and questions to trees.

use relax_syntax::Name;
use relax_syntax::ast::{Argument, Expr, ExprKind, Identifier, Statement, StatementKind};
use relax_syntax::span::Span;
use std::collections::BTreeSet;

pub(super) fn expr(kind: ExprKind, span: Span) -> Expr {
    Expr { kind, span }
}

pub(super) fn name(text: &str, span: Span) -> Expr {
    expr(ExprKind::Name(Name::new(text)), span)
}

pub(super) fn string(text: &str, span: Span) -> Expr {
    expr(ExprKind::Str(Name::new(text)), span)
}

pub(super) fn call(callee: &str, arguments: Vec<Argument>, span: Span) -> Expr {
    expr(ExprKind::Call { callee: Box::new(name(callee, span)), arguments }, span)
}

pub(super) fn argument(value: Expr) -> Argument {
    Argument { keyword: None, value }
}

pub(super) fn keyword(word: &str, value: Expr) -> Argument {
    let keyword = Some(Identifier { name: Name::new(word), span: value.span });
    Argument { keyword, value }
}

pub(super) fn statement(kind: StatementKind, span: Span) -> Statement {
    Statement { kind, span }
}

pub(super) fn bare(value: Expr) -> Statement {
    let span = value.span;
    statement(StatementKind::Expr(value), span)
}

pub(super) fn assign(target: Expr, annotation: Option<Expr>, value: Expr) -> Statement {
    let span = target.span;
    statement(StatementKind::Assign { target, annotation, value }, span)
}

/// `n, m = sym_var(), sym_var()`, or nothing.
pub(super) fn declaration(names: &BTreeSet<Name>, span: Span) -> Option<Statement> {
    let one = |name: &Name| expr(ExprKind::Name(name.clone()), span);
    let (targets, values): (Vec<Expr>, Vec<Expr>) =
        names.iter().map(|name| (one(name), call("sym_var", Vec::new(), span))).unzip();
    let many = |mut items: Vec<Expr>| match items.len() {
        1 => items.remove(0),
        _ => expr(ExprKind::Tuple(items), span),
    };
    (!targets.is_empty()).then(|| assign(many(targets), None, many(values)))
}

pub(super) fn name_of(expr: &Expr) -> Option<&str> {
    match &expr.kind {
        ExprKind::Name(name) => Some(name.as_str()),
        _ => None,
    }
}

/// The name that is called.
pub(super) fn callee(expr: &Expr) -> Option<&str> {
    match &expr.kind {
        ExprKind::Call { callee, .. } => name_of(callee),
        _ => None,
    }
}

pub(super) fn is_call(expr: &Expr, names: &[&str]) -> bool {
    callee(expr).is_some_and(|callee| names.contains(&callee))
}

pub(super) fn arguments(expr: &Expr) -> &[Argument] {
    match &expr.kind {
        ExprKind::Call { arguments, .. } => arguments,
        _ => &[],
    }
}

/// An argument by its place, or by one of its names.
pub(super) fn taken<'e>(call: &'e Expr, place: usize, words: &[&str]) -> Option<&'e Expr> {
    let all = arguments(call);
    let named = all.iter().find(|argument| {
        argument.keyword.as_ref().is_some_and(|keyword| words.contains(&keyword.name.as_str()))
    });
    let placed = all.get(place).filter(|argument| argument.keyword.is_none());
    named.or(placed).map(|argument| &argument.value)
}

/// The parts of a tuple or a list; anything else is one part.
pub(super) fn items(expr: &Expr) -> Vec<&Expr> {
    match &expr.kind {
        ExprKind::Tuple(items) | ExprKind::List(items) => items.iter().collect(),
        _ => vec![expr],
    }
}

/// Every name of an expression.
pub(super) fn names_in(expr: &Expr, visit: &mut dyn FnMut(&Name)) {
    match &expr.kind {
        ExprKind::Name(name) => visit(name),
        ExprKind::Tuple(items) | ExprKind::List(items) => {
            items.iter().for_each(|item| names_in(item, visit));
        }
        ExprKind::Call { callee, arguments } => {
            names_in(callee, visit);
            arguments.iter().for_each(|argument| names_in(&argument.value, visit));
        }
        ExprKind::Subscript { base, indices } => {
            names_in(base, visit);
            indices.iter().for_each(|index| names_in(index, visit));
        }
        ExprKind::Unary(_, operand) => names_in(operand, visit),
        ExprKind::Binary(_, pair) => {
            names_in(&pair.0, visit);
            names_in(&pair.1, visit);
        }
        _ => {}
    }
}

/// Every expression of statements, those of nested ones too.
pub(super) fn expressions<'s>(statements: &'s [Statement], visit: &mut dyn FnMut(&'s Expr)) {
    for statement in statements {
        match &statement.kind {
            StatementKind::Assign { target, annotation, value } => {
                visit(target);
                annotation.iter().for_each(&mut *visit);
                visit(value);
            }
            StatementKind::Update { target, value, .. } => {
                visit(target);
                visit(value);
            }
            StatementKind::Return(value) | StatementKind::Expr(value) => visit(value),
            StatementKind::Pass => {}
            StatementKind::If { condition, then, otherwise, .. } => {
                visit(condition);
                expressions(then, visit);
                expressions(otherwise, visit);
            }
            StatementKind::For { iterator, body, .. } => {
                visit(iterator);
                expressions(body, visit);
            }
            StatementKind::With { context, body } => {
                visit(context);
                expressions(body, visit);
            }
            StatementKind::Def(def) => expressions(&def.body, visit),
        }
    }
}

/// An expression with every part that `turn` has another for.
pub(super) fn mapped(tree: &Expr, turn: &dyn Fn(&Expr) -> Option<Expr>) -> Expr {
    if let Some(other) = turn(tree) {
        return other;
    }
    let all = |items: &[Expr]| items.iter().map(|item| mapped(item, turn)).collect();
    let kind = match &tree.kind {
        ExprKind::Tuple(items) => ExprKind::Tuple(all(items)),
        ExprKind::List(items) => ExprKind::List(all(items)),
        ExprKind::Call { callee, arguments } => ExprKind::Call {
            callee: callee.clone(),
            arguments: arguments
                .iter()
                .map(|a| Argument { keyword: a.keyword.clone(), value: mapped(&a.value, turn) })
                .collect(),
        },
        ExprKind::Subscript { base, indices } => {
            ExprKind::Subscript { base: Box::new(mapped(base, turn)), indices: all(indices) }
        }
        ExprKind::Unary(op, operand) => ExprKind::Unary(*op, Box::new(mapped(operand, turn))),
        ExprKind::Binary(op, pair) => {
            ExprKind::Binary(*op, Box::new((mapped(&pair.0, turn), mapped(&pair.1, turn))))
        }
        leaf => leaf.clone(),
    };
    expr(kind, tree.span)
}
