//! Guards: conditions on a variable of a loop that hold for one range of it and nowhere else, as those of padding and of windows do. A
//! loop that is split at the ends of the range has no condition in any of its parts.

use crate::products::mentions;
use relax_semantics::tir::walk::{Place, Rewrite, expr, visit};
use relax_syntax::ir::tensor::{BinOp, ScalarId, TExpr};

/// A condition as a range of a variable: it holds where all of `others` do, the variable is at least each of `low` and below each of
/// `high`. None of these mentions the variable.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Guard {
    /// Conditions on other things, in their order.
    pub others: Vec<TExpr>,
    /// Where the range begins, at the latest of these.
    pub low: Vec<TExpr>,
    /// Where it ends, at the first of these.
    pub high: Vec<TExpr>,
}

impl Guard {
    /// `None` for a condition that is no such range, or that reads elements.
    #[must_use]
    pub fn of(condition: &TExpr, var: ScalarId) -> Option<Self> {
        let mut reads = false;
        visit(condition, &mut |part| reads |= matches!(part, TExpr::Load { .. }));
        let mut guard = Guard::default();
        (!reads && guard.add(condition, var)).then_some(guard)
    }

    fn add(&mut self, condition: &TExpr, var: ScalarId) -> bool {
        if !mentions(std::slice::from_ref(condition), var) {
            self.others.push(condition.clone());
            return true;
        }
        let TExpr::Binary(op, both) = condition else { return false };
        match op {
            BinOp::And => self.add(&both.0, var) && self.add(&both.1, var),
            BinOp::Less | BinOp::LessEqual | BinOp::Greater | BinOp::GreaterEqual => {
                self.compare(*op, both, var)
            }
            _ => false,
        }
    }

    /// `var + rest < end` is `var < end - rest`.
    fn compare(&mut self, op: BinOp, (a, b): &(TExpr, TExpr), var: ScalarId) -> bool {
        let is_left = mentions(std::slice::from_ref(a), var);
        let (side, end) = if is_left { (a, b) } else { (b, a) };
        if mentions(std::slice::from_ref(end), var) {
            return false;
        }
        let Some(rest) = beside(side, var) else { return false };
        let end = sum(BinOp::Sub, end.clone(), rest);
        let after = || sum(BinOp::Add, end.clone(), TExpr::Int(1));
        match (op, is_left) {
            (BinOp::Less, true) | (BinOp::Greater, false) => self.high.push(end),
            (BinOp::LessEqual, true) | (BinOp::GreaterEqual, false) => self.high.push(after()),
            (BinOp::GreaterEqual, true) | (BinOp::LessEqual, false) => self.low.push(end),
            _ => self.low.push(after()),
        }
        true
    }
}

/// The conditions of the choices of an expression.
#[must_use]
pub fn choices(value: &TExpr) -> Vec<&TExpr> {
    let mut found = Vec::new();
    visit(value, &mut |part| {
        if let TExpr::Select(parts) = part {
            found.push(&parts.0);
        }
    });
    found
}

/// The condition of all choices; `None` without one, or where there are several.
#[must_use]
pub fn only<'e>(choices: &[&'e TExpr]) -> Option<&'e TExpr> {
    let (first, others) = choices.split_first()?;
    others.iter().all(|other| other == first).then_some(*first)
}

/// Takes one side of each choice by a condition.
#[derive(Clone, Copy, Debug)]
pub struct Chosen<'c> {
    /// The condition of the choices.
    pub condition: &'c TExpr,
    /// Whether it holds, so that the first value is taken.
    pub holds: bool,
}

impl Rewrite for Chosen<'_> {
    fn replace(&mut self, part: &TExpr, _: Place) -> Option<TExpr> {
        let TExpr::Select(parts) = part else { return None };
        if parts.0 != *self.condition {
            return None;
        }
        let side = if self.holds { &parts.1 } else { &parts.2 };
        Some(expr(side, self, Place::Value))
    }
}

/// What is added to a variable that an expression has once, with the factor 1.
#[must_use]
pub fn beside(expr: &TExpr, var: ScalarId) -> Option<TExpr> {
    if *expr == TExpr::Scalar(var) {
        return Some(TExpr::Int(0));
    }
    let TExpr::Binary(op @ (BinOp::Add | BinOp::Sub), both) = expr else { return None };
    let has = |part: &TExpr| mentions(std::slice::from_ref(part), var);
    match (has(&both.0), has(&both.1), op) {
        (true, false, _) => Some(sum(*op, beside(&both.0, var)?, both.1.clone())),
        (false, true, BinOp::Add) => Some(sum(*op, beside(&both.1, var)?, both.0.clone())),
        _ => None,
    }
}

