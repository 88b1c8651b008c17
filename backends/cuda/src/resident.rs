//! Calls of kernels on tensors that lie on the device. An input that is there already is not brought there again; what a
//! kernel writes stays until the machine settles it ([`relax_runtime::Kernels::settle`]). Kernels that cannot stop are only
//! asked for. Of one that can, the status is waited for, and what it writes to is kept before, where it holds something: the
//! interpreter is given what the call began with.
#![allow(unsafe_code)] // tensors are copied from and to where they lie: each block says why it may be

use crate::blocks::{Blocks, Room};
use crate::collectives::Folds;
use crate::product::Offered;
use crate::queue::{Queue, Step};
use crate::{Device, Error, Product};
use relax_emit::cuda::{Begins, CudaKernel, Plan};
use relax_runtime::{KernelTrap, Mirrors, TensorArg};
use std::sync::Arc;
use std::time::Duration;

/// What the status holds where nothing stopped.
const FINE: u32 = u32::MAX;
const STATUS: usize = size_of::<u32>();

/// A call of a kernel.
pub(crate) struct Call<'c> {
    pub(crate) kernel: &'c CudaKernel,
    /// Names of its functions.
    pub(crate) symbols: &'c [Arc<str>],
    /// What of it a library may compute.
    pub(crate) offered: Option<&'c Offered>,
    pub(crate) plan: &'c Plan,
    pub(crate) tensors: &'c [TensorArg<'c>],
}

/// How a call ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Fine,
    /// A thread stopped at a site of this number; the tensors are as they were.
    Stopped(usize),
    /// What the machine said of a tensor.
    Refused(KernelTrap),
}

/// What lies on a device, and what it is to do.
pub(crate) struct Resident<D: Device> {
    mirrors: Mirrors<()>,
    blocks: Blocks,
    pub(crate) queue: Queue<D>,
    /// Kernels of collectives.
    pub(crate) folds: Folds,
    /// One word, for all kernels.
    status: Option<u64>,
    /// Of the last call, where calls are timed.
    elapsed: Option<Duration>,
}

/// Memory of one call.
#[derive(Default)]
pub(crate) struct Own {
    rooms: Vec<Room>,
    /// Where something that may have to be restored lies, where it was kept, and how many bytes it has.
    kept: Vec<(u64, u64, usize)>,
}

impl<D: Device> Resident<D> {
    pub(crate) fn new(device: D) -> Self {
        let (mirrors, blocks, folds) = (Mirrors::default(), Blocks::default(), Folds::new());
        Self { mirrors, blocks, queue: Queue::new(device), folds, status: None, elapsed: None }
    }

    /// Asks for the functions of a kernel. One that watches what was written of its tensors is given maps of them, with a byte for each
    /// element, which are brought up to date.
    pub(crate) fn run(
        &mut self,
        call: &Call<'_>,
        maps: Option<&mut [Vec<u8>]>,
    ) -> Result<Ended, Error> {
        let mut own = Own::default();
        let ended = self.run_on(call, maps.unwrap_or_default(), &mut own);
        self.give_back(own)?;
        ended
    }

    /// Memory of a call that is over: what was asked for is done before anybody else uses it.
    pub(crate) fn give_back(&mut self, own: Own) -> Result<(), Error> {
        own.rooms.into_iter().for_each(|room| self.blocks.give_back(room));
        self.blocks.trim(&mut self.queue)
    }

    /// The device has the elements of a tensor that was written there.
    pub(crate) fn has(&mut self, tensor: &TensorArg<'_>) {
        self.mirrors.put(tensor, ((), true), &mut Vec::new());
    }

