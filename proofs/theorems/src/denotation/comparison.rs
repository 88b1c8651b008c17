//! Comparison of two elements, in each case of what decides them.

use super::fuel;
use super::indicators::has_sum;
use super::normal::{Demand, Normalizer, What};
use super::operands::Operands;
use super::poly::{Atom, Poly};
use super::term::{Binder, FoldOp, Known, Stuck, Term, Test};
use super::theorem::said;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::{Answer, Claim, Facts, Relation};

/// Truth values of elements that one case may have.
const MAX_DEPTH: usize = 8;
/// Times that one case may be split on the same claim.
const MOST_REPEATED: usize = 3;
/// Splits that one comparison may take.
const MOST_SPLITS: usize = 2_000;

/// Compares two elements, split on what is not decided.
pub(crate) fn compare(
    left: &Term,
    right: &Term,
    facts: &mut dyn Facts,
    operands: &Operands,
) -> Result<(), String> {
    let mut cases =
        Cases { left, right, operands, claims: Vec::new(), truths: Vec::new(), count: 0 };
    cases.equal(facts)
}

/// The case that is compared: claims on dims are assumed, truth values of elements are listed.
struct Cases<'a> {
    left: &'a Term,
    right: &'a Term,
    operands: &'a Operands,
    claims: Vec<Claim>,
    truths: Vec<(Term, bool)>,
    /// How many cases there were.
    count: usize,
}

impl Cases<'_> {
    fn equal(&mut self, facts: &mut dyn Facts) -> Result<(), String> {
        let (left, right) = (self.left, self.right);
        fuel::burn(fuel::size(left));
        if left.is_like(right)
            || facts.decide(&Claim::new(1, Relation::AtMost, 0)) == Answer::Proved
        {
            return Ok(());
        }
        let test = match leaf(left, right, facts, self.operands, &self.truths) {
            Ok(None) => return Ok(()),
            Ok(Some(why)) => return Err(why),
            Err(Stuck::Split(test)) if self.may_split(&test) => test,
            Err(stuck) => return Err(said(stuck)),
        };
        self.count += 1;
        match test {
            Test::Dims(claim) => {
                for claim in [claim.clone(), claim.opposite()] {
                    facts.push();
                    facts.assume(claim.clone());
                    self.claims.push(claim);
                    let outcome = self.equal(facts);
                    self.claims.pop();
                    facts.pop();
                    outcome?;
                }
            }
            Test::Element(term) => {
                for value in [true, false] {
                    self.truths.push(((*term).clone(), value));
                    let outcome = self.equal(facts);
                    self.truths.pop();
                    outcome?;
                }
            }
        }
        Ok(())
    }

    /// What is assumed of other indices may decide a claim that was assumed before. One that is split on again and again has no
    /// such help.
    fn may_split(&self, test: &Test) -> bool {
        let again = match test {
            Test::Dims(claim) => {
                let opposite = claim.opposite();
                self.claims.iter().filter(|known| *known == claim || **known == opposite).count()
            }
            Test::Element(_) => 0,
        };
        again < MOST_REPEATED && self.truths.len() < MAX_DEPTH && self.count < MOST_SPLITS
    }
}

/// Compares two elements; gives why they are not known to be equal.
fn leaf(
    left: &Term,
    right: &Term,
    facts: &mut dyn Facts,
    operands: &Operands,
    truths: &[(Term, bool)],
) -> Known<Option<String>> {
    // Facts on names of one attempt say nothing of those of another.
    let mut compared = |tests| {
        facts.push();
        let outcome = compared((left, right), facts, operands, truths, tests);
        facts.pop();
        outcome
    };
    let found = compared(Tests::Cut);
    if matches!(found, Ok(None) | Err(Stuck::Split(_))) || !has_sum(left) || !has_sum(right) {
        return found;
    }
    match compared(Tests::Indicate) {
        Ok(None) => Ok(None),
        _ => found,
    }
}

/// What becomes of tests on indices of sums.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tests {
    /// The sum is cut where the test changes.
    Cut,
    /// They are factors.
    Indicate,
}

fn compared(
    (left, right): (&Term, &Term),
    facts: &mut dyn Facts,
    operands: &Operands,
    truths: &[(Term, bool)],
    tests: Tests,
) -> Known<Option<String>> {
    let mut own = Normalizer::new(facts, operands);
    own.indicates = tests == Tests::Indicate;
    let found = compared_by(&mut own, (left, right), truths);
    own.of_free_indices(found)
}

