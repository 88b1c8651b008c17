//! Quantized matrices: expressions `scale * integer`, for some formats plus or minus a minimum, whose integer is small and whose scale
//! and minimum stay for a group of terms, and products of such a matrix and rounded rows. Sums within a group are then sums of integers.
//!
//! Integers are bytes in the order of terms, or are put together of bits ([`bits`]). A scale or a minimum is an element, or a product of
//! two, each of which stays for a power of two of terms, 16 at least.

mod bits;

pub use bits::nibble_of_word;

use crate::products::{At, SumOfProducts, mentions};
use relax_syntax::dtype::DType;
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::{BinOp, Loop, ScalarId, TExpr};

/// Terms of a rounded row with one scale.
pub const BLOCK: i64 = 32;

/// `B[…, t // terms]`, in f32.
#[derive(Clone, Copy, Debug)]
pub struct Factor<'e> {
    /// f32, f16, u8 or i8.
    pub at: At<'e>,
    /// How many terms have one element: a power of two.
    pub terms: i64,
}

/// What is added to a scale times an integer.
#[derive(Clone, Debug)]
pub struct Minimum<'e> {
    /// One or two, which are multiplied.
    pub factors: Vec<Factor<'e>>,
    /// Whether it is subtracted instead.
    pub is_subtracted: bool,
}

/// `scale * (integer[…, t] - zero) + minimum`
#[derive(Clone, Debug)]
pub struct Quantized<'e> {
    /// Where the integers are, or the lower four bits of each.
    pub data: At<'e>,
    /// Where the upper bits of integers of 5 and 6 bits are.
    pub high: Option<At<'e>>,
    /// 4, 5, 6 or 8.
    pub bits: u8,
    /// Whether integers of 8 bits are signed.
    pub is_signed: bool,
    /// Subtracted from each.
    pub zero: i64,
    /// One or two, which are multiplied.
    pub scale: Vec<Factor<'e>>,
    /// `None` where nothing is added.
    pub minimum: Option<Minimum<'e>>,
}

impl<'e> Quantized<'e> {
    /// The elements that an expression of f32 gives along `term`.
    #[must_use]
    pub fn of(program: &TensorProgram, expr: &'e TExpr, term: ScalarId) -> Option<Self> {
        let TExpr::Binary(op @ (BinOp::Add | BinOp::Sub), both) = expr else {
            return scaled(program, expr, term);
        };
        let minimum = |factors, is_subtracted| Some(Minimum { factors, is_subtracted });
        if let Some(found) = scaled(program, &both.0, term) {
            let factors = product_of_factors(program, &both.1, term)?;
            return Some(Self { minimum: minimum(factors, *op == BinOp::Sub), ..found });
        }
        let found = scaled(program, &both.1, term).filter(|_| *op == BinOp::Add)?;
        let factors = product_of_factors(program, &both.0, term)?;
        Some(Self { minimum: minimum(factors, false), ..found })
    }

    /// Factors of the scale and of the minimum.
    pub fn factors(&self) -> impl Iterator<Item = Factor<'e>> {
        let least = self.minimum.iter().flat_map(|minimum| minimum.factors.clone());
        self.scale.clone().into_iter().chain(least)
    }

    /// All that is read for an element.
    #[must_use]
    pub fn reads(&self) -> Vec<At<'e>> {
        let factors = self.factors().map(|factor| factor.at);
        [self.data].into_iter().chain(self.high).chain(factors).collect()
    }

    /// Terms with the same scale and minimum, [`BLOCK`] at most.
    #[must_use]
    pub fn group(&self) -> i64 {
        self.factors().map(|factor| factor.terms).fold(BLOCK, i64::min)
    }

    /// Whether it is bytes as activations are rounded to: signed, with a scale of f32 for a block.
    fn is_rounded(&self, program: &TensorProgram) -> bool {
        let [scale] = self.scale[..] else { return false };
        self.bits == 8
            && self.is_signed
            && self.zero == 0
            && self.minimum.is_none()
            && scale.terms == BLOCK
            && program.buffer(scale.at.buffer).dtype == DType::F32
    }
}

/// A product of one integer and one or two factors, in any order.
fn scaled<'e>(program: &TensorProgram, expr: &'e TExpr, term: ScalarId) -> Option<Quantized<'e>> {
    let parts = multiplied(expr);
    let (mut integer, mut scale) = (None, Vec::new());
    for part in parts {
        if let Some(factor) = factor(program, part, term) {
            scale.push(factor);
        } else if let (None, TExpr::Cast(DType::F32, inner)) = (&integer, part) {
            integer = Some(integers(program, inner, term)?);
        } else {
            return None;
        }
    }
    let found = integer.filter(|_| matches!(scale.len(), 1 | 2))?;
    Some(Quantized { scale, ..found })
}

fn product_of_factors<'e>(
    program: &TensorProgram,
    expr: &'e TExpr,
    term: ScalarId,
) -> Option<Vec<Factor<'e>>> {
    let parts = multiplied(expr);
    let factors = parts.into_iter().map(|part| factor(program, part, term));
    factors.collect::<Option<Vec<_>>>().filter(|factors| factors.len() <= 2)
}

