//! The text of a statement as a formula.
//!
//! `select(c, a, b)` in a term is taken apart: the comparison around it must hold with `a` where
//! `c` holds, and with `b` where it does not.

use relax_symbolic::claims::Formula;
use relax_syntax::ast::{Argument, BinaryOp, Expr, ExprKind, UnaryOp};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::{Claim, Relation};
use relax_syntax::parse::parse_expression;

type Read<T> = Result<T, String>;

/// How many ways the `select`s of one comparison may go.
const MOST_CASES: usize = 64;

/// Reads a statement.
///
/// Errors are sentences on what was expected.
pub(super) fn formula(text: &str) -> Read<Formula> {
    let expr = parse_expression(text, 0).map_err(|diagnostic| diagnostic.message)?;
    formula_of(&expr)
}

fn formula_of(expr: &Expr) -> Read<Formula> {
    match &expr.kind {
        ExprKind::Bool(true) => Ok(Formula::True),
        ExprKind::Bool(false) => Ok(Formula::False),
        ExprKind::Name(name) if name == "true" => Ok(Formula::True),
        ExprKind::Name(name) if name == "false" => Ok(Formula::False),
        ExprKind::Unary(UnaryOp::Not, operand) => Ok(Formula::negation(formula_of(operand)?)),
        ExprKind::Binary(op, operands) => binary(*op, &operands.0, &operands.1),
        ExprKind::Call { callee, arguments } => call(callee, arguments),
        _ => Err("expected a comparison such as `n % 4 == 0`".to_owned()),
    }
}

fn binary(op: BinaryOp, a: &Expr, b: &Expr) -> Read<Formula> {
    let (relation, swapped) = match op {
        BinaryOp::And => return Ok(Formula::And(vec![formula_of(a)?, formula_of(b)?])),
        BinaryOp::Or => return Ok(Formula::Or(vec![formula_of(a)?, formula_of(b)?])),
        BinaryOp::Equal if is_statement(a) => return equivalence(a, b),
        BinaryOp::NotEqual if is_statement(a) => return Ok(Formula::negation(equivalence(a, b)?)),
        BinaryOp::Equal => (Relation::Equal, false),
        BinaryOp::NotEqual => (Relation::NotEqual, false),
        BinaryOp::Less => (Relation::Less, false),
        BinaryOp::LessEqual => (Relation::AtMost, false),
        BinaryOp::Greater => (Relation::Less, true),
        BinaryOp::GreaterEqual => (Relation::AtMost, true),
        other => return Err(format!("`{}` makes no statement", other.symbol())),
    };
    if swapped { comparison(b, relation, a) } else { comparison(a, relation, b) }
}

/// True for what is true or false, not an integer.
fn is_statement(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Bool(_) | ExprKind::Unary(UnaryOp::Not, _) => true,
        ExprKind::Binary(op, _) => dim_op(*op).is_err(),
        ExprKind::Call { callee, .. } => {
            matches!(&callee.kind, ExprKind::Name(name) if name == "implies" || name == "divides")
        }
        _ => false,
    }
}

/// Each follows from the other.
fn equivalence(a: &Expr, b: &Expr) -> Read<Formula> {
    let (a, b) = (formula_of(a)?, formula_of(b)?);
    Ok(Formula::And(vec![Formula::implies(a.clone(), b.clone()), Formula::implies(b, a)]))
}

fn call(callee: &Expr, arguments: &[Argument]) -> Read<Formula> {
    let ExprKind::Name(name) = &callee.kind else {
        return Err("expected a name before the bracket".to_owned());
    };
    match (name.as_str(), arguments) {
        ("implies", [a, b]) => Ok(Formula::implies(formula_of(&a.value)?, formula_of(&b.value)?)),
        ("divides", [a, b]) => comparison(&a.value, Relation::Divides, &b.value),
        _ => Err(format!("`{name}` makes no statement; expected implies(a, b) or divides(a, b)")),
    }
}

/// A term in each of the cases that its `select`s make, with the conditions of the case.
type Cases = Vec<(Vec<Formula>, Dim)>;

