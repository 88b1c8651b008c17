//! Whether a system of linear inequalities over the integers has no solution: equations are used
//! up first, then variables are eliminated one by one (Fourier and Motzkin), and every inequality is
//! tightened to integers. Finding none is a proof; not finding one proves nothing.

use crate::polynomial::{floor_div, gcd};
use std::collections::{BTreeMap, BTreeSet};

/// How many inequalities may be there at once.
const MAX_ROWS: usize = 160;
/// Coefficients beyond this are given up: the row is dropped.
const MAX_COEFFICIENT: i128 = 1 << 90;

/// A linear form in numbered columns.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Row {
    /// Rising columns, no coefficient 0.
    pub(crate) terms: Vec<(u32, i128)>,
    pub(crate) constant: i128,
}

impl Row {
    fn coefficient(&self, column: u32) -> i128 {
        let found = self.terms.binary_search_by_key(&column, |term| term.0);
        found.map_or(0, |index| self.terms[index].1)
    }

    fn content(&self) -> i128 {
        self.terms.iter().fold(0, |acc, term| gcd(acc, term.1))
    }

    /// `a * self + b * other`; `None` when the numbers grow too big.
    fn combined(&self, a: i128, other: &Row, b: i128) -> Option<Row> {
        let bounded = |value: i128| (value.abs() <= MAX_COEFFICIENT).then_some(value);
        let mut terms = Vec::with_capacity(self.terms.len() + other.terms.len());
        let (mut i, mut j) = (0, 0);
        while i < self.terms.len() || j < other.terms.len() {
            let left = self.terms.get(i).map_or(u32::MAX, |term| term.0);
            let right = other.terms.get(j).map_or(u32::MAX, |term| term.0);
            let mut value = 0;
            if left <= right {
                value = self.terms[i].1.checked_mul(a)?;
                i += 1;
            }
            if right <= left {
                value = other.terms[j].1.checked_mul(b)?.checked_add(value)?;
                j += 1;
            }
            if value != 0 {
                terms.push((left.min(right), bounded(value)?));
            }
        }
        let constant = self.constant.checked_mul(a)?.checked_add(other.constant.checked_mul(b)?)?;
        Some(Row { terms, constant: bounded(constant)? })
    }

    /// The row `>= 0` with coprime coefficients.
    fn tighten(&mut self) {
        let content = self.content();
        if content > 1 {
            self.terms.iter_mut().for_each(|term| term.1 /= content);
            self.constant = floor_div(self.constant, content);
        }
    }
}

/// A conjunction of equations and inequalities.
#[derive(Clone, Debug, Default)]
pub(crate) struct System {
    /// Forms that are 0.
    pub(crate) zero: Vec<Row>,
    /// Forms that are at least 0.
    pub(crate) at_least_zero: Vec<Row>,
}

/// What one step found.
enum Step {
    Contradiction,
    Done,
    Continue,
}

impl System {
    /// True only if no integers satisfy the system. Uses up `fuel`.
    pub(crate) fn refuted(mut self, fuel: &mut u32) -> bool {
        loop {
            match self.use_equation(fuel) {
                Step::Contradiction => return true,
                Step::Done => break,
                Step::Continue => {}
            }
        }
        loop {
            match self.eliminate(fuel) {
                Step::Contradiction => return true,
                Step::Done => return false,
                Step::Continue => {}
            }
        }
    }

    /// Removes one equation by solving it for a column.
    fn use_equation(&mut self, fuel: &mut u32) -> Step {
        let mut best: Option<(usize, u32, i128)> = None;
        for (index, row) in self.zero.iter().enumerate() {
            let content = row.content();
            if if content == 0 { row.constant != 0 } else { row.constant % content != 0 } {
                return Step::Contradiction;
            }
            for &(column, value) in &row.terms {
                if best.is_none_or(|(.., least)| value.abs() < least.abs()) {
                    best = Some((index, column, value));
                }
            }
        }
        let Some((index, column, value)) = best else {
            return Step::Done;
        };
        let equation = self.zero.swap_remove(index);
        let cost = u32::try_from(self.zero.len() + self.at_least_zero.len()).unwrap_or(u32::MAX);
        if !spend(fuel, cost) {
            return Step::Done;
        }
        let without = |row: &Row| {
            let own = row.coefficient(column);
            if own == 0 {
                return Some(row.clone());
            }
            // |value| > 0 keeps the direction of an inequality.
            row.combined(value.abs(), &equation, -own * value.signum())
        };
        self.zero = self.zero.iter().filter_map(without).collect();
        self.at_least_zero = self.at_least_zero.iter().filter_map(without).collect();
        Step::Continue
    }

