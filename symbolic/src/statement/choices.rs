//! Statements with `select` as formulas without: the innermost condition is decided first, in both
//! ways, and everywhere in the comparison at once, so that no combination arises in which the same
//! condition holds here and fails there.

use crate::claims::Formula;
use relax_syntax::Name;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::{Claim, Relation};

/// How many parts a statement may become when its `select`s are taken apart.
const MOST_PARTS: usize = 400;

/// An integer.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Number {
    Int(i64),
    Var(Name),
    Op(DimOp, Box<(Number, Number)>),
    Select(Box<(Truth, Number, Number)>),
}

/// True or false.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Truth {
    Known(bool),
    Compare(Relation, Number, Number),
    And(Vec<Truth>),
    Or(Vec<Truth>),
    Not(Box<Truth>),
    Implies(Box<(Truth, Truth)>),
    Same(Box<(Truth, Truth)>),
    Choose(Box<(Truth, Truth, Truth)>),
}

impl Number {
    pub(super) fn op(op: DimOp, a: Number, b: Number) -> Self {
        Number::Op(op, Box::new((a, b)))
    }
}

/// The formula that says the same.
///
/// Errors when it becomes too big.
pub(super) fn formula(truth: &Truth) -> Result<Formula, String> {
    lowered(truth, &mut 0).ok_or_else(|| {
        format!(
            "the statement has more than {MOST_PARTS} parts, counting the ways its `select`s may go"
        )
    })
}

/// The dim that says the same; `None` where there is a `select`.
pub(super) fn term(number: &Number) -> Option<Dim> {
    Some(match number {
        Number::Int(value) => Dim::Int(*value),
        Number::Var(name) => Dim::Var(name.clone()),
        Number::Op(op, operands) => {
            Dim::Op(*op, Box::new((term(&operands.0)?, term(&operands.1)?)))
        }
        Number::Select(_) => return None,
    })
}

fn lowered(truth: &Truth, parts: &mut usize) -> Option<Formula> {
    *parts += 1;
    (*parts <= MOST_PARTS).then_some(())?;
    let mut both =
        |pair: &(Truth, Truth)| Some((lowered(&pair.0, parts)?, lowered(&pair.1, parts)?));
    Some(match truth {
        Truth::Known(true) => Formula::True,
        Truth::Known(false) => Formula::False,
        Truth::And(operands) => Formula::And(all_lowered(operands, parts)?),
        Truth::Or(operands) => Formula::Or(all_lowered(operands, parts)?),
        Truth::Not(operand) => Formula::negation(lowered(operand, parts)?),
        Truth::Implies(pair) => Formula::Implies(Box::new(both(pair)?)),
        Truth::Same(pair) => {
            let (a, b) = both(pair)?;
            let forward = Formula::implies(a.clone(), b.clone());
            Formula::And(vec![forward, Formula::implies(b, a)])
        }
        Truth::Choose(operands) => {
            let condition = lowered(&operands.0, parts)?;
            let (a, b) = (lowered(&operands.1, parts)?, lowered(&operands.2, parts)?);
            choice(condition, a, b)
        }
        Truth::Compare(relation, a, b) => compared(*relation, a, b, parts)?,
    })
}

fn all_lowered(operands: &[Truth], parts: &mut usize) -> Option<Vec<Formula>> {
    operands.iter().map(|operand| lowered(operand, parts)).collect()
}

fn compared(relation: Relation, a: &Number, b: &Number, parts: &mut usize) -> Option<Formula> {
    let Some(condition) = first_condition(a).or_else(|| first_condition(b)) else {
        return Some(Formula::Claim(Claim { left: term(a)?, relation, right: term(b)? }));
    };
    let with = |value| {
        let decide = |number| decided(number, &condition, value);
        Truth::Compare(relation, decide(a), decide(b))
    };
    let (yes, no) = (lowered(&with(true), parts)?, lowered(&with(false), parts)?);
    Some(choice(lowered(&condition, parts)?, yes, no))
}

fn choice(condition: Formula, yes: Formula, no: Formula) -> Formula {
    let negated = Formula::negation(condition.clone());
    Formula::And(vec![Formula::implies(condition, yes), Formula::implies(negated, no)])
}

/// The condition of an innermost `select`.
fn first_condition(number: &Number) -> Option<Truth> {
    match number {
        Number::Int(_) | Number::Var(_) => None,
        Number::Op(_, operands) => {
            first_condition(&operands.0).or_else(|| first_condition(&operands.1))
        }
        Number::Select(operands) => {
            Some(condition_inside(&operands.0).unwrap_or_else(|| operands.0.clone()))
        }
    }
}

fn condition_inside(truth: &Truth) -> Option<Truth> {
    let in_pair =
        |pair: &(Truth, Truth)| condition_inside(&pair.0).or_else(|| condition_inside(&pair.1));
    match truth {
        Truth::Known(_) => None,
        Truth::Compare(_, a, b) => first_condition(a).or_else(|| first_condition(b)),
        Truth::And(operands) | Truth::Or(operands) => operands.iter().find_map(condition_inside),
        Truth::Implies(pair) | Truth::Same(pair) => in_pair(pair),
        Truth::Not(operand) => condition_inside(operand),
        Truth::Choose(operands) => condition_inside(&operands.0)
            .or_else(|| condition_inside(&operands.1))
            .or_else(|| condition_inside(&operands.2)),
    }
}

/// `number` where `condition` is known to be `value`.
fn decided(number: &Number, condition: &Truth, value: bool) -> Number {
    match number {
        Number::Int(_) | Number::Var(_) => number.clone(),
        Number::Op(op, operands) => {
            let a = decided(&operands.0, condition, value);
            Number::op(*op, a, decided(&operands.1, condition, value))
        }
        Number::Select(operands) if operands.0 == *condition => {
            decided(if value { &operands.1 } else { &operands.2 }, condition, value)
        }
        Number::Select(operands) => {
            let own = decided_truth(&operands.0, condition, value);
            let a = decided(&operands.1, condition, value);
            Number::Select(Box::new((own, a, decided(&operands.2, condition, value))))
        }
    }
}

fn decided_truth(truth: &Truth, condition: &Truth, value: bool) -> Truth {
    let inside = |truth: &Truth| decided_truth(truth, condition, value);
    let pair = |pair: &(Truth, Truth)| Box::new((inside(&pair.0), inside(&pair.1)));
    match truth {
        Truth::Known(_) => truth.clone(),
        Truth::Compare(relation, a, b) => {
            let a = decided(a, condition, value);
            Truth::Compare(*relation, a, decided(b, condition, value))
        }
        Truth::And(operands) => Truth::And(operands.iter().map(inside).collect()),
        Truth::Or(operands) => Truth::Or(operands.iter().map(inside).collect()),
        Truth::Implies(operands) => Truth::Implies(pair(operands)),
        Truth::Same(operands) => Truth::Same(pair(operands)),
        Truth::Not(operand) => Truth::Not(Box::new(inside(operand))),
        Truth::Choose(parts) => {
            Truth::Choose(Box::new((inside(&parts.0), inside(&parts.1), inside(&parts.2))))
        }
    }
}