fn comparison(a: &Expr, relation: Relation, b: &Expr) -> Read<Formula> {
    let claims = combined(cases(a)?, cases(b)?, &mut |a, b| {
        Formula::Claim(Claim::new(a.clone(), relation, b.clone()))
    })?;
    let guarded = claims.into_iter().map(|(conditions, claim)| {
        if conditions.is_empty() {
            claim
        } else {
            Formula::implies(Formula::And(conditions), claim)
        }
    });
    let mut parts: Vec<Formula> = guarded.collect();
    let single = parts.len() == 1;
    Ok(if single { parts.swap_remove(0) } else { Formula::And(parts) })
}

/// Every case of one side with every case of the other.
fn combined<T>(
    left: Cases,
    right: Cases,
    join: &mut dyn FnMut(&Dim, &Dim) -> T,
) -> Read<Vec<(Vec<Formula>, T)>> {
    if left.len() * right.len() > MOST_CASES {
        return Err(format!("more than {MOST_CASES} cases of `select`"));
    }
    let mut all = Vec::new();
    for (conditions, a) in &left {
        for (more, b) in &right {
            all.push((conditions.iter().chain(more).cloned().collect(), join(a, b)));
        }
    }
    Ok(all)
}

fn cases(expr: &Expr) -> Read<Cases> {
    let plain = |dim| Ok(vec![(Vec::new(), dim)]);
    match &expr.kind {
        ExprKind::Int(value) => plain(Dim::Int(*value)),
        ExprKind::Name(name) => plain(Dim::Var(name.clone())),
        ExprKind::Unary(UnaryOp::Negate, operand) => {
            combined_op(DimOp::Sub, vec![(Vec::new(), Dim::Int(0))], cases(operand)?)
        }
        ExprKind::Binary(op, operands) => {
            combined_op(dim_op(*op)?, cases(&operands.0)?, cases(&operands.1)?)
        }
        ExprKind::Call { callee, arguments } => term_call(callee, arguments),
        ExprKind::BigInt(_) => Err("an integer beyond i64".to_owned()),
        _ => Err("expected an integer expression".to_owned()),
    }
}

fn combined_op(op: DimOp, a: Cases, b: Cases) -> Read<Cases> {
    combined(a, b, &mut |a, b| Dim::op(op, a.clone(), b.clone()))
}

fn dim_op(op: BinaryOp) -> Read<DimOp> {
    match op {
        BinaryOp::Add => Ok(DimOp::Add),
        BinaryOp::Sub => Ok(DimOp::Sub),
        BinaryOp::Mul => Ok(DimOp::Mul),
        BinaryOp::FloorDiv => Ok(DimOp::FloorDiv),
        BinaryOp::Mod => Ok(DimOp::FloorMod),
        BinaryOp::Div => Err("`/` is not of integers: write `//`".to_owned()),
        other => Err(format!("`{}` is no operation of integers", other.symbol())),
    }
}

fn term_call(callee: &Expr, arguments: &[Argument]) -> Read<Cases> {
    let ExprKind::Name(name) = &callee.kind else {
        return Err("expected a name before the bracket".to_owned());
    };
    match (name.as_str(), arguments) {
        ("min", [a, b]) => combined_op(DimOp::Min, cases(&a.value)?, cases(&b.value)?),
        ("max", [a, b]) => combined_op(DimOp::Max, cases(&a.value)?, cases(&b.value)?),
        ("ceildiv", [a, b]) => combined_op(DimOp::CeilDiv, cases(&a.value)?, cases(&b.value)?),
        ("select", [condition, a, b]) => {
            let condition = formula_of(&condition.value)?;
            let mut all = with_condition(cases(&a.value)?, &condition);
            all.extend(with_condition(cases(&b.value)?, &Formula::negation(condition)));
            if all.len() > MOST_CASES {
                return Err(format!("more than {MOST_CASES} cases of `select`"));
            }
            Ok(all)
        }
        _ => Err(format!("`{name}` is unknown; known are min, max, ceildiv and select")),
    }
}

fn with_condition(cases: Cases, condition: &Formula) -> Cases {
    let add = |(mut conditions, dim): (Vec<Formula>, Dim)| {
        conditions.insert(0, condition.clone());
        (conditions, dim)
    };
    cases.into_iter().map(add).collect()
}
