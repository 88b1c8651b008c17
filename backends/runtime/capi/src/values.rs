//! Values that C programs make and look at.

use crate::errors::fail;
use crate::{RxValue, array, given, values};
use relax_runtime::{DType, Number, Tensor, Tuple, Value};
use std::ffi::c_void;
use std::ptr::null;

/// # Safety
/// `shape` has `rank` dims, `data` has `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_tensor_new(
    dtype: i32,
    shape: *const i64,
    rank: usize,
    data: *const c_void,
    length: usize,
) -> *mut RxValue {
    let dtype = usize::try_from(dtype).ok().and_then(|at| DType::ALL.get(at));
    let Some(&dtype) = dtype else { return fail("there is no such dtype") };
    // SAFETY: the caller promises it.
    let parts = unsafe { (array(shape, rank), array(data.cast::<u8>(), length)) };
    let (Some(shape), Some(bytes)) = parts else { return fail("shape or data is null") };
    match Tensor::from_bytes(dtype, shape, bytes) {
        Ok(tensor) => given(Value::Tensor(tensor)),
        Err(why) => fail(&why),
    }
}

/// Calls a function of C when it is dropped.
struct Release(Option<unsafe extern "C" fn(*mut c_void)>, *mut c_void);

// SAFETY: whoever lends memory promises that it may be given back from every thread.
unsafe impl Send for Release {}
// SAFETY: nothing is done with a reference.
unsafe impl Sync for Release {}

impl Drop for Release {
    fn drop(&mut self) {
        if let Some(release) = self.0 {
            // SAFETY: whoever lent the memory promises it; this is dropped once.
            unsafe { release(self.1) }
        }
    }
}

/// # Safety
/// `shape` has `rank` dims, `data` as many elements as they say, which stay unchanged until `release` is called with
/// `context`, once, from any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_tensor_lend(
    dtype: i32,
    shape: *const i64,
    rank: usize,
    data: *const c_void,
    release: Option<unsafe extern "C" fn(*mut c_void)>,
    context: *mut c_void,
) -> *mut RxValue {
    let loan = Box::new(Release(release, context));
    let dtype = usize::try_from(dtype).ok().and_then(|at| DType::ALL.get(at));
    let Some(&dtype) = dtype else { return fail("there is no such dtype") };
    // SAFETY: the caller promises it.
    let Some(shape) = (unsafe { array(shape, rank) }) else { return fail("the shape is null") };
    // SAFETY: the caller promises it.
    match unsafe { Tensor::lent(dtype, shape, data.cast(), loan) } {
        Ok(tensor) => given(Value::Tensor(tensor)),
        Err(why) => fail(&why),
    }
}

/// # Safety
/// `dims` has `rank` dims.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_shape_new(dims: *const i64, rank: usize) -> *mut RxValue {
    // SAFETY: the caller promises it.
    match unsafe { array(dims, rank) } {
        Some(dims) if dims.iter().all(|&dim| dim >= 0) => given(Value::Shape(dims.into())),
        _ => fail("a dim is negative, or the dims are null"),
    }
}

/// An integer.
#[unsafe(no_mangle)]
pub extern "C" fn rx_int_new(value: i64) -> *mut RxValue {
    given(Value::int(value))
}

/// A float.
#[unsafe(no_mangle)]
pub extern "C" fn rx_float_new(value: f64) -> *mut RxValue {
    given(Value::Scalar(DType::F64, Number::Float(value)))
}

/// # Safety
/// `fields` has `count` values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_tuple_new(fields: *const *const RxValue, count: usize) -> *mut RxValue {
    // SAFETY: the caller promises it.
    let Some(fields) = (unsafe { values(fields, count) }) else {
        return fail("a field is null");
    };
    match Tuple::new(fields) {
        Ok(tuple) => given(Value::Tuple(tuple)),
        Err(stop) => fail(&stop.to_string()),
    }
}

/// # Safety
/// `value` is null, or a value that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_value_free(value: *mut RxValue) {
    if !value.is_null() {
        // SAFETY: `given` made it with `Box::into_raw`, and the caller gives it up.
        drop(unsafe { Box::from_raw(value) });
    }
}

