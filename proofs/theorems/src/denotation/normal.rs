//! The normal form of terms: what is equal under the laws of a domain becomes the same sum of atoms.
//!
//! An atom is found in the table when the prover shows it equal to one that is there, so that equality of
//! normal forms is equality of sums. Within a reduction the range of its variable is known; a test that
//! depends on free indices only is passed up, for the caller to split on.

use super::fuel;
use super::indicators::is_real;
use super::interning::Index;
use super::operands::Operands;
use super::poly::{Atom, AtomId, Monomial, Poly};
use super::ranges::assume_index;
use super::ratio::Ratio;
use super::term::{Binder, Domain, Known, Stuck, Term, Test, mentions, unknown};
use relax_syntax::Name;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::{Answer, Claim, Facts, Relation};
use std::collections::{BTreeMap, BTreeSet};

/// What makes normal forms, and compares them.
pub(super) struct Normalizer<'a> {
    pub(super) facts: &'a mut dyn Facts,
    pub(super) atoms: Vec<Atom>,
    pub(super) index: Index,
    /// Truth values that are known here.
    pub(super) truths: Vec<(Poly, bool)>,
    /// What is known of the elements of operands.
    pub(super) operands: &'a Operands,
    /// Variables that stand for elements used as an index.
    pub(super) gathered: BTreeMap<Name, Poly>,
    /// What must hold for a real number to be there.
    pub(super) demands: Vec<Demand>,
    /// The variables of the reductions around.
    pub(super) binders: Vec<Binder>,
    /// Whether to rename leaves alone what does not mention what is renamed.
    pub(super) keeps: bool,
    /// How many rows around are not to be cut.
    pub(super) rows: usize,
    /// Whether tests on indices of sums become indicators.
    pub(super) indicates: bool,
    /// How many reductions are around.
    pub(super) depth: usize,
    fresh: usize,
    /// How many more steps it may take.
    fuel: usize,
}

/// A condition on the elements: for all values of the binders.
#[derive(Clone, Debug)]
pub(super) struct Demand {
    pub(super) what: What,
    pub(super) binders: Vec<Binder>,
    pub(super) poly: Poly,
}

/// What is demanded of a real number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    NonZero,
    NonNegative,
    Positive,
}

/// Steps that normal forms of one comparison may take.
const FUEL: usize = 60_000;

impl<'a> Normalizer<'a> {
    pub(super) fn new(facts: &'a mut dyn Facts, operands: &'a Operands) -> Self {
        Self {
            facts,
            atoms: Vec::new(),
            index: Index::default(),
            keeps: false,
            truths: Vec::new(),
            operands,
            gathered: BTreeMap::new(),
            demands: Vec::new(),
            binders: Vec::new(),
            rows: 0,
            indicates: false,
            depth: 0,
            fresh: 0,
            fuel: FUEL,
        }
    }

    pub(super) fn spend(&mut self, steps: usize) -> Known<()> {
        fuel::spend(steps)?;
        self.fuel = self.fuel.saturating_sub(steps);
        if self.fuel == 0 { unknown("the search takes too long") } else { Ok(()) }
    }

    pub(super) fn fresh(&mut self, kind: &str) -> Name {
        self.fresh += 1;
        format!("{kind}##{}", self.fresh).into()
    }

    pub(super) fn proves(&mut self, claim: &Claim) -> bool {
        self.facts.decide(claim) == Answer::Proved
    }

    pub(super) fn at_least(&mut self, dim: &Dim, bound: i64) -> bool {
        self.proves(&Claim::new(bound, Relation::AtMost, dim.clone()))
    }

    pub(super) fn equal_dims(&mut self, a: &Dim, b: &Dim) -> bool {
        a == b || !self.differ_by_names(a, b) && self.facts.equal(a, b) == Answer::Proved
    }