    /// Eliminates the column that costs the least.
    fn eliminate(&mut self, fuel: &mut u32) -> Step {
        if self.reduce() {
            return Step::Contradiction;
        }
        let Some(column) = self.cheapest_column() else {
            return Step::Done;
        };
        let rows = std::mem::take(&mut self.at_least_zero);
        let (with, without): (Vec<Row>, Vec<Row>) =
            rows.into_iter().partition(|row| row.coefficient(column) != 0);
        let (above, below): (Vec<Row>, Vec<Row>) =
            with.into_iter().partition(|row| row.coefficient(column) > 0);
        self.at_least_zero = without;
        if self.at_least_zero.len() + above.len() * below.len() > MAX_ROWS
            || !spend(fuel, u32::try_from(above.len() * below.len()).unwrap_or(u32::MAX))
        {
            return Step::Done;
        }
        for lower in &above {
            for upper in &below {
                let (a, b) = (lower.coefficient(column), -upper.coefficient(column));
                let common = gcd(a, b);
                self.at_least_zero.extend(lower.combined(b / common, upper, a / common));
            }
        }
        Step::Continue
    }

    /// Tightens all rows and keeps the strongest of parallel ones. True for a contradiction.
    fn reduce(&mut self) -> bool {
        let mut strongest: BTreeMap<Vec<(u32, i128)>, i128> = BTreeMap::new();
        for mut row in self.at_least_zero.drain(..) {
            if row.terms.is_empty() {
                if row.constant < 0 {
                    return true;
                }
                continue;
            }
            row.tighten();
            let constant = row.constant;
            strongest
                .entry(row.terms)
                .and_modify(|old| *old = constant.min(*old))
                .or_insert(constant);
        }
        let rows = strongest.into_iter();
        self.at_least_zero = rows.map(|(terms, constant)| Row { terms, constant }).collect();
        false
    }

    fn cheapest_column(&self) -> Option<u32> {
        let columns: BTreeSet<u32> =
            self.at_least_zero.iter().flat_map(|row| row.terms.iter().map(|term| term.0)).collect();
        let cost = |column: &u32| {
            let signs = self.at_least_zero.iter().map(|row| row.coefficient(*column).signum());
            let (mut above, mut below) = (0_usize, 0_usize);
            for sign in signs {
                above += usize::from(sign > 0);
                below += usize::from(sign < 0);
            }
            (above * below + 1) * 1000 / (above + below + 1)
        };
        columns.into_iter().min_by_key(cost)
    }
}

fn spend(fuel: &mut u32, steps: u32) -> bool {
    let enough = *fuel >= steps;
    *fuel = fuel.saturating_sub(steps);
    enough
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(terms: &[(u32, i128)], constant: i128) -> Row {
        Row { terms: terms.to_vec(), constant }
    }

    #[test]
    fn integers_between_multiples() {
        // 3 <= 4x and 4x <= 3.
        let rows = vec![row(&[(0, 4)], -1), row(&[(0, -4)], 3)];
        let system = System { zero: Vec::new(), at_least_zero: rows };
        assert!(system.refuted(&mut 100));
    }

    #[test]
    fn parity() {
        let system = System { zero: vec![row(&[(0, 2), (1, -2)], 1)], at_least_zero: Vec::new() };
        assert!(system.refuted(&mut 100));
    }

    #[test]
    fn feasible_is_not_refuted() {
        let rows = vec![row(&[(0, 1), (1, -1)], 0), row(&[(0, -1)], 7), row(&[(1, 1)], 0)];
        let system = System { zero: Vec::new(), at_least_zero: rows };
        assert!(!system.refuted(&mut 100));
    }
}