fn multiplied(expr: &TExpr) -> Vec<&TExpr> {
    match expr {
        TExpr::Binary(BinOp::Mul, both) => [multiplied(&both.0), multiplied(&both.1)].concat(),
        other => vec![other],
    }
}

fn factor<'e>(program: &TensorProgram, expr: &'e TExpr, term: ScalarId) -> Option<Factor<'e>> {
    let (expr, wanted) = match expr {
        TExpr::Cast(DType::F32, inner) => (&**inner, &[DType::F16, DType::U8, DType::I8][..]),
        other => (other, &[DType::F32][..]),
    };
    let at = element(program, expr, wanted)?;
    let TExpr::Binary(BinOp::FloorDiv, last) = at.indices.last()? else { return None };
    let &TExpr::Int(terms @ 16..) = &last.1 else { return None };
    let fits = u64::try_from(terms).is_ok_and(u64::is_power_of_two);
    (fits && is_along(&at, term, &divided(term, terms))).then_some(Factor { at, terms })
}

/// Integers without their scale, which is put in later.
fn integers<'e>(program: &TensorProgram, expr: &'e TExpr, term: ScalarId) -> Option<Quantized<'e>> {
    let (expr, zero) = match expr {
        TExpr::Binary(BinOp::Sub, both) => match both.1 {
            TExpr::Int(zero @ 0..=255) => (&both.0, zero),
            _ => return None,
        },
        other => (other, 0),
    };
    let expr = match expr {
        TExpr::Cast(DType::I32, inner) => &**inner,
        other if zero == 0 => other,
        _ => return None,
    };
    let whole = |data, bits, is_signed| {
        let (scale, minimum) = (Vec::new(), None);
        Quantized { data, high: None, bits, is_signed, zero, scale, minimum }
    };
    if let Some(data) = element(program, expr, &[DType::I8, DType::U8])
        && is_along(&data, term, &TExpr::Scalar(term))
    {
        return Some(whole(data, 8, program.buffer(data.buffer).dtype == DType::I8));
    }
    let found = bits::assembled(program, expr, term)?;
    let fits = zero < 1 << found.bits;
    fits.then(|| Quantized { high: found.high, ..whole(found.low, found.bits, false) })
}

fn element<'e>(program: &TensorProgram, expr: &'e TExpr, dtypes: &[DType]) -> Option<At<'e>> {
    let TExpr::Load { buffer, indices } = expr else { return None };
    dtypes.contains(&program.buffer(*buffer).dtype).then_some(At { buffer: *buffer, indices })
}

/// Whether the last index is this one, and no other mentions the term.
fn is_along(at: &At, term: ScalarId, wanted: &TExpr) -> bool {
    at.indices.split_last().is_some_and(|(last, before)| last == wanted && !mentions(before, term))
}

fn divided(term: ScalarId, by: i64) -> TExpr {
    TExpr::binary(BinOp::FloorDiv, TExpr::Scalar(term), TExpr::Int(by))
}

/// A sum over one loop of products of rounded activations and quantized weights.
#[derive(Clone, Debug)]
pub struct RoundedProduct<'s> {
    /// Loops over elements of the result, outermost first.
    pub loops: Vec<&'s Loop>,
    /// The loop over terms.
    pub along: &'s Loop,
    /// Bytes, with scales of f32; it does not depend on the last index of the result.
    pub activations: Quantized<'s>,
    /// It depends on the last index of the result.
    pub weights: Quantized<'s>,
    /// Where the result goes.
    pub out: At<'s>,
}

impl<'s> RoundedProduct<'s> {
    /// The product that a sum is, if it is one.
    #[must_use]
    pub fn of(program: &TensorProgram, sum: &SumOfProducts<'s>) -> Option<Self> {
        let [along] = sum.along[..] else { return None };
        let column = sum.out.indices.last()?.as_scalar()?;
        if sum.wide != DType::F32 || sum.finish.is_some() || along.start != TExpr::Int(0) {
            return None;
        }
        let factor = |at: usize| Quantized::of(program, sum.factors[at], along.var);
        let (first, second) = (factor(0)?, factor(1)?);
        let (activations, weights) =
            if mentions(first.data.indices, column) { (second, first) } else { (first, second) };
        let is_of_column = |at: At| mentions(at.indices, column);
        let (of_rows, of_columns) = (activations.reads(), weights.reads());
        if of_rows.iter().copied().any(is_of_column)
            || !of_columns.iter().copied().all(is_of_column)
        {
            return None;
        }
        let is_apart = of_rows.iter().chain(&of_columns).all(|at| at.buffer != sum.out.buffer);
        let loops = sum.loops.clone();
        (activations.is_rounded(program) && is_apart).then_some(Self {
            loops,
            along,
            activations,
            weights,
            out: sum.out,
        })
    }
}