fn compared_by(
    own: &mut Normalizer,
    (left, right): (&Term, &Term),
    truths: &[(Term, bool)],
) -> Known<Option<String>> {
    own.literal(0.0)?;
    own.literal(1.0)?;
    for (term, value) in truths {
        let poly = own.normal(term)?;
        own.truths.push((poly, *value));
    }
    own.demands.clear();
    let a = own.normal(left)?;
    let demanded = own.open_demands()?;
    let b = own.normal(right)?;
    let others = own.open_demands()?;
    if let Some(why) = differing(own, &demanded, &others)? {
        return Ok(Some(why));
    }
    // Neither has a value: both divide by 0, whatever the operands are.
    let never = |demand: &Demand| {
        demand.what == What::NonZero && demand.binders.is_empty() && demand.poly.is_zero()
    };
    if demanded.iter().any(never) {
        return Ok(None);
    }
    let difference = a.subtract(&b)?;
    if own.is_zero(&difference)? || split_sums(own, &difference, 2)? {
        return Ok(None);
    }
    Ok(Some("the elements are not known to be equal".to_owned()))
}

/// A demand that the other side does not have.
fn differing(own: &mut Normalizer, a: &[Demand], b: &[Demand]) -> Known<Option<String>> {
    for (these, those) in [(a, b), (b, a)] {
        for demand in these {
            let mut met = false;
            for other in those {
                met |= own.same_demand(demand, other)?;
            }
            if !met {
                let what = demand.what;
                return Ok(Some(format!("one side demands that a number is {what:?}")));
            }
        }
    }
    Ok(None)
}

/// Splits sums of which another sum may be a part: at the extent of that one.
fn split_sums(own: &mut Normalizer, difference: &Poly, depth: usize) -> Known<bool> {
    if depth == 0 {
        return Ok(false);
    }
    let sums: Vec<(usize, Vec<Binder>, Poly)> = own
        .atoms
        .iter()
        .enumerate()
        .filter(|(id, _)| difference.0.keys().any(|monomial| monomial.contains_key(id)))
        .filter_map(|(id, atom)| match atom {
            Atom::Fold(_, FoldOp::Add, binders, body) => Some((id, binders.clone(), body.clone())),
            _ => None,
        })
        .collect();
    for (id, binders, body) in &sums {
        for (_, others, _) in &sums {
            let ([(k, n)], [(_, part)]) = (binders.as_slice(), others.as_slice()) else { continue };
            let inside =
                part != n && own.proves(&Claim::new(part.clone(), Relation::AtMost, n.clone()));
            if !inside || own.equal_dims(part, n) {
                continue;
            }
            let Atom::Fold(domain, ..) = own.atoms[*id].clone() else { continue };
            let first =
                own.folded(domain, FoldOp::Add, vec![(k.clone(), part.clone())], body.clone())?;
            let fresh = own.fresh("k");
            let rest = vec![(fresh.clone(), Dim::op(DimOp::Sub, n.clone(), part.clone()))];
            let place = Dim::op(DimOp::Add, Dim::Var(fresh), part.clone());
            let moved = own.within(&rest, |own| {
                own.renamed(body, &std::iter::once((k.clone(), place)).collect())
            })?;
            let second = own.folded(domain, FoldOp::Add, rest, moved)?;
            let whole = first.add(&second)?;
            let mut split = Poly::default();
            for (monomial, &coefficient) in &difference.0 {
                let mut rest = monomial.clone();
                let power = rest.remove(id).unwrap_or(0);
                let factor = own.power(&whole, power)?;
                let term = own.times(&Poly::monomial(rest, coefficient), &factor)?;
                split = split.add(&term)?;
            }
            if own.is_zero(&split)? || split_sums(own, &split, depth - 1)? {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::denotation::term::Domain;
    use relax_symbolic::Prover;

    fn var(name: &str) -> Dim {
        Dim::Var(name.into())
    }

    fn read(name: &str, at: &str) -> Term {
        Term::Read(name.into(), vec![var(at)])
    }

    /// Of `i` where it is below m the element of `x`, else that of a tensor which is `p` up to m and then `other`; the sum of them.
    fn sum(other: &str) -> Term {
        let place = || Box::new(read("i", "k"));
        let is_below = Term::apply(Domain::Bits, "less", vec![*place(), Term::Extent(var("m"))]);
        let first = Term::Lookup(place(), ("v".into(), var("m")), Box::new(read("x", "v")));
        let split = Claim::new(var("w"), Relation::Less, var("m"));
        let parts = Term::choose(split, read("p", "w"), read(other, "w"));
        let second = Term::Lookup(place(), ("w".into(), var("n")), Box::new(parts));
        let test = Test::Element(Box::new(is_below));
        let body = Box::new(Term::If(test, Box::new(first), Box::new(second)));
        Term::Fold(Domain::Ring, FoldOp::Add, vec![("k".into(), var("l"))], body)
    }

    fn compared(left: &Term, right: &Term) -> Result<(), String> {
        let mut prover = Prover::new();
        for name in ["l", "m", "n"] {
            prover.assume(Claim::new(0, Relation::AtMost, var(name)));
        }
        compare(left, right, &mut prover, &Operands::default())
    }

    #[test]
    fn the_range_of_an_element_is_known_where_it_is_read() {
        let equal =
            Term::apply(Domain::Ring, "add", vec![sum("q"), Term::Number(Domain::Ring, 0.0)]);
        assert_eq!(compared(&sum("q"), &equal), Ok(()));
        assert!(compared(&sum("q"), &sum("p")).is_err());
    }
}
