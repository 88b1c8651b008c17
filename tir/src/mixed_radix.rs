//! Mixed-radix indices: sums of variables with weights, products of extents, and the quotients and remainders of one
//! number as its digits.

use crate::analysis::write_coverage::launches::ScalarValues;
use relax_syntax::ir::tensor::{BinOp, ScalarId, TExpr, UnOp};
use std::collections::BTreeMap;

/// A sum of parts, each times a literal.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Linear {
    terms: Vec<(i64, TExpr)>,
}

/// An expression as a sum; names stand for their values up to `number`, which stands for itself.
pub(crate) fn linear(
    expr: &TExpr,
    values: &ScalarValues,
    number: Option<ScalarId>,
) -> Option<Linear> {
    let mut found = Linear::default();
    collect(expr, (1, values, number), &mut found)?;
    Some(found)
}

fn collect(
    expr: &TExpr,
    (weight, values, number): (i64, &ScalarValues, Option<ScalarId>),
    found: &mut Linear,
) -> Option<()> {
    match expr {
        TExpr::Int(0) => Some(()),
        TExpr::Scalar(var) if Some(*var) != number && values.contains_key(var) => {
            collect(&values[var], (weight, values, number), found)
        }
        TExpr::Binary(BinOp::Add, both) => {
            collect(&both.0, (weight, values, number), found)?;
            collect(&both.1, (weight, values, number), found)
        }
        TExpr::Binary(BinOp::Mul, both) => {
            let (factor, other) = match (&both.0, &both.1) {
                (TExpr::Int(factor), other) | (other, TExpr::Int(factor)) => (*factor, other),
                _ => return None,
            };
            let weight = weight.checked_mul(factor).filter(|weight| *weight > 0)?;
            collect(other, (weight, values, number), found)
        }
        TExpr::Scalar(_) | TExpr::Binary(BinOp::FloorDiv | BinOp::Mod, _) => {
            found.terms.push((weight, expr.clone()));
            Some(())
        }
        _ => None,
    }
}

impl Linear {
    /// What a part is known by.
    pub(crate) fn name(part: &TExpr) -> String {
        format!("{part:?}")
    }

    /// Parts that are scalars.
    pub(crate) fn scalars(&self) -> impl Iterator<Item = ScalarId> + '_ {
        self.terms.iter().filter_map(|(_, part)| match part {
            TExpr::Scalar(var) => Some(*var),
            _ => None,
        })
    }

    /// Parts that are quotients or remainders of scalars by literals.
    pub(crate) fn divided(&self) -> impl Iterator<Item = Divided> + '_ {
        self.terms.iter().filter_map(|(_, part)| Divided::of(part))
    }

    /// Weights and scalars, least first, where there is nothing else.
    pub(crate) fn sorted(&self) -> Option<Vec<(i64, ScalarId)>> {
        let terms = self.terms.iter().map(|(weight, part)| match part {
            TExpr::Scalar(var) => Some((*weight, *var)),
            _ => None,
        });
        let mut terms = terms.collect::<Option<Vec<_>>>()?;
        terms.sort_unstable();
        Some(terms)
    }

    /// Weights and names of the parts, least weight first; each weight is there once.
    pub(crate) fn by_weight(&self) -> Option<Vec<(i64, String)>> {
        let mut terms: Vec<(i64, String)> =
            self.terms.iter().map(|(weight, part)| (*weight, Self::name(part))).collect();
        terms.sort_unstable();
        terms.windows(2).all(|two| two[0].0 < two[1].0).then_some(terms)
    }
}

/// A scalar over a literal, or what is left of it.
pub(crate) struct Divided {
    pub(crate) name: String,
    pub(crate) var: ScalarId,
    pub(crate) divisor: i64,
    pub(crate) is_quotient: bool,
}

impl Divided {
    fn of(part: &TExpr) -> Option<Self> {
        let TExpr::Binary(op @ (BinOp::FloorDiv | BinOp::Mod), both) = part else { return None };
        let (&TExpr::Scalar(var), &TExpr::Int(divisor @ 1..)) = (&both.0, &both.1) else {
            return None;
        };
        let (name, is_quotient) = (Linear::name(part), *op == BinOp::FloorDiv);
        Some(Self { name, var, divisor, is_quotient })
    }
}