/// # Safety
/// `value` is null, or a value that stays for `'a`.
unsafe fn seen<'a>(value: *const RxValue) -> Option<&'a Value> {
    // SAFETY: the caller promises it.
    unsafe { value.as_ref() }.map(|value| &value.0)
}

/// # Safety
/// As [`seen`].
unsafe fn tensor<'a>(value: *const RxValue) -> Option<&'a Tensor> {
    // SAFETY: the caller promises it.
    match unsafe { seen(value) } {
        Some(Value::Tensor(tensor)) => Some(tensor),
        _ => None,
    }
}

/// # Safety
/// As [`seen`].
unsafe fn dims<'a>(value: *const RxValue) -> &'a [i64] {
    // SAFETY: the caller promises it.
    match unsafe { seen(value) } {
        Some(Value::Tensor(tensor)) => tensor.shape(),
        Some(Value::Shape(dims)) => dims,
        _ => &[],
    }
}

/// # Safety
/// `value` is null, or a value that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_value_kind(value: *const RxValue) -> i32 {
    // SAFETY: the caller promises it.
    match unsafe { seen(value) } {
        Some(Value::Tensor(_)) => 1,
        Some(Value::Shape(_)) => 2,
        Some(Value::Tuple(_)) => 3,
        Some(Value::Scalar(_, Number::Int(_))) => 4,
        Some(Value::Scalar(_, Number::Float(_))) => 5,
        _ => 0,
    }
}

/// # Safety
/// `value` is null, or a value that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_tensor_dtype(value: *const RxValue) -> i32 {
    // SAFETY: the caller promises it.
    unsafe { tensor(value) }.map_or(-1, |tensor| tensor.dtype() as i32)
}

/// # Safety
/// `value` is null, or a value that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_tensor_data(value: *const RxValue) -> *const c_void {
    // SAFETY: the caller promises it.
    unsafe { tensor(value) }.map_or(null(), |tensor| tensor.bytes().as_ptr().cast())
}

/// # Safety
/// `value` is null, or a value that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_tensor_length(value: *const RxValue) -> usize {
    // SAFETY: the caller promises it.
    unsafe { tensor(value) }.map_or(0, |tensor| tensor.bytes().len())
}

/// # Safety
/// `value` is null, or a value that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_value_rank(value: *const RxValue) -> usize {
    // SAFETY: the caller promises it.
    unsafe { dims(value) }.len()
}

/// # Safety
/// `value` is null, or a value that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_value_dims(value: *const RxValue) -> *const i64 {
    // SAFETY: the caller promises it.
    unsafe { dims(value) }.as_ptr()
}

/// # Safety
/// `value` is null, or a value that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_tuple_count(value: *const RxValue) -> usize {
    // SAFETY: the caller promises it.
    match unsafe { seen(value) } {
        Some(Value::Tuple(tuple)) => tuple.items().len(),
        _ => 0,
    }
}

/// # Safety
/// `value` is null, or a value that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_tuple_field(value: *const RxValue, index: usize) -> *mut RxValue {
    // SAFETY: the caller promises it.
    let field = match unsafe { seen(value) } {
        Some(Value::Tuple(tuple)) => tuple.items().get(index).cloned(),
        _ => None,
    };
    field.map_or_else(|| fail("there is no such field"), given)
}

/// # Safety
/// `value` is null, or a value that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_value_int(value: *const RxValue) -> i64 {
    // SAFETY: the caller promises it.
    match unsafe { seen(value) } {
        Some(Value::Scalar(_, Number::Int(value))) => i64::try_from(*value).unwrap_or(0),
        _ => 0,
    }
}

/// # Safety
/// `value` is null, or a value that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_value_float(value: *const RxValue) -> f64 {
    // SAFETY: the caller promises it.
    match unsafe { seen(value) } {
        Some(Value::Scalar(_, Number::Float(value))) => *value,
        Some(Value::Scalar(_, Number::Int(value))) => *value as f64,
        _ => 0.0,
    }
}
