//! Evaluation of dims in i64 at a place of a function, given everything that was evaluated before it.
//!
//! The result of a call names an extent by an expression. The interpreter computes the extent from the operands'
//! extents; a compiled call evaluates the expression. Both agree unless a step of the evaluation overflows while the
//! value does not, as `a * b` in `a * b * c` for `c = 0`. [`Reached`] decides that no step can overflow, from tensors that
//! exist, dims that were evaluated on the way, and declared upper bounds.

use crate::dims::atom_dims;
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::dim::evaluation::{
    MOST, bounds_with, evaluates_when_it_fits, is_atomic, is_positive, most,
};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::{Answer, Claim, Facts, Relation};
use relax_syntax::ir::{Atom, Expr, Function};
use std::collections::{BTreeMap, BTreeSet};

/// What every run that reaches a place has evaluated.
#[derive(Clone, Debug, Default)]
pub struct Reached {
    /// Shapes of tensors that exist.
    shapes: BTreeSet<Vec<Dim>>,
    /// Dims that have a value, with all their parts, as the text wrote them.
    evaluated: BTreeSet<Dim>,
    /// Declared upper bounds of variables.
    upper: BTreeMap<Name, i128>,
}

impl Reached {
    /// At the first binding of a function: its parameters were compared with their annotations.
    #[must_use]
    pub fn of(function: &Function) -> Self {
        let mut reached = Self::default();
        for dim in &function.dims {
            reached.upper.extend(dim.upper.map(|upper| (dim.name.clone(), upper.into())));
        }
        for &param in &function.lambda.params {
            let annotation = function.param_annotation(param);
            annotation.visit_dims(&mut |dim| reached.evaluate(dim));
            reached.exists(annotation);
        }
        reached
    }

    /// A value of this annotation exists from here on.
    pub fn exists(&mut self, annotation: &Annotation) {
        match annotation {
            // On one device a distributed tensor is the whole of it.
            Annotation::Tensor(_) | Annotation::DTensor(_) => {
                let Some(tensor) = annotation.as_tensor() else { return };
                let Some(dims) = tensor.extents.dims() else { return };
                let mut extents = dims.to_vec();
                // A vector has less than 2^63 bytes. Of other tensors an extent may be 0, and the others as large as they like.
                if let (1, Some(dtype)) = (dims.len(), tensor.dtype) {
                    extents.push(Dim::Int(dtype.size() as i64));
                }
                self.shapes.insert(extents);
            }
            Annotation::Tuple(fields) => fields.iter().for_each(|field| self.exists(field)),
            _ => {}
        }
    }

    /// The expression was evaluated: the dims that it mentions have values.
    pub fn passed(&mut self, expr: &Expr) {
        match expr {
            Expr::MatchCast(_, annotation) => {
                annotation.visit_dims(&mut |dim| self.evaluate(dim));
                self.exists(annotation);
            }
            Expr::Call { args, attrs, .. } => {
                let attrs = attrs.iter().map(|(_, atom)| atom);
                self.mentioned(args.iter().chain(attrs));
            }
            _ => {}
        }
    }

