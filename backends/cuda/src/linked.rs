//! The device of a rank: its collectives go through NCCL, on the stream that its kernels run on.
#![allow(unsafe_code)] // the driver is called: each block says why it may be

use crate::driver::{Driver, Module, code, said};
use crate::links::{Group, Linked, Reduced, Rows, Transfer};
use crate::nccl::{Handle, Nccl};
use crate::ranks::Links;
use crate::{Device, Error};
use cudarc::driver::sys::{self, CUstream};
use std::sync::PoisonError;

/// Bytes from a row to the next that the driver copies at most.
const PITCH: usize = 1 << 30;

impl Driver {
    fn links(&self) -> Result<&Links, Error> {
        self.enter()?;
        let alone = || Error::Driver("this device has no other ranks".to_owned());
        self.links.as_ref().ok_or_else(alone)
    }

    /// Asks the library for something that all ranks of a group ask for.
    fn ask(
        &self,
        group: &Group,
        what: impl FnOnce(&Nccl, (Handle, CUstream)) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let on = |nccl: &Nccl, handle: Handle| what(nccl, (handle, self.stream.0));
        self.links()?.ask(group, &self.stream, on)
    }
}

impl Linked for Driver {
    fn copy_rows(&self, from: Rows, to: Rows, width: usize, count: usize) -> Result<(), Error> {
        self.enter()?;
        if count == 1 || from.pitch.max(to.pitch) > PITCH {
            let row = |at: usize| {
                let place = |rows: Rows| rows.address + (at * rows.pitch) as u64;
                self.copy(place(from), place(to), width)
            };
            return (0..count).try_for_each(row);
        }
        let copy = sys::CUDA_MEMCPY2D_st {
            srcXInBytes: 0,
            srcY: 0,
            srcMemoryType: sys::CUmemorytype::CU_MEMORYTYPE_DEVICE,
            srcHost: std::ptr::null(),
            srcDevice: from.address,
            srcArray: std::ptr::null_mut(),
            srcPitch: from.pitch,
            dstXInBytes: 0,
            dstY: 0,
            dstMemoryType: sys::CUmemorytype::CU_MEMORYTYPE_DEVICE,
            dstHost: std::ptr::null_mut(),
            dstDevice: to.address,
            dstArray: std::ptr::null_mut(),
            dstPitch: to.pitch,
            WidthInBytes: width,
            Height: count,
        };
        // SAFETY: the caller asked for as many rows at both places; the description is read before this returns.
        unsafe { sys::cuMemcpy2DAsync_v2(&raw const copy, self.stream.0) }.result().map_err(said)
    }

    fn load(&self, text: &str, symbol: &str) -> Result<(), Error> {
        self.enter()?;
        let code = code(self.links.as_ref(), text, &self.architecture)?;
        let module = Module::load(&code)?;
        self.function_of(&module, symbol)?;
        self.more.lock().unwrap_or_else(PoisonError::into_inner).push(module);
        Ok(())
    }

    fn transfer(&self, group: &Group, transfers: &[Transfer]) -> Result<(), Error> {
        self.ask(group, |nccl, on| {
            transfers.iter().try_for_each(|transfer| match *transfer {
                Transfer::Send { to, address, bytes } => nccl.send(on, (address, bytes), to),
                Transfer::Receive { from, address, bytes } => {
                    nccl.receive(on, (address, bytes), from)
                }
            })
        })
    }

    fn all_gather(&self, group: &Group, from: u64, to: u64, bytes: usize) -> Result<(), Error> {
        self.ask(group, |nccl, on| nccl.all_gather(on, (from, to), bytes))
    }

    fn all_reduce(&self, group: &Group, from: u64, to: u64, what: Reduced) -> Result<(), Error> {
        let Reduced { dtype, reduction, count } = what;
        self.ask(group, |nccl, on| nccl.all_reduce(on, (from, to), (count, dtype, reduction)))
    }

    fn reduce_scatter(
        &self,
        group: &Group,
        from: u64,
        to: u64,
        what: Reduced,
    ) -> Result<(), Error> {
        let Reduced { dtype, reduction, count } = what;
        self.ask(group, |nccl, on| nccl.reduce_scatter(on, (from, to), (count, dtype, reduction)))
    }

    fn finish(&self) -> Result<(), Error> {
        self.enter()?;
        let waited = self.wait();
        if let (Some(links), Err(error)) = (&self.links, &waited)
            && !matches!(error, Error::Rank(_))
        {
            return Err(links.fail(&error.to_string()));
        }
        waited
    }

    fn fail(&self, why: &str) {
        if let Some(links) = &self.links {
            links.fail(why);
        }
    }
}
