//! The buffer protocol: NumPy arrays and whatever else of Python lends memory.

use crate::errors::Failure;
use crate::strided::Strided;
use pyo3::ffi;
use pyo3::prelude::*;
use relax_runtime::DType;
use std::ffi::CStr;

/// A buffer that was lent. It goes back when this is dropped, by any thread.
pub(crate) struct Lent(Box<ffi::Py_buffer>);

// SAFETY: the view is only read, and released with the GIL.
unsafe impl Send for Lent {}
// SAFETY: the same.
unsafe impl Sync for Lent {}

impl Drop for Lent {
    fn drop(&mut self) {
        // Without an interpreter there is nobody to give it back to.
        let _ = Python::try_attach(|_| {
            // SAFETY: `PyObject_GetBuffer` filled it, and it is released once.
            unsafe { ffi::PyBuffer_Release(&raw mut *self.0) }
        });
    }
}

/// Whether an object lends its memory by the buffer protocol.
pub(crate) fn is_buffer(object: &Bound<'_, PyAny>) -> bool {
    // SAFETY: the object lives and the GIL is held.
    unsafe { ffi::PyObject_CheckBuffer(object.as_ptr()) == 1 }
}

/// The elements of a buffer, read as `dtype` where the format does not say enough (bf16 travels as u16).
pub(crate) fn lent(
    object: &Bound<'_, PyAny>,
    read_as: Option<DType>,
) -> Result<(Strided, Lent), Failure> {
    let mut view = Box::new(ffi::Py_buffer::new());
    // SAFETY: the object lives, the view is new, and the GIL is held.
    let status =
        unsafe { ffi::PyObject_GetBuffer(object.as_ptr(), &raw mut *view, ffi::PyBUF_RECORDS_RO) };
    if status != 0 {
        let cause = PyErr::fetch(object.py());
        return Err(Failure::argument(format!("its memory is not lent: {cause}")).because(cause));
    }
    let lent = Lent(view);
    let view = &lent.0;
    let format = match view.format.is_null() {
        true => "B".to_owned(),
        // SAFETY: a format is a text that ends with 0 and lives as long as the view.
        false => unsafe { CStr::from_ptr(view.format) }.to_string_lossy().into_owned(),
    };
    let stated = dtype(&format, view.itemsize)?;
    let rank = usize::try_from(view.ndim).unwrap_or(0);
    let extents = |of: *mut ffi::Py_ssize_t| match of.is_null() || rank == 0 {
        true => None,
        // SAFETY: where they are there, both arrays have an element for each axis.
        false => Some(unsafe { std::slice::from_raw_parts(of, rank) }.to_vec()),
    };
    let shape = match (extents(view.shape), rank) {
        (Some(shape), _) => shape.iter().map(|&extent| extent as i64).collect(),
        (None, 0) => Vec::new(),
        (None, _) => vec![(view.len / view.itemsize.max(1)) as i64],
    };
    let strides = extents(view.strides);
    let data = view.buf.cast_const().cast();
    let dtype = read_as.filter(|wanted| wanted.size() == stated.size()).unwrap_or(stated);
    Ok((Strided { dtype, shape, strides, data }, lent))
}

/// The dtype of a format of the module `struct`.
fn dtype(format: &str, size: isize) -> Result<DType, Failure> {
    let (order, kind) = match format.as_bytes() {
        [order @ (b'@' | b'=' | b'<' | b'>' | b'!'), kind] => (*order, *kind),
        [kind] => (b'@', *kind),
        _ => (b'@', b' '),
    };
    let foreign = if cfg!(target_endian = "little") { [b'>', b'!'] } else { [b'<', b'<'] };
    if foreign.contains(&order) && size > 1 {
        return Err(Failure::argument(format!(
            "its elements (`{format}`) are in the other byte order: give `array.astype(array.dtype.newbyteorder(\"=\"))`"
        )));
    }
    let found = match (kind, size) {
        (b'?', 1) => DType::Bool,
        (b'e', 2) => DType::F16,
        (b'f', 4) => DType::F32,
        (b'd', 8) => DType::F64,
        (b'b' | b'h' | b'i' | b'l' | b'q' | b'n', 1) => DType::I8,
        (b'b' | b'h' | b'i' | b'l' | b'q' | b'n', 2) => DType::I16,
        (b'b' | b'h' | b'i' | b'l' | b'q' | b'n', 4) => DType::I32,
        (b'b' | b'h' | b'i' | b'l' | b'q' | b'n', 8) => DType::I64,
        (b'B' | b'H' | b'I' | b'L' | b'Q' | b'N', 1) => DType::U8,
        (b'B' | b'H' | b'I' | b'L' | b'Q' | b'N', 2) => DType::U16,
        (b'B' | b'H' | b'I' | b'L' | b'Q' | b'N', 4) => DType::U32,
        (b'B' | b'H' | b'I' | b'L' | b'Q' | b'N', 8) => DType::U64,
        _ => {
            return Err(Failure::argument(format!(
                "no tensor has elements of the format `{format}` ({size} bytes): expected bool, or integers or floats of up to \
                 64 bits"
            )));
        }
    };
    Ok(found)
}
