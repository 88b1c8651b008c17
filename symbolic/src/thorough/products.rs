//! Products of facts: from `p >= 0` and `q >= 0` follows `p * q >= 0`. A product is a row where its monomials are known, or but
//! for few of them: others have nothing to be cancelled with.

use crate::engine::Engine;
use crate::polynomial::{Mono, Poly};
use crate::problem::{Problem, Reason};
use std::collections::BTreeSet;

/// Rows that are multiplied with each other.
const MOST_FACTORS: usize = 28;
/// Products that become rows.
const MOST_PRODUCTS: usize = 32;
/// Monomials of a product that nothing else has.
const MOST_NEW: usize = 1;

impl Engine {
    /// Adds products of rows: of the first ones, and of the squares, which are the last.
    pub(super) fn add_products_of_rows(&mut self, problem: &mut Problem, squares: usize) {
        let asked = problem.asked;
        let monos = problem.monos();
        let top = monos.iter().map(Mono::degree).max().unwrap_or(0).max(2);
        let last = problem.at_least_zero.len();
        let factors: Vec<usize> = (0..squares.min(MOST_FACTORS)).chain(squares..last).collect();
        let mut found: Vec<(usize, usize, usize, Poly)> = Vec::new();
        for (at, &first) in factors.iter().enumerate() {
            for &second in &factors[..=at] {
                let (a, b) = (&problem.at_least_zero[first].0, &problem.at_least_zero[second].0);
                if a.degree() + b.degree() > top {
                    continue;
                }
                if self.spend(a.terms().len() * b.terms().len()).is_none() {
                    return;
                }
                let Some(product) = a.mul(b) else { continue };
                let new = new_monos(&monos, &product);
                if new <= MOST_NEW {
                    found.push((new, first, second, product));
                }
            }
        }
        // What is asked came first; products of it have more to do with the question than those of facts alone.
        found.sort_by_key(|(new, first, second, _)| (*new, *second >= asked, *first, *second));
        found.truncate(MOST_PRODUCTS);
        for (_, first, second, product) in found {
            problem.add(product, Reason::RowProduct(first, second));
        }
    }
}

fn new_monos(monos: &BTreeSet<Mono>, product: &Poly) -> usize {
    let own = product.varying().iter().map(|term| term.0);
    own.filter(|mono| mono.degree() > 1 && !monos.contains(mono)).count()
}
