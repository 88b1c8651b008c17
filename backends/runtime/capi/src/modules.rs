//! Modules: how they are loaded, and what is in them.

use crate::errors::fail;
use crate::{Described, RxModule, RxValue, array, callable, result, rx_module_call, values};
use relax_runtime::file::{LoadError, VERSION};
use relax_runtime::{Limits, Module, Tensor, Value};
use std::ffi::{CStr, CString, c_char, c_void};
use std::path::PathBuf;
use std::ptr::{null, null_mut};
use std::sync::OnceLock;

/// `rx_options`; 0 stands for what is usual.
#[repr(C)]
#[derive(Debug)]
pub struct RxOptions {
    /// Bytes of the structure that the caller knows.
    size: usize,
    threads: usize,
    memory: usize,
    steps: u64,
}

/// # Safety
/// `options` is null or points to as many bytes as it says.
unsafe fn limits(options: *const RxOptions) -> Result<Limits, String> {
    let mut limits = Limits::default();
    // SAFETY: the caller promises it.
    let Some(options) = (unsafe { options.as_ref() }) else { return Ok(limits) };
    if options.size != size_of::<RxOptions>() {
        return Err(format!(
            "the size of rx_options is {}, not {}",
            options.size,
            size_of::<RxOptions>()
        ));
    }
    limits.threads = options.threads;
    if options.memory > 0 {
        limits.bytes = options.memory;
    }
    if options.steps > 0 {
        limits.steps = options.steps;
    }
    Ok(limits)
}

fn loaded(module: Result<Module, LoadError>) -> *mut RxModule {
    match module {
        Ok(module) => Box::into_raw(Box::new(RxModule::of(module))),
        Err(error) => fail(&error.to_string()),
    }
}

/// # Safety
/// `path` is null or a text that ends with a 0; `options` is null or as `rx_options`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_module_open(
    path: *const c_char,
    options: *const RxOptions,
) -> *mut RxModule {
    if path.is_null() {
        return fail("the path is null");
    }
    // SAFETY: the caller promises it, and it is not null.
    let path = unsafe { CStr::from_ptr(path) };
    #[cfg(unix)]
    let path = {
        let path: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(path.to_bytes());
        PathBuf::from(path)
    };
    #[cfg(not(unix))]
    let path = PathBuf::from(path.to_string_lossy().into_owned());
    // SAFETY: the caller promises it.
    match unsafe { limits(options) } {
        Ok(limits) => loaded(Module::open(&path, limits)),
        Err(why) => fail(&why),
    }
}

/// # Safety
/// `bytes` has `length` bytes; `options` is null or as `rx_options`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_module_load_with(
    bytes: *const c_void,
    length: usize,
    options: *const RxOptions,
) -> *mut RxModule {
    // SAFETY: the caller promises it.
    let Some(bytes) = (unsafe { array(bytes.cast::<u8>(), length) }) else {
        return fail("the bytes of the module are null");
    };
    // SAFETY: the caller promises it.
    match unsafe { limits(options) } {
        Ok(limits) => loaded(Module::load_with(bytes, limits)),
        Err(why) => fail(&why),
    }
}

/// The version of the runtime, and that of the module files that it reads.
#[unsafe(no_mangle)]
pub extern "C" fn rx_version() -> *const c_char {
    static TEXT: OnceLock<CString> = OnceLock::new();
    let text = || {
        let text = format!("{} (module files of version {VERSION})", env!("CARGO_PKG_VERSION"));
        CString::new(text).unwrap_or_default()
    };
    TEXT.get_or_init(text).as_ptr()
}

fn text_at(texts: &[CString], index: usize) -> *const c_char {
    texts.get(index).map_or(null(), |text| text.as_ptr())
}

/// # Safety
/// `module` is null, or a module that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_function_name(module: *const RxModule, index: usize) -> *const c_char {
    // SAFETY: the caller promises it.
    unsafe { module.as_ref() }.map_or(null(), |module| text_at(&module.names, index))
}

