//! DLPack, version 1 and the form before it: torch, JAX and others. The layouts are those of `dlpack.h`. Types that have the
//! C exchange interface export without a call of Python.

use crate::errors::Failure;
use crate::outputs::Tensor;
use crate::strided::{Strided, dense_strides};
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyType};
use pyo3::{ffi, intern};
use relax_runtime::DType;
use std::ffi::{CStr, c_int, c_void};
use std::ptr::null_mut;
use std::sync::{Mutex, PoisonError};

// `kDLCPU`
pub(crate) const CPU: i32 = 1;

const PLAIN: &CStr = c"dltensor";
const VERSIONED: &CStr = c"dltensor_versioned";
const INTERFACE: &CStr = c"dlpack_exchange_api";
/// Minor versions of a major one have the same layouts.
const MAJOR: u32 = 1;
const READ_ONLY: u64 = 1;
const IS_COPIED: u64 = 2;

#[repr(C)]
#[derive(Clone, Copy)]
struct Device {
    kind: i32,
    index: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct DataType {
    code: u8,
    bits: u8,
    lanes: u16,
}

#[repr(C)]
struct DlTensor {
    data: *mut c_void,
    device: Device,
    rank: i32,
    dtype: DataType,
    shape: *mut i64,
    strides: *mut i64,
    offset: u64,
}

#[repr(C)]
struct Managed {
    tensor: DlTensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Managed)>,
}

#[repr(C)]
struct ManagedVersioned {
    major: u32,
    minor: u32,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut ManagedVersioned)>,
    flags: u64,
    tensor: DlTensor,
}

/// What all versions of the C exchange interface begin with. `previous` is one of an older version, or null.
#[repr(C)]
struct InterfaceHeader {
    major: u32,
    _minor: u32,
    previous: *const InterfaceHeader,
}

/// Makes a managed tensor of an object of the type that has the interface. It returns 0, or raises an exception.
type Export = unsafe extern "C" fn(*mut ffi::PyObject, *mut *mut ManagedVersioned) -> c_int;

/// The C exchange interface of version 1, without the functions after the one that is called here.
#[repr(C)]
struct Interface {
    _header: InterfaceHeader,
    _allocate: *const c_void,
    export: Option<Export>,
}

/// A tensor that its library gave away. Its deleter runs when this is dropped, by any thread.
pub(crate) enum Taken {
    Plain(*mut c_void),
    Versioned(*mut c_void),
}

// SAFETY: the tensor is only read, and deleted with the GIL.
unsafe impl Send for Taken {}
// SAFETY: the same.
unsafe impl Sync for Taken {}

impl Drop for Taken {
    fn drop(&mut self) {
        let _ = Python::try_attach(|_| match *self {
            // SAFETY: whoever takes a tensor calls its deleter once.
            Self::Plain(tensor) => unsafe {
                let tensor = tensor.cast::<Managed>();
                if let Some(deleter) = (*tensor).deleter {
                    deleter(tensor);
                }
            },
            // SAFETY: the same.
            Self::Versioned(tensor) => unsafe {
                let tensor = tensor.cast::<ManagedVersioned>();
                if let Some(deleter) = (*tensor).deleter {
                    deleter(tensor);
                }
            },
        });
    }
}

/// How objects of a type lend their elements.
#[derive(Clone, Copy)]
struct Lending {
    /// The function of the C exchange interface. A subclass may have its own `__dlpack__`, so what it inherits does not count.
    export: Option<Export>,
    /// Whether there are the attributes of PyTorch's tensors that the interface does not check.
    has_gradients: bool,
    has_negation: bool,
}

impl Lending {
    /// That of the type of an object. Those of the first types are kept, and the types with them.
    fn of(object: &Bound<'_, PyAny>) -> Self {
        static KNOWN: Mutex<Vec<(Py<PyType>, Lending)>> = Mutex::new(Vec::new());
        const MOST: usize = 32;
        let class = object.get_type();
        let known = |all: &[(Py<PyType>, Self)]| {
            all.iter().find(|(known, _)| known.is(&class)).map(|(_, lending)| *lending)
        };
        if let Some(lending) = known(&KNOWN.lock().unwrap_or_else(PoisonError::into_inner)) {
            return lending;
        }
        // Without the lock: attributes of a type may be code of Python.
        let has = |name| class.hasattr(name).unwrap_or(true);
        let lending = Self {
            export: interface(&class),
            has_gradients: has("requires_grad"),
            has_negation: has("is_neg"),
        };
        let mut all = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() < MOST && known(&all).is_none() {
            all.push((class.clone().unbind(), lending));
        }
        lending
    }
}

