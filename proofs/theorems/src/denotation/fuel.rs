//! A bound on the work of a comparison. Work is counted, not timed, so that the answer is the same on every machine:
//! a step for each node of a term that is made, for each statement that is run, and some for each question on dims.
//!
//! What makes terms is spread over many places, each of which would have to hand the count on. So there is one a
//! thread, unlimited but within [`limited`]; whoever makes much spends of it.

use super::term::{Known, Term, Test, unknown};
use std::cell::Cell;

/// What is said when nothing is left.
pub(crate) const SPENT: &str = "fuel: the comparison takes too much work";

thread_local! {
    static LEFT: Cell<u64> = const { Cell::new(u64::MAX) };
}

/// Runs with so many steps; gives also how many of them were spent.
pub(crate) fn limited<T>(steps: u64, run: impl FnOnce() -> T) -> (T, u64) {
    let outer = LEFT.replace(steps);
    let result = run();
    (result, steps - LEFT.replace(outer))
}

/// Whether nothing is left.
pub(crate) fn is_spent() -> bool {
    LEFT.get() == 0
}

/// Counts steps where nothing can be said; whoever asks next is told.
pub(crate) fn burn(steps: usize) {
    LEFT.set(LEFT.get().saturating_sub(steps as u64));
}

/// Counts steps, as long as some are left.
pub(crate) fn spend(steps: usize) -> Known<()> {
    burn(steps);
    if is_spent() { unknown(SPENT) } else { Ok(()) }
}

/// How many nodes a term has.
pub(crate) fn size(term: &Term) -> usize {
    1 + match term {
        Term::Read(_, at) => at.len(),
        Term::Number(..) | Term::Extent(_) | Term::Scalar(_) => 0,
        Term::Apply(_, _, args) => args.iter().map(size).sum(),
        Term::If(test, then, otherwise) => {
            let test = match test {
                Test::Dims(_) => 1,
                Test::Element(term) => size(term),
            };
            test + size(then) + size(otherwise)
        }
        Term::Fold(_, _, binders, body) => binders.len() + size(body),
        Term::Lookup(index, _, body) => size(index) + size(body),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_spent_inside_does_not_count_outside() {
        let (result, spent) = limited(10, || spend(4));
        assert_eq!((result, spent), (Ok(()), 4));
        let (result, spent) = limited(10, || spend(11));
        assert_eq!((result, spent), (unknown(SPENT), 10));
        assert!(!is_spent());
    }
}
