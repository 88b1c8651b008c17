//! The kernels of a module on a device. Tensors stay there from one call to the next ([`crate::resident`]). What a kernel
//! stops with is said by the interpreter, which runs the same call on what the device has not changed.

use crate::product::{Offered, of_kernel};
use crate::resident::{Call, Ended, Resident};
use crate::{Device, Error};
use relax_emit::cuda::{ALIGNED, CudaKernel, Refused};
use relax_reference::ReferenceKernels;
use relax_rewrite::walk::loaded;
use relax_runtime::{KernelTrap, Kernels, Stop, TensorArg};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Kernels that a device runs, in the order of the machine's numbers.
pub struct DeviceKernels<D: Device> {
    kernels: Vec<Loaded>,
    /// Tells what a call means that stops.
    reference: ReferenceKernels,
    resident: Mutex<Resident<D>>,
}

struct Loaded {
    kernel: CudaKernel,
    /// Names of its functions.
    symbols: Vec<Arc<str>>,
    /// What of it a library may compute.
    offered: Option<Offered>,
    /// Which of its buffers it reads and does not write to.
    reads: Vec<bool>,
}

impl Loaded {
    fn new(kernel: CudaKernel) -> Self {
        let program = &kernel.program;
        let read = loaded(program.body.as_deref().unwrap_or(&[]));
        let buffers = program.buffer_params();
        let reads = buffers.zip(&kernel.writes).map(|(id, writes)| !writes && read.contains(&id));
        let reads = reads.collect();
        let symbols = kernel.launches.iter().map(|launch| launch.symbol.as_str().into()).collect();
        let offered = of_kernel(&kernel);
        Self { kernel, symbols, offered, reads }
    }
}

impl<D: Device> DeviceKernels<D> {
    /// Kernels of which the device has the functions; `reference` has the same programs in the same order.
    #[must_use]
    pub fn new(device: D, kernels: Vec<CudaKernel>, reference: ReferenceKernels) -> Self {
        let kernels = kernels.into_iter().map(Loaded::new).collect();
        Self { kernels, reference, resident: Mutex::new(Resident::new(device)) }
    }

    fn resident(&self) -> MutexGuard<'_, Resident<D>> {
        self.resident.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The interpreter runs a call, on what the device has.
    fn interpret(
        &self,
        number: usize,
        tensors: &[TensorArg<'_>],
        ints: &[i64],
    ) -> Result<(), KernelTrap> {
        let mut resident = self.resident();
        for tensor in tensors {
            settled(resident.settle(tensor))?;
        }
        let writes = self.kernels.get(number).map_or(&[][..], |loaded| &loaded.kernel.writes);
        for (tensor, _) in tensors.iter().zip(writes).filter(|(_, writes)| **writes) {
            resident.forget(tensor);
        }
        drop(resident);
        self.reference.call(number, tensors, ints)
    }
}

fn unsupported(what: &str) -> KernelTrap {
    KernelTrap::Stop(Box::new(Stop::Unsupported(what.to_owned())))
}

fn failed(error: &Error) -> KernelTrap {
    unsupported(&error.to_string())
}

fn settled(ended: Result<Ended, Error>) -> Result<(), KernelTrap> {
    match ended.map_err(|error| failed(&error))? {
        Ended::Fine => Ok(()),
        Ended::Stopped(site) => Err(KernelTrap::Site(site)),
        Ended::Refused(trap) => Err(trap),
    }
}

impl<D: Device> Kernels for DeviceKernels<D> {
    fn call(
        &self,
        number: usize,
        tensors: &[TensorArg<'_>],
        ints: &[i64],
    ) -> Result<(), KernelTrap> {
        let missing = || unsupported("a kernel that the module has not");
        let found = self.kernels.get(number).ok_or_else(missing)?;
        let Loaded { kernel, symbols, offered, reads } = found;
        // To read of what nothing was written to is a trap.
        if tensors.iter().zip(reads).any(|(tensor, read)| *read && !tensor.is_written()) {
            return self.interpret(number, tensors, ints);
        }
        // The device's memory begins where the machine's does, and vectors are loaded from where they may lie.
        let begins = |tensor: &TensorArg<'_>| tensor.memory().map_or(0, |memory| memory.offset);
        if tensors.iter().any(|tensor| begins(tensor) % ALIGNED as usize != 0) {
            return self.interpret(number, tensors, ints);
        }
        let shapes: Vec<&[i64]> = tensors.iter().map(TensorArg::shape).collect();
        let plan = match kernel.plan(&shapes, ints) {
            Ok(plan) => plan,
            Err(Refused::Boundary) => return self.interpret(number, tensors, ints),
            Err(Refused::Limit(what)) => return Err(unsupported(&what)),
        };
        let call = Call { kernel, symbols, offered: offered.as_ref(), plan: &plan, tensors };
        let ended = self.resident().run(&call);
        match settled(ended) {
            // The tensors are as they were: the interpreter stops at the same place, with its words. If it does not, a
            // function of the device decided otherwise than that of the interpreter.
            Err(KernelTrap::Site(site)) => {
                self.interpret(number, tensors, ints)?;
                Err(KernelTrap::Site(site))
            }
            other => other,
        }
    }

    fn settle(&self, tensor: &TensorArg<'_>) -> Result<(), KernelTrap> {
        settled(self.resident().settle(tensor))
    }

    fn begin_graph(&self) {
        // What went wrong before is said by whatever is asked for next.
        let _ = self.resident().begin_graph();
    }

    fn end_graph(&self) -> Result<(), KernelTrap> {
        self.resident().end_graph().map_err(|error| failed(&error))
    }
}
