//! What statements mean, from another parser and by evaluation: independent of the checker.

use relax_syntax::ast::{Argument, BinaryOp, Expr, ExprKind, UnaryOp};
use relax_syntax::parse::parse_expression;
use std::collections::{BTreeMap, BTreeSet};

pub(crate) type Assignment = BTreeMap<String, i128>;

pub(crate) fn parse(text: &str) -> Option<Expr> {
    parse_expression(text, 0).ok()
}

/// The value of a term; `None` where it has none.
fn value(expr: &Expr, names: &Assignment) -> Option<i128> {
    match &expr.kind {
        ExprKind::Int(number) => Some(i128::from(*number)),
        ExprKind::Name(name) => Some(names[name.as_str()]),
        ExprKind::Unary(UnaryOp::Negate, term) => Some(-value(term, names)?),
        ExprKind::Binary(op, sides) => {
            let (a, b) = (value(&sides.0, names)?, value(&sides.1, names)?);
            match op {
                BinaryOp::Add => Some(a + b),
                BinaryOp::Sub => Some(a - b),
                BinaryOp::Mul => Some(a * b),
                BinaryOp::FloorDiv => floor(a, b),
                BinaryOp::Mod => Some(a - b * floor(a, b)?),
                _ => panic!("no term: {expr:?}"),
            }
        }
        ExprKind::Call { callee, arguments } => {
            let values = values(arguments, names)?;
            match &callee.kind {
                ExprKind::Name(name) if name == "min" => values.into_iter().min(),
                ExprKind::Name(name) if name == "max" => values.into_iter().max(),
                _ => Some(-floor(-values[0], values[1])?),
            }
        }
        _ => panic!("no term: {expr:?}"),
    }
}

fn values(arguments: &[Argument], names: &Assignment) -> Option<Vec<i128>> {
    arguments.iter().map(|argument| value(&argument.value, names)).collect()
}

fn floor(a: i128, b: i128) -> Option<i128> {
    if b == 0 {
        return None;
    }
    let rest = a % b;
    Some(a / b - i128::from(rest != 0 && (rest < 0) != (b < 0)))
}

/// Whether a statement holds; `None` where it has no value.
pub(crate) fn truth(expr: &Expr, names: &Assignment) -> Option<bool> {
    match &expr.kind {
        ExprKind::Bool(value) => Some(*value),
        ExprKind::Unary(UnaryOp::Not, part) => Some(!truth(part, names)?),
        ExprKind::Binary(BinaryOp::And, parts) => {
            if truth(&parts.0, names)? {
                truth(&parts.1, names)
            } else {
                Some(false)
            }
        }
        ExprKind::Binary(BinaryOp::Or, parts) => {
            if truth(&parts.0, names)? {
                Some(true)
            } else {
                truth(&parts.1, names)
            }
        }
        ExprKind::Binary(op, sides) => {
            let (a, b) = (value(&sides.0, names)?, value(&sides.1, names)?);
            Some(match op {
                BinaryOp::Equal => a == b,
                BinaryOp::NotEqual => a != b,
                BinaryOp::Less => a < b,
                BinaryOp::LessEqual => a <= b,
                BinaryOp::Greater => a > b,
                BinaryOp::GreaterEqual => a >= b,
                _ => panic!("no statement: {expr:?}"),
            })
        }
        ExprKind::Call { callee, arguments } => match &callee.kind {
            ExprKind::Name(name) if name == "implies" => {
                if truth(&arguments[0].value, names)? {
                    truth(&arguments[1].value, names)
                } else {
                    Some(true)
                }
            }
            _ => {
                let values = values(arguments, names)?;
                Some(values[0] != 0 && values[1] % values[0] == 0)
            }
        },
        _ => panic!("no statement: {expr:?}"),
    }
}

fn collect_names(expr: &Expr, names: &mut BTreeSet<String>) {
    match &expr.kind {
        ExprKind::Name(name) => {
            names.insert(name.to_string());
        }
        ExprKind::Unary(_, inner) => collect_names(inner, names),
        ExprKind::Binary(_, sides) => {
            collect_names(&sides.0, names);
            collect_names(&sides.1, names);
        }
        ExprKind::Call { arguments, .. } => {
            arguments.iter().for_each(|argument| collect_names(&argument.value, names));
        }
        _ => {}
    }
}

/// The assignments of small integers to the variables of these statements.
fn assignments(statements: &[&Expr]) -> Vec<Assignment> {
    let mut names = BTreeSet::new();
    statements.iter().for_each(|statement| collect_names(statement, &mut names));
    let reach = if names.len() > 2 { 4 } else { 9 };
    let mut assignments = vec![Assignment::new()];
    for name in names {
        let with = |assignment: &Assignment, value| {
            let mut assignment = assignment.clone();
            assignment.insert(name.clone(), value);
            assignment
        };
        assignments = assignments
            .iter()
            .flat_map(|assignment| (-reach..=reach).map(move |value| (assignment, value)))
            .map(|(assignment, value)| with(assignment, value))
            .collect();
    }
    assignments
}

/// Small integers under which the hypotheses hold and the goal does not.
pub(crate) fn counterexample(hypotheses: &[String], goal: &str) -> Option<Assignment> {
    let read = |text: &str| parse(text).unwrap_or_else(|| panic!("`{text}` is a statement"));
    let hypotheses: Vec<Expr> = hypotheses.iter().map(|text| read(text)).collect();
    let goal = read(goal);
    let all: Vec<&Expr> = hypotheses.iter().chain([&goal]).collect();
    assignments(&all).into_iter().find(|names| {
        hypotheses.iter().all(|hypothesis| truth(hypothesis, names) == Some(true))
            && truth(&goal, names) != Some(true)
    })
}

#[test]
fn evaluation_knows_what_has_no_value() {
    let hypotheses =
        |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    assert!(counterexample(&hypotheses(&["y != 0"]), "x % y == x - y * (x // y)").is_none());
    assert!(counterexample(&[], "x % y == x - y * (x // y)").is_some_and(|at| at["y"] == 0));
    assert!(counterexample(&[], "y == 0 or x // y == x // y").is_none());
    assert!(counterexample(&[], "x // y == x // y or y == 0").is_some());
    assert!(counterexample(&[], "-7 // 2 == -4 and -7 % 2 == 1 and 7 % -2 == -1").is_none());
    assert!(counterexample(&[], "ceildiv(7, 2) == 4 and not divides(0, 0)").is_none());
}