    /// Runs with the ranges of variables known.
    pub(super) fn within<T>(
        &mut self,
        binders: &[Binder],
        run: impl FnOnce(&mut Self) -> Known<T>,
    ) -> Known<T> {
        self.facts.push();
        binders.iter().for_each(|binder| assume_index(binder, &mut *self.facts));
        let outer = self.binders.len();
        self.binders.extend_from_slice(binders);
        self.begin(binders.iter().map(|(name, _)| name.clone()));
        let result = run(self);
        self.binders.truncate(outer);
        let own = binders.iter().map(|(name, _)| name.clone());
        let own: Vec<Name> = own.filter(|name| !self.is_around(name)).collect();
        self.end(own.into_iter());
        self.facts.pop();
        result
    }

    /// The normal form of a term.
    pub(super) fn normal(&mut self, term: &Term) -> Known<Poly> {
        self.spend(1)?;
        match term {
            Term::Read(name, at) => {
                let at = at.iter().map(|dim| self.facts.simplify(dim)).collect();
                let atom = self.intern(Atom::Read(name.clone(), at))?;
                Ok(self.as_truth(Poly::atom(atom)))
            }
            Term::Number(domain, value) => self.number(*domain, *value),
            Term::Extent(dim) => self.extent(dim),
            Term::Scalar(name) => Ok(Poly::atom(self.intern(Atom::Scalar(name.clone()))?)),
            Term::Apply(domain, name, args) => {
                let args = args.iter().map(|arg| self.normal(arg)).collect::<Known<Vec<_>>>()?;
                let result = self.function(*domain, name, args)?;
                Ok(self.as_truth(result))
            }
            Term::If(test, then, otherwise) => self.choice(test, then, otherwise),
            Term::Fold(domain, op, binders, body) => self.fold(*domain, op, binders, body),
            Term::Lookup(index, binder, body) => self.lookup(index, binder, body),
        }
    }

    /// A truth value that is known is written out.
    fn as_truth(&self, poly: Poly) -> Poly {
        let known = self.truths.iter().find(|(truth, _)| *truth == poly);
        match known {
            Some((_, value)) => {
                let bits = f64::from(u8::from(*value)).to_bits();
                let literal = self.atoms.iter().position(|atom| *atom == Atom::Literal(bits));
                literal.map_or(poly, Poly::atom)
            }
            None => poly,
        }
    }

    pub(super) fn literal(&mut self, value: f64) -> Known<Poly> {
        Ok(Poly::atom(self.intern(Atom::Literal(value.to_bits()))?))
    }

    pub(super) fn number(&mut self, domain: Domain, value: f64) -> Known<Poly> {
        match (domain, Ratio::of_float(value)) {
            (Domain::Bits, _) | (_, None) => self.literal(value),
            (_, Some(number)) => Ok(Poly::number(number)),
        }
    }

    /// A dim as a number: sums and products of it as such.
    pub(super) fn extent(&mut self, dim: &Dim) -> Known<Poly> {
        let dim = self.facts.simplify(dim);
        self.extent_of(&dim)
    }

    fn extent_of(&mut self, dim: &Dim) -> Known<Poly> {
        match dim {
            Dim::Int(value) => Ok(Poly::number(Ratio::int(i128::from(*value)))),
            Dim::Op(op @ (DimOp::Add | DimOp::Sub | DimOp::Mul), operands) => {
                let (a, b) = (self.extent_of(&operands.0)?, self.extent_of(&operands.1)?);
                match op {
                    DimOp::Add => a.add(&b),
                    DimOp::Sub => a.subtract(&b),
                    _ => a.mul(&b),
                }
            }
            Dim::Var(name) if self.element_at(name).is_some() => {
                Ok(self.element_at(name).unwrap_or_default())
            }
            _ => Ok(Poly::atom(self.intern(Atom::Extent(dim.clone()))?)),
        }
    }

    /// The element that a variable stands for.
    fn element_at(&self, name: &Name) -> Option<Poly> {
        self.gathered.get(name).filter(|poly| poly.as_atom().is_some()).cloned()
    }