/// A product: a literal that is positive, and how often each other factor is there.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Factors {
    literal: i64,
    others: BTreeMap<String, (usize, TExpr)>,
}

impl Factors {
    /// An expression as a product; names stand for their values.
    pub(crate) fn of(expr: &TExpr, values: &ScalarValues) -> Option<Self> {
        match expr {
            TExpr::Int(literal @ 1..) => Some(Self { literal: *literal, others: BTreeMap::new() }),
            TExpr::Int(_) => None,
            TExpr::Scalar(var) if values.contains_key(var) => Self::of(&values[var], values),
            TExpr::Binary(BinOp::Mul, both) => {
                Self::of(&both.0, values)?.product(&Self::of(&both.1, values)?)
            }
            _ => {
                let others = BTreeMap::from([(Linear::name(expr), (1, expr.clone()))]);
                Some(Self { literal: 1, others })
            }
        }
    }

    fn product(&self, other: &Self) -> Option<Self> {
        let mut all = self.clone();
        all.literal = all.literal.checked_mul(other.literal)?;
        for (name, (count, factor)) in &other.others {
            all.others.entry(name.clone()).or_insert((0, factor.clone())).0 += count;
        }
        Some(all)
    }

    pub(crate) fn times(&self, literal: i64) -> Option<Self> {
        self.product(&Self { literal, others: BTreeMap::new() })
    }

    /// What is left of it without these factors, which it has.
    fn without(&self, other: &Self) -> Option<Self> {
        let mut left = self.clone();
        (left.literal % other.literal == 0).then_some(())?;
        left.literal /= other.literal;
        for (name, (count, _)) in &other.others {
            let (own, _) = left.others.get_mut(name)?;
            *own = own.checked_sub(*count)?;
        }
        left.others.retain(|_, (count, _)| *count > 0);
        Some(left)
    }

    /// The one factor that is no dim: it is at least 1 where the product is, since dims are not negative.
    pub(crate) fn only_open(&self) -> Option<TExpr> {
        let is_open = |(_, factor): &&(usize, TExpr)| !matches!(factor, TExpr::Dim(_));
        let mut open = self.others.values().filter(is_open);
        match (open.next(), open.next()) {
            (Some((1, factor)), None) => Some(factor.clone()),
            _ => None,
        }
    }

    /// Its value, where that is known.
    pub(crate) fn literal(&self) -> Option<i64> {
        self.others.is_empty().then_some(self.literal)
    }

    /// Whether so many steps of a width come to an extent: always, or where some factor is at least 1.
    pub(crate) fn reaches(
        &self,
        extent: &TExpr,
        (width, divides): (i64, bool),
        values: &ScalarValues,
    ) -> Option<Option<TExpr>> {
        let whole = TExpr::Binary(BinOp::FloorDiv, Box::new((extent.clone(), TExpr::Int(width))));
        if width > 1 && self.others.contains_key(&Linear::name(&whole)) {
            return self.reaches_whole((&whole, extent), (width, divides), values);
        }
        if let (Some(steps), TExpr::Int(extent)) = (self.literal(), extent) {
            return (steps.checked_mul(width)? >= *extent).then_some(None);
        }
        let wanted = match extent {
            _ if width == 1 => Self::of(extent, values)?,
            TExpr::Int(extent @ 1..) => {
                let literal = extent / width + i64::from(extent % width != 0);
                Self { literal, others: BTreeMap::new() }
            }
            _ => Self::of(&ceiling(extent, width), values)?,
        };
        let left = self.without(&wanted)?;
        let mut factors = left.others.into_values();
        match (factors.next(), factors.next()) {
            (None, _) => Some(None),
            (Some((1, factor)), None) => Some(Some(factor)),
            _ => None,
        }
    }
}

