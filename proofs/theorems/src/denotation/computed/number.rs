//! Terms with their dtype, so that formulas read as such.

use crate::denotation::program::{applied, cast, float, integer};
use crate::denotation::term::{Term, Test};
use relax_syntax::dtype::DType;

/// A value with its dtype.
#[derive(Clone)]
pub(super) struct Number {
    pub(super) term: Term,
    pub(super) dtype: DType,
}

impl Number {
    pub(super) fn new(term: Term, dtype: DType) -> Self {
        Self { term, dtype }
    }

    pub(super) fn to(&self, dtype: DType) -> Self {
        Self::new(cast(self.term.clone(), self.dtype, dtype), dtype)
    }

    pub(super) fn wide(&self) -> Self {
        self.to(DType::F64)
    }

    pub(super) fn call(&self, name: &str) -> Self {
        Self::new(applied(self.dtype, name, vec![self.term.clone()]), self.dtype)
    }

    pub(super) fn with(&self, name: &str, other: &Number) -> Self {
        let args = vec![self.term.clone(), other.term.clone()];
        Self::new(applied(self.dtype, name, args), self.dtype)
    }

    pub(super) fn number(&self, value: f64) -> Self {
        let term = if self.dtype.is_float() {
            float(value, self.dtype)
        } else {
            integer(value as i64, self.dtype)
        };
        Self::new(term, self.dtype)
    }

    pub(super) fn add(&self, other: &Number) -> Self {
        self.with("add", other)
    }

    pub(super) fn sub(&self, other: &Number) -> Self {
        self.with("subtract", other)
    }

    pub(super) fn mul(&self, other: &Number) -> Self {
        self.with("multiply", other)
    }

    pub(super) fn div(&self, other: &Number) -> Self {
        self.with("divide", other)
    }

    pub(super) fn neg(&self) -> Self {
        self.call("negative")
    }

    /// A comparison.
    pub(super) fn is(&self, name: &str, other: &Number) -> Term {
        applied(self.dtype, name, vec![self.term.clone(), other.term.clone()])
    }

    pub(super) fn is_number(&self, name: &str, value: f64) -> Term {
        self.is(name, &self.number(value))
    }
}

pub(super) fn select(condition: Term, then: &Number, otherwise: &Number) -> Number {
    let test = Test::Element(Box::new(condition));
    let term = Term::If(test, Box::new(then.term.clone()), Box::new(otherwise.term.clone()));
    Number::new(term, then.dtype)
}
