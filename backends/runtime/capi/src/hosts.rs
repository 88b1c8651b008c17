//! Host functions in C.

use crate::errors::{fail, last};
use crate::{RxModule, RxValue, given};
use relax_runtime::{HostCall, Stop};
use std::ffi::{CStr, c_char, c_void};
use std::ptr::null_mut;

/// `rx_call`: the arguments of a call of a host function.
#[derive(Debug)]
pub struct RxCall(HostCall);

/// `rx_host`: gives a value of its own, or null.
type Host = unsafe extern "C" fn(context: *mut c_void, call: *const RxCall) -> *mut RxValue;

/// What C gives with a function.
struct Context(*mut c_void);

// SAFETY: whoever registers a function promises that it may be called from every thread.
unsafe impl Send for Context {}
// SAFETY: the same.
unsafe impl Sync for Context {}

impl Context {
    fn get(&self) -> *mut c_void {
        self.0
    }
}

/// # Safety
/// `module` is null, or a module that was not freed and that no other thread uses now; `name` is null or a text that ends with a 0;
/// `host` may be called with `context` from any thread while the module lives, and gives null or a value of its own.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_module_register(
    module: *mut RxModule,
    name: *const c_char,
    host: Option<Host>,
    context: *mut c_void,
) -> i32 {
    // SAFETY: the caller promises it.
    let (Some(module), Some(host), false) = (unsafe { module.as_mut() }, host, name.is_null())
    else {
        fail::<c_void>("the module, the name or the function is null");
        return 0;
    };
    // SAFETY: the caller promises it, and it is not null.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
    let (context, own) = (Context(context), name.clone());
    module.module.register(name, move |call: &HostCall| {
        fail::<c_void>(&format!("the host function `{own}` fails"));
        let call = RxCall(call.clone());
        // SAFETY: whoever registered it promises it.
        let value = unsafe { host(context.get(), &raw const call) };
        if value.is_null() {
            return Err(Stop::trap("call/host", last()));
        }
        // SAFETY: it is a value of its own.
        Ok(unsafe { Box::from_raw(value) }.0)
    });
    1
}

/// # Safety
/// `message` is null or a text that ends with a 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_fail(message: *const c_char) -> *mut RxValue {
    if message.is_null() {
        return fail("a host function fails");
    }
    // SAFETY: the caller promises it, and it is not null.
    fail(&unsafe { CStr::from_ptr(message) }.to_string_lossy())
}

/// # Safety
/// `call` is null, or one that a host function was called with, which has not ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_call_count(call: *const RxCall) -> usize {
    // SAFETY: the caller promises it.
    unsafe { call.as_ref() }.map_or(0, |call| call.0.args.len())
}

/// # Safety
/// As of [`rx_call_count`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_call_argument(call: *const RxCall, index: usize) -> *mut RxValue {
    // SAFETY: the caller promises it.
    let value = unsafe { call.as_ref() }.and_then(|call| call.0.args.get(index).cloned());
    value.map_or_else(|| fail("there is no such argument"), given)
}

/// # Safety
/// As of [`rx_call_count`], and `name` is null or a text that ends with a 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rx_call_keyword(call: *const RxCall, name: *const c_char) -> *mut RxValue {
    // SAFETY: the caller promises it.
    let (Some(call), false) = (unsafe { call.as_ref() }, name.is_null()) else { return null_mut() };
    // SAFETY: the caller promises it, and it is not null.
    let name = unsafe { CStr::from_ptr(name) }.to_bytes();
    let value = call.0.keywords.iter().find(|(known, _)| known.as_bytes() == name);
    value.map_or_else(|| fail("there is no such keyword"), |(_, value)| given(value.clone()))
}