    fn choice(&mut self, test: &Test, then: &Term, otherwise: &Term) -> Known<Poly> {
        match test {
            Test::Dims(claim) => {
                if self.proves(claim) {
                    self.normal(then)
                } else if self.proves(&claim.opposite()) {
                    self.normal(otherwise)
                } else if self.rows > 0 && self.is_bound(claim) || self.is_of_bound_elements(claim)
                {
                    // It holds for some of the indices around and not for others, so nothing is split on it.
                    let (a, b) = (self.alternative(then)?, self.alternative(otherwise)?);
                    self.chosen(claim, a, b)
                } else if self.indicates
                    && self.is_bound(claim)
                    && (is_real(then) || is_real(otherwise))
                {
                    let a = self.where_it_holds(claim, then)?;
                    let b = self.where_it_holds(&claim.opposite(), otherwise)?;
                    self.weighted(claim, &a, &b)
                } else {
                    Err(Stuck::Split(test.clone()))
                }
            }
            Test::Element(term) => {
                let condition = self.normal(term)?;
                match self.truth_of(&condition) {
                    Some(true) => return self.normal(then),
                    Some(false) => return self.normal(otherwise),
                    None => {}
                }
                let bound: BTreeSet<Name> =
                    self.binders.iter().map(|(name, _)| name.clone()).collect();
                if !self.depends(&condition, &bound) {
                    return Err(Stuck::Split(self.undecided(term)?));
                }
                let (a, b) = (self.alternative(then)?, self.alternative(otherwise)?);
                if a == b {
                    return Ok(a);
                }
                let atom = Atom::Apply(Domain::Bits, "where".into(), vec![condition, a, b]);
                Ok(Poly::atom(self.intern(atom)?))
            }
        }
    }

    /// The normal form of one of two terms of which only one is computed: what it takes for granted, such as the range of an element
    /// used as an index, is not known of the other.
    fn alternative(&mut self, term: &Term) -> Known<Poly> {
        self.facts.push();
        let result = self.normal(term);
        self.facts.pop();
        result
    }

    /// Whether a variable is one of a reduction around.
    fn is_around(&self, name: &Name) -> bool {
        self.binders.iter().any(|(binder, _)| binder == name)
    }

    fn is_bound(&self, claim: &Claim) -> bool {
        let own = |name: &Name| self.is_around(name);
        mentions(&claim.left, &own) || mentions(&claim.right, &own)
    }

    /// Whether a claim is about an element used as an index that is another for other values of the variables around.
    fn is_of_bound_elements(&self, claim: &Claim) -> bool {
        let around: BTreeSet<Name> = self.binders.iter().map(|(name, _)| name.clone()).collect();
        !self.is_bound(claim) && self.claim_depends(claim, &around)
    }

    /// What came of a comparison, without claims about variables of reductions to split on: one is another at each index.
    pub(super) fn of_free_indices<T>(&self, found: Known<T>) -> Known<T> {
        match found {
            Err(Stuck::Split(Test::Dims(claim)))
                if self.claim_depends(&claim, self.index.are_over()) =>
            {
                unknown(format!("a reduction over an index with the test {claim}"))
            }
            other => other,
        }
    }

    pub(super) fn claim_depends(&self, claim: &Claim, names: &BTreeSet<Name>) -> bool {
        self.dim_depends(&claim.left, names) || self.dim_depends(&claim.right, names)
    }

    /// The one or the other by a claim, as a function of what the claim compares: `0 < d` or `d == 0`.
    fn chosen(&mut self, claim: &Claim, a: Poly, b: Poly) -> Known<Poly> {
        if a == b {
            return Ok(a);
        }
        let distance = self.extent(&claim.right)?.subtract(&self.extent(&claim.left)?)?;
        let one = Poly::number(Ratio::ONE);
        let (name, distance, a, b) = match claim.relation {
            Relation::Less => ("where positive", distance, a, b),
            Relation::AtMost => ("where positive", distance.add(&one)?, a, b),
            Relation::Equal => ("where zero", distance, a, b),
            Relation::NotEqual => ("where zero", distance, b, a),
            Relation::Divides => return unknown("a row that consists of parts"),
        };
        // The opposite of `0 < d` is `0 < 1 - d`: of both, one has a positive first coefficient.
        let first = distance.0.values().next_back().is_some_and(|number| number.is_positive());
        let (distance, a, b) = match (name, first) {
            (_, true) => (distance, a, b),
            ("where zero", false) => (distance.negated()?, a, b),
            _ => (one.subtract(&distance)?, b, a),
        };
        let atom = Atom::Apply(Domain::Bits, name.into(), vec![distance, a, b]);
        Ok(Poly::atom(self.intern(atom)?))
    }

