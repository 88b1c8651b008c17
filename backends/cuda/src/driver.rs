//! The device of the driver, which is loaded when it is wanted: this crate builds and starts without CUDA.
#![allow(unsafe_code)] // the driver is called: each block says why it may be

use crate::cublas::Cublas;
use crate::ranks::{Clique, Links};
use crate::staging::{HALF, Staging};
use crate::{Device, Error, Form, Nvrtc, Product};
use cudarc::driver::result::{
    self as cuda, DriverError, ctx, device, event, graph, launch_kernel, module, primary_ctx,
    stream,
};
use cudarc::driver::sys::{
    self, CUcontext, CUdevice, CUdevice_attribute, CUevent, CUevent_flags, CUfunction, CUgraphExec,
    CUgraphInstantiate_flags, CUmodule, CUstream, CUstreamCaptureMode,
};
use relax_emit::cuda::Sizes;
use std::collections::BTreeMap;
use std::ffi::{CString, c_void};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// What a device is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Its name, as the driver tells it.
    pub name: String,
    /// `sm_90`
    pub architecture: String,
    /// Up to which version of CUDA its driver goes: `CUDA 12.4`.
    pub driver: String,
    /// Of its memory.
    pub bytes: u64,
}

/// A device with the functions of one text. What it holds of the driver goes in this order.
pub struct Driver {
    /// To the devices of other ranks.
    pub(crate) links: Option<Links>,
    /// Looked for when a product is asked for.
    cublas: OnceLock<Option<Cublas>>,
    functions: Mutex<BTreeMap<String, Function>>,
    /// What copies go through, once there was one.
    staging: Mutex<Option<Staging>>,
    /// The clock, once it was started.
    started: Mutex<Option<Event>>,
    /// All that is asked for is done on it, in order.
    pub(crate) stream: Stream,
    module: Module,
    /// Those that were loaded later.
    pub(crate) more: Mutex<Vec<Module>>,
    pub(crate) architecture: String,
    context: Context,
}

/// The first context of a device, which is the same for all who retain it.
struct Context {
    device: CUdevice,
    context: CUcontext,
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: it was retained when this was made, of the same device.
        let _ = unsafe { primary_ctx::release(self.device) };
    }
}

/// A stream; the context is the thread's where it goes.
pub(crate) struct Stream(pub(crate) CUstream);

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: it was made with this, and nobody else has it.
        let _ = unsafe { stream::destroy(self.0) };
    }
}

/// A time on the stream; the context is the thread's where it goes.
pub(crate) struct Event(pub(crate) CUevent);

impl Event {
    /// On a stream that is there, of the context that is the thread's.
    pub(crate) fn of(stream: &Stream) -> Result<Self, Error> {
        let made = event::create(CUevent_flags::CU_EVENT_DEFAULT).map_err(said)?;
        let made = Self(made);
        // SAFETY: both are there.
        unsafe { event::record(made.0, stream.0) }.map_err(said)?;
        Ok(made)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: it was made with this, and nobody else has it.
        let _ = unsafe { event::destroy(self.0) };
    }
}

// SAFETY: as of `Driver`.
unsafe impl Send for Event {}

/// Loaded code; the context is the thread's where it goes.
pub(crate) struct Module(CUmodule);

impl Module {
    /// Into the context that is the thread's.
    pub(crate) fn load(code: &[u8]) -> Result<Self, Error> {
        // SAFETY: NVRTC made the code, which is copied.
        unsafe { module::load_data(code.as_ptr().cast::<c_void>()) }.map(Self).map_err(said)
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        // SAFETY: it was loaded with this, and nothing of it is under way: the stream was waited for.
        let _ = unsafe { module::unload(self.0) };
    }
}

/// A recorded graph.
pub struct Graph(CUgraphExec);

// SAFETY: as of `Driver`.
unsafe impl Send for Graph {}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: it was made by `end_capture` and nobody uses it after this; the driver keeps it while it runs.
        let _ = unsafe { graph::exec_destroy(self.0) };
    }
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
// SAFETY: as above.
unsafe impl Send for Module {}

