//! What is known of dims at a place of a function: from declarations, and from values that are there.

use super::function::Checker;
use relax_syntax::Name;
use relax_syntax::annotation::{Annotation, OWN};
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::{Claim, Relation};
use relax_syntax::ir::DimVar;

impl Checker<'_> {
    /// Gives a variable a value, and assumes what is declared of it.
    pub(super) fn bind_dim(&mut self, name: &Name) {
        if !self.bound.insert(name.clone()) {
            return;
        }
        let var = Dim::Var(name.clone());
        self.facts.assume(Claim::new(0, Relation::AtMost, var.clone()));
        let declared = self.function.dim(name);
        let origin = declared.filter(|dim| dim.in_signature).map_or(self.span, |dim| dim.span);
        self.origins.insert(name.clone(), origin);
        let Some(DimVar { lower, upper, multiple_of, .. }) = declared else { return };
        if let Some(lower) = lower {
            self.facts.assume(Claim::new(*lower, Relation::AtMost, var.clone()));
        }
        if let Some(upper) = upper {
            self.facts.assume(Claim::new(var.clone(), Relation::AtMost, *upper));
        }
        if let Some(step) = multiple_of {
            self.facts.assume(Claim::new(*step, Relation::Divides, var));
        }
    }

    /// What holds of every value that is there: no dim is negative, and each has a value.
    pub(super) fn assume_extents(&mut self, annotation: &Annotation) {
        match annotation {
            Annotation::Callable(_) => {}
            Annotation::Tuple(items) => items.iter().for_each(|item| self.assume_extents(item)),
            _ => annotation.visit_dims(&mut |dim| self.assume_dim(dim)),
        }
    }

    /// The dim of a value has a value and is at least 0.
    fn assume_dim(&mut self, dim: &Dim) {
        let is_news = !is_plainly_natural(dim)
            && dim.vars_all(&|name| !name.starts_with(OWN))
            && self.natural.insert(dim.clone());
        if is_news {
            self.facts.assume(Claim::new(0, Relation::AtMost, dim.clone()));
        }
    }
}

/// True for what needs no fact: sums and products of variables and literals that are not negative.
fn is_plainly_natural(dim: &Dim) -> bool {
    match dim {
        Dim::Int(value) => *value >= 0,
        Dim::Var(_) => true,
        Dim::Op(DimOp::Sub, _) => false,
        Dim::Op(DimOp::FloorDiv | DimOp::FloorMod | DimOp::CeilDiv, operands) => {
            operands.1.as_int().is_some_and(|divisor| divisor > 0)
                && is_plainly_natural(&operands.0)
        }
        Dim::Op(DimOp::Add | DimOp::Mul | DimOp::Min | DimOp::Max, operands) => {
            is_plainly_natural(&operands.0) && is_plainly_natural(&operands.1)
        }
    }
}