/// The elements of what speaks DLPack; none where the object does not.
pub(crate) fn taken(object: &Bound<'_, PyAny>) -> Result<Option<(Strided, Taken)>, Failure> {
    let py = object.py();
    let lending = Lending::of(object);
    // The elements are those in memory with the other sign, which PyTorch does not tell a consumer.
    let is_negated = lending.has_negation
        && object
            .call_method0(intern!(py, "is_neg"))
            .and_then(|answer| answer.is_truthy())
            .unwrap_or(false);
    // Where that has no answer, `__dlpack__` has one.
    let requires_gradients = lending.has_gradients
        && object
            .getattr(intern!(py, "requires_grad"))
            .and_then(|answer| answer.is_truthy())
            .unwrap_or(true);
    if let (Some(export), false, false) = (lending.export, is_negated, requires_gradients)
        && let Some(taken) = exchanged(object, export)
    {
        return Ok(Some(taken));
    }
    let Ok(method) = object.getattr(intern!(py, "__dlpack__")) else { return Ok(None) };
    let taken = asked(&method)?;
    if is_negated {
        return Err(Failure::argument(
            "its negation is pending (negative bit): give `tensor.resolve_neg()`",
        ));
    }
    Ok(Some(taken))
}

/// By the C exchange interface. It makes fewer checks than `__dlpack__` does: where anything is unusual it gives nothing, and
/// `__dlpack__` says why.
fn exchanged(object: &Bound<'_, PyAny>, export: Export) -> Option<(Strided, Taken)> {
    let mut managed = null_mut();
    // SAFETY: the object is of the type whose interface this is, and the GIL is held.
    let status = unsafe { export(object.as_ptr(), &raw mut managed) };
    if status != 0 || managed.is_null() {
        drop(PyErr::take(object.py()));
        return None;
    }
    versioned(managed).ok()
}

/// The function of the C exchange interface that a type itself has.
fn interface(class: &Bound<'_, PyType>) -> Option<Export> {
    let own = class.getattr("__dict__").ok()?;
    let capsule = own.get_item("__dlpack_c_exchange_api__").ok()?;
    // SAFETY: the capsule lives and the GIL is held; one of this name holds an interface that lives as long as the process.
    // Only the header is read before its version is known.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule.as_ptr(), INTERFACE.as_ptr()) == 0 {
            return None;
        }
        let pointer = ffi::PyCapsule_GetPointer(capsule.as_ptr(), INTERFACE.as_ptr());
        let mut header = pointer.cast_const().cast::<InterfaceHeader>();
        while !header.is_null() && (*header).major != MAJOR {
            header = (*header).previous;
        }
        if header.is_null() { None } else { (*header.cast::<Interface>()).export }
    }
}

/// The elements by `__dlpack__`, a call of Python.
fn asked(method: &Bound<'_, PyAny>) -> Result<(Strided, Taken), Failure> {
    let failed =
        |cause: PyErr| Failure::argument(format!("its memory is not lent: {cause}")).because(cause);
    let py = method.py();
    // The capsule names the device of the memory: `__dlpack_device__` would be a second call.
    let asked = wishes(py).and_then(|wishes| method.call((), Some(wishes)));
    let capsule = match asked {
        // Libraries older than version 1 do not know the argument.
        Err(error) if error.is_instance_of::<pyo3::exceptions::PyTypeError>(py) => method.call0(),
        other => other,
    };
    let capsule = capsule.map_err(failed)?;
    let take = |name: &'static CStr, used: &'static CStr| {
        let capsule = capsule.as_ptr();
        // SAFETY: the capsule lives and the GIL is held; a capsule of this name holds a tensor of this layout. The new name
        // says that its deleter is ours to call.
        unsafe {
            if ffi::PyCapsule_IsValid(capsule, name.as_ptr()) == 0 {
                return None;
            }
            let tensor = ffi::PyCapsule_GetPointer(capsule, name.as_ptr());
            (ffi::PyCapsule_SetName(capsule, used.as_ptr()) == 0).then_some(tensor)
        }
    };
    if let Some(tensor) = take(VERSIONED, c"used_dltensor_versioned") {
        return versioned(tensor.cast());
    }
    if let Some(tensor) = take(PLAIN, c"used_dltensor") {
        let taken = Taken::Plain(tensor);
        // SAFETY: the capsule held it, and it lives until it is deleted.
        let managed = unsafe { &*tensor.cast::<Managed>() };
        return Ok((described(&managed.tensor)?, taken));
    }
    Err(Failure::argument("its `__dlpack__` gives no DLPack capsule"))
}