/// A sum or difference, literals as one.
fn sum(op: BinOp, a: TExpr, b: TExpr) -> TExpr {
    let added = match (&a, &b, op) {
        (_, TExpr::Int(0), _) => return a,
        (TExpr::Int(0), _, BinOp::Add) => return b,
        (TExpr::Int(a), TExpr::Int(b), BinOp::Add) => a.checked_add(*b),
        (TExpr::Int(a), TExpr::Int(b), _) => a.checked_sub(*b),
        _ => None,
    };
    added.map_or_else(|| TExpr::binary(op, a, b), TExpr::Int)
}

#[cfg(test)]
mod tests {
    use super::*;
    use relax_syntax::Name;
    use relax_syntax::ir::tensor::BufferId;

    const J: ScalarId = ScalarId(0);
    const K: ScalarId = ScalarId(1);

    fn bin(op: BinOp, a: TExpr, b: TExpr) -> TExpr {
        TExpr::binary(op, a, b)
    }

    fn n() -> TExpr {
        TExpr::Dim(Name::from("n"))
    }

    #[test]
    fn a_window_is_a_range_of_its_columns() {
        let (j, k) = (TExpr::Scalar(J), TExpr::Scalar(K));
        let at = bin(BinOp::Add, bin(BinOp::Sub, j, TExpr::Int(1)), k.clone());
        let low = bin(BinOp::GreaterEqual, at.clone(), TExpr::Int(0));
        let condition = bin(BinOp::And, low, bin(BinOp::Less, at, n()));
        let rows = bin(BinOp::Less, k.clone(), n());
        let guard = Guard::of(&bin(BinOp::And, rows.clone(), condition), J);
        let rest = bin(BinOp::Add, TExpr::Int(-1), k);
        let from = bin(BinOp::Sub, TExpr::Int(0), rest.clone());
        let want =
            Guard { others: vec![rows], low: vec![from], high: vec![bin(BinOp::Sub, n(), rest)] };
        assert_eq!(guard, Some(want));
    }

    #[test]
    fn each_comparison_has_its_end() {
        let j = || TExpr::Scalar(J);
        let ends = |op, a, b| {
            let guard = Guard::of(&bin(op, a, b), J).expect("a range");
            (guard.low, guard.high)
        };
        let three = || TExpr::Int(3);
        let four = || vec![TExpr::Int(4)];
        assert_eq!(ends(BinOp::Less, j(), three()), (vec![], vec![three()]));
        assert_eq!(ends(BinOp::LessEqual, j(), three()), (vec![], four()));
        assert_eq!(ends(BinOp::Greater, j(), three()), (four(), vec![]));
        assert_eq!(ends(BinOp::GreaterEqual, j(), three()), (vec![three()], vec![]));
        assert_eq!(ends(BinOp::Less, three(), j()), (four(), vec![]));
        assert_eq!(ends(BinOp::LessEqual, three(), j()), (vec![three()], vec![]));
        assert_eq!(ends(BinOp::Greater, three(), j()), (vec![], vec![three()]));
        assert_eq!(ends(BinOp::GreaterEqual, three(), j()), (vec![], four()));
    }

    #[test]
    fn a_condition_on_other_things_holds_everywhere_or_nowhere() {
        let rows = bin(BinOp::Or, bin(BinOp::Less, TExpr::Scalar(K), n()), TExpr::Bool(true));
        let want = Guard { others: vec![rows.clone()], ..Guard::default() };
        assert_eq!(Guard::of(&rows, J), Some(want));
        let element = TExpr::Load { buffer: BufferId(0), indices: vec![TExpr::Scalar(K)] };
        assert_eq!(Guard::of(&bin(BinOp::Less, element, n()), J), None);
    }

    #[test]
    fn what_is_no_range_of_the_variable_is_none() {
        let (j, k) = (TExpr::Scalar(J), TExpr::Scalar(K));
        let below = |expr: TExpr| bin(BinOp::Less, expr, n());
        let twice = bin(BinOp::Add, j.clone(), j.clone());
        for condition in [
            below(twice),
            below(bin(BinOp::Mul, j.clone(), TExpr::Int(2))),
            below(bin(BinOp::Sub, k, j.clone())),
            bin(BinOp::Or, below(j.clone()), below(j.clone())),
            bin(BinOp::NotEqual, j.clone(), n()),
            bin(BinOp::Less, j.clone(), bin(BinOp::Sub, n(), j)),
        ] {
            assert_eq!(Guard::of(&condition, J), None);
        }
    }
}
