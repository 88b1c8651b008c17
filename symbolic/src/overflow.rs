//! Does every intermediate value of a term fit i64, for all values that the facts admit?
//!
//! Each operation of the term is asked about in mathematical integers, its operands taken to fit.
//! A counterexample is evaluated by the wide evaluation here: operands in i64, the result in i128,
//! which holds every result of one operation.

use crate::claims::Formula;
use crate::prover::Prover;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::{Answer, Claim, Counterexample, Facts, Relation};

/// How many different operations a term may have to be looked at.
const MOST_OPERATIONS: usize = 200;
/// Powers of two and their like, at which products leave i64.
const WIDE: [i128; 14] = [
    1 << 16,
    1 << 20,
    2_097_152,
    1 << 30,
    (1 << 31) - 1,
    1 << 31,
    1 << 32,
    3_037_000_500,
    1 << 40,
    1 << 42,
    1 << 48,
    1 << 62,
    i64::MAX as i128,
    i64::MIN as i128,
];

/// What is known of the intermediate values of a term.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Intermediates {
    /// Each has a value in i64, for all admitted values of the variables.
    Fit,
    /// One has none.
    Escape(Escape),
    /// Not decided, for this operation first.
    Unknown(Dim),
}

/// An operation that has no value in i64.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Escape {
    /// Values of the variables that the facts admit.
    pub values: Counterexample,
    /// The first operation, operands before results, that has no value in i64.
    pub operation: Dim,
    /// Its mathematical value; `None` where its divisor is 0.
    pub result: Option<i128>,
}

impl Prover {
    /// Whether every intermediate value of a term fits i64, in the order operands before results.
    /// Variables are any i64 that the facts admit.
    pub fn intermediates(&mut self, dim: &Dim) -> Intermediates {
        self.intermediates_under(&[], dim)
    }

    /// The same where `hypotheses` hold too.
    pub fn intermediates_under(&mut self, hypotheses: &[Formula], dim: &Dim) -> Intermediates {
        self.push();
        dim.visit_vars(&mut |name| {
            self.assume(Claim::new(i64::MIN, Relation::AtMost, Dim::Var(name.clone())));
            self.assume(Claim::new(Dim::Var(name.clone()), Relation::AtMost, i64::MAX));
        });
        let found = self.judged_intermediates(hypotheses, dim);
        self.pop();
        found
    }

    fn judged_intermediates(&mut self, hypotheses: &[Formula], dim: &Dim) -> Intermediates {
        let mut operations = Vec::new();
        list_operations(dim, &mut operations);
        let is_long = operations.len() > MOST_OPERATIONS;
        let open = operations.into_iter().find(|one| is_long || !self.fits(hypotheses, one));
        let Some(open) = open else { return Intermediates::Fit };
        match self.escape(hypotheses, dim) {
            Some(escape) => Intermediates::Escape(escape),
            None => Intermediates::Unknown(open.clone()),
        }
    }

    /// Whether an operation is proved to have a value in i64.
    fn fits(&mut self, hypotheses: &[Formula], operation: &Dim) -> bool {
        let low = Claim::new(i64::MIN, Relation::AtMost, operation.clone());
        let high = Claim::new(operation.clone(), Relation::AtMost, i64::MAX);
        [low, high].into_iter().all(|claim| {
            self.decide_formula(&Formula::Claim(claim).under(hypotheses)) == Answer::Proved
        })
    }

    fn escape(&mut self, hypotheses: &[Formula], dim: &Dim) -> Option<Escape> {
        let formula = Formula::Claim(Claim::new(0, Relation::AtMost, dim.clone()));
        let formula = formula.under(hypotheses);
        let leaves = |values: &Counterexample| {
            hypotheses.iter().all(|hypothesis| hypothesis.holds(values) == Some(true))
                && evaluated(dim, values).is_err()
        };
        let mark = self.engine.atoms.mark();
        let values = self.engine.extreme_example(&self.context, &formula, &WIDE, &leaves);
        self.engine.forget_from(&self.context, mark);
        let values = values?;
        let (operation, result) = evaluated(dim, &values).err()?;
        Some(Escape { operation: operation.clone(), result, values })
    }
}

