//! The device of the driver, which is loaded when it is wanted: this crate builds and starts without CUDA.
#![allow(unsafe_code)] // the driver is called: each block says why it may be

use crate::{Device, Error, Nvrtc};
use cudarc::driver::result::{
    self as cuda, DriverError, ctx, device, launch_kernel, module, primary_ctx,
};
use cudarc::driver::sys::{self, CUcontext, CUdevice_attribute, CUfunction, CUmodule};
use relax_emit::cuda::Sizes;
use std::collections::BTreeMap;
use std::ffi::{CString, c_void};
use std::sync::{Mutex, PoisonError};

/// What a device is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Its name.
    pub name: String,
    /// `sm_90`
    pub architecture: String,
    /// Of its memory.
    pub bytes: u64,
}

/// A device with the functions of one text.
pub struct Driver {
    context: CUcontext,
    module: CUmodule,
    functions: Mutex<BTreeMap<String, Function>>,
}

#[derive(Clone, Copy)]
struct Function(CUfunction);

// SAFETY: the driver allows every call from every thread, once the context is the thread's, and each of ours
// makes it so first.
unsafe impl Send for Driver {}
// SAFETY: as above.
unsafe impl Sync for Driver {}
// SAFETY: a handle of the driver is used on any thread, as above.
unsafe impl Send for Function {}

fn said(error: DriverError) -> Error {
    Error::Driver(format!("{error:?}"))
}

/// The devices that are there.
///
/// # Errors
/// When there is no driver, or none of its devices can be used.
pub fn devices() -> Result<Vec<Facts>, Error> {
    start()?;
    let count = device::get_count().map_err(said)?;
    (0..count).map(facts).collect()
}

fn start() -> Result<(), Error> {
    // SAFETY: the driver's library starts nothing when it is loaded. To call it without is a panic.
    let is_there = unsafe { sys::is_culib_present() };
    if !is_there {
        return Err(Error::NoDevice("its driver (libcuda) is not installed".to_owned()));
    }
    cuda::init().map_err(|error| Error::NoDevice(format!("{error:?}")))
}

fn facts(ordinal: i32) -> Result<Facts, Error> {
    use CUdevice_attribute::{
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR as MAJOR,
        CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR as MINOR,
    };
    let found = device::get(ordinal).map_err(said)?;
    let name = device::get_name(found).map_err(said)?;
    // SAFETY: the device is one that was given.
    let (major, minor, bytes) = unsafe {
        let major = device::get_attribute(found, MAJOR).map_err(said)?;
        (major, device::get_attribute(found, MINOR).map_err(said)?, device::total_mem(found))
    };
    let bytes = bytes.map_err(said)? as u64;
    Ok(Facts { name, architecture: format!("sm_{major}{minor}"), bytes })
}

impl Driver {
    /// The first device, with a text that is compiled for it.
    ///
    /// # Errors
    /// When there is no device or no compiler, or one of them fails.
    pub fn new(text: &str) -> Result<Self, Error> {
        start()?;
        let found = device::get(0).map_err(|error| Error::NoDevice(format!("{error:?}")))?;
        let code = Nvrtc::find()?.compile(text, &facts(0)?.architecture)?;
        // SAFETY: the device is one that was given; the context is kept, and released when this is dropped.
        let context = unsafe { primary_ctx::retain(found) }.map_err(said)?;
        // SAFETY: the context was given a moment ago.
        unsafe { ctx::set_current(context) }.map_err(said)?;
        // SAFETY: NVRTC made the code, which is copied.
        let module = unsafe { module::load_data(code.as_ptr().cast::<c_void>()) }.map_err(said)?;
        Ok(Self { context, module, functions: Mutex::default() })
    }

    fn enter(&self) -> Result<(), Error> {
        // SAFETY: the context is there while this is.
        unsafe { ctx::set_current(self.context) }.map_err(said)
    }

    fn function(&self, symbol: &str) -> Result<CUfunction, Error> {
        let mut functions = self.functions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Function(known)) = functions.get(symbol) {
            return Ok(*known);
        }
        let name = CString::new(symbol).map_err(|error| Error::Driver(error.to_string()))?;
        // SAFETY: the module is loaded while this is there.
        let found = unsafe { module::get_function(self.module, name) }.map_err(said)?;
        functions.insert(symbol.to_owned(), Function(found));
        Ok(found)
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.enter();
        // SAFETY: nothing uses the module any more: a call ends when what it launched has ended.
        let _ = unsafe { module::unload(self.module) };
        if let Ok(found) = device::get(0) {
            // SAFETY: it was retained when this was made, of the same device.
            let _ = unsafe { primary_ctx::release(found) };
        }
    }
}

impl Device for Driver {
    fn allocate(&self, bytes: usize) -> Result<u64, Error> {
        self.enter()?;
        // SAFETY: nothing reads it before something was written.
        unsafe { cuda::malloc_sync(bytes) }.map_err(said)
    }

    fn release(&self, address: u64) -> Result<(), Error> {
        self.enter()?;
        // SAFETY: `allocate` gave it, and the caller is done with it; the driver waits for what runs.
        unsafe { cuda::free_sync(address) }.map_err(said)
    }

    fn upload(&self, address: u64, bytes: &[u8]) -> Result<(), Error> {
        self.enter()?;
        // SAFETY: the caller asked for as many bytes at this address.
        unsafe { cuda::memcpy_htod_sync(address, bytes) }.map_err(said)
    }

    fn download(&self, address: u64, bytes: &mut [u8]) -> Result<(), Error> {
        self.enter()?;
        // SAFETY: as above; the copy waits for what was launched, on the same stream.
        unsafe { cuda::memcpy_dtoh_sync(bytes, address) }.map_err(said)
    }

    fn fill(&self, address: u64, byte: u8, bytes: usize) -> Result<(), Error> {
        self.enter()?;
        // SAFETY: the caller asked for as many bytes at this address.
        unsafe { cuda::memset_d8_sync(address, byte, bytes) }.map_err(said)
    }

    fn launch(&self, symbol: &str, sizes: &Sizes, arguments: &[u64]) -> Result<(), Error> {
        self.enter()?;
        let function = self.function(symbol)?;
        let mut values = arguments.to_vec();
        let mut list: Vec<*mut c_void> =
            values.iter_mut().map(|value| std::ptr::from_mut(value).cast()).collect();
        let ([x, y, z], [u, v, w]) = (sizes.blocks, sizes.threads);
        // SAFETY: every parameter of a printed function has eight bytes, and there are as many; the driver copies them.
        // What they point to is held until the call that launches has read its results.
        let launched = unsafe {
            launch_kernel(function, (x, y, z), (u, v, w), 0, std::ptr::null_mut(), &mut list)
        };
        launched.map_err(|error| Error::Driver(format!("{symbol}: {error:?}")))
    }
}
