//! Results of calls: tensors that lend their memory by the buffer protocol and DLPack, and values of Python.

use crate::dlpack;
use crate::errors::{Class, Failure};
use crate::strided::dense_strides;
use pyo3::exceptions::{PyBufferError, PyMemoryError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use relax_runtime::{self as machine, DType, Number, Value};
use std::ffi::{CStr, c_int, c_void};
use std::ptr::null_mut;

/// A dense, row-major tensor on the processor.
#[pyclass(frozen, module = "relaxc", name = "Tensor")]
pub(crate) struct Tensor {
    inner: machine::Tensor,
    /// In elements for the buffer protocol, in bytes.
    shape: Vec<isize>,
    strides: Vec<isize>,
    /// False where the memory is also that of an argument, a constant or another result.
    is_writable: bool,
}

impl Tensor {
    pub(crate) fn of(inner: machine::Tensor) -> Self {
        let is_writable = inner.is_owned();
        let shape = inner.shape().iter().map(|&extent| extent as isize).collect();
        let strides = dense_strides(inner.dtype(), inner.shape());
        Self { inner, shape, strides, is_writable }
    }

    pub(crate) fn inner(&self) -> &machine::Tensor {
        &self.inner
    }

    pub(crate) fn is_writable(&self) -> bool {
        self.is_writable
    }

    pub(crate) fn copied(&self) -> PyResult<machine::Tensor> {
        let (dtype, shape) = (self.inner.dtype(), self.inner.shape());
        machine::Tensor::from_bytes(dtype, shape, self.inner.bytes())
            .map_err(PyMemoryError::new_err)
    }
}

/// The format of the module `struct`; none for bf16.
fn format(dtype: DType) -> Option<&'static CStr> {
    Some(match dtype {
        DType::F16 => c"e",
        DType::BF16 => return None,
        DType::F32 => c"f",
        DType::F64 => c"d",
        DType::I8 => c"b",
        DType::I16 => c"h",
        DType::I32 => c"i",
        DType::I64 => c"q",
        DType::U8 => c"B",
        DType::U16 => c"H",
        DType::U32 => c"I",
        DType::U64 => c"Q",
        DType::Bool => c"?",
    })
}

#[pymethods]
impl Tensor {
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.inner.shape())
    }

    #[getter]
    fn dtype(&self) -> &'static str {
        self.inner.dtype().name()
    }

    #[getter]
    fn ndim(&self) -> usize {
        self.shape.len()
    }

    #[getter]
    fn nbytes(&self) -> usize {
        self.inner.bytes().len()
    }

    #[getter]
    fn writable(&self) -> bool {
        self.is_writable
    }

    fn numpy<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let numpy = py.import("numpy")?;
        if slf.get().inner.dtype() != DType::BF16 {
            return numpy.call_method1(
                "asarray",
                (py.import("builtins")?.call_method1("memoryview", (slf,))?,),
            );
        }
        let extension = py.import("ml_dtypes").map_err(|_| {
            PyTypeError::new_err(
                "NumPy has no bf16: install `ml_dtypes`, or take the memory by `torch.from_dlpack`",
            )
        })?;
        let bits = Bits { tensor: slf.clone().unbind() };
        let bits = numpy.call_method1("asarray", (bits,))?;
        bits.call_method1("view", (extension.getattr("bfloat16")?,))
    }

    #[pyo3(signature = (dtype=None, copy=None))]
    fn __array__<'py>(
        slf: &Bound<'py, Self>,
        dtype: Option<Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let array = Self::numpy(slf)?;
        let dtype = dtype.unwrap_or(array.getattr("dtype")?);
        let is_same = array.getattr("dtype")?.eq(&dtype)?;
        if copy == Some(false) && !is_same {
            return Err(PyValueError::new_err("another dtype needs a copy"));
        }
        if is_same && copy != Some(true) {
            return Ok(array);
        }
        array.call_method1("astype", (dtype,))
    }

    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<Bound<'py, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if stream.is_some() {
            return Err(PyBufferError::new_err("a tensor of the processor has no stream"));
        }
        if dl_device.is_some_and(|device| device != (dlpack::CPU, 0)) {
            return Err(PyBufferError::new_err("the tensor is on the processor (1, 0)"));
        }
        dlpack::capsule(py, self, max_version, copy)
    }

    fn __dlpack_device__(&self) -> (i32, i32) {
        (dlpack::CPU, 0)
    }

    fn item<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::numpy(slf)?.call_method0("item")
    }

    fn tolist<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::numpy(slf)?.call_method0("tolist")
    }

    fn __len__(&self) -> PyResult<usize> {
        let first = self.shape.first().copied();
        first
            .map(isize::unsigned_abs)
            .ok_or_else(|| PyTypeError::new_err("a tensor of rank 0 has no len()"))
    }

    fn __float__(slf: &Bound<'_, Self>) -> PyResult<f64> {
        Self::item(slf)?.extract()
    }

    fn __repr__(&self) -> String {
        let dims: Vec<String> = self.inner.shape().iter().map(ToString::to_string).collect();
        let comma = if dims.len() == 1 { "," } else { "" };
        format!("relaxc.Tensor(({}{comma}), \"{}\")", dims.join(", "), self.inner.dtype())
    }

    /// # Safety
    /// Python calls it with a view to fill.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let Some(format) = format(slf.get().inner.dtype()) else {
            return Err(PyBufferError::new_err(
                "the buffer protocol has no format for bf16: take the memory by `__dlpack__`",
            ));
        };
        // SAFETY: the caller promises it.
        unsafe { fill(slf, view, flags, format) }
    }
}