/// # Safety
/// `module` is null, or a module that was not freed; `name` is null or a text that ends with a 0.
unsafe fn parameters<'m>(module: *const RxModule, name: *const c_char) -> Option<&'m [Described]> {
    if name.is_null() {
        return None;
    }
    // SAFETY: the caller promises it, and the name is not null.
    let (module, name) = unsafe { (module.as_ref()?, CStr::from_ptr(name)) };
    let at = module.names.iter().position(|known| known.as_c_str() == name)?;
    module.parameters.get(at).map(Vec::as_slice)
}

/// # Safety
/// As of [`parameters`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_function_parameters(
    module: *const RxModule,
    name: *const c_char,
) -> i64 {
    // SAFETY: the caller promises it.
    let found = unsafe { parameters(module, name) };
    found.and_then(|found| i64::try_from(found.len()).ok()).unwrap_or(-1)
}

/// # Safety
/// As of [`parameters`].
unsafe fn parameter<'m>(
    module: *const RxModule,
    name: *const c_char,
    index: usize,
) -> Option<&'m Described> {
    // SAFETY: the caller promises it.
    unsafe { parameters(module, name) }.and_then(|all| all.get(index))
}

/// # Safety
/// As of [`parameters`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_function_parameter(
    module: *const RxModule,
    name: *const c_char,
    index: usize,
) -> *const c_char {
    // SAFETY: the caller promises it.
    unsafe { parameter(module, name, index) }.map_or(null(), |found| found.name.as_ptr())
}

/// # Safety
/// As of [`parameters`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_function_type(
    module: *const RxModule,
    name: *const c_char,
    index: usize,
) -> *const c_char {
    // SAFETY: the caller promises it.
    unsafe { parameter(module, name, index) }.map_or(null(), |found| found.annotation.as_ptr())
}

/// # Safety
/// As of [`parameters`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_function_dtype(
    module: *const RxModule,
    name: *const c_char,
    index: usize,
) -> i32 {
    // SAFETY: the caller promises it.
    let dtype = unsafe { parameter(module, name, index) }.and_then(|found| found.dtype);
    dtype.map_or(-1, |dtype| dtype as i32)
}

/// # Safety
/// As of [`parameters`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_function_rank(
    module: *const RxModule,
    name: *const c_char,
    index: usize,
) -> i64 {
    // SAFETY: the caller promises it.
    let dims = unsafe { parameter(module, name, index) }.and_then(|found| found.dims.as_ref());
    dims.and_then(|dims| i64::try_from(dims.len()).ok()).unwrap_or(-1)
}

/// # Safety
/// As of [`parameters`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_function_dim(
    module: *const RxModule,
    name: *const c_char,
    index: usize,
    axis: usize,
) -> *const c_char {
    // SAFETY: the caller promises it.
    let dims = unsafe { parameter(module, name, index) }.and_then(|found| found.dims.as_ref());
    dims.map_or(null(), |dims| text_at(dims, axis))
}

/// # Safety
/// As of [`parameters`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_function_donated(
    module: *const RxModule,
    name: *const c_char,
    index: usize,
) -> i32 {
    // SAFETY: the caller promises it.
    unsafe { parameter(module, name, index) }.map_or(-1, |found| i32::from(found.is_donated))
}

/// # Safety
/// `module` is null, or a module that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_module_missing(module: *const RxModule, index: usize) -> *const c_char {
    // SAFETY: the caller promises it.
    let Some(RxModule { module, hosts, .. }) = (unsafe { module.as_ref() }) else { return null() };
    let missing = module.missing();
    let is_missing =
        |host: &&CString| missing.iter().any(|name| host.to_bytes() == name.as_bytes());
    hosts.iter().filter(is_missing).nth(index).map_or(null(), |name| name.as_ptr())
}

/// `rx_buffer`: its length in bytes.
#[repr(C)]
#[derive(Debug)]
pub struct RxBuffer {
    data: *mut c_void,
    length: usize,
    dtype: i32,
}