pub(crate) fn said(error: DriverError) -> Error {
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

/// Those of ranks, one of each, and that there is what moves tensors between them.
///
/// # Errors
/// When there are fewer devices, or no library.
pub fn devices_of_ranks(ranks: usize) -> Result<Vec<Facts>, Error> {
    let mut all = devices()?;
    if all.len() < ranks {
        return Err(Error::FewDevices { ranks, devices: all.len() });
    }
    all.truncate(ranks);
    if ranks > 1 {
        Clique::new()?;
    }
    Ok(all)
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
    let mut version = 0;
    // SAFETY: the driver writes the number and keeps nothing.
    unsafe { sys::cuDriverGetVersion(&raw mut version) }.result().map_err(said)?;
    let driver = format!("CUDA {}.{}", version / 1000, version % 1000 / 10);
    Ok(Facts { name, architecture: format!("sm_{major}{minor}"), driver, bytes })
}

impl Driver {
    /// The first device, with a text that is compiled for it.
    ///
    /// # Errors
    /// When there is no device or no compiler, or one of them fails.
    pub fn new(text: &str) -> Result<Self, Error> {
        start()?;
        Self::on(0, text, None)
    }

    /// The first devices, one for each rank, with the same text.
    ///
    /// # Errors
    /// When there are fewer, no compiler or no library of collectives, or one of them fails.
    pub fn of_ranks(text: &str, ranks: usize) -> Result<Vec<Self>, Error> {
        start()?;
        let clique = if ranks > 1 { Some(Clique::new()?) } else { None };
        let on = |rank: usize| {
            let ordinal = i32::try_from(rank).unwrap_or(i32::MAX);
            let links = clique.as_ref().map(|clique| Links::new(clique, rank));
            Self::on(ordinal, text, links)
        };
        (0..ranks).map(on).collect()
    }

    fn on(ordinal: i32, text: &str, links: Option<Links>) -> Result<Self, Error> {
        let found = device::get(ordinal).map_err(|error| Error::NoDevice(format!("{error:?}")))?;
        let architecture = facts(ordinal)?.architecture;
        let code = code(links.as_ref(), text, &architecture)?;
        // SAFETY: the device is one that was given; the context is released with what is made here.
        let context = unsafe { primary_ctx::retain(found) }.map_err(said)?;
        let context = Context { device: found, context };
        // SAFETY: the context was given a moment ago.
        unsafe { ctx::set_current(context.context) }.map_err(said)?;
        let (module, more) = (Module::load(&code)?, Mutex::default());
        let stream = Stream(stream::create(stream::StreamKind::NonBlocking).map_err(said)?);
        let (functions, staging, cublas) = (Mutex::default(), Mutex::default(), OnceLock::new());
        let started = Mutex::default();
        Ok(Self {
            links,
            cublas,
            functions,
            staging,
            started,
            stream,
            module,
            more,
            architecture,
            context,
        })
    }

    /// Waits for all that was asked for.
    pub(crate) fn wait(&self) -> Result<(), Error> {
        self.pass()?;
        self.wait_alone()
    }

    /// Waits for collectives in a way that ends where another rank fails.
    fn pass(&self) -> Result<(), Error> {
        self.links.as_ref().map_or(Ok(()), Links::pass)
    }

    /// Waits for all that was asked for, and where it is a collective, for other ranks whatever they do.
    fn wait_alone(&self) -> Result<(), Error> {
        let mut staging = self.staging.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the stream is there while this is.
        unsafe { stream::synchronize(self.stream.0) }.map_err(said)?;
        // Nobody asked for a copy meanwhile: that needs the lock.
        if let Some(staging) = &mut *staging {
            staging.is_idle();
        }
        Ok(())
    }

    /// Does something with what copies go through.
    fn staged(
        &self,
        copy: impl FnOnce(&mut Staging, &Stream) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.enter()?;
        let mut staging = self.staging.lock().unwrap_or_else(PoisonError::into_inner);
        let staging = match &mut *staging {
            Some(staging) => staging,
            none => none.insert(Staging::new()?),
        };
        copy(staging, &self.stream)
    }

    pub(crate) fn enter(&self) -> Result<(), Error> {
        // SAFETY: the context is there while this is.
        unsafe { ctx::set_current(self.context.context) }.map_err(said)
    }

    fn function(&self, symbol: &str) -> Result<CUfunction, Error> {
        let functions = self.functions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(Function(known)) = functions.get(symbol) {
            return Ok(*known);
        }
        drop(functions);
        self.function_of(&self.module, symbol)
    }

    /// That of a module which stays as long as this.
    pub(crate) fn function_of(&self, module: &Module, symbol: &str) -> Result<CUfunction, Error> {
        let name = CString::new(symbol).map_err(|error| Error::Driver(error.to_string()))?;
        // SAFETY: the module is loaded while this is there.
        let found = unsafe { module::get_function(module.0, name) }.map_err(said)?;
        let mut functions = self.functions.lock().unwrap_or_else(PoisonError::into_inner);
        functions.insert(symbol.to_owned(), Function(found));
        Ok(found)
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let _ = self.enter();
        let _ = self.pass();
        let _ = self.wait_alone();
    }
}

/// A text, compiled.
pub(crate) fn code(
    links: Option<&Links>,
    text: &str,
    architecture: &str,
) -> Result<Arc<[u8]>, Error> {
    match links {
        Some(links) => links.code(text, architecture),
        None => Ok(Nvrtc::find()?.compile(text, architecture)?.into()),
    }
}

impl Device for Driver {
    type Graph = Graph;

    fn allocate(&self, bytes: usize) -> Result<u64, Error> {
        self.enter()?;
        // SAFETY: nothing reads it before something was written.
        unsafe { cuda::malloc_sync(bytes) }.map_err(said)
    }

    fn release(&self, address: u64) -> Result<(), Error> {
        self.enter()?;
        self.wait()?;
        // SAFETY: `allocate` gave it, the caller is done with it, and nothing is under way.
        unsafe { cuda::free_sync(address) }.map_err(said)
    }

    fn upload(&self, address: u64, bytes: &[u8]) -> Result<(), Error> {
        if bytes.len() > HALF {
            self.enter()?;
            self.pass()?;
        }
        self.staged(|staging, stream| staging.upload(address, bytes, stream))
    }

    fn download(&self, address: u64, bytes: &mut [u8]) -> Result<(), Error> {
        if bytes.is_empty() {
            self.enter()?;
            return self.wait();
        }
        self.enter()?;
        self.pass()?;
        self.staged(|staging, stream| staging.download(address, bytes, stream))
    }

    fn copy(&self, from: u64, to: u64, bytes: usize) -> Result<(), Error> {
        self.enter()?;
        // SAFETY: the caller asked for as many bytes at both addresses.
        unsafe { cuda::memcpy_dtod_async(to, from, bytes, self.stream.0) }.map_err(said)
    }

    fn fill(&self, address: u64, byte: u8, bytes: usize) -> Result<(), Error> {
        self.enter()?;
        // SAFETY: the caller asked for as many bytes at this address.
        unsafe { cuda::memset_d8_async(address, byte, bytes, self.stream.0) }.map_err(said)
    }

    fn launch(&self, symbol: &str, sizes: &Sizes, arguments: &[u64]) -> Result<(), Error> {
        self.enter()?;
        let function = self.function(symbol)?;
        let mut values = arguments.to_vec();
        let mut list: Vec<*mut c_void> =
            values.iter_mut().map(|value| std::ptr::from_mut(value).cast()).collect();
        let ([x, y, z], [u, v, w]) = (sizes.blocks, sizes.threads);
        // SAFETY: every parameter of a printed function has eight bytes, and there are as many; the driver copies them, also
        // into a graph. What they point to is released on the same stream after it.
        let launched =
            unsafe { launch_kernel(function, (x, y, z), (u, v, w), 0, self.stream.0, &mut list) };
        launched.map_err(|error| Error::Driver(format!("{symbol}: {error:?}")))
    }

    fn multiplies(&self, form: &Form) -> bool {
        let find = || self.enter().ok().and_then(|()| Cublas::find());
        self.cublas.get_or_init(find).as_ref().is_some_and(|cublas| cublas.has(form))
    }

    fn multiply(&self, product: &Product) -> Result<(), Error> {
        self.enter()?;
        match self.cublas.get() {
            Some(Some(cublas)) => cublas.multiply(product, self.stream.0),
            _ => Err(Error::Driver("cuBLASLt is not there".to_owned())),
        }
    }

    fn begin_capture(&self) -> Result<(), Error> {
        self.enter()?;
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream is there while this is.
        unsafe { stream::begin_capture(self.stream.0, mode) }.map_err(said)
    }

    fn end_capture(&self) -> Result<Graph, Error> {
        self.enter()?;
        // SAFETY: the stream is there while this is.
        let recorded = unsafe { stream::end_capture(self.stream.0) }.map_err(said)?;
        if recorded.is_null() {
            return Err(Error::Driver("the stream recorded no graph".to_owned()));
        }
        // SAFETY: the graph was given a moment ago.
        let made = unsafe { graph::instantiate(recorded, CUgraphInstantiate_flags(0)) };
        // SAFETY: what was made of it does not need it.
        let _ = unsafe { graph::destroy(recorded) };
        made.map(Graph).map_err(said)
    }

    fn replay(&self, graph: &Graph) -> Result<(), Error> {
        self.enter()?;
        // SAFETY: both are there, and so is the memory that the graph uses: whoever releases some forgets all graphs.
        unsafe { graph::launch(graph.0, self.stream.0) }.map_err(said)
    }

    fn start_clock(&self) -> Result<(), Error> {
        self.enter()?;
        let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        *started = Some(Event::of(&self.stream)?);
        Ok(())
    }

    fn read_clock(&self) -> Result<Duration, Error> {
        self.enter()?;
        let mut started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(start) = started.take() else {
            return Err(Error::Driver("no clock was started".to_owned()));
        };
        let end = Event::of(&self.stream)?;
        self.wait()?;
        // SAFETY: both were recorded on the stream, which was waited for.
        let milliseconds = unsafe { event::elapsed(start.0, end.0) }.map_err(said)?;
        Ok(Duration::from_secs_f64(f64::from(milliseconds.max(0.0)) / 1e3))
    }
}