/// The memory of a tensor of bf16 as u16.
#[pyclass(frozen)]
struct Bits {
    tensor: Py<Tensor>,
}

#[pymethods]
impl Bits {
    /// # Safety
    /// Python calls it with a view to fill.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let tensor = slf.get().tensor.bind(slf.py()).clone();
        // SAFETY: the caller promises it.
        unsafe { fill(tensor, view, flags, c"H") }
    }
}

/// # Safety
/// The view is to be filled, and released before the tensor goes: it has a reference to it.
unsafe fn fill(
    slf: Bound<'_, Tensor>,
    view: *mut ffi::Py_buffer,
    flags: c_int,
    format: &'static CStr,
) -> PyResult<()> {
    let tensor = slf.get();
    if flags & ffi::PyBUF_WRITABLE == ffi::PyBUF_WRITABLE && !tensor.is_writable {
        return Err(PyBufferError::new_err(
            "the result shares its memory with an argument or a constant: copy it to write to it",
        ));
    }
    let bytes = tensor.inner.bytes();
    let asked = |flag: c_int| flags & flag == flag;
    // SAFETY: the caller promises a view to fill; shape and strides live in the object, which the view refers to and which
    // does not change.
    unsafe {
        (*view).buf = bytes.as_ptr().cast_mut().cast::<c_void>();
        (*view).len = bytes.len() as isize;
        (*view).readonly = c_int::from(!tensor.is_writable);
        (*view).itemsize = tensor.inner.dtype().size() as isize;
        (*view).format =
            if asked(ffi::PyBUF_FORMAT) { format.as_ptr().cast_mut() } else { null_mut() };
        (*view).ndim = c_int::try_from(tensor.shape.len()).unwrap_or(c_int::MAX);
        (*view).shape =
            if asked(ffi::PyBUF_ND) { tensor.shape.as_ptr().cast_mut() } else { null_mut() };
        (*view).strides =
            if asked(ffi::PyBUF_STRIDES) { tensor.strides.as_ptr().cast_mut() } else { null_mut() };
        (*view).suboffsets = null_mut();
        (*view).internal = null_mut();
        (*view).obj = slf.into_ptr();
    }
    Ok(())
}

/// A result for Python. `names` are those of the fields of a tuple.
pub(crate) fn object<'py>(
    py: Python<'py>,
    value: Value,
    fields: Option<&Py<PyAny>>,
) -> Result<Bound<'py, PyAny>, Failure> {
    let internal =
        |error: PyErr| Failure::new(Class::Internal, "no object was made").because(error);
    match value {
        Value::Tensor(tensor) => {
            Bound::new(py, Tensor::of(tensor)).map(Bound::into_any).map_err(internal)
        }
        Value::Tuple(tuple) => {
            // The tuple goes before its items become objects: another name would make their memory read-only.
            let values: Vec<Value> = tuple.items().to_vec();
            drop(tuple);
            let items = values.into_iter().map(|item| object(py, item, None));
            let items = items.collect::<Result<Vec<_>, _>>()?;
            let items = PyTuple::new(py, items).map_err(internal)?;
            match fields {
                Some(class) => class.bind(py).call1(&items).map_err(internal),
                None => Ok(items.into_any()),
            }
        }
        Value::Shape(dims) => PyTuple::new(py, dims.iter()).map(Bound::into_any).map_err(internal),
        Value::Scalar(DType::Bool, Number::Int(flag)) => (flag != 0)
            .into_pyobject(py)
            .map(|made| made.to_owned().into_any())
            .map_err(|error| internal(error.into())),
        Value::Scalar(_, Number::Int(int)) => {
            int.into_pyobject(py).map(Bound::into_any).map_err(|error| internal(error.into()))
        }
        Value::Scalar(_, Number::Float(float)) => {
            float.into_pyobject(py).map(Bound::into_any).map_err(|error| internal(error.into()))
        }
        Value::Str(text) => {
            text.into_pyobject(py).map(Bound::into_any).map_err(|error| internal(error.into()))
        }
        Value::None => Ok(py.None().into_bound(py)),
        other => Err(Failure::new(
            Class::Unsupported,
            format!("the function gives {}, which Python has no object for", other.kind()),
        )),
    }
}

/// The class of a tuple whose fields have these names.
pub(crate) fn named_tuple(py: Python<'_>, names: &[String]) -> PyResult<Py<PyAny>> {
    let make = py.import("relaxc._errors")?.getattr("outputs_class")?;
    Ok(make.call1((names.to_vec(),))?.unbind())
}
