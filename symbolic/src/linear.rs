//! Whether a system of linear inequalities over the integers has no solution: equations are used
//! up first, then variables are eliminated one by one (Fourier and Motzkin), and every inequality is
//! tightened to integers. Finding none is a proof; not finding one proves nothing. Every row knows
//! how it came about, so that a proof can be written down.

use crate::polynomial::{floor_div, gcd};

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
    /// Which row of the derivation this is; set by [`System::new`] for what is given.
    origin: usize,
}

/// How a row that was not given came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Derived {
    /// The sum of two rows, each times a number; a number for an inequality is at least 0.
    Sum([(usize, i128); 2]),
    /// A row divided by the greatest common divisor of its coefficients, the constant rounded down.
    Divided(usize, i128),
}

/// Why a system has no solution. Rows are numbered: the equations that were given, then the
/// inequalities that were given, then those of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refutation {
    pub(crate) derived: Vec<Derived>,
    /// The row that cannot be: an equation without integer solutions or a number below 0.
    pub(crate) absurd: usize,
}

impl Row {
    /// A row that is given: rising columns, no coefficient 0.
    pub(crate) fn new(terms: Vec<(u32, i128)>, constant: i128) -> Self {
        Self { terms, constant, origin: 0 }
    }

    fn coefficient(&self, column: u32) -> i128 {
        let found = self.terms.binary_search_by_key(&column, |term| term.0);
        found.map_or(0, |index| self.terms[index].1)
    }

    fn content(&self) -> i128 {
        self.terms.iter().fold(0, |acc, term| gcd(acc, term.1))
    }

    /// `a * self + b * other`; `None` when the numbers grow too big.
    fn combined(&self, a: i128, other: &Row, b: i128) -> Option<Row> {
        let bounded =
            |value: i128| (value.unsigned_abs() <= MAX_COEFFICIENT.unsigned_abs()).then_some(value);
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
        Some(Row { terms, constant: bounded(constant)?, origin: 0 })
    }
}

/// The list of derived rows, behind those that were given.
#[derive(Clone, Debug, Default)]
struct Log {
    given: usize,
    derived: Vec<Derived>,
}

impl Log {
    fn note(&mut self, derived: Derived) -> usize {
        self.derived.push(derived);
        self.given + self.derived.len() - 1
    }

    /// `a * x + b * y`; `None` when the numbers grow too big.
    fn sum(&mut self, (x, a): (&Row, i128), (y, b): (&Row, i128)) -> Option<Row> {
        let mut row = x.combined(a, y, b)?;
        row.origin = self.note(Derived::Sum([(x.origin, a), (y.origin, b)]));
        Some(row)
    }

    /// Makes the coefficients of `row >= 0` coprime.
    fn tighten(&mut self, row: &mut Row) {
        let content = row.content();
        if content > 1 {
            row.terms.iter_mut().for_each(|term| term.1 /= content);
            row.constant = floor_div(row.constant, content);
            row.origin = self.note(Derived::Divided(row.origin, content));
        }
    }
}

/// A conjunction of equations and inequalities.
#[derive(Clone, Debug, Default)]
pub(crate) struct System {
    /// Forms that are 0.
    zero: Vec<Row>,
    /// Forms that are at least 0.
    at_least_zero: Vec<Row>,
    log: Log,
}

/// What one step found.
enum Step {
    /// This row cannot be.
    Contradiction(usize),
    Done,
    Continue,
}

impl System {
    /// Forms that are 0 and forms that are at least 0.
    pub(crate) fn new(mut zero: Vec<Row>, mut at_least_zero: Vec<Row>) -> Self {
        let rows = zero.iter_mut().chain(&mut at_least_zero);
        let given = rows.enumerate().map(|(origin, row)| row.origin = origin).count();
        Self { zero, at_least_zero, log: Log { given, derived: Vec::new() } }
    }

    /// Why no integers satisfy the system, if that is found. Uses up `fuel`.
    pub(crate) fn refuted(mut self, fuel: &mut u32) -> Option<Refutation> {
        let absurd = self.absurd(fuel)?;
        Some(Refutation { derived: self.log.derived, absurd })
    }

