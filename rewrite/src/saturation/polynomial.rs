//! Costs as sums of products of dims, and a comparison of two that holds for all dims: after each dim was written as
//! its least value and what is beyond it, no coefficient of the difference is negative.

use relax_syntax::Name;
use relax_syntax::dim::{Dim, DimOp};
use std::collections::BTreeMap;
use std::fmt;

/// A product of dims, each as often as it stands there.
type Product = Vec<Name>;

/// A polynomial of dims with whole coefficients, none of them 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Polynomial {
    terms: BTreeMap<Product, i128>,
}

/// The most terms, beyond which nothing is compared.
const MOST_TERMS: usize = 2000;

impl Polynomial {
    /// Of a dim, if it is one: sums, differences and products of variables and literals. Another dim, such as a
    /// quotient, counts as a variable of its own.
    #[must_use]
    pub fn of(dim: &Dim) -> Polynomial {
        match dim {
            Dim::Int(value) => Polynomial::default().with(Vec::new(), i128::from(*value)),
            Dim::Var(name) => Polynomial::default().with(vec![name.clone()], 1),
            Dim::Op(op @ (DimOp::Add | DimOp::Sub), operands) => {
                let sign = if *op == DimOp::Add { 1 } else { -1 };
                Polynomial::of(&operands.0).plus(&Polynomial::of(&operands.1), sign)
            }
            Dim::Op(DimOp::Mul, operands) => {
                Polynomial::of(&operands.0).times(&Polynomial::of(&operands.1))
            }
            Dim::Op(DimOp::FloorDiv | DimOp::FloorMod, _) => {
                Polynomial::default().with(vec![Name::new(format!("({dim})"))], 1)
            }
            other => Polynomial::default().with(vec![Name::new(other.to_string())], 1),
        }
    }

    fn with(mut self, product: Product, coefficient: i128) -> Polynomial {
        let known = self.terms.entry(product).or_default();
        *known = known.saturating_add(coefficient);
        self.terms.retain(|_, coefficient| *coefficient != 0);
        self
    }

    fn plus(mut self, other: &Polynomial, sign: i128) -> Polynomial {
        for (product, coefficient) in &other.terms {
            let known = self.terms.entry(product.clone()).or_default();
            *known = known.saturating_add(coefficient.saturating_mul(sign));
        }
        self.terms.retain(|_, coefficient| *coefficient != 0);
        self
    }

    fn times(&self, other: &Polynomial) -> Polynomial {
        let mut found = Polynomial::default();
        for (a, x) in &self.terms {
            for (b, y) in &other.terms {
                let mut product: Product = a.iter().chain(b).cloned().collect();
                product.sort();
                let known = found.terms.entry(product).or_default();
                *known = known.saturating_add(x.saturating_mul(*y));
            }
        }
        found.terms.retain(|_, coefficient| *coefficient != 0);
        found
    }

    /// Whether it is proved to be at most another where every variable is at least what `least` says.
    #[must_use]
    pub fn is_at_most(&self, other: &Polynomial, least: &dyn Fn(&Name) -> i64) -> bool {
        let difference = other.clone().plus(self, -1);
        if difference.terms.len() > MOST_TERMS {
            return false;
        }
        let mut beyond = Polynomial::default();
        for (product, coefficient) in &difference.terms {
            let mut expanded = Polynomial::default().with(Vec::new(), *coefficient);
            for name in product {
                let variable = Polynomial::default().with(vec![name.clone()], 1);
                expanded = expanded.times(&variable.with(Vec::new(), least(name).into()));
            }
            beyond = beyond.plus(&expanded, 1);
        }
        beyond.terms.values().all(|coefficient| *coefficient >= 0)
    }
}

/// The terms with most factors first: `2 * k * n + 16 * n + 4000`.
impl fmt::Display for Polynomial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut terms: Vec<(&Product, &i128)> = self.terms.iter().collect();
        terms.sort_by_key(|(product, _)| (std::cmp::Reverse(product.len()), (*product).clone()));
        if terms.is_empty() {
            return f.write_str("0");
        }
        for (at, (product, coefficient)) in terms.into_iter().enumerate() {
            let (sign, size) = (*coefficient < 0, coefficient.unsigned_abs());
            f.write_str(match (at, sign) {
                (0, false) => "",
                (0, true) => "-",
                (_, false) => " + ",
                (_, true) => " - ",
            })?;
            let shown = (size != 1 || product.is_empty()).then(|| size.to_string());
            let factors = shown.into_iter().chain(product.iter().map(ToString::to_string));
            f.write_str(&factors.collect::<Vec<_>>().join(" * "))?;
        }
        Ok(())
    }
}
