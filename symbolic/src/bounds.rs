//! The least and the greatest value of a term: candidates come from quick intervals and from values
//! that were seen, and what is returned was proved as a claim.

use crate::claims::Formula;
use crate::prover::Prover;
use relax_syntax::dim::Dim;
use relax_syntax::facts::{Answer, Claim, Relation};

/// How many claims are tried for each end.
const TRIES: u32 = 80;

/// An end of the range of a term.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Least,
    Greatest,
}

/// What is known of an end while it is looked for, in the direction in which larger is closer to
/// the values of the term.
#[derive(Clone, Copy, Default)]
struct Known {
    /// A bound that was proved.
    proved: Option<i64>,
    /// A value that the term has, or one for which no proof was found.
    above: Option<i64>,
}

impl Prover {
    /// Bounds of a term under the facts: it always has a value that is at least the first and at
    /// most the second. They are as tight as the prover could prove; `None` where it found none.
    pub fn bounds(&mut self, dim: &Dim) -> (Option<i64>, Option<i64>) {
        self.bounds_under(&[], dim)
    }

    /// The same where `hypotheses` hold too.
    pub fn bounds_under(
        &mut self,
        hypotheses: &[Formula],
        dim: &Dim,
    ) -> (Option<i64>, Option<i64>) {
        let low = self.end(hypotheses, dim, End::Least);
        let high = self.end(hypotheses, dim, End::Greatest);
        (low, high)
    }

    fn end(&mut self, hypotheses: &[Formula], dim: &Dim, end: End) -> Option<i64> {
        let mut known = Known::default();
        let itself = Claim::new(dim.clone(), Relation::NotEqual, dim.clone());
        if let Answer::Refuted(values) =
            self.decide_formula(&Formula::Claim(itself).under(hypotheses))
            && let Ok(seen) = dim.eval(&|name| values.get(name).copied())
        {
            known.note(end.turned(seen));
        }
        let quick = self.quick_end(dim, end);
        let guesses = quick.into_iter().chain([i64::MIN]);
        let guesses = guesses.chain(literals(dim).into_iter().map(|value| end.turned(value)));
        for guess in guesses.collect::<Vec<_>>() {
            self.try_bound(hypotheses, dim, end, guess, &mut known);
        }
        for step in 0..TRIES {
            let Some(next) = known.next(step) else { break };
            self.try_bound(hypotheses, dim, end, next, &mut known);
        }
        known.proved.map(|bound| end.turned(bound))
    }

    /// The end of the interval that quick bounds give, turned.
    fn quick_end(&mut self, dim: &Dim, end: End) -> Option<i64> {
        let mark = self.engine.atoms.mark();
        self.engine.fuel = 5000;
        let canonical = self.engine.canonical(&self.context, dim);
        let interval = canonical.map(|(poly, _)| self.engine.bounds(&self.context).of(&poly));
        self.engine.forget_from(&self.context, mark);
        let value = match end {
            End::Least => interval?.low?,
            End::Greatest => interval?.high?,
        };
        i64::try_from(value).ok().map(|value| end.turned(value))
    }

    /// Asks for one bound and notes what comes of it.
    fn try_bound(
        &mut self,
        hypotheses: &[Formula],
        dim: &Dim,
        end: End,
        bound: i64,
        known: &mut Known,
    ) {
        if known.decides(bound) {
            return;
        }
        let literal = Dim::Int(end.turned(bound));
        let claim = match end {
            End::Least => Claim::new(literal, Relation::AtMost, dim.clone()),
            End::Greatest => Claim::new(dim.clone(), Relation::AtMost, literal),
        };
        match self.decide_formula(&Formula::Claim(claim).under(hypotheses)) {
            Answer::Proved => known.proved = known.proved.max(Some(bound)),
            Answer::Refuted(values) => {
                let seen = dim.eval(&|name| values.get(name).copied()).ok();
                known.note(seen.map_or(bound.saturating_sub(1), |value| end.turned(value)));
            }
            Answer::Unknown => known.note(bound.saturating_sub(1)),
        }
    }
}

impl End {
    /// A value in the direction in which both ends are lower bounds: `!x`, which is `-x - 1`, falls
    /// as `x` rises and never overflows.
    fn turned(self, value: i64) -> i64 {
        match self {
            End::Least => value,
            End::Greatest => !value,
        }
    }
}

impl Known {
    fn decides(self, bound: i64) -> bool {
        self.proved.is_some_and(|proved| bound <= proved)
            || self.above.is_some_and(|above| bound > above)
    }

    /// No bound above `value` can be proved.
    fn note(&mut self, value: i64) {
        self.above = Some(self.above.map_or(value, |above| above.min(value)));
    }

    /// The next bound to try: the highest that is left first, then further and further below it,
    /// then halfway.
    fn next(self, step: u32) -> Option<i64> {
        let (proved, above) = (i128::from(self.proved?), i128::from(self.above?));
        if proved >= above {
            return None;
        }
        let below = above - (1_i128 << step.saturating_sub(1).min(64)) + 1;
        let half = (proved + above + 1).div_euclid(2);
        i64::try_from(below.max(half)).ok()
    }
}

/// The literals in a term, as guesses for its bounds.
fn literals(dim: &Dim) -> Vec<i64> {
    match dim {
        Dim::Int(value) => vec![*value],
        Dim::Var(_) => Vec::new(),
        Dim::Op(_, operands) => {
            let mut all = literals(&operands.0);
            all.extend(literals(&operands.1));
            all.truncate(6);
            all
        }
    }
}
