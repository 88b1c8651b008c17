//! What a tensor is: the value of each element as a term over elements of the operands.

use relax_syntax::Name;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::facts::Claim;
use std::collections::BTreeMap;

/// Which laws the numbers of a term obey.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Domain {
    /// Floats and truth values as they are: rounding, NaN, two zeros.
    Bits,
    /// Integers that wrap: a commutative ring.
    Ring,
    /// The real numbers.
    Real,
}

/// The value of one element.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Term {
    /// An element of an operand of the rule.
    Read(Name, Vec<Dim>),
    /// A number as it is written.
    Number(Domain, f64),
    /// An extent, as a real number or an integer.
    Extent(Dim),
    /// A float operand of the rule.
    Scalar(Name),
    /// A function of elements.
    Apply(Domain, Name, Vec<Term>),
    /// The one or the other.
    If(Test, Box<Term>, Box<Term>),
    /// A reduction over indices, each from 0 to below its extent.
    Fold(Domain, FoldOp, Vec<Binder>, Box<Term>),
    /// `body` where the variable of the binder is the value of an integer element, which is below the
    /// extent of the binder.
    Lookup(Box<Term>, Binder, Box<Term>),
}

/// A variable and its extent.
pub(crate) type Binder = (Name, Dim);

/// What decides between two terms.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Test {
    /// A claim on dims and indices.
    Dims(Claim),
    /// A truth value.
    Element(Box<Term>),
}

/// What a reduction does.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum FoldOp {
    Add,
    Multiply,
    Max,
    Min,
    /// Some function of all elements in their order, and of a place among them.
    Row(Name, Vec<Dim>),
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Stuck {
    /// It depends on this, which is neither true nor false.
    Split(Test),
    /// It is not known here.
    Unknown(String),
}

pub(crate) type Known<T> = Result<T, Stuck>;

pub(crate) fn unknown<T>(why: impl Into<String>) -> Known<T> {
    Err(Stuck::Unknown(why.into()))
}

/// The laws that elements of a dtype obey in a rule.
pub(crate) fn domain_of(dtype: DType, reals: Reals) -> Domain {
    match (dtype, reals) {
        (dtype, _) if dtype.is_integer() => Domain::Ring,
        (dtype, Reals::InsteadOfFloats) if dtype.is_float() => Domain::Real,
        _ => Domain::Bits,
    }
}

/// Whether floats count as real numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reals {
    /// In rules that are approximate.
    InsteadOfFloats,
    /// In exact ones.
    Nowhere,
}

impl Term {
    pub(crate) fn apply(domain: Domain, name: &str, args: Vec<Term>) -> Term {
        Term::Apply(domain, name.into(), args)
    }

    pub(crate) fn choose(claim: Claim, then: Term, otherwise: Term) -> Term {
        Term::If(Test::Dims(claim), Box::new(then), Box::new(otherwise))
    }

    /// This where all claims hold, the first one tested first, and 0 elsewhere.
    pub(crate) fn where_all(
        self,
        claims: impl DoubleEndedIterator<Item = Claim>,
        domain: Domain,
    ) -> Term {
        claims.rev().fold(self, |term, claim| Term::choose(claim, term, Term::Number(domain, 0.0)))
    }

    /// With dims for variables of indices. Binders are unique, so nothing is captured.
    pub(crate) fn substitute(&self, map: &BTreeMap<Name, Dim>) -> Term {
        self.with_dims(&|dim| dim.substitute(map))
    }

    /// With other dims in the place of all. Binders are unique, so nothing is captured.
    pub(crate) fn with_dims(&self, other: &dyn Fn(&Dim) -> Dim) -> Term {
        let dims = |dims: &[Dim]| dims.iter().map(other).collect::<Vec<_>>();
        let inner = |term: &Term| Box::new(term.with_dims(other));
        match self {
            Term::Read(name, at) => Term::Read(name.clone(), dims(at)),
            Term::Number(..) | Term::Scalar(_) => self.clone(),
            Term::Extent(dim) => Term::Extent(other(dim)),
            Term::Apply(domain, name, args) => {
                let args = args.iter().map(|arg| arg.with_dims(other)).collect();
                Term::Apply(*domain, name.clone(), args)
            }
            Term::If(test, then, otherwise) => {
                Term::If(test.with_dims(other), inner(then), inner(otherwise))
            }
            Term::Fold(domain, op, binders, body) => {
                let op = match op {
                    FoldOp::Row(name, at) => FoldOp::Row(name.clone(), dims(at)),
                    plain => plain.clone(),
                };
                let binders = binders.iter().map(|(k, n)| (k.clone(), other(n)));
                Term::Fold(*domain, op, binders.collect(), inner(body))
            }
            Term::Lookup(index, (var, extent), body) => {
                Term::Lookup(inner(index), (var.clone(), other(extent)), inner(body))
            }
        }
    }
}

