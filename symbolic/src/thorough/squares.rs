//! Squares that are part of what is asked: a polynomial that is to be at least 0 is written as a sum of squares and a rest, by
//! completing squares as in the decomposition of a quadratic form by Lagrange. Each square is a row.

use crate::engine::Engine;
use crate::polynomial::{Mono, Poly, gcd};
use crate::problem::{Problem, Reason};

/// How many squares of one polynomial are completed.
const MOST: usize = 6;
/// How many rows are looked at.
const MOST_ROWS: usize = 24;

impl Engine {
    /// Adds squares that are in the opposite of rows, or are a factor of it.
    pub(super) fn add_squares(&mut self, problem: &mut Problem) {
        let rows = problem.at_least_zero.iter().take(MOST_ROWS);
        let opposites: Vec<Poly> = rows.filter_map(|row| row.0.scale(-1)).collect();
        let mut roots = Vec::new();
        for opposite in opposites {
            let varying = opposite.plus(-opposite.constant_term());
            let common = varying.as_ref().map_or(Mono::ONE, Poly::common_mono);
            if common != Mono::ONE
                && let Some(rest) = varying.and_then(|poly| poly.over_mono(&common))
            {
                self.complete(rest, &mut roots);
            }
            self.complete(opposite, &mut roots);
        }
        for root in roots {
            if let Some(square) = root.mul(&root) {
                problem.add(square, Reason::Square(Box::new(root)));
            }
        }
    }

    /// The roots of the squares in `poly`.
    fn complete(&mut self, mut poly: Poly, roots: &mut Vec<Poly>) -> Option<()> {
        for _ in 0..MOST {
            self.spend(poly.terms().len())?;
            let Some((root, times, by)) = completed(&poly) else { break };
            // times * poly == by * root * root + the next one
            poly = poly.scale(times)?.add_scaled(&root.mul(&root)?, -by)?;
            roots.push(root);
        }
        Some(())
    }
}

/// The first square of a monomial with a factor above 0, completed: its root, by what the polynomial is multiplied, and by what
/// the square.
fn completed(poly: &Poly) -> Option<(Poly, i128, i128)> {
    let (lead, coefficient) = poly.varying().iter().find_map(|(mono, coefficient)| {
        (*coefficient > 0).then(|| Some((root_of(mono)?, *coefficient)))?
    })?;
    // 4c * poly == (2c * lead + others)^2 + ..., where c * lead^2 + lead * others is in the polynomial.
    let mut root = Poly::term(lead, coefficient.checked_mul(2)?);
    for (mono, own) in poly.varying() {
        if let Some(other) = mono.over(&lead).filter(|other| *other < lead) {
            root = root.add(&Poly::term(other, *own))?;
        }
    }
    let content = root.terms().iter().fold(0, |acc, term| gcd(acc, term.1));
    let by = content.checked_mul(content)?;
    Some((root.exact_quotient(content), coefficient.checked_mul(4)?, by))
}

/// The monomial whose square this is.
fn root_of(mono: &Mono) -> Option<Mono> {
    let mut root = Mono::ONE;
    let pairs = mono.atoms().chunks(2);
    for pair in pairs {
        let [a, b] = pair else { return None };
        root = (a == b).then(|| root.times(&Mono::atom(*a)))??;
    }
    Some(root)
}
