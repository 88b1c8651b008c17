//! The kernels of a module on a device.

use crate::{Device, Error};
use relax_emit::cuda::{CudaKernel, Plan, Refused};
use relax_reference::ReferenceKernels;
use relax_runtime::{KernelTrap, Kernels, Stop, TensorArg};

/// What the status holds where nothing stopped.
const FINE: u32 = u32::MAX;

/// Kernels that a device runs, in the order of the machine's numbers.
pub struct DeviceKernels<D> {
    device: D,
    kernels: Vec<CudaKernel>,
    /// Tells what a call means that stops.
    reference: ReferenceKernels,
}

/// Memory of one call; it goes back at its end, whatever that is.
struct Memory<'d, D: Device> {
    device: &'d D,
    taken: Vec<u64>,
}

impl<D: Device> Memory<'_, D> {
    fn take(&mut self, bytes: usize) -> Result<u64, Error> {
        let address = self.device.allocate(bytes.max(1))?;
        self.taken.push(address);
        Ok(address)
    }
}

impl<D: Device> Drop for Memory<'_, D> {
    fn drop(&mut self) {
        for &address in &self.taken {
            // What the device says then was said by a call before.
            let _ = self.device.release(address);
        }
    }
}

impl<D: Device> DeviceKernels<D> {
    /// Kernels of which the device has the functions; `reference` has the same programs in the same order.
    #[must_use]
    pub fn new(device: D, kernels: Vec<CudaKernel>, reference: ReferenceKernels) -> Self {
        Self { device, kernels, reference }
    }

    /// Runs the functions; whether all threads came to their ends.
    fn run(
        &self,
        kernel: &CudaKernel,
        plan: &Plan,
        tensors: &[TensorArg<'_>],
    ) -> Result<Result<(), KernelTrap>, Error> {
        let device = &self.device;
        let mut memory = Memory { device, taken: Vec::new() };
        let status = memory.take(size_of::<u32>())?;
        device.fill(status, 0xff, size_of::<u32>())?;
        let mut arguments = vec![status];
        for tensor in tensors {
            let bytes = tensor.to_bytes();
            let address = memory.take(bytes.len())?;
            if !bytes.is_empty() {
                device.upload(address, &bytes)?;
            }
            arguments.push(address);
        }
        for (workspace, &bytes) in kernel.workspaces.iter().zip(&plan.workspaces) {
            let address = memory.take(bytes)?;
            if workspace.is_cleared && bytes > 0 {
                device.fill(address, 0, bytes)?;
            }
            arguments.push(address);
        }
        // The same bits.
        arguments.extend(plan.integers.iter().map(|&value| value as u64));
        for (launch, sizes) in kernel.launches.iter().zip(&plan.sizes) {
            device.launch(&launch.symbol, sizes, &arguments)?;
        }
        let mut stopped = [0; size_of::<u32>()];
        device.download(status, &mut stopped)?;
        let stopped = u32::from_ne_bytes(stopped);
        if stopped != FINE {
            let site = usize::try_from(stopped).unwrap_or(0).saturating_sub(1);
            return Ok(Err(KernelTrap::Site(site)));
        }
        for ((tensor, &address), _) in
            tensors.iter().zip(&arguments[1..]).zip(&kernel.writes).filter(|(_, writes)| **writes)
        {
            let mut bytes = vec![0; tensor.length()];
            if !bytes.is_empty() {
                device.download(address, &mut bytes)?;
            }
            if let Err(trap) = tensor.write(&bytes) {
                return Ok(Err(trap));
            }
        }
        Ok(Ok(()))
    }
}

impl<D: Device> Kernels for DeviceKernels<D> {
    fn call(
        &self,
        kernel: usize,
        tensors: &[TensorArg<'_>],
        ints: &[i64],
    ) -> Result<(), KernelTrap> {
        let unsupported = |what: String| KernelTrap::Stop(Box::new(Stop::Unsupported(what)));
        let found = self.kernels.get(kernel);
        let found =
            found.ok_or_else(|| unsupported("a kernel that the module has not".to_owned()))?;
        let shapes: Vec<&[i64]> = tensors.iter().map(TensorArg::shape).collect();
        let plan = match found.plan(&shapes, ints) {
            Ok(plan) => plan,
            Err(Refused::Boundary) => return self.reference.call(kernel, tensors, ints),
            Err(Refused::Limit(what)) => return Err(unsupported(what)),
        };
        match self.run(found, &plan, tensors) {
            Ok(Ok(())) => Ok(()),
            // The tensors of the machine are as they were: the interpreter stops at the same place, with its words. If it
            // does not, a function of the device decided otherwise than that of the interpreter.
            Ok(Err(KernelTrap::Site(site))) => {
                self.reference.call(kernel, tensors, ints)?;
                Err(KernelTrap::Site(site))
            }
            Ok(Err(stop)) => Err(stop),
            Err(error) => Err(unsupported(error.to_string())),
        }
    }
}