impl Term {
    /// Whether both are the same but for the names of their binders.
    pub(crate) fn is_like(&self, other: &Term) -> bool {
        alike(self, other, &mut BTreeMap::new())
    }
}

/// `map` gives the variables of `a` for those of binders of `b`. Binders are unique, so one map serves all of them.
fn alike(a: &Term, b: &Term, map: &mut BTreeMap<Name, Dim>) -> bool {
    let same = |a: &Dim, b: &Dim, map: &BTreeMap<Name, Dim>| *a == b.substitute(map);
    let all = |a: &[Dim], b: &[Dim], map: &BTreeMap<Name, Dim>| {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b, map))
    };
    let var = |name: &Name| Dim::Var(name.clone());
    match (a, b) {
        (Term::Read(x, at), Term::Read(y, other)) => x == y && all(at, other, map),
        (Term::Number(d, x), Term::Number(e, y)) => d == e && x.to_bits() == y.to_bits(),
        (Term::Extent(x), Term::Extent(y)) => same(x, y, map),
        (Term::Scalar(x), Term::Scalar(y)) => x == y,
        (Term::Apply(d, f, xs), Term::Apply(e, g, ys)) => {
            let args = d == e && f == g && xs.len() == ys.len();
            args && xs.iter().zip(ys).all(|(x, y)| alike(x, y, map))
        }
        (Term::If(s, a, c), Term::If(t, b, d)) => {
            let tests = match (s, t) {
                (Test::Dims(s), Test::Dims(t)) => *s == t.substitute(map),
                (Test::Element(s), Test::Element(t)) => alike(s, t, map),
                _ => false,
            };
            tests && alike(a, b, map) && alike(c, d, map)
        }
        (Term::Fold(d, f, bx, x), Term::Fold(e, g, by, y)) => {
            let ops = match (f, g) {
                (FoldOp::Row(f, at), FoldOp::Row(g, other)) => f == g && all(at, other, map),
                _ => f == g,
            };
            let binders = bx.iter().zip(by).all(|((k, n), (own, extent))| {
                let fits = same(n, extent, map);
                map.insert(own.clone(), var(k));
                fits
            });
            d == e && ops && bx.len() == by.len() && binders && alike(x, y, map)
        }
        (Term::Lookup(i, (k, n), x), Term::Lookup(j, (own, extent), y)) => {
            let fits = alike(i, j, map) && same(n, extent, map);
            map.insert(own.clone(), var(k));
            fits && alike(x, y, map)
        }
        _ => false,
    }
}

impl Test {
    fn with_dims(&self, other: &dyn Fn(&Dim) -> Dim) -> Test {
        match self {
            Test::Dims(claim) => {
                Test::Dims(Claim::new(other(&claim.left), claim.relation, other(&claim.right)))
            }
            Test::Element(term) => Test::Element(Box::new(term.with_dims(other))),
        }
    }
}

pub(crate) fn mentions(dim: &Dim, names: &dyn Fn(&Name) -> bool) -> bool {
    !dim.vars_all(&|name| !names(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(at: &str) -> Term {
        Term::Read("x".into(), vec![Dim::Var(at.into())])
    }

    fn sum(binder: &str, extent: &str, body: Term) -> Term {
        let binder = (Name::from(binder), Dim::Var(extent.into()));
        Term::Fold(Domain::Real, FoldOp::Add, vec![binder], Box::new(body))
    }

    fn masked(index: &str, limit: &str) -> Term {
        let claim = Claim::new(
            Dim::Var(index.into()),
            relax_syntax::facts::Relation::Less,
            Dim::Var(limit.into()),
        );
        Term::choose(claim, read(index), Term::Number(Domain::Real, 0.0))
    }

    #[test]
    fn names_of_binders_do_not_count() {
        assert!(sum("k", "n", masked("k", "i")).is_like(&sum("j", "n", masked("j", "i"))));
        let nested =
            |a, b| sum(a, "n", Term::apply(Domain::Real, "add", vec![read(a), sum(b, a, read(b))]));
        assert!(nested("k", "l").is_like(&nested("p", "q")));
    }

    #[test]
    fn all_else_counts() {
        let own = sum("k", "n", masked("k", "i"));
        let others = [
            sum("j", "m", masked("j", "i")),
            sum("j", "n", masked("j", "h")),
            sum("j", "n", masked("i", "i")),
            sum("j", "n", read("j")),
            masked("k", "i"),
        ];
        assert!(others.iter().all(|other| !own.is_like(other)));
        let number = |value| Term::Number(Domain::Bits, value);
        assert!(number(f64::NAN).is_like(&number(f64::NAN)));
        assert!(!number(0.0).is_like(&number(-0.0)));
        // A free variable is no binder of the other.
        assert!(!sum("k", "n", read("i")).is_like(&sum("j", "n", read("j"))));
        assert!(!sum("k", "n", read("j")).is_like(&sum("j", "n", read("j"))));
    }
}
