//! Integers that are put together of the bits of words, recognized by what the expression computes and not by how it is written.
//!
//! An expression of loads, shifts by amounts that follow from the term, masks and "or" maps each bit of the words to bits of the result, and
//! the result is the "or" of what single bits give. So its values for words with one bit, for each term of a period, determine it:
//! [`assembled`] evaluates all of them and compares them with the layouts that kernels take.

use super::{divided, element, is_along};
use crate::products::At;
use relax_syntax::dtype::DType;
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::{BinOp, BufferId, ScalarId, TExpr};

/// Terms after which shifts repeat.
const PERIOD: i64 = 32;

/// Integers in the order of terms: the lower four bits side by side from the lowest bit of a word on, and so are the upper ones in words of
/// their own.
pub(super) struct Assembled<'e> {
    pub(super) low: At<'e>,
    pub(super) high: Option<At<'e>>,
    pub(super) bits: u8,
}

/// The integers that an expression of u8 or u32 gives along `term`.
pub(super) fn assembled<'e>(
    program: &TensorProgram,
    expr: &'e TExpr,
    term: ScalarId,
) -> Option<Assembled<'e>> {
    let mut loads = Vec::new();
    collect(expr, &mut loads)?;
    let loads = loads.into_iter().map(|load| element(program, load, &[DType::U8, DType::U32]));
    let loads: Vec<At> = loads.collect::<Option<_>>()?;
    let dtype = program.buffer(loads.first()?.buffer).dtype;
    let width = 8 * i64::try_from(dtype.size()).ok()?;
    if loads.iter().any(|at| program.buffer(at.buffer).dtype != dtype) {
        return None;
    }
    // Bits of each term in a word, if an access is of that kind.
    let share = |at: &At| {
        [1, 2, 4].into_iter().find(|each| is_along(at, term, &divided(term, width / each)))
    };
    let (low, high) = match loads[..] {
        [low] => (low, None),
        [a, b] if a.buffer == b.buffer => return None,
        [a, b] if share(&a) == Some(4) => (a, Some(b)),
        [a, b] => (b, Some(a)),
        _ => return None,
    };
    let more = match high {
        None => 0,
        Some(at) => share(&at).filter(|each| *each < 4)?,
    };
    let parts = [Some((low, 4, 0)), high.map(|at| (at, more, 4))];
    let evaluation = Evaluation { term, width };
    let mut parts = parts.into_iter().flatten();
    if !parts.all(|(at, each, to)| evaluation.is_placed(expr, at.buffer, (each, to))) {
        return None;
    }
    let is_along_words = share(&low) == Some(4);
    let bits = u8::try_from(4 + more).ok()?;
    is_along_words.then_some(Assembled { low, high, bits })
}

/// The word of u32 that an expression takes four bits of for each term: eight terms share a word, the first one has its lowest bits.
#[must_use]
pub fn nibble_of_word(expr: &TExpr, term: ScalarId) -> Option<&TExpr> {
    let mut loads = Vec::new();
    collect(expr, &mut loads)?;
    let [word @ TExpr::Load { buffer, .. }] = loads[..] else { return None };
    Evaluation { term, width: 32 }.is_placed(expr, *buffer, (4, 0)).then_some(word)
}

/// The loads of an expression of loads, shifts, masks and "or", each buffer once.
fn collect<'e>(expr: &'e TExpr, loads: &mut Vec<&'e TExpr>) -> Option<()> {
    match expr {
        TExpr::Load { .. } => {
            if !loads.contains(&expr) {
                loads.push(expr);
            }
            Some(())
        }
        TExpr::Binary(BinOp::BitOr, both) => {
            collect(&both.0, loads)?;
            collect(&both.1, loads)
        }
        TExpr::Binary(BinOp::ShiftLeft | BinOp::ShiftRight | BinOp::BitAnd, both) => {
            collect(&both.0, loads)
        }
        _ => None,
    }
}

struct Evaluation {
    term: ScalarId,
    /// Bits of a word.
    width: i64,
}

impl Evaluation {
    /// Whether of each word of a buffer a term takes so many bits, side by side in the order of terms, to a place in the integer, and no
    /// others.
    fn is_placed(&self, expr: &TExpr, buffer: BufferId, (each, to): (i64, i64)) -> bool {
        (0..PERIOD).all(|t| {
            let first = t % (self.width / each) * each;
            (0..self.width).all(|bit| {
                let is_own = (first..first + each).contains(&bit);
                let wanted = if is_own { 1 << (bit - first + to) } else { 0 };
                self.value(expr, t, (buffer, 1 << bit)) == Some(wanted)
            })
        })
    }

    /// Of words that are 0 but for those of one buffer.
    fn value(&self, expr: &TExpr, t: i64, word: (BufferId, i64)) -> Option<i64> {
        match expr {
            TExpr::Load { buffer, .. } => Some(if *buffer == word.0 { word.1 } else { 0 }),
            TExpr::Binary(op, both) => {
                let left = self.value(&both.0, t, word)?;
                match op {
                    BinOp::BitOr => Some(left | self.value(&both.1, t, word)?),
                    BinOp::BitAnd => match both.1 {
                        TExpr::Int(mask) => Some(left & mask),
                        _ => None,
                    },
                    BinOp::ShiftRight => Some(left >> self.amount(&both.1, t)?),
                    BinOp::ShiftLeft => {
                        Some((left << self.amount(&both.1, t)?) & ((1 << self.width) - 1))
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// A shift: less than the width.
    fn amount(&self, expr: &TExpr, t: i64) -> Option<i64> {
        let amount = self.periodic(expr, t)?;
        (0..self.width).contains(&amount).then_some(amount)
    }

    /// A small integer that repeats after [`PERIOD`] terms.
    fn periodic(&self, expr: &TExpr, t: i64) -> Option<i64> {
        let (op, both) = match expr {
            TExpr::Int(value @ 0..=64) => return Some(*value),
            TExpr::Cast(DType::U8 | DType::U32, inner) => return self.periodic(inner, t),
            TExpr::Binary(op, both) => (op, both),
            _ => return None,
        };
        match (op, &both.1) {
            (BinOp::Mul, _) => Some(self.periodic(&both.0, t)? * self.periodic(&both.1, t)?),
            (BinOp::ShiftLeft, TExpr::Int(bits @ 0..=5)) => {
                Some(self.periodic(&both.0, t)? << bits)
            }
            (BinOp::Mod, TExpr::Int(by @ 1..=PERIOD)) => self.remainder(&both.0, *by, t),
            (BinOp::BitAnd, TExpr::Int(mask @ (1 | 3 | 7 | 15 | 31))) => {
                self.remainder(&both.0, mask + 1, t)
            }
            _ => None,
        }
    }

    /// The remainder of the term, or of a quotient of it, where that repeats.
    fn remainder(&self, of: &TExpr, by: i64, t: i64) -> Option<i64> {
        let (of, divisor) = match of {
            TExpr::Binary(BinOp::FloorDiv, inner) => match inner.1 {
                TExpr::Int(divisor @ 1..=PERIOD) => (&inner.0, divisor),
                _ => return None,
            },
            TExpr::Binary(BinOp::ShiftRight, inner) => match inner.1 {
                TExpr::Int(bits @ 0..=5) => (&inner.0, 1 << bits),
                _ => return None,
            },
            other => (other, 1),
        };
        let repeats = PERIOD % (by * divisor) == 0;
        (repeats && of.as_scalar() == Some(self.term)).then_some(t / divisor % by)
    }
}