    fn absurd(&mut self, fuel: &mut u32) -> Option<usize> {
        loop {
            match self.use_equation(fuel) {
                Step::Contradiction(row) => return Some(row),
                Step::Done => break,
                Step::Continue => {}
            }
        }
        loop {
            match self.eliminate(fuel) {
                Step::Contradiction(row) => return Some(row),
                Step::Done => return None,
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
                return Step::Contradiction(row.origin);
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
        let log = &mut self.log;
        let mut without = |row: Row| {
            let own = row.coefficient(column);
            if own == 0 {
                return Some(row);
            }
            // |value| > 0 keeps the direction of an inequality.
            log.sum((&row, value.abs()), (&equation, -own * value.signum()))
        };
        self.zero = self.zero.drain(..).filter_map(&mut without).collect();
        self.at_least_zero = self.at_least_zero.drain(..).filter_map(&mut without).collect();
        Step::Continue
    }

    /// Eliminates the column that costs the least.
    fn eliminate(&mut self, fuel: &mut u32) -> Step {
        if let Some(row) = self.reduce() {
            return Step::Contradiction(row);
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
                let sum = self.log.sum((lower, b / common), (upper, a / common));
                self.at_least_zero.extend(sum);
            }
        }
        Step::Continue
    }

    /// Tightens all rows and keeps the strongest of parallel ones. Some row for a contradiction.
    fn reduce(&mut self) -> Option<usize> {
        for row in &mut self.at_least_zero {
            if row.terms.is_empty() && row.constant < 0 {
                return Some(row.origin);
            }
            self.log.tighten(row);
        }
        self.at_least_zero.retain(|row| !row.terms.is_empty());
        // Rows that were there before are in order already, which a stable sort makes use of.
        self.at_least_zero.sort_by(|a, b| {
            a.terms.cmp(&b.terms).then_with(|| (a.constant, a.origin).cmp(&(b.constant, b.origin)))
        });
        self.at_least_zero.dedup_by(|weaker, strongest| weaker.terms == strongest.terms);
        None
    }

    fn cheapest_column(&self) -> Option<u32> {
        // Of each column, in how many rows it is above 0, and in how many below.
        let last = self.at_least_zero.iter().filter_map(|row| row.terms.last()).map(|term| term.0);
        let columns = last.max().map_or(0, |last| last as usize + 1);
        let mut signs = vec![(0_usize, 0_usize); columns];
        for (column, coefficient) in self.at_least_zero.iter().flat_map(|row| &row.terms) {
            let (above, below) = &mut signs[*column as usize];
            *above += usize::from(*coefficient > 0);
            *below += usize::from(*coefficient < 0);
        }
        let cost = |(_, (above, below)): &(u32, (usize, usize))| {
            (above * below + 1) * 1000 / (above + below + 1)
        };
        let there = (0..).zip(signs).filter(|(_, (above, below))| above + below > 0);
        there.min_by_key(cost).map(|(column, _)| column)
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
        Row::new(terms.to_vec(), constant)
    }

    #[test]
    fn integers_between_multiples() {
        // 3 <= 4x and 4x <= 3.
        let rows = vec![row(&[(0, 4)], -1), row(&[(0, -4)], 3)];
        // Both are tightened first, to 1 <= x and x <= 0; their sum is absurd.
        let refutation = System::new(Vec::new(), rows).refuted(&mut 100).expect("refuted");
        let sum = Derived::Sum([(2, 1), (3, 1)]);
        let derived = vec![Derived::Divided(0, 4), Derived::Divided(1, 4), sum];
        assert_eq!(refutation, Refutation { derived, absurd: 4 });
    }

    /// The least number has no absolute value. Until kernels of many threads met literals at the edge of 64 bits, no row came to it.
    #[test]
    fn numbers_that_grow_to_the_least_one_are_given_up() {
        let (large, one) = (row(&[(0, 1 << 63)], 0), row(&[], 1 << 63));
        assert_eq!(large.combined(-(1 << 64), &row(&[], 0), 1), None);
        assert_eq!(one.combined(-(1 << 64), &row(&[], 0), 1), None);
    }

    #[test]
    fn parity() {
        let system = System::new(vec![row(&[(0, 2), (1, -2)], 1)], Vec::new());
        let refutation = system.refuted(&mut 100).expect("refuted");
        assert_eq!(refutation, Refutation { derived: Vec::new(), absurd: 0 });
    }

    #[test]
    fn feasible_is_not_refuted() {
        let rows = vec![row(&[(0, 1), (1, -1)], 0), row(&[(0, -1)], 7), row(&[(1, 1)], 0)];
        assert_eq!(System::new(Vec::new(), rows).refuted(&mut 100), None);
    }
}
