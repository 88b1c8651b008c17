//! Bounds of products of atoms, and division by a positive product, as steps of a certificate.

use super::lines::{Case, End, Fact, Id, Relation, Step};
use super::prove::Author;
use crate::polynomial::{Mono, Poly};
use crate::problem::{Infeasibility, Reason, distances, linear_system};

/// Steps of the linear solver for one bound.
const FUEL: u32 = 2000;

impl Author<'_> {
    /// Derives the bounds of a product from those of its factors, one factor after the other.
    pub(crate) fn bounds_of_product(&mut self, mono: &Mono) -> Option<Vec<Poly>> {
        let bounds = self.engine.bounds(&self.branch.context);
        if let Some(id) = mono.as_atom() {
            let own = distances(id, bounds.of_atom(id));
            let known: Vec<Poly> =
                own.into_iter().filter(|poly| self.at_least_zero(poly).is_some()).collect();
            return Some(known);
        }
        let (first, rest) = mono.atoms().split_first()?;
        // A square is its own reason to be at least 0.
        let (left, right) = match rest {
            [second, ..] if second == first => {
                let square = Mono::atom(*first).times(&Mono::atom(*second))?;
                (square, mono.over(&square)?)
            }
            _ => (Mono::atom(*first), mono.over(&Mono::atom(*first))?),
        };
        let targets = distances_of(mono, bounds.of_mono(mono));
        let mut rows = Vec::new();
        if right == Mono::ONE {
            let root = Poly::atom(*first);
            let id = self.derive(Step::Square(root), Poly::term(left, 1), Relation::AtLeast);
            rows.push((Poly::term(left, 1), id));
            let ends = self.bounds_of_product(&Mono::atom(*first))?;
            self.add_products(&ends, &ends, &mut rows)?;
        } else {
            let (a, b) = (self.bounds_of_product(&left)?, self.bounds_of_product(&right)?);
            self.add_products(&a, &b, &mut rows)?;
        }
        let proved =
            targets.into_iter().filter(|poly| self.derived_from_rows(poly, &rows).is_some());
        Some(proved.collect())
    }

    /// The factors, and the products of each of one with each of the other.
    fn add_products(
        &mut self,
        left: &[Poly],
        right: &[Poly],
        rows: &mut Vec<(Poly, Id)>,
    ) -> Option<()> {
        for poly in left.iter().chain(right) {
            rows.push((poly.clone(), self.at_least_zero(poly)?));
        }
        for a in left {
            for b in right {
                let ids = (self.at_least_zero(a)?, self.at_least_zero(b)?);
                let product = a.mul(b)?;
                let step = Step::Times(ids.0, ids.1);
                rows.push((product.clone(), self.derive(step, product, Relation::AtLeast)));
            }
        }
        Some(())
    }

    /// `poly >= 0` because of these rows, which are facts.
    fn derived_from_rows(&mut self, poly: &Poly, rows: &[(Poly, Id)]) -> Option<Id> {
        let rewritten = self.branch.context.ideal.rewrites(poly);
        let known = if rewritten { Self::given_at_least_zero } else { Self::known_at_least_zero };
        if let Some(id) = known(self, poly) {
            return Some(id);
        }
        let assumed = Fact { poly: poly.subtracted_from(-1)?, relation: Relation::AtLeast };
        let mut polys: Vec<Poly> = rows.iter().map(|row| row.0.clone()).collect();
        polys.push(assumed.poly.clone());
        let infeasibility = infeasibility(polys)?;
        let Case { ids, proof } =
            self.block(&[assumed], |author, _| author.closed(&infeasibility))?;
        let step = Step::Lemma(ids[0], Box::new(proof));
        Some(self.derive(step, poly.clone(), Relation::AtLeast))
    }

    /// `m * q + c >= 0` with `m >= 1` means `q - 1 >= 0` for `c < 0`, and `q + c >= 0` else.
    pub(crate) fn without_factor(
        &mut self,
        poly: &Poly,
        whole: &Poly,
        factor: &Poly,
    ) -> Option<Id> {
        if let Some(id) = self.known_at_least_zero(poly) {
            return Some(id);
        }
        let whole_id = self.at_least_zero(whole)?;
        let factor_id = self.at_least_zero(factor)?;
        let assumed = Fact { poly: poly.subtracted_from(-1)?, relation: Relation::AtLeast };
        let product = assumed.poly.mul(factor)?;
        // Below 0 for c < 0; else it is below 0 with m - 1 once more than c.
        let above = factor.plus(-1)?;
        let more = whole.constant_term().max(-1).checked_add(1)?;
        let above_id = if more > 0 { Some(self.at_least_zero(&above)?) } else { None };
        let sum = product.add(whole)?.add_scaled(&above, more)?;
        let Case { ids, proof } = self.block(&[assumed], |author, ids| {
            let times = Step::Times(ids[0], factor_id);
            let times = author.derive(times, product, Relation::AtLeast);
            let one = Poly::constant(1);
            let mut from = vec![(times, one.clone()), (whole_id, one)];
            from.extend(above_id.map(|id| (id, Poly::constant(more))));
            let lin = Step::Lin(from, 0);
            Some(End::Closed(author.derive(lin, sum, Relation::AtLeast)))
        })?;
        let step = Step::Lemma(ids[0], Box::new(proof));
        Some(self.derive(step, poly.clone(), Relation::AtLeast))
    }
}

fn distances_of(mono: &Mono, bounds: crate::intervals::Interval) -> Vec<Poly> {
    let own = Poly::term(*mono, 1);
    let below = bounds.low.and_then(|low| own.plus(low.checked_neg()?));
    let above = bounds.high.and_then(|high| own.subtracted_from(high));
    below.into_iter().chain(above).collect()
}

/// Why these cannot all be at least 0, by linear reasoning on nothing else.
fn infeasibility(polys: Vec<Poly>) -> Option<Infeasibility> {
    let refutation = linear_system(&[], polys.iter()).refuted(&mut FUEL.clone())?;
    let at_least_zero = polys.into_iter().map(|poly| (poly, Reason::Given)).collect();
    Some(Infeasibility { zero: Vec::new(), at_least_zero, refutation })
}
