//! Tensors as an embedder sees them: dense, row-major, and never changed.

use crate::block::Block;
use crate::dtype::{DType, dense_bytes};
use std::sync::Arc;

/// To which elements of a tensor something was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// To all.
    All,
    /// To none, and there are some.
    None,
    /// To those with a 1.
    Some(Arc<[u8]>),
}

impl Written {
    /// Of a map with a byte for each element.
    pub(crate) fn of(map: &[u8]) -> Self {
        if map.iter().all(|&byte| byte != 0) {
            Self::All
        } else if map.iter().all(|&byte| byte == 0) {
            Self::None
        } else {
            Self::Some(map.into())
        }
    }

    /// The map of so many elements; `None` where there is no memory for it.
    pub(crate) fn map(&self, elements: usize) -> Option<Vec<u8>> {
        let mut map = Vec::new();
        map.try_reserve_exact(elements).ok()?;
        match self {
            Self::All => map.resize(elements, 1),
            Self::None => map.resize(elements, 0),
            Self::Some(known) => map.extend_from_slice(known),
        }
        Some(map)
    }
}

/// A dense tensor. Names of it are cheap; its elements do not change.
#[derive(Clone, Debug)]
pub struct Tensor {
    pub(crate) dtype: DType,
    pub(crate) shape: Arc<[i64]>,
    pub(crate) block: Arc<Block>,
    pub(crate) offset: usize,
    pub(crate) written: Written,
}

impl Tensor {
    /// A tensor whose elements stay where they are, until the loan is dropped: with the last name of the tensor, which may be
    /// a result of a call.
    ///
    /// # Errors
    /// When the dims are none, a bool is neither 0 nor 1, or the elements are not aligned for their dtype.
    ///
    /// # Safety
    /// `data` has as many initialized elements as the dims say, in the machine's byte order. They stay, and nobody writes to them, until
    /// the loan is dropped.
    #[allow(unsafe_code)]
    pub unsafe fn lent(
        dtype: DType,
        shape: &[i64],
        data: *const u8,
        loan: Box<dyn std::any::Any + Send + Sync>,
    ) -> Result<Self, String> {
        let bytes = dense_bytes(dtype, shape)
            .ok_or_else(|| format!("{shape:?} is no shape of a tensor"))?;
        // SAFETY: the caller promises it.
        let block = unsafe { Block::lent((data, bytes), dtype.size(), loan) };
        let block =
            block.ok_or_else(|| format!("the elements are null or not aligned for {dtype}"))?;
        if dtype == DType::Bool && block.read(0, bytes).iter().any(|&byte| byte > 1) {
            return Err("a bool is 0 or 1".to_owned());
        }
        let (shape, block) = (shape.into(), Arc::new(block));
        Ok(Self { dtype, shape, block, offset: 0, written: Written::All })
    }

    /// A tensor with a copy of these bytes, its elements in the machine's byte order.
    ///
    /// # Errors
    /// When dims and bytes do not agree, a bool is neither 0 nor 1, or there is no memory.
    pub fn from_bytes(dtype: DType, shape: &[i64], bytes: &[u8]) -> Result<Self, String> {
        let expected = dense_bytes(dtype, shape)
            .ok_or_else(|| format!("{shape:?} is no shape of a tensor"))?;
        if expected != bytes.len() {
            let found = bytes.len();
            return Err(format!("{dtype} {shape:?} has {expected} bytes, found {found}"));
        }
        if dtype == DType::Bool && bytes.iter().any(|&byte| byte > 1) {
            return Err("a bool is 0 or 1".to_owned());
        }
        let block =
            Block::copied(bytes).ok_or_else(|| format!("no memory for {expected} bytes"))?;
        Ok(Self {
            dtype,
            shape: shape.into(),
            block: Arc::new(block),
            offset: 0,
            written: Written::All,
        })
    }