/// A tensor of version 1, which is deleted where it is refused.
fn versioned(tensor: *mut ManagedVersioned) -> Result<(Strided, Taken), Failure> {
    let taken = Taken::Versioned(tensor.cast());
    // SAFETY: its library gave it away, and it lives until it is deleted.
    let managed = unsafe { &*tensor };
    if managed.major != MAJOR {
        let version = managed.major;
        return Err(Failure::argument(format!("it speaks version {version} of DLPack")));
    }
    Ok((described(&managed.tensor)?, taken))
}

/// `max_version=(1, 0)`, made once.
fn wishes(py: Python<'_>) -> PyResult<&Bound<'_, PyDict>> {
    static WISHES: PyOnceLock<Py<PyDict>> = PyOnceLock::new();
    let made = WISHES.get_or_try_init(py, || {
        let wishes = PyDict::new(py);
        wishes.set_item("max_version", (1, 0))?;
        PyResult::Ok(wishes.unbind())
    });
    Ok(made?.bind(py))
}

fn described(tensor: &DlTensor) -> Result<Strided, Failure> {
    let Device { kind, index } = tensor.device;
    if kind != CPU {
        return Err(Failure::argument(format!(
            "it is on another device (DLPack device type {kind}, number {index}): move it to the processor, such as by `.cpu()`"
        )));
    }
    let DataType { code, bits, lanes } = tensor.dtype;
    let dtype = ALL.iter().find(|(_, known)| (known.0, known.1) == (code, bits) && lanes == 1);
    let Some((dtype, _)) = dtype else {
        return Err(Failure::argument(format!(
            "no tensor has elements of DLPack's type code {code} with {bits} bits and {lanes} lanes"
        )));
    };
    let rank = usize::try_from(tensor.rank).unwrap_or(0);
    let read = |of: *mut i64| match of.is_null() || rank == 0 {
        true => None,
        // SAFETY: where it is there, the array has an element for each axis.
        false => Some(unsafe { std::slice::from_raw_parts(of, rank) }.to_vec()),
    };
    let shape = read(tensor.shape).unwrap_or_default();
    let size = dtype.size() as isize;
    let strides = read(tensor.strides);
    let strides = strides.map(|strides| strides.iter().map(|&s| s as isize * size).collect());
    let offset = usize::try_from(tensor.offset).unwrap_or(0);
    let data = tensor.data.cast::<u8>().wrapping_add(offset).cast_const();
    let strided = Strided { dtype: *dtype, shape, strides, data };
    if tensor.data.is_null() && !strided.is_empty() {
        return Err(Failure::argument("it has no memory, as a fake tensor has none"));
    }
    Ok(strided)
}

/// Type codes and bits of `dlpack.h`.
const ALL: [(DType, (u8, u8)); 13] = [
    (DType::F16, (2, 16)),
    (DType::BF16, (4, 16)),
    (DType::F32, (2, 32)),
    (DType::F64, (2, 64)),
    (DType::I8, (0, 8)),
    (DType::I16, (0, 16)),
    (DType::I32, (0, 32)),
    (DType::I64, (0, 64)),
    (DType::U8, (1, 8)),
    (DType::U16, (1, 16)),
    (DType::U32, (1, 32)),
    (DType::U64, (1, 64)),
    (DType::Bool, (6, 8)),
];

/// What a consumer keeps of a result.
struct Kept {
    _tensor: relax_runtime::Tensor,
    shape: Vec<i64>,
    strides: Vec<i64>,
}

/// A capsule of a result for a consumer, of version 1 where it knows that version.
pub(crate) fn capsule<'py>(
    py: Python<'py>,
    tensor: &Tensor,
    max_version: Option<(u32, u32)>,
    copy: Option<bool>,
) -> PyResult<Bound<'py, PyAny>> {
    let is_versioned = max_version.is_some_and(|(major, _)| major >= 1);
    // The old form cannot say that memory is read-only.
    let must_copy = copy == Some(true) || !is_versioned && !tensor.is_writable();
    if must_copy && copy == Some(false) {
        return Err(PyBufferError::new_err(
            "the result shares its memory with an argument or a constant, which DLPack before version 1 cannot tell: \
             pass max_version=(1, 0), or copy=True",
        ));
    }
    let (inner, flags) = match must_copy {
        true => (tensor.copied()?, IS_COPIED),
        false => (tensor.inner().clone(), if tensor.is_writable() { 0 } else { READ_ONLY }),
    };
    let size = inner.dtype().size() as isize;
    let strides = dense_strides(inner.dtype(), inner.shape());
    let strides = strides.iter().map(|&stride| (stride / size) as i64).collect();
    let (data, dtype) = (inner.bytes().as_ptr().cast_mut().cast(), inner.dtype());
    let (code, bits) = ALL[dtype as usize].1;
    let mut kept = Box::new(Kept { shape: inner.shape().to_vec(), strides, _tensor: inner });
    let described = DlTensor {
        data,
        device: Device { kind: CPU, index: 0 },
        rank: i32::try_from(kept.shape.len()).unwrap_or(i32::MAX),
        dtype: DataType { code, bits, lanes: 1 },
        shape: kept.shape.as_mut_ptr(),
        strides: kept.strides.as_mut_ptr(),
        offset: 0,
    };
    let context = Box::into_raw(kept).cast();
    let (pointer, name) = match is_versioned {
        true => {
            let deleter = Some(delete_versioned as unsafe extern "C" fn(_));
            let tensor = described;
            let made = ManagedVersioned { major: MAJOR, minor: 0, context, deleter, flags, tensor };
            (Box::into_raw(Box::new(made)).cast::<c_void>(), VERSIONED)
        }
        false => {
            let deleter = Some(delete_plain as unsafe extern "C" fn(_));
            let made = Managed { tensor: described, context, deleter };
            (Box::into_raw(Box::new(made)).cast::<c_void>(), PLAIN)
        }
    };
    // SAFETY: the pointer is not null, the name is static, and the destructor is called once with the capsule.
    unsafe {
        let made = ffi::PyCapsule_New(pointer, name.as_ptr(), Some(destroy));
        Bound::from_owned_ptr_or_err(py, made)
    }
}