impl Factors {
    /// The same where only whole steps are counted: the width divides the extent, or that is what the factor says.
    fn reaches_whole(
        &self,
        (whole, extent): (&TExpr, &TExpr),
        (width, divides): (i64, bool),
        values: &ScalarValues,
    ) -> Option<Option<TExpr>> {
        let left = self.without(&Self::of(whole, values)?)?;
        let rest = TExpr::Binary(BinOp::Mod, Box::new((extent.clone(), TExpr::Int(width))));
        let rest = TExpr::Binary(BinOp::Min, Box::new((rest, TExpr::Int(1))));
        let is_whole = TExpr::Binary(BinOp::Sub, Box::new((TExpr::Int(1), rest)));
        let only = |of: &Self| *of == Self { literal: 1, others: BTreeMap::new() };
        match Self::of(&is_whole, values).and_then(|factor| left.without(&factor)) {
            Some(left) => only(&left).then_some(Some(is_whole)),
            None => only(&left).then_some((!divides).then_some(is_whole)),
        }
    }
}

fn ceiling(count: &TExpr, divisor: i64) -> TExpr {
    let negated = |of: TExpr| TExpr::Unary(UnOp::Negate, Box::new(of));
    let operands = Box::new((negated(count.clone()), TExpr::Int(divisor)));
    negated(TExpr::Binary(BinOp::FloorDiv, operands))
}

/// Whether an expression is, or as a literal is at least, `count` over a literal, rounded up.
pub(crate) fn is_ceiling(expr: &TExpr, count: &TExpr, divisor: i64) -> bool {
    match (expr, count) {
        (TExpr::Int(expr), TExpr::Int(count)) => {
            expr.checked_mul(divisor).is_some_and(|all| all >= *count)
        }
        _ if divisor == 1 => expr == count,
        _ => *expr == ceiling(count, divisor),
    }
}

/// A part of a number: what it is divided by, and of what the remainder is taken.
struct Digit {
    behind: Option<TExpr>,
    modulus: Option<TExpr>,
}

/// The digits of a number that indices are made of, by their names.
pub(crate) struct Counted {
    digits: BTreeMap<String, Digit>,
}

impl Counted {
    /// None where an index has a quotient or remainder of something else, but for those of other scalars by literals.
    pub(crate) fn of(axes: &[Linear], number: Option<ScalarId>) -> Option<Self> {
        let mut digits = BTreeMap::new();
        let quotient = |part: &TExpr| match part {
            TExpr::Scalar(var) if Some(*var) == number => Some(None),
            TExpr::Binary(BinOp::FloorDiv, both) => match &both.0 {
                TExpr::Scalar(var) if Some(*var) == number => Some(Some(both.1.clone())),
                _ => None,
            },
            _ => None,
        };
        for (_, part) in axes.iter().flat_map(|axis| &axis.terms) {
            if Divided::of(part).is_some_and(|part| Some(part.var) != number) {
                continue;
            }
            let digit = match part {
                TExpr::Scalar(var) if Some(*var) != number => continue,
                TExpr::Binary(BinOp::Mod, both) => {
                    Digit { behind: quotient(&both.0)?, modulus: Some(both.1.clone()) }
                }
                _ => Digit { behind: quotient(part)?, modulus: None },
            };
            digits.insert(Linear::name(part), digit);
        }
        Some(Self { digits })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.digits.is_empty()
    }

    /// The extents of the digits, where they are all that a number below `all` has: each begins where the one before it ends.
    pub(crate) fn extents(
        &self,
        all: &Factors,
        values: &ScalarValues,
    ) -> Option<BTreeMap<String, Factors>> {
        let mut left: Vec<(&String, &Digit, Factors)> = Vec::new();
        for (name, digit) in &self.digits {
            let behind = digit.behind.clone().unwrap_or(TExpr::Int(1));
            left.push((name, digit, Factors::of(&behind, values)?));
        }
        let mut extents = BTreeMap::new();
        let mut done = Factors::of(&TExpr::Int(1), values)?;
        while !left.is_empty() {
            // One of an extent of 1 begins where the next one does.
            let is_one = |digit: &Digit| digit.modulus == Some(TExpr::Int(1));
            let next = left.iter().position(|(_, digit, behind)| *behind == done && is_one(digit));
            let next = next.or_else(|| left.iter().position(|(_, _, behind)| *behind == done))?;
            let (name, digit, _) = left.remove(next);
            let extent = match &digit.modulus {
                Some(modulus) => Factors::of(modulus, values)?,
                None => all.without(&done)?,
            };
            done = done.product(&extent)?;
            extents.insert(name.clone(), extent);
        }
        (done == *all).then_some(extents)
    }
}
