//! Tensors of compiled code that ranks of one process pass each other: memory that all of them read.

use half::{bf16, f16};
use relax_reference::{dtype_to_semantics, stop_to_semantics};
use relax_runtime::{Scratch, Tensor, TensorPool};
use relax_semantics::ops::Passed;
use relax_semantics::scalar::maximum;
use relax_semantics::stop::Stop;
use relax_syntax::annotation::Reduction;
use relax_syntax::dtype::DType;

/// Bytes of a reduction that stay in the first cache while all parts are added.
const BLOCK: usize = 16 << 10;

/// A tensor in memory, and the pool that its rank takes memory from.
#[derive(Clone, Debug)]
pub struct Shared {
    pub(super) tensor: Tensor,
    pool: TensorPool,
}

impl From<Tensor> for Shared {
    fn from(tensor: Tensor) -> Self {
        Self::within(tensor, &TensorPool::new(usize::MAX))
    }
}

fn size(extent: i64) -> usize {
    usize::try_from(extent).expect("invariant: the extents of a tensor are no more than its bytes")
}

impl Shared {
    /// A tensor of a rank whose results of collectives take memory of a pool.
    #[must_use]
    pub fn within(tensor: Tensor, pool: &TensorPool) -> Self {
        Self { tensor, pool: pool.clone() }
    }

    /// The elements as they lie in memory.
    pub(super) fn bytes(&self) -> &[u8] {
        self.tensor.bytes()
    }

    /// Bytes of a tensor of this dtype.
    pub(super) fn bytes_of(&self, dims: &[i64]) -> usize {
        dims.iter().map(|&extent| size(extent)).product::<usize>() * self.tensor.dtype().size()
    }

    /// A tensor of this dtype in memory of the same rank; `fill` writes all elements.
    pub(super) fn made(&self, dims: &[i64], fill: impl FnOnce(&mut [u8])) -> Result<Self, Stop> {
        let made = self.pool.filled(self.tensor.dtype(), dims, fill);
        made.map(|tensor| Self::within(tensor, &self.pool)).map_err(stop_to_semantics)
    }

    /// A tensor like this one but along an axis.
    fn like(
        &self,
        (axis, extent): (usize, i64),
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<Self, Stop> {
        let mut shape = self.tensor.shape().to_vec();
        shape[axis] = extent;
        self.made(&shape, fill)
    }

    /// Memory of the same rank, whatever it holds.
    pub(super) fn scratch(&self, bytes: usize) -> Result<Scratch, Stop> {
        self.pool.scratch(bytes).map_err(stop_to_semantics)
    }
}

/// Puts parts one after the other along an axis: of each its bytes, and how many of them belong to one index of the outer axes.
pub(super) fn join(result: &mut [u8], parts: &[(&[u8], usize)]) {
    let whole: usize = parts.iter().map(|(_, own)| own).sum();
    let mut start = 0;
    for (bytes, own) in parts {
        // There is nothing to copy where a part has no bytes.
        let sources = bytes.chunks_exact((*own).max(1));
        for (target, source) in result.chunks_exact_mut(whole.max(1)).zip(sources) {
            target[start..start + own].copy_from_slice(source);
        }
        start += own;
    }
}

impl Passed for Shared {
    fn dtype(&self) -> DType {
        dtype_to_semantics(self.tensor.dtype())
    }

    fn dims(&self) -> Vec<i64> {
        self.tensor.shape().to_vec()
    }

    fn of_rank(&self, own: &Self) -> Self {
        Self::within(self.tensor.clone(), &own.pool)
    }

    fn rows(&self, axis: usize, begin: i64, count: i64) -> Result<Self, Stop> {
        let shape = self.tensor.shape();
        if count == shape[axis] {
            return Ok(self.clone());
        }
        let row = self.bytes_of(&shape[axis + 1..]);
        let (from, begin, to) = (size(shape[axis]) * row, size(begin) * row, size(count) * row);
        self.like((axis, count), |bytes| {
            // There is nothing to copy where a part has no bytes.
            let parts = self.bytes().chunks_exact(from.max(1));
            for (target, source) in bytes.chunks_exact_mut(to.max(1)).zip(parts) {
                target.copy_from_slice(&source[begin..begin + to]);
            }
        })
    }