    /// The dims in atoms were evaluated.
    pub fn mentioned<'a>(&mut self, atoms: impl Iterator<Item = &'a Atom>) {
        atoms.for_each(|atom| atom_dims(atom, &mut |dim| self.evaluate(dim)));
    }

    /// Whether a dim is made of extents of tensors that exist, and multiplies and divides them by no more than literals: then
    /// its evaluation leaves i64 only where one of them is near its end, which stands beside an extent of 0.
    #[must_use]
    pub fn is_of_extents(&self, dim: &Dim) -> bool {
        match dim {
            Dim::Int(_) => true,
            Dim::Var(_) => self.is_extent(dim),
            Dim::Op(op, operands) => {
                let (a, b) = (&operands.0, &operands.1);
                let is_linear = match op {
                    DimOp::Mul => a.as_int().is_some() || b.as_int().is_some(),
                    DimOp::FloorDiv | DimOp::FloorMod | DimOp::CeilDiv => is_positive(b),
                    DimOp::Add | DimOp::Sub | DimOp::Min | DimOp::Max => true,
                };
                is_linear && self.is_of_extents(a) && self.is_of_extents(b)
            }
        }
    }

    fn evaluate(&mut self, dim: &Dim) {
        if let Dim::Op(_, operands) = dim
            && self.evaluated.insert(dim.clone())
        {
            self.evaluate(&operands.0);
            self.evaluate(&operands.1);
        }
    }

    /// Whether every step of evaluating `dim` stays in i64 if its value is the extent of some tensor.
    pub fn evaluates(&self, dim: &Dim, facts: &mut dyn Facts) -> bool {
        evaluates_when_it_fits(dim) || self.always(dim, facts) || self.fits(dim, facts)
    }

    /// The same, without a proof that the value fits.
    fn fits(&self, dim: &Dim, facts: &mut dyn Facts) -> bool {
        let Dim::Op(op, operands) = dim else { return false };
        // The last step is exact where both operands are.
        let last = match op {
            DimOp::FloorDiv | DimOp::FloorMod | DimOp::CeilDiv => {
                is_positive(&operands.1) || at_most(&Dim::Int(1), &operands.1, facts)
            }
            _ => true,
        };
        last && self.always(&operands.0, facts) && self.always(&operands.1, facts)
            || self.parts_fit(dim, facts)
    }

    /// Whether evaluating the parts of an expression stays in i64 if its value does.
    fn parts_fit(&self, dim: &Dim, facts: &mut dyn Facts) -> bool {
        let Dim::Op(op, operands) = dim else { return false };
        let (a, b) = (&operands.0, &operands.1);
        match op {
            // Neither part is negative, so each is at most the result.
            DimOp::Add | DimOp::Max => self.is_part(a, facts) && self.is_part(b, facts),
            // The other factor may be 0 unless it is a positive literal.
            DimOp::Mul => [(a, b), (b, a)].into_iter().all(|(factor, other)| {
                self.is_natural_always(factor, facts)
                    || (is_positive(other) && self.is_part(factor, facts))
            }),
            _ => false,
        }
    }

    /// Whether a part is not negative, and evaluating it stays in i64 if its value does.
    fn is_part(&self, dim: &Dim, facts: &mut dyn Facts) -> bool {
        self.is_natural_always(dim, facts) || (self.is_natural(dim) && self.parts_fit(dim, facts))
    }

    fn is_natural_always(&self, dim: &Dim, facts: &mut dyn Facts) -> bool {
        self.is_natural(dim) && self.always(dim, facts)
    }

    /// Whether every step of evaluating `dim` stays in i64 in every run.
    fn always(&self, dim: &Dim, facts: &mut dyn Facts) -> bool {
        is_atomic(dim)
            || self.evaluated.contains(dim)
            || self.bounds(dim).is_some()
            || self.shapes.iter().any(|extents| self.is_bounded_product(dim, extents, facts))
            || (self.is_extent(dim) && (evaluates_when_it_fits(dim) || self.fits(dim, facts)))
            || self.is_one_of_both(dim, facts)
    }

    /// Whether a dim is one of its parts, or 0 where it is one: the extent of a broadcast that only the run decides.
    fn is_one_of_both(&self, dim: &Dim, facts: &mut dyn Facts) -> bool {
        let Dim::Op(op, operands) = dim else { return false };
        let (a, b) = (&operands.0, &operands.1);
        let chooses = match op {
            DimOp::Min | DimOp::Max => true,
            DimOp::Mul => self.is_zero_or_one(a) || self.is_zero_or_one(b),
            _ => false,
        };
        chooses && self.always(a, facts) && self.always(b, facts)
    }

    fn is_zero_or_one(&self, dim: &Dim) -> bool {
        let Dim::Op(DimOp::Min, operands) = dim else { return false };
        let (a, b) = (&operands.0, &operands.1);
        let is_one = |dim: &Dim| dim.as_int() == Some(1);
        (is_one(a) && self.is_natural(b)) || (is_one(b) && self.is_natural(a))
    }

    /// Whether a tensor exists with this extent.
    fn is_extent(&self, dim: &Dim) -> bool {
        self.shapes.iter().any(|extents| extents.contains(dim))
    }

    fn bounds(&self, dim: &Dim) -> Option<(i128, i128)> {
        let shapes: Vec<&[Dim]> = self.shapes.iter().map(Vec::as_slice).collect();
        let upper = |name: &Name| self.upper.get(name).copied().unwrap_or(MOST);
        bounds_with(dim, &|name| most(name, &shapes).min(upper(name)))
    }

    /// Whether a dim is never negative, by its form.
    fn is_natural(&self, dim: &Dim) -> bool {
        let Dim::Op(op, operands) = dim else { return is_atomic(dim) };
        let (a, b) = (&operands.0, &operands.1);
        self.bounds(dim).is_some_and(|(low, _)| low >= 0)
            || match op {
                DimOp::Sub => false,
                DimOp::Max => self.is_natural(a) || self.is_natural(b),
                DimOp::FloorMod => is_positive(b),
                DimOp::FloorDiv | DimOp::CeilDiv => self.is_natural(a) && is_positive(b),
                DimOp::Add | DimOp::Mul | DimOp::Min => self.is_natural(a) && self.is_natural(b),
            }
    }

    /// Whether the factors of a product are each at most an extent of their own of one shape. The extents of a tensor other
    /// than 0 have a product in i64, so any factors other than 0 have one as well, and a factor at an extent of 0 is 0.
    fn is_bounded_product(&self, dim: &Dim, extents: &[Dim], facts: &mut dyn Facts) -> bool {
        let mut factors = Vec::new();
        units(dim, extents, &mut factors);
        if factors.len() < 2 || factors.len() > extents.len() {
            return false;
        }
        let mut free: Vec<&Dim> = extents.iter().collect();
        // An extent itself first, so that none is taken for something smaller.
        factors.sort_by_key(|factor| !extents.contains(factor));
        factors.iter().all(|factor| {
            let known = self.is_natural(factor) || at_most(&Dim::Int(0), factor, facts);
            if !known || !self.always(factor, facts) {
                return false;
            }
            let same = free.iter().position(|extent| extent == factor);
            let place =
                same.or_else(|| free.iter().position(|extent| at_most(factor, extent, facts)));
            place.map(|place| free.swap_remove(place)).is_some()
        })
    }
}

/// The factors of a product; a part that is an extent counts as one.
fn units<'d>(dim: &'d Dim, extents: &[Dim], all: &mut Vec<&'d Dim>) {
    match dim {
        Dim::Op(DimOp::Mul, operands) if !extents.contains(dim) => {
            units(&operands.0, extents, all);
            units(&operands.1, extents, all);
        }
        _ => all.push(dim),
    }
}

fn at_most(low: &Dim, high: &Dim, facts: &mut dyn Facts) -> bool {
    // Dims without a variable in common are not asked about: there are many of them.
    let mut names = BTreeSet::new();
    low.visit_vars(&mut |name| _ = names.insert(name));
    let is_unrelated = high.vars_all(&|name| !names.contains(name));
    if is_unrelated && low.as_int().is_none() {
        return false;
    }
    let claim = Claim::new(low.clone(), Relation::AtMost, high.clone());
    facts.decide(&claim) == Answer::Proved
}
