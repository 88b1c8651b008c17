//! Copies between host and device by way of memory that the driver has pinned: the device copies to and from that by itself, while the
//! host copies the part before. Memory that is not pinned the driver copies by a way of its own, an order of magnitude slower.
#![allow(unsafe_code)] // the driver is called: each block says why it may be

use crate::Error;
use crate::driver::{Event, Stream, said};
use cudarc::driver::result::{self as cuda, event};
use std::ffi::c_void;

/// Bytes of each half. Larger ones gain nothing: a copy of as many takes longer than it takes to ask for it.
pub(crate) const HALF: usize = 4 << 20;

/// Two pieces of pinned memory, which take turns.
pub(crate) struct Staging {
    halves: [Half; 2],
    /// The half that uploads go to, and how much of it they have taken.
    current: usize,
    used: usize,
}

/// What the device copies from or to.
struct Half {
    bytes: *mut u8,
    /// Behind the copies that were asked for last; none while nothing uses it.
    reached: Option<Event>,
}

// SAFETY: the memory is the half's own, and pinned for every context.
unsafe impl Send for Half {}

impl Half {
    fn new() -> Result<Self, Error> {
        // CU_MEMHOSTALLOC_PORTABLE: whatever context is current when it goes.
        // SAFETY: nothing is read of it before something was written.
        let bytes = unsafe { cuda::malloc_host(HALF, 1) }.map_err(said)?;
        Ok(Self { bytes: bytes.cast(), reached: None })
    }

    /// Marks the end of the copies that were asked for.
    fn mark(&mut self, stream: &Stream) -> Result<(), Error> {
        self.reached = Some(Event::of(stream)?);
        Ok(())
    }

    /// Waits for those copies.
    fn wait(&mut self) -> Result<(), Error> {
        let Some(reached) = self.reached.take() else { return Ok(()) };
        // SAFETY: the event is there.
        unsafe { event::synchronize(reached.0) }.map_err(said)
    }

    /// The first bytes. Nothing that was asked for uses them.
    fn first(&mut self, count: usize) -> &mut [u8] {
        // SAFETY: the memory is there, has as many bytes, which were written (by the caller, or a copy that was waited for), and
        // is this half's alone.
        unsafe { std::slice::from_raw_parts_mut(self.bytes, count.min(HALF)) }
    }
}

impl Drop for Half {
    fn drop(&mut self) {
        // The device may still copy.
        let _ = self.wait();
        // SAFETY: it was allocated with this.
        let _ = unsafe { cuda::free_host(self.bytes.cast::<c_void>()) };
    }
}

impl Staging {
    /// With the context that is the thread's.
    pub(crate) fn new() -> Result<Self, Error> {
        let halves = [Half::new()?, Half::new()?];
        halves.iter().for_each(|half| {
            // SAFETY: the memory is there, and nothing uses it yet.
            unsafe { half.bytes.write_bytes(0, HALF) }
        });
        Ok(Self { halves, current: 0, used: 0 })
    }

    /// Asks for a copy to the device. The bytes are free at the return.
    pub(crate) fn upload(
        &mut self,
        mut address: u64,
        mut bytes: &[u8],
        stream: &Stream,
    ) -> Result<(), Error> {
        while !bytes.is_empty() {
            if self.used == HALF {
                self.halves[self.current].mark(stream)?;
                self.current = 1 - self.current;
                self.halves[self.current].wait()?;
                self.used = 0;
            }
            let (piece, rest) = bytes.split_at(bytes.len().min(HALF - self.used));
            // SAFETY: of this half nothing from `used` on is in use: it was waited for before the first use. Both ranges lie in
            // their memories.
            let staged = unsafe {
                let staged = self.halves[self.current].bytes.add(self.used);
                std::ptr::copy_nonoverlapping(piece.as_ptr(), staged, piece.len());
                std::slice::from_raw_parts(staged, piece.len())
            };
            // SAFETY: the caller asked for as many bytes at this address; the half is not written there before it was waited for.
            unsafe { cuda::memcpy_htod_async(address, staged, stream.0) }.map_err(said)?;
            self.used += piece.len();
            address += piece.len() as u64;
            bytes = rest;
        }
        Ok(())
    }

    /// Copies from the device, and waits for all that was asked for.
    pub(crate) fn download(
        &mut self,
        mut address: u64,
        bytes: &mut [u8],
        stream: &Stream,
    ) -> Result<(), Error> {
        // Copies are made in the order of the stream: what is uploaded from a half has been read before it is written to here.
        let mut before: Option<(usize, &mut [u8])> = None;
        for (at, piece) in bytes.chunks_mut(HALF).enumerate() {
            let half = at % 2;
            let staged = self.halves[half].first(piece.len());
            // SAFETY: the caller asked for as many bytes at this address; the half is not looked at before it was waited for.
            unsafe { cuda::memcpy_dtoh_async(staged, address, stream.0) }.map_err(said)?;
            self.halves[half].mark(stream)?;
            address += piece.len() as u64;
            if let Some((half, piece)) = before.replace((half, piece)) {
                self.taken(half, piece)?;
            }
        }
        match before {
            Some((half, piece)) => self.taken(half, piece)?,
            None => return Ok(()),
        }
        self.is_idle();
        Ok(())
    }

    /// Waits for a half, and takes what it has.
    fn taken(&mut self, half: usize, piece: &mut [u8]) -> Result<(), Error> {
        self.halves[half].wait()?;
        piece.copy_from_slice(self.halves[half].first(piece.len()));
        Ok(())
    }

    /// The stream was waited for.
    pub(crate) fn is_idle(&mut self) {
        self.used = 0;
        self.halves.iter_mut().for_each(|half| half.reached = None);
    }
}