/// The value of a term, or the first operation without one in i64 and its mathematical value.
fn evaluated<'a>(dim: &'a Dim, values: &Counterexample) -> Result<i64, (&'a Dim, Option<i128>)> {
    match dim {
        Dim::Int(value) => Ok(*value),
        Dim::Var(name) => Ok(values.get(name).copied().unwrap_or_default()),
        Dim::Op(op, operands) => {
            let a = i128::from(evaluated(&operands.0, values)?);
            let b = i128::from(evaluated(&operands.1, values)?);
            let result = applied(*op, a, b);
            let fitting = result.and_then(|result| i64::try_from(result).ok());
            fitting.ok_or((dim, result))
        }
    }
}

/// The mathematical result for operands in i64; `None` for a divisor of 0.
fn applied(op: DimOp, a: i128, b: i128) -> Option<i128> {
    let floor = |a: i128, b: i128| {
        let quotient = a.checked_div(b)?;
        Some(quotient - i128::from(a % b != 0 && (a < 0) != (b < 0)))
    };
    match op {
        DimOp::Add => Some(a + b),
        DimOp::Sub => Some(a - b),
        DimOp::Mul => Some(a * b),
        DimOp::FloorDiv => floor(a, b),
        DimOp::FloorMod => Some(a - b * floor(a, b)?),
        DimOp::CeilDiv => Some(-floor(-a, b)?),
        DimOp::Min => Some(a.min(b)),
        DimOp::Max => Some(a.max(b)),
    }
}

/// The different operations of a term, operands before results.
fn list_operations<'a>(dim: &'a Dim, found: &mut Vec<&'a Dim>) {
    if let Dim::Op(_, operands) = dim {
        list_operations(&operands.0, found);
        list_operations(&operands.1, found);
        if found.len() <= MOST_OPERATIONS && !found.contains(&dim) {
            found.push(dim);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Escape, Intermediates};
    use crate::Prover;
    use crate::statement::{formula, term};

    fn judged(assume: &[&str], text: &str) -> Intermediates {
        let mut prover = Prover::new();
        let known = assume.iter().map(|text| formula(text).expect("a statement"));
        let hypotheses = prover.suppose(known.collect::<Vec<_>>());
        prover.intermediates_under(&hypotheses, &term(text).expect("a term"))
    }

    /// The escaping operation and its value.
    fn escape(assume: &[&str], text: &str) -> (String, Option<i128>) {
        match judged(assume, text) {
            Intermediates::Escape(Escape { operation, result, .. }) => {
                (operation.to_string(), result)
            }
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn products_of_bounded_dims_fit() {
        let below = ["n >= 0", "m >= 0", "n < 4294967296", "m <= 2147483648"];
        assert_eq!(judged(&below, "n * m - 1"), Intermediates::Fit);
        assert_eq!(judged(&below, "n * m // 8 + min(n, m)"), Intermediates::Fit);
        assert_eq!(judged(&[], "n // 2"), Intermediates::Fit);
        assert_eq!(judged(&[], "9223372036854775807 + 0 * n"), Intermediates::Fit);
        assert_eq!(judged(&["n < 5 and n > -5 or n == 7"], "n * n * n"), Intermediates::Fit);
    }

    #[test]
    fn the_first_operation_that_leaves_is_named() {
        let one_more = ["n >= 0", "m >= 0", "n <= 4294967296", "m <= 2147483648"];
        assert_eq!(escape(&one_more, "n * m - 1"), ("n * m".to_owned(), Some(1 << 63)));
        assert_eq!(escape(&["n >= 0"], "(n + 1) - 1"), ("n + 1".to_owned(), Some(1 << 63)));
        assert_eq!(escape(&[], "9223372036854775807 + n - n").1, Some(1 << 63));
        assert_eq!(escape(&[], "-n"), ("0 - n".to_owned(), Some(1 << 63)));
        assert_eq!(escape(&[], "n // -1"), ("n // -1".to_owned(), Some(1 << 63)));
        assert_eq!(escape(&[], "ceildiv(n, -1)").1, Some(1 << 63));
        assert_eq!(escape(&["m >= 0"], "n // m"), ("n // m".to_owned(), None));
    }

    #[test]
    fn counterexamples_satisfy_the_facts() {
        let known = ["divides(8, n)", "n >= 0", "m == n * 2"];
        let Intermediates::Escape(escape) = judged(&known, "m * 4") else {
            panic!("m * 4 can leave i64");
        };
        let n = escape.values["n"];
        assert!(n % 8 == 0 && n >= 0 && escape.values["m"] == n * 2);
        assert_eq!(escape.result, Some(i128::from(n) * 8));
        assert!(escape.result > Some(i128::from(i64::MAX)));
    }
}