    fn run_on(
        &mut self,
        call: &Call<'_>,
        maps: &mut [Vec<u8>],
        own: &mut Own,
    ) -> Result<Ended, Error> {
        let can_stop = !call.kernel.sites.is_empty();
        let mut arguments = vec![self.status()?];
        for tensor in call.tensors {
            arguments.push(self.bring(tensor, own)?);
        }
        if let Some(product) = self.product(call, &arguments[1..]) {
            self.queue.start_clock()?;
            self.queue.step(Step::Multiply(product))?;
            self.elapsed = self.queue.read_clock()?;
            return self.written(call, &arguments);
        }
        let mut noted = Vec::new();
        for (workspace, &bytes) in call.kernel.workspaces.iter().zip(&call.plan.workspaces) {
            let address = self.take(bytes, own)?;
            match workspace.begins {
                Begins::Cleared if bytes > 0 => {
                    self.queue.step(Step::Fill { address, byte: 0, bytes })?;
                }
                Begins::Given(at) if bytes > 0 => {
                    self.queue.upload(address, &maps[at])?;
                    noted.push((at, address));
                }
                _ => {}
            }
            arguments.push(address);
        }
        if can_stop {
            self.keep_written(call, &arguments, own)?;
        }
        // The same bits.
        let integers = call.plan.integers.iter().map(|&value| value as u64);
        arguments.extend(integers);
        let launches = call.symbols.iter().zip(&call.plan.sizes);
        self.queue.start_clock()?;
        for (symbol, sizes) in launches.filter(|(_, sizes)| sizes.blocks() > 0) {
            let (symbol, arguments) = (Arc::clone(symbol), arguments.clone());
            self.queue.step(Step::Launch { symbol, sizes: *sizes, arguments })?;
        }
        self.elapsed = self.queue.read_clock()?;
        if can_stop && let Some(site) = self.stopped(arguments[0])? {
            for &(from, to, bytes) in &own.kept {
                self.queue.step(Step::Copy { from: to, to: from, bytes })?;
            }
            return Ok(Ended::Stopped(site));
        }
        for (at, address) in noted.into_iter().filter(|(at, _)| call.kernel.writes[*at]) {
            self.queue.download(address, &mut maps[at])?;
        }
        self.written(call, &arguments)
    }

    /// What the library computes in the place of the kernel, if it does.
    fn product(&self, call: &Call<'_>, addresses: &[u64]) -> Option<Product> {
        let product = Product::of(call.offered?, call.tensors, addresses)?;
        self.queue.multiplies(&product.form).then_some(product)
    }

    /// The word that functions write to; nothing stopped so far.
    pub(crate) fn status(&mut self) -> Result<u64, Error> {
        if let Some(known) = self.status {
            return Ok(known);
        }
        let room = self.blocks.take(STATUS, &mut self.queue)?;
        let address = room.address;
        let filled = self.queue.step(Step::Fill { address, byte: 0xff, bytes: STATUS });
        // What holds no status is memory like any other.
        match filled {
            Ok(()) => self.status = Some(address),
            Err(_) => self.blocks.give_back(room),
        }
        filled.map(|()| address)
    }

    /// Waits; the site where something stopped.
    fn stopped(&mut self, status: u64) -> Result<Option<usize>, Error> {
        let mut word = [0; STATUS];
        self.queue.download(status, &mut word)?;
        let word = u32::from_ne_bytes(word);
        if word == FINE {
            return Ok(None);
        }
        self.queue.step(Step::Fill { address: status, byte: 0xff, bytes: STATUS })?;
        Ok(Some(usize::try_from(word).unwrap_or(0).saturating_sub(1)))
    }

    pub(crate) fn take(&mut self, bytes: usize, own: &mut Own) -> Result<u64, Error> {
        let room = self.blocks.take(bytes, &mut self.queue)?;
        own.rooms.push(room);
        Ok(room.address)
    }

