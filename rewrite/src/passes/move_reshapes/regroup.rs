//! The dims of an operand of an elementwise operator, where the operator works under another shape of the same elements.

use crate::dims::same_dims;
use relax_syntax::dim::Dim;
use relax_syntax::facts::{Answer, Facts};

/// Dims that are, one run of them after the other, other dims with the same product.
pub(super) struct Runs<'d> {
    pairs: Vec<(&'d [Dim], &'d [Dim])>,
    /// How many dims there are before.
    rank: usize,
}

impl<'d> Runs<'d> {
    /// The shortest runs whose products are proved equal; `None` where that does not take in all dims.
    pub(super) fn of(from: &'d [Dim], to: &'d [Dim], facts: &mut dyn Facts) -> Option<Self> {
        let (mut pairs, rank) = (Vec::new(), from.len());
        let (mut from, mut to) = (from, to);
        while !from.is_empty() && !to.is_empty() {
            let (left, right) = shortest(from, to, facts)?;
            pairs.push((&from[..left], &to[..right]));
            (from, to) = (&from[left..], &to[right..]);
        }
        // Dims of one element that are left over change nothing.
        let ones = from.iter().chain(to).all(|dim| *dim == Dim::Int(1));
        if !from.is_empty() || !to.is_empty() {
            pairs.push((from, to));
        }
        ones.then_some(Self { pairs, rank })
    }

    /// The dims of an operand that is stretched to the dims before, where it is to be stretched to those after: without those
    /// of one element in front. `None` where it repeats elements along a part of a run.
    pub(super) fn operand(&self, own: &[Dim], facts: &mut dyn Facts) -> Option<Vec<Dim>> {
        let missing = self.rank.checked_sub(own.len())?;
        let mut padded = vec![Dim::Int(1); missing];
        padded.extend_from_slice(own);
        let (mut at, mut after) = (0, Vec::new());
        for (before, now) in &self.pairs {
            let own = &padded[at..at + before.len()];
            at += before.len();
            if same_dims(facts, own, before) {
                after.extend_from_slice(now);
            } else if own.iter().all(|dim| *dim == Dim::Int(1)) {
                after.extend(std::iter::repeat_n(Dim::Int(1), now.len()));
            } else {
                return None;
            }
        }
        Some(without_ones(&after).to_vec())
    }
}

/// How many dims each of the first runs has.
fn shortest(from: &[Dim], to: &[Dim], facts: &mut dyn Facts) -> Option<(usize, usize)> {
    for both in 2..=from.len() + to.len() {
        for left in 1..both {
            let right = both - left;
            if left <= from.len()
                && right <= to.len()
                && facts.equal(&Dim::product(&from[..left]), &Dim::product(&to[..right]))
                    == Answer::Proved
            {
                return Some((left, right));
            }
        }
    }
    None
}

/// The dims after those of one element in front, which a broadcast adds by itself.
pub(super) fn without_ones(dims: &[Dim]) -> &[Dim] {
    let ones = dims.iter().take_while(|dim| **dim == Dim::Int(1)).count();
    &dims[ones..]
}