    /// What to split on for a truth value: of a connective an operand that is not decided.
    fn undecided(&mut self, term: &Term) -> Known<Test> {
        if let Term::Apply(_, name, args) = term
            && name.starts_with("logical")
        {
            for arg in args {
                let poly = self.normal(arg)?;
                if self.is_truth(&poly) && self.truth_of(&poly).is_none() {
                    return self.undecided(arg);
                }
            }
        }
        Ok(Test::Element(Box::new(term.clone())))
    }

    /// The truth value that a normal form is.
    pub(super) fn truth_of(&self, poly: &Poly) -> Option<bool> {
        match &self.atoms[poly.as_atom()?] {
            Atom::Literal(bits) => Some(f64::from_bits(*bits) != 0.0),
            _ => None,
        }
    }

    /// The variable of an element used as an index has the text of its term for a name. What is assumed of it in one attempt
    /// is so of the same element in the next.
    fn lookup(&mut self, index: &Term, binder: &Binder, body: &Term) -> Known<Poly> {
        let element = index;
        let index = self.normal(index)?;
        let known = self.gathered.iter().find(|(_, poly)| **poly == index);
        let name = match known.map(|(name, _)| name.clone()) {
            Some(name) => name,
            None => {
                let name: Name = format!("@{element:?}").into();
                self.gathered.insert(name.clone(), index);
                name
            }
        };
        let var = Dim::Var(name);
        self.facts.assume(Claim::new(0, Relation::AtMost, var.clone()));
        self.facts.assume(Claim::new(var.clone(), Relation::Less, binder.1.clone()));
        self.normal(&body.substitute(&BTreeMap::from([(binder.0.clone(), var)])))
    }

    /// Whether the value of a normal form changes with one of these variables.
    pub(super) fn depends(&self, poly: &Poly, names: &BTreeSet<Name>) -> bool {
        poly.0.keys().any(|monomial| self.monomial_depends(monomial, names))
    }

    fn monomial_depends(&self, monomial: &Monomial, names: &BTreeSet<Name>) -> bool {
        monomial.keys().any(|&id| self.atom_depends(id, names))
    }

    pub(super) fn atom_depends(&self, id: AtomId, names: &BTreeSet<Name>) -> bool {
        match &self.atoms[id] {
            Atom::Read(_, at) => at.iter().any(|dim| self.dim_depends(dim, names)),
            Atom::Literal(_) | Atom::Scalar(_) => false,
            Atom::Extent(dim) => self.dim_depends(dim, names),
            Atom::Apply(_, _, args) => args.iter().any(|arg| self.depends(arg, names)),
            Atom::Fold(_, op, binders, body) => {
                let place = match op {
                    super::term::FoldOp::Row(_, at) => {
                        at.iter().any(|dim| self.dim_depends(dim, names))
                    }
                    _ => false,
                };
                place
                    || binders.iter().any(|(_, extent)| self.dim_depends(extent, names))
                    || self.depends(body, names)
            }
            Atom::Sum(poly) => self.depends(poly, names),
        }
    }

    pub(super) fn dim_depends(&self, dim: &Dim, names: &BTreeSet<Name>) -> bool {
        mentions(dim, &|name| {
            names.contains(name)
                || self.gathered.get(name).is_some_and(|poly| self.depends(poly, names))
        })
    }
}