    /// Where a tensor is on the device, with its elements.
    pub(crate) fn bring(&mut self, tensor: &TensorArg<'_>, own: &mut Own) -> Result<u64, Error> {
        let memory = tensor.memory();
        let address = match &memory {
            Some(memory) => self.blocks.address(memory, &mut self.queue)?,
            None => self.take(tensor.length(), own)?,
        };
        let is_there = memory.is_some() && self.mirrors.of(tensor).is_some();
        if tensor.is_written() && tensor.length() > 0 && !is_there {
            // SAFETY: a dense tensor of a call has as many bytes there, which nobody writes to before this call of ours ends.
            let bytes = unsafe { std::slice::from_raw_parts(tensor.data(), tensor.length()) };
            self.queue.upload(address, bytes)?;
            if memory.is_some() {
                self.mirrors.put(tensor, ((), false), &mut Vec::new());
            }
        }
        Ok(address)
    }

    /// Keeps what a kernel that may stop writes to.
    fn keep_written(
        &mut self,
        call: &Call<'_>,
        arguments: &[u64],
        own: &mut Own,
    ) -> Result<(), Error> {
        let written = call.tensors.iter().zip(&arguments[1..]).zip(&call.kernel.writes);
        for ((tensor, &from), _) in written.filter(|(_, writes)| **writes) {
            let bytes = tensor.length();
            if tensor.memory().is_some() && tensor.is_written() && bytes > 0 {
                let to = self.take(bytes, own)?;
                self.queue.step(Step::Copy { from, to, bytes })?;
                own.kept.push((from, to, bytes));
            }
        }
        Ok(())
    }

    /// After the launches: the device has the elements of what was written. What the machine looks at is brought there.
    fn written(&mut self, call: &Call<'_>, arguments: &[u64]) -> Result<Ended, Error> {
        let written = call.tensors.iter().zip(&arguments[1..]).zip(&call.kernel.writes);
        for ((tensor, &address), _) in written.filter(|(_, writes)| **writes) {
            if tensor.memory().is_some() {
                self.has(tensor);
            } else if tensor.length() > 0 {
                let mut bytes = vec![0; tensor.length()];
                self.queue.download(address, &mut bytes)?;
                if let Err(trap) = tensor.write(&bytes) {
                    return Ok(Ended::Refused(trap));
                }
            }
        }
        Ok(Ended::Fine)
    }

    /// Something else than the device writes to a tensor.
    pub(crate) fn forget(&mut self, tensor: &TensorArg<'_>) {
        self.mirrors.forget(tensor, &mut Vec::new());
    }

    /// Brings a tensor to where the machine has it.
    pub(crate) fn settle(&mut self, tensor: &TensorArg<'_>) -> Result<Ended, Error> {
        let Some(mirror) = self.mirrors.of(tensor).filter(|mirror| mirror.is_newer) else {
            return Ok(Ended::Fine);
        };
        mirror.is_newer = false;
        let Some(memory) = tensor.memory().filter(|_| tensor.length() > 0) else {
            return Ok(Ended::Fine);
        };
        let address = self.blocks.address(&memory, &mut self.queue)?;
        let to = match tensor.settled(tensor.length()) {
            Ok(to) => to,
            Err(trap) => return Ok(Ended::Refused(trap)),
        };
        // SAFETY: the tensor has as many bytes there, which are touched through it alone: here, where nothing else uses it.
        let bytes = unsafe { std::slice::from_raw_parts_mut(to.as_ptr(), tensor.length()) };
        self.queue.download(address, bytes)?;
        Ok(Ended::Fine)
    }

    /// From now on calls are timed.
    pub(crate) fn measure(&mut self) {
        self.queue.measure();
    }

    /// How long the last call ran on the device, if calls are timed.
    pub(crate) fn elapsed(&self) -> Option<Duration> {
        self.elapsed
    }

    /// What is asked for from here on is a graph.
    pub(crate) fn begin_graph(&mut self) -> Result<(), Error> {
        self.queue.begin()
    }

    /// It ends here.
    pub(crate) fn end_graph(&mut self) -> Result<(), Error> {
        self.queue.end()
    }
}

impl<D: Device> Drop for Resident<D> {
    fn drop(&mut self) {
        // What the device says now was said by a call before.
        if let Some(status) = self.status.take() {
            let _ = self.queue.release(status);
        }
        let _ = self.blocks.release_all(&mut self.queue);
    }
}