/// # Safety
/// As of [`rx_module_call`], and `outputs` has `outputs_count` buffers, each with its length in bytes, which nobody else uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_module_call_into(
    module: *const RxModule,
    function: *const c_char,
    arguments: *const *const RxValue,
    count: usize,
    outputs: *const RxBuffer,
    outputs_count: usize,
) -> *mut RxValue {
    // SAFETY: the caller promises it.
    let Some(outputs) = (unsafe { array(outputs, outputs_count) }) else {
        return fail("the buffers are null");
    };
    // SAFETY: the caller promises it.
    let value = unsafe { rx_module_call(module, function, arguments, count) };
    // SAFETY: it was given just now.
    let Some(result) = (unsafe { value.as_ref() }) else { return value };
    // SAFETY: the caller promises it of the buffers.
    let copied = unsafe { copy_into(&result.0, outputs) };
    if let Err(why) = copied {
        // SAFETY: as above; nobody else has it.
        drop(unsafe { Box::from_raw(value) });
        return fail(&why);
    }
    value
}

/// # Safety
/// As of [`rx_module_call`], and nobody else uses the array, nor values for donated parameters.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_module_call_donating(
    module: *const RxModule,
    function: *const c_char,
    arguments: *mut *mut RxValue,
    count: usize,
) -> *mut RxValue {
    // SAFETY: the caller promises it.
    let called = unsafe { callable(module, function) };
    let Some((module, function)) = called else { return null_mut() };
    // SAFETY: the caller promises it.
    let Some(mut values) = (unsafe { values(arguments.cast(), count) }) else {
        return fail("an argument is null");
    };
    let parameters = function.parameters();
    let is_donated = |at: usize| parameters.get(at).is_some_and(|parameter| parameter.is_donated);
    // SAFETY: the caller promises it.
    let slots = unsafe { array(arguments.cast_const(), count) }.unwrap_or_default();
    let is_again =
        |at: usize| slots.iter().enumerate().any(|(other, slot)| other != at && *slot == slots[at]);
    if (0..count).any(|at| is_donated(at) && is_again(at)) {
        return fail("a value that is given up is an argument twice");
    }
    for (at, value) in values.iter_mut().enumerate() {
        if is_donated(at) {
            // SAFETY: there are as many, none is null, and the caller gives this one up.
            let owned = unsafe {
                let slot = arguments.add(at);
                Box::from_raw(std::mem::replace(&mut *slot, null_mut()))
            };
            // The copy of the name goes.
            *value = owned.0;
        }
    }
    result(module, function.call_donating(values))
}

fn tensor_of(value: &Value) -> Option<&Tensor> {
    if let Value::Tensor(tensor) = value { Some(tensor) } else { None }
}

/// # Safety
/// Each buffer has its length in bytes, which nobody else uses.
unsafe fn copy_into(value: &Value, outputs: &[RxBuffer]) -> Result<(), String> {
    let tensors: Vec<&Tensor> = match value {
        Value::Tensor(tensor) => vec![tensor],
        Value::Tuple(tuple) => {
            let all: Option<Vec<&Tensor>> = tuple.items().iter().map(tensor_of).collect();
            all.ok_or("a result is no tensor: nothing was copied")?
        }
        _ => return Err("the result is no tensor: nothing was copied".to_owned()),
    };
    if tensors.len() != outputs.len() {
        return Err(format!("{} buffer(s) for {} tensor(s)", outputs.len(), tensors.len()));
    }
    for (at, (tensor, buffer)) in tensors.iter().zip(outputs).enumerate() {
        let (dtype, found, length) = (tensor.dtype(), tensor.bytes(), buffer.length);
        if dtype as i32 != buffer.dtype || found.len() > length || buffer.data.is_null() {
            let (shape, needed) = (tensor.shape(), found.len());
            return Err(format!(
                "result {at} is {dtype} {shape:?} with {needed} bytes; its buffer has {length} bytes and the dtype {}",
                buffer.dtype
            ));
        }
    }
    for (tensor, buffer) in tensors.iter().zip(outputs) {
        let bytes = tensor.bytes();
        // SAFETY: the buffer is long enough, and is memory that nobody else uses.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), buffer.data.cast(), bytes.len()) }
    }
    Ok(())
}
