//! Memory for tensors that others than kernels fill, such as host functions their results.

use crate::block::{Block, Pool};
use crate::dtype::{DType, dense_bytes};
use crate::stop::Stop;
use crate::tensor::Tensor;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// Memory for tensors. What the last name of a tensor gives back is given out again, so what is called again and again takes its
/// memory from the system once. A module has one, which its host functions use as well ([`crate::HostCall::pool`]).
#[derive(Clone, Debug)]
pub struct TensorPool(Arc<Pool>);

impl TensorPool {
    /// Memory of its own: tensors that are in use may have so many bytes together.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self(Arc::new(Pool::new(limit)))
    }

    pub(crate) fn of(pool: &Arc<Pool>) -> Self {
        Self(Arc::clone(pool))
    }

    /// A tensor whose elements `fill` writes in the machine's byte order: each of them, since what it finds there is what an
    /// earlier tensor left.
    ///
    /// # Errors
    /// When the dims are none, a bool becomes neither 0 nor 1, or there is no memory.
    pub fn filled(
        &self,
        dtype: DType,
        shape: &[i64],
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<Tensor, Stop> {
        let bytes = dense_bytes(dtype, shape)
            .ok_or_else(|| Stop::Unsupported(format!("{shape:?} is no shape of a tensor")))?;
        let block = self.0.give(bytes)?;
        Tensor::filled_within(block, (dtype, shape), fill).map_err(Stop::Unsupported)
    }

    /// Bytes that are in use until they are dropped, whatever they hold.
    ///
    /// # Errors
    /// When there is no memory.
    pub fn scratch(&self, bytes: usize) -> Result<Scratch, Stop> {
        self.0.give(bytes).map(Scratch)
    }

    /// How often memory was asked of the system so far.
    #[must_use]
    pub fn allocations(&self) -> u64 {
        self.0.allocations()
    }
}

/// Bytes of a pool.
#[derive(Debug)]
pub struct Scratch(Block);

impl Deref for Scratch {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0.read(0, self.0.bytes())
    }
}

impl DerefMut for Scratch {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.0.bytes_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_used_again_when_nobody_has_a_name_of_it() {
        let pool = TensorPool::new(1 << 10);
        let ones = |shape: &[i64]| pool.filled(DType::I8, shape, |bytes| bytes.fill(1));
        let first = ones(&[100]).expect("there is memory");
        let other = ones(&[100]).expect("there is memory");
        assert_ne!(first.bytes().as_ptr(), other.bytes().as_ptr(), "both have names");
        let was = first.bytes().as_ptr();
        drop(first);
        let again = pool.filled(DType::I8, &[10, 10], |bytes| bytes[1..].fill(2));
        let again = again.expect("there is memory");
        assert_eq!((again.bytes().as_ptr(), again.bytes()[0], again.bytes()[1]), (was, 1, 2));
        assert_eq!(pool.allocations(), 2);
    }

    #[test]
    fn what_is_in_use_is_limited() {
        let pool = TensorPool::new(128);
        let tensor = |bytes: i64| pool.filled(DType::U8, &[bytes], |bytes| bytes.fill(0));
        let held = tensor(128).expect("it is within the limit");
        assert!(matches!(tensor(1), Err(Stop::Exhausted { resource: "memory", .. })));
        drop(held);
        assert!(tensor(1).is_ok());
        assert!(matches!(tensor(-1), Err(Stop::Unsupported(_))));
        assert!(pool.filled(DType::Bool, &[1], |bytes| bytes.fill(2)).is_err());
    }
}
