//! The runtime behind a C header, `backends/runtime/include/relax_runtime.h`, which says what each function does.
//!
//! Whoever calls keeps what C programs keep: pointers are those that these functions gave, not freed yet, and
//! arrays have the lengths that are told. A null pointer is an error, not undefined.
#![allow(unsafe_code)]

mod errors;
mod hosts;
mod modules;
mod values;

pub use errors::{rx_error, rx_error_line, rx_error_note, rx_error_trap};
pub use hosts::{rx_call_argument, rx_call_count, rx_call_keyword, rx_fail, rx_module_register};
pub use modules::{
    rx_function_dim, rx_function_donated, rx_function_dtype, rx_function_name,
    rx_function_parameter, rx_function_parameters, rx_function_rank, rx_function_type,
    rx_module_call_donating, rx_module_call_into, rx_module_load_with, rx_module_missing,
    rx_module_open, rx_version,
};
pub use values::{
    rx_float_new, rx_int_new, rx_shape_new, rx_tensor_data, rx_tensor_dtype, rx_tensor_lend,
    rx_tensor_length, rx_tensor_new, rx_tuple_count, rx_tuple_field, rx_tuple_new, rx_value_dims,
    rx_value_float, rx_value_free, rx_value_int, rx_value_kind, rx_value_rank,
};

use errors::{c_text, fail, fail_with};
use relax_runtime::program::Numerics;
use relax_runtime::{Callable, DType, Module, Parameter, Stop, Value};
use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr::{null, null_mut};

/// `rx_module`
#[derive(Debug)]
pub struct RxModule {
    module: Module,
    /// Of its functions.
    names: Vec<CString>,
    /// For each function its parameters.
    parameters: Vec<Vec<Described>>,
    /// The host functions that it calls.
    hosts: Vec<CString>,
}

/// A parameter, in texts of C.
#[derive(Debug)]
struct Described {
    name: CString,
    annotation: CString,
    dtype: Option<DType>,
    dims: Option<Vec<CString>>,
    is_donated: bool,
}

impl RxModule {
    fn of(module: Module) -> Self {
        let of_all = |names: &mut dyn Iterator<Item = &str>| names.map(c_text).collect();
        let names = of_all(&mut module.functions());
        let hosts = of_all(&mut module.host_functions().into_iter());
        let functions = module.functions().filter_map(|name| module.function(name));
        let described = |parameter: Parameter| Described {
            name: c_text(&parameter.name),
            annotation: c_text(&parameter.annotation),
            dtype: parameter.dtype,
            dims: parameter.dims.map(|dims| dims.iter().map(|dim| c_text(dim)).collect()),
            is_donated: parameter.is_donated,
        };
        let of =
            |function: Callable<'_>| function.parameters().into_iter().map(described).collect();
        let parameters = functions.map(of).collect();
        Self { module, names, parameters, hosts }
    }
}

/// `rx_value`
#[derive(Debug)]
pub struct RxValue(Value);

/// A value that C frees.
fn given(value: Value) -> *mut RxValue {
    Box::into_raw(Box::new(RxValue(value)))
}

/// The elements of an array of C; an empty one may be null.
///
/// # Safety
/// There are as many, and they stay for `'a`.
unsafe fn array<'a, T>(data: *const T, length: usize) -> Option<&'a [T]> {
    if length == 0 {
        return Some(&[]);
    }
    // SAFETY: the caller promises it, and it is not null.
    (!data.is_null()).then(|| unsafe { std::slice::from_raw_parts(data, length) })
}

/// Values by pointers of C.
///
/// # Safety
/// As [`array`], and each that is not null is a value that was not freed.
unsafe fn values(data: *const *const RxValue, count: usize) -> Option<Vec<Value>> {
    // SAFETY: the caller promises it.
    let pointers = unsafe { array(data, count) }?;
    // SAFETY: the caller promises it.
    let value =
        |&pointer: &*const RxValue| unsafe { pointer.as_ref() }.map(|value| value.0.clone());
    pointers.iter().map(value).collect()
}

/// # Safety
/// `bytes` has `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_module_load(bytes: *const c_void, length: usize) -> *mut RxModule {
    // SAFETY: the caller promises it.
    let Some(bytes) = (unsafe { array(bytes.cast::<u8>(), length) }) else {
        return fail("the bytes of the module are null");
    };
    match Module::load(bytes) {
        Ok(module) => Box::into_raw(Box::new(RxModule::of(module))),
        Err(error) => fail(&error.to_string()),
    }
}

/// # Safety
/// `module` is null, or a module that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_module_free(module: *mut RxModule) {
    if !module.is_null() {
        // SAFETY: `rx_module_load` made it with `Box::into_raw`, and the caller gives it up.
        drop(unsafe { Box::from_raw(module) });
    }
}

/// # Safety
/// `module` is null, or a module that was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_module_numerics(module: *const RxModule) -> *const c_char {
    // SAFETY: the caller promises it.
    let Some(RxModule { module, .. }) = (unsafe { module.as_ref() }) else {
        fail::<c_char>("the module is null");
        return null();
    };
    let name = match module.metadata().numerics {
        Numerics::Exact => c"exact",
        Numerics::Reassociated => c"reassociated",
    };
    name.as_ptr()
}

/// # Safety
/// `module` is null or a module, `function` null or a text that ends with a 0, `arguments` has `count`
/// values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_module_call(
    module: *const RxModule,
    function: *const c_char,
    arguments: *const *const RxValue,
    count: usize,
) -> *mut RxValue {
    // SAFETY: the caller promises it.
    let called = unsafe { callable(module, function) };
    let Some((module, function)) = called else { return null_mut() };
    // SAFETY: the caller promises it.
    match unsafe { values(arguments, count) } {
        Some(arguments) => result(module, function.call(&arguments)),
        None => fail("an argument is null"),
    }
}

/// The function of this name; `None` after a note why there is none.
///
/// # Safety
/// `module` is null or a module, `function` null or a text that ends with a 0.
unsafe fn callable<'m>(
    module: *const RxModule,
    function: *const c_char,
) -> Option<(&'m Module, Callable<'m>)> {
    let said = |why: &str| {
        fail::<RxValue>(why);
        None
    };
    if function.is_null() {
        return said("the name of the function is null");
    }
    // SAFETY: the caller promises it, and it is not null.
    let name = unsafe { CStr::from_ptr(function) }.to_string_lossy();
    // SAFETY: the caller promises it.
    let Some(RxModule { module, .. }) = (unsafe { module.as_ref() }) else {
        return said("the module is null");
    };
    let Some(function) = module.function(&name) else {
        let known: Vec<&str> = module.functions().collect();
        return said(&format!("the module offers no `{name}`, but {}", known.join(", ")));
    };
    Some((module, function))
}

/// What a call gave, or null after a note why it stopped.
fn result(module: &Module, result: Result<Value, Stop>) -> *mut RxValue {
    match result {
        Ok(value) => given(value),
        Err(stop) => {
            fail_with(&stop, module.source());
            null_mut()
        }
    }
}
