//! The kernels of a module on a device. Tensors stay there from one call to the next ([`crate::resident`]). What a kernel
//! stops with is said by the interpreter, which runs the same call on what the device has not changed.

use crate::collectives::Collective;
use crate::links::Linked;
use crate::product::{Offered, of_kernel};
use crate::resident::{Call, Ended, Resident};
use crate::{Device, Error};
use relax_emit::cuda::{ALIGNED, CudaKernel, Refused};
use relax_reference::ReferenceKernels;
use relax_runtime::{KernelTrap, Kernels, Stop, TensorArg};
use relax_semantics::stop::Stop as Stopped;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Kernels that a device runs, in the order of the machine's numbers.
pub struct DeviceKernels<D: Device> {
    kernels: Vec<Loaded>,
    /// Tells what a call means that stops.
    reference: Arc<ReferenceKernels>,
    resident: Mutex<Resident<D>>,
}

struct Loaded {
    kernel: CudaKernel,
    /// Names of its functions.
    symbols: Vec<Arc<str>>,
    /// What of it a library may compute.
    offered: Option<Offered>,
    /// What is called with elements that nothing wrote.
    watched: Option<Box<Loaded>>,
}

impl Loaded {
    fn new(mut kernel: CudaKernel) -> Self {
        let watched = kernel.watched.take().map(|kernel| Box::new(Self::new(*kernel)));
        let symbols = kernel.launches.iter().map(|launch| launch.symbol.as_str().into()).collect();
        let offered = of_kernel(&kernel);
        Self { kernel, symbols, offered, watched }
    }
}

impl<D: Device> DeviceKernels<D> {
    /// Kernels of which the device has the functions; `reference` has the same programs in the same order.
    #[must_use]
    pub fn new(
        device: D,
        kernels: Vec<CudaKernel>,
        reference: impl Into<Arc<ReferenceKernels>>,
    ) -> Self {
        let kernels = kernels.into_iter().map(Loaded::new).collect();
        Self { kernels, reference: reference.into(), resident: Mutex::new(Resident::new(device)) }
    }

    fn resident(&self) -> MutexGuard<'_, Resident<D>> {
        self.resident.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The interpreter runs a call, on what the device has.
    fn interpret(
        &self,
        number: usize,
        (tensors, maps): (&[TensorArg<'_>], Option<&mut [Vec<u8>]>),
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
        match maps {
            None => self.reference.call(number, tensors, ints),
            Some(maps) => self.reference.call_watched(number, tensors, maps, ints),
        }
    }

    /// Launches one of the texts of a kernel, or has the interpreter run the call.
    fn launch(
        &self,
        number: usize,
        loaded: &Loaded,
        (tensors, mut maps): (&[TensorArg<'_>], Option<&mut [Vec<u8>]>),
        ints: &[i64],
    ) -> Result<(), KernelTrap> {
        // The device's memory begins where the machine's does, and vectors are loaded from where they may lie.
        let begins = |tensor: &TensorArg<'_>| tensor.memory().map_or(0, |memory| memory.offset);
        if tensors.iter().any(|tensor| begins(tensor) % ALIGNED as usize != 0) {
            return self.interpret(number, (tensors, maps), ints);
        }
        let Loaded { kernel, symbols, offered, .. } = loaded;
        let shapes: Vec<&[i64]> = tensors.iter().map(TensorArg::shape).collect();
        let plan = match kernel.plan(&shapes, ints) {
            Ok(plan) => plan,
            Err(Refused::Boundary) => return self.interpret(number, (tensors, maps), ints),
            Err(Refused::Limit(what)) => return Err(unsupported(&what)),
        };
        // A library knows of no maps.
        let offered = offered.as_ref().filter(|_| maps.is_none());
        let call = Call { kernel, symbols, offered, plan: &plan, tensors };
        let ended = self.resident().run(&call, maps.as_deref_mut());
        match settled(ended) {
            // The tensors are as they were: the interpreter stops at the same place, with its words. If it does not, a
            // function of the device decided otherwise than that of the interpreter.
            Err(KernelTrap::Site(site)) => {
                self.interpret(number, (tensors, maps), ints)?;
                Err(KernelTrap::Site(site))
            }
            other => other,
        }
    }

    fn loaded(&self, number: usize) -> Result<&Loaded, KernelTrap> {
        self.kernels.get(number).ok_or_else(|| unsupported("a kernel that the module has not"))
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
        self.launch(number, self.loaded(number)?, (tensors, None), ints)
    }

    fn watches(&self, _: usize) -> bool {
        true
    }

    /// Without a text with maps the interpreter runs the call.
    fn call_watched(
        &self,
        number: usize,
        tensors: &[TensorArg<'_>],
        maps: &mut [Vec<u8>],
        ints: &[i64],
    ) -> Result<(), KernelTrap> {
        match &self.loaded(number)?.watched {
            Some(watched) => self.launch(number, watched, (tensors, Some(maps)), ints),
            None => self.interpret(number, (tensors, Some(maps)), ints),
        }
    }

    fn settle(&self, tensor: &TensorArg<'_>) -> Result<(), KernelTrap> {
        settled(self.resident().settle(tensor))
    }

    fn measure(&self) {
        self.resident().measure();
    }

    fn elapsed(&self) -> Option<Duration> {
        self.resident().elapsed()
    }

    fn begin_graph(&self) {
        // What went wrong before is said by whatever is asked for next.
        let _ = self.resident().begin_graph();
    }

    fn end_graph(&self) -> Result<(), KernelTrap> {
        self.resident().end_graph().map_err(|error| failed(&error))
    }
}

/// Waits for all ranks of a group, and says which dims each of them passes.
pub type Meet<'m> = dyn FnMut() -> Result<Vec<Vec<i64>>, Stopped> + 'm;

/// The device of a rank, as whoever runs its program reaches it.
pub trait RankDevice: Send + Sync {
    /// Rows along an axis of a tensor, from `begin` on, as another one, of which they are all.
    ///
    /// # Errors
    /// What the device says.
    fn rows(&self, x: &TensorArg<'_>, out: &TensorArg<'_>, from: (usize, i64))
    -> Result<(), Error>;

    /// Takes part in a collective with a tensor, and has the result in another one. That goes on while the device works.
    ///
    /// # Errors
    /// What the device says; within it, why the ranks do not meet.
    fn collective(
        &self,
        of: &Collective,
        tensors: (&TensorArg<'_>, &TensorArg<'_>),
        meet: &mut Meet<'_>,
    ) -> Result<Result<(), Stopped>, Error>;

    /// Waits for all that was asked for.
    ///
    /// # Errors
    /// What went wrong on this device, or on that of another rank.
    fn finish(&self) -> Result<(), Error>;

    /// Tells the other ranks that this one takes part in nothing any more.
    fn fail(&self, why: &str);
}

impl<D: Linked> RankDevice for DeviceKernels<D> {
    fn rows(
        &self,
        x: &TensorArg<'_>,
        out: &TensorArg<'_>,
        from: (usize, i64),
    ) -> Result<(), Error> {
        self.resident().rows(x, out, from)
    }

    fn collective(
        &self,
        of: &Collective,
        tensors: (&TensorArg<'_>, &TensorArg<'_>),
        meet: &mut Meet<'_>,
    ) -> Result<Result<(), Stopped>, Error> {
        self.resident().collective(of, tensors, meet)
    }

    fn finish(&self) -> Result<(), Error> {
        self.resident().queue.direct(Linked::finish)
    }

    fn fail(&self, why: &str) {
        self.resident().queue.device().fail(why);
    }
}