    fn joined(parts: Vec<Self>, axis: usize) -> Result<Self, Stop> {
        let extent: i64 = parts.iter().map(|part| part.tensor.shape()[axis]).sum();
        let of = |part: &Self| part.bytes_of(&part.tensor.shape()[axis..]);
        let pieces: Vec<_> = parts.iter().map(|part| (part.bytes(), of(part))).collect();
        parts[0].like((axis, extent), |bytes| join(bytes, &pieces))
    }

    fn reduced(parts: Vec<Self>, reduction: Reduction) -> Result<Self, Stop> {
        if let [only] = parts.as_slice() {
            return Ok(only.clone());
        }
        let first = &parts[0];
        let fold = folding(first.dtype(), reduction);
        first.made(first.tensor.shape(), |bytes| {
            reduce_in_blocks(bytes, parts.len(), &|at| parts[at].bytes(), fold);
        })
    }
}

/// Reduces `count` parts, which are as long as the result, in their order.
pub(super) fn reduce_in_blocks<'p>(
    result: &mut [u8],
    count: usize,
    part: &dyn Fn(usize) -> &'p [u8],
    fold: Fold,
) {
    for (number, block) in result.chunks_mut(BLOCK).enumerate() {
        let taken = number * BLOCK..number * BLOCK + block.len();
        block.copy_from_slice(&part(0)[taken.clone()]);
        (1..count).for_each(|at| fold(block, &part(at)[taken.clone()]));
    }
}

/// Puts into each element its reduction with another one.
pub(super) type Fold = fn(&mut [u8], &[u8]);

/// An element of a tensor, as it lies in memory, with the meaning of `add`, `maximum` and `minimum`.
trait Element: Copy {
    fn add(self, other: Self) -> Self;
    fn most(self, other: Self) -> Self;
    fn least(self, other: Self) -> Self;
}

macro_rules! integers {
    ($($type:ty),*) => {$(
        impl Element for $type {
            fn add(self, other: Self) -> Self {
                self.wrapping_add(other)
            }

            fn most(self, other: Self) -> Self {
                self.max(other)
            }

            fn least(self, other: Self) -> Self {
                self.min(other)
            }
        }
    )*};
}

integers!(i8, i16, i32, i64, u8, u16, u32, u64);

macro_rules! floats {
    ($($type:ty: $of:expr),*) => {$(
        impl Element for $type {
            fn add(self, other: Self) -> Self {
                self + other
            }

            fn most(self, other: Self) -> Self {
                $of(maximum(self.into(), other.into()))
            }

            fn least(self, other: Self) -> Self {
                -$of(maximum((-self).into(), (-other).into()))
            }
        }
    )*};
}

// The value is one of the two, so nothing is rounded.
#[expect(clippy::cast_possible_truncation, reason = "the value is one of two of this type")]
fn single(value: f64) -> f32 {
    value as f32
}

floats!(f16: f16::from_f64, bf16: bf16::from_f64, f32: single, f64: std::convert::identity);

pub(super) fn folding(dtype: DType, reduction: Reduction) -> Fold {
    macro_rules! of {
        ($type:ty) => {{
            const SIZE: usize = size_of::<$type>();
            fn folded(to: &mut [u8], from: &[u8], op: impl Fn($type, $type) -> $type) {
                let (to, _) = to.as_chunks_mut::<SIZE>();
                for (to, from) in to.iter_mut().zip(from.as_chunks::<SIZE>().0) {
                    let both = (<$type>::from_ne_bytes(*to), <$type>::from_ne_bytes(*from));
                    *to = op(both.0, both.1).to_ne_bytes();
                }
            }
            match reduction {
                Reduction::Sum => |to, from| folded(to, from, <$type as Element>::add),
                Reduction::Max => |to, from| folded(to, from, Element::most),
                Reduction::Min => |to, from| folded(to, from, Element::least),
            }
        }};
    }
    match dtype {
        DType::F16 => of!(f16),
        DType::BF16 => of!(bf16),
        DType::F32 => of!(f32),
        DType::F64 => of!(f64),
        DType::I8 => of!(i8),
        DType::I16 => of!(i16),
        DType::I32 => of!(i32),
        DType::I64 => of!(i64),
        DType::U8 => of!(u8),
        DType::U16 => of!(u16),
        DType::U32 => of!(u32),
        DType::U64 => of!(u64),
        // No reduction takes truth values (C2 and C3 of the operators).
        DType::Bool => |_, _| {},
    }
}
