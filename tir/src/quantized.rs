//! Quantized matrices: expressions `scale * integer` whose integer is small and whose scale stays for a block of [`BLOCK`] terms, and
//! products of two of them. Sums within a block are then sums of integers.
//!
//! Recognized are integers of 8 bits, and of 4 bits in the order of terms, the first one in the low bits. Other groups of terms
//! and scales that are computed are not.

use crate::products::{At, SumOfProducts, mentions};
use relax_syntax::dtype::DType;
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::{BinOp, Loop, ScalarId, TExpr};

/// Terms of a row with one scale.
pub const BLOCK: i64 = 32;

/// `scale[…, t // 32] * (integer[…, t] - zero)`
#[derive(Clone, Debug)]
pub struct Quantized<'e> {
    /// Where the integers are, as elements of the buffer.
    pub data: At<'e>,
    /// f16 or f32.
    pub scale: At<'e>,
    /// 4 or 8.
    pub bits: u8,
    /// Whether integers of 8 bits are signed.
    pub is_signed: bool,
    /// Subtracted from each.
    pub zero: i64,
}

impl<'e> Quantized<'e> {
    /// The elements that an expression of f32 gives along `term`.
    #[must_use]
    pub fn of(program: &TensorProgram, expr: &'e TExpr, term: ScalarId) -> Option<Self> {
        let TExpr::Binary(BinOp::Mul, both) = expr else { return None };
        let of = |integer: &'e TExpr, scale: &'e TExpr| {
            let scale = scale_of(program, scale, term)?;
            let TExpr::Cast(DType::F32, integer) = integer else { return None };
            integers(program, integer, term).map(|found| Self { scale, ..found })
        };
        of(&both.0, &both.1).or_else(|| of(&both.1, &both.0))
    }

    /// Whether it is bytes as activations are rounded to: signed, with scales of f32.
    fn is_rounded(&self, program: &TensorProgram) -> bool {
        self.bits == 8
            && self.is_signed
            && self.zero == 0
            && program.buffer(self.scale.buffer).dtype == DType::F32
    }
}

/// `S[…, t // 32]`, in f32.
fn scale_of<'e>(program: &TensorProgram, expr: &'e TExpr, term: ScalarId) -> Option<At<'e>> {
    let (expr, wanted) = match expr {
        TExpr::Cast(DType::F32, inner) => (&**inner, DType::F16),
        other => (other, DType::F32),
    };
    let at = element(program, expr, &[wanted])?;
    is_along(&at, term, &divided(term, BLOCK)).then_some(at)
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
    if let Some(data) = element(program, expr, &[DType::I8, DType::U8])
        && is_along(&data, term, &TExpr::Scalar(term))
    {
        let is_signed = program.buffer(data.buffer).dtype == DType::I8;
        return Some(Quantized { data, scale: data, bits: 8, is_signed, zero });
    }
    let TExpr::Binary(BinOp::BitAnd, masked) = expr else { return None };
    let TExpr::Binary(BinOp::ShiftRight, shifted) = &masked.0 else { return None };
    let data = element(program, &shifted.0, &[DType::U8, DType::U32])?;
    let dtype = program.buffer(data.buffer).dtype;
    let each = if dtype == DType::U8 { 2 } else { 8 };
    let remainder = TExpr::binary(BinOp::Mod, TExpr::Scalar(term), TExpr::Int(each));
    let shift = TExpr::binary(BinOp::Mul, remainder, TExpr::Int(4));
    let fits = masked.1 == TExpr::Int(15)
        && shifted.1 == TExpr::Cast(dtype, Box::new(shift))
        && zero <= 15
        && is_along(&data, term, &divided(term, each));
    fits.then_some(Quantized { data, scale: data, bits: 4, is_signed: false, zero })
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
        let of_column =
            |found: &Quantized| [found.data, found.scale].map(|at| mentions(at.indices, column));
        let (first, second) = (factor(0)?, factor(1)?);
        let (activations, weights) = match (of_column(&first), of_column(&second)) {
            ([false, false], [true, true]) => (first, second),
            ([true, true], [false, false]) => (second, first),
            _ => return None,
        };
        let reads = [activations.data, activations.scale, weights.data, weights.scale];
        let is_apart = reads.iter().all(|at| at.buffer != sum.out.buffer);
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