unsafe extern "C" fn delete_versioned(managed: *mut ManagedVersioned) {
    // SAFETY: `capsule` made both, and a deleter is called once.
    unsafe {
        let managed = Box::from_raw(managed);
        drop(Box::from_raw(managed.context.cast::<Kept>()));
    }
}

unsafe extern "C" fn delete_plain(managed: *mut Managed) {
    // SAFETY: the same.
    unsafe {
        let managed = Box::from_raw(managed);
        drop(Box::from_raw(managed.context.cast::<Kept>()));
    }
}

/// Deletes the tensor of a capsule that nobody took it out of: one that was used has another name.
unsafe extern "C" fn destroy(capsule: *mut ffi::PyObject) {
    // SAFETY: Python calls it with the capsule; a capsule that has its first name still holds its tensor.
    unsafe {
        let get = |name: &CStr| match ffi::PyCapsule_IsValid(capsule, name.as_ptr()) {
            0 => null_mut(),
            _ => ffi::PyCapsule_GetPointer(capsule, name.as_ptr()),
        };
        let (versioned, plain) = (get(VERSIONED), get(PLAIN));
        if !versioned.is_null() {
            delete_versioned(versioned.cast());
        } else if !plain.is_null() {
            delete_plain(plain.cast());
        }
    }
}