    /// A tensor whose elements `fill` writes, in the machine's byte order, over zeros.
    ///
    /// # Errors
    /// When the dims are none, a bool becomes neither 0 nor 1, or there is no memory.
    pub fn filled(
        dtype: DType,
        shape: &[i64],
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<Self, String> {
        let bytes = dense_bytes(dtype, shape)
            .ok_or_else(|| format!("{shape:?} is no shape of a tensor"))?;
        let block = Block::zeros(bytes).ok_or_else(|| format!("no memory for {bytes} bytes"))?;
        Self::filled_within(block, (dtype, shape), fill)
    }

    /// The same in a block that is new, or was given out anew, and has as many bytes as the elements.
    pub(crate) fn filled_within(
        mut block: Block,
        (dtype, shape): (DType, &[i64]),
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<Self, String> {
        fill(block.bytes_mut());
        let (shape, block) = (shape.into(), Arc::new(block));
        let tensor = Self { dtype, shape, block, offset: 0, written: Written::All };
        if dtype == DType::Bool && tensor.bytes().iter().any(|&byte| byte > 1) {
            return Err("a bool is 0 or 1".to_owned());
        }
        Ok(tensor)
    }

    /// A tensor of zeros. Large ones take no memory until something is written to them.
    ///
    /// # Errors
    /// When the dims are none, or there is no memory.
    pub fn zeros(dtype: DType, shape: &[i64]) -> Result<Self, String> {
        let bytes = dense_bytes(dtype, shape)
            .ok_or_else(|| format!("{shape:?} is no shape of a tensor"))?;
        let block = Block::zeros(bytes).ok_or_else(|| format!("no memory for {bytes} bytes"))?;
        let (shape, block) = (shape.into(), Arc::new(block));
        Ok(Self { dtype, shape, block, offset: 0, written: Written::All })
    }

    /// The same elements, and zeros behind them along an axis that has `extent` then.
    ///
    /// # Errors
    /// When there is no such axis, it has more already, or there is no memory.
    pub fn extended(&self, axis: usize, extent: i64) -> Result<Self, String> {
        let own = self.shape.get(axis).copied().filter(|&own| own <= extent);
        let Some(own) = own else {
            return Err(format!("axis {axis} of {:?} does not grow to {extent}", self.shape));
        };
        let mut shape = self.shape.to_vec();
        shape[axis] = extent;
        let longer = Self::zeros(self.dtype, &shape)?;
        let row = dense_bytes(self.dtype, &self.shape[axis + 1..]).unwrap_or(0);
        let sizes = [own, extent].map(|extent| usize::try_from(extent).unwrap_or(0) * row);
        let [from, to] = sizes;
        let bytes = self.bytes();
        for (at, rows) in bytes.chunks_exact(from.max(1)).enumerate() {
            // SAFETY: the block is new and nobody else has a name of it; it has as many parts of `to` bytes as this tensor
            // has of `from`, which are no more.
            #[allow(unsafe_code)]
            unsafe {
                let start = longer.block.data().as_ptr().add(at * to);
                std::ptr::copy_nonoverlapping(rows.as_ptr(), start, rows.len());
            }
        }
        Ok(longer)
    }

    /// The first rows along the first axis, in the same memory.
    ///
    /// # Errors
    /// When it has fewer.
    pub fn truncated(&self, rows: i64) -> Result<Self, String> {
        let mut shape = self.shape.to_vec();
        match shape.first_mut() {
            Some(own) if (0..=*own).contains(&rows) => *own = rows,
            _ => return Err(format!("a tensor of shape {shape:?} has no {rows} rows")),
        }
        let elements = dense_bytes(self.dtype, &shape).unwrap_or(0) / self.dtype.size();
        let written = match &self.written {
            Written::Some(map) => Written::of(&map[..elements]),
            other => other.clone(),
        };
        Ok(Self { shape: shape.into(), written, ..self.clone() })
    }

    /// The same memory under another shape of as many elements.
    ///
    /// # Errors
    /// When the shape has another number of elements.
    pub fn viewed(self, shape: &[i64]) -> Result<Self, String> {
        if dense_bytes(self.dtype, shape) != dense_bytes(self.dtype, &self.shape) {
            return Err(format!("a tensor of shape {:?} has no view of {shape:?}", self.shape));
        }
        Ok(Self { shape: shape.into(), ..self })
    }

    /// A tensor of f32.
    ///
    /// # Errors
    /// As [`Tensor::from_bytes`].
    pub fn from_f32(shape: &[i64], elements: &[f32]) -> Result<Self, String> {
        let bytes: Vec<u8> = elements.iter().flat_map(|element| element.to_ne_bytes()).collect();
        Self::from_bytes(DType::F32, shape, &bytes)
    }

    /// The element type.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The extents.
    #[must_use]
    pub fn shape(&self) -> &[i64] {
        &self.shape
    }

    /// The elements, row-major, in the machine's byte order. Their start is aligned for their dtype.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        let length = dense_bytes(self.dtype, &self.shape).unwrap_or(0);
        self.block.read(self.offset, length)
    }

    /// Whether this is the only name of memory that the runtime allocated, neither lent nor mapped. Whoever keeps the tensor
    /// may then let others write to its elements.
    #[must_use]
    pub fn is_owned(&self) -> bool {
        self.block.is_writable() && Arc::strong_count(&self.block) == 1
    }

    /// False for memory that the program asked for and wrote nothing to: its elements mean nothing.
    #[must_use]
    pub fn is_written(&self) -> bool {
        self.written != Written::None
    }

    /// For each element 1 if something was written to it, else 0; `None` where that is the same for all.
    #[must_use]
    pub fn written_elements(&self) -> Option<&[u8]> {
        if let Written::Some(map) = &self.written { Some(map) } else { None }
    }

    /// The first element to which nothing was written.
    #[must_use]
    pub fn first_unwritten(&self) -> Option<usize> {
        match &self.written {
            Written::All => None,
            Written::None => (!self.bytes().is_empty()).then_some(0),
            Written::Some(map) => map.iter().position(|&written| written == 0),
        }
    }

    /// The same memory, of which something was written to the elements with a byte that is not 0.
    ///
    /// # Errors
    /// When there is not one byte for each element.
    pub fn written_at(mut self, map: &[u8]) -> Result<Self, String> {
        let elements = self.bytes().len() / self.dtype.size();
        if map.len() != elements {
            return Err(format!("{} bytes tell of {elements} elements", map.len()));
        }
        self.written = Written::of(map);
        Ok(self)
    }

    /// The elements of a tensor of f32; `None` of any other.
    #[must_use]
    pub fn to_f32(&self) -> Option<Vec<f32>> {
        let element = |bytes: &[u8]| bytes.try_into().map(f32::from_ne_bytes).unwrap_or_default();
        (self.dtype == DType::F32).then(|| self.bytes().chunks_exact(4).map(element).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::Tensor;

    #[test]
    fn the_first_rows_lie_in_the_same_memory() {
        let tensor = Tensor::from_f32(&[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).expect("it is one");
        let written = tensor.clone().written_at(&[1, 1, 0, 1, 1, 1]).expect("as many");
        let short = written.truncated(2).expect("it has them");
        assert_eq!((short.shape(), short.to_f32()), (&[2, 2][..], Some(vec![1.0, 2.0, 3.0, 4.0])));
        assert_eq!(short.written_elements(), Some(&[1, 1, 0, 1][..]));
        assert_eq!(written.truncated(1).expect("it has one").written_elements(), None);
        assert_eq!(short.bytes().as_ptr(), tensor.bytes().as_ptr());
        assert!(tensor.truncated(4).is_err() && tensor.truncated(-1).is_err());
        assert!(Tensor::from_f32(&[], &[1.0]).expect("it is one").truncated(0).is_err());
    }

    #[test]
    fn a_longer_axis_keeps_its_rows() {
        let elements: Vec<f32> = (0..12_u8).map(f32::from).collect();
        let tensor = Tensor::from_f32(&[2, 3, 2], &elements).expect("it is a tensor");
        let longer = tensor.extended(1, 4).expect("there is memory");
        assert_eq!(longer.shape(), [2, 4, 2]);
        let [a, b] = [&elements[..6], &elements[6..]];
        assert_eq!(longer.to_f32(), Some([a, &[0.0; 2], b, &[0.0; 2]].concat()));
        let outer = tensor.extended(0, 3).expect("there is memory");
        assert_eq!(outer.to_f32(), Some([elements.as_slice(), &[0.0; 6]].concat()));
        assert!(tensor.extended(1, 2).is_err() && tensor.extended(3, 9).is_err());
        let empty = Tensor::zeros(tensor.dtype(), &[2, 0, 3]).expect("there is memory");
        assert_eq!(empty.extended(1, 1).expect("there is memory").to_f32(), Some(vec![0.0; 6]));
    }
}
