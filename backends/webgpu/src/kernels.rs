//! The kernels of one module on a device. Tensors stay there from one call to the next ([`crate::resident`]). What a kernel
//! stops with is said by the interpreter, which runs the same call on what the device has not changed.

use crate::device::{Device, Pipelines};
use crate::resident::{Call, Ran as Launched, Resident};
use crate::{Kernel, Refused, print_watched, print_wgsl};
use relax_reference::{ReferenceKernels, stop_to_machine};
use relax_runtime::{KernelTrap, Kernels, TensorArg};
use relax_semantics::ops::Limits;
use relax_semantics::stop::Stop;
use relax_semantics::tir::walk::stored;
use relax_symbolic::Prover;
use relax_syntax::ir::{Module, TensorProgram};
use relax_syntax::span::Source;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// The tensor programs of one module.
pub struct WgpuKernels {
    device: Arc<Device>,
    kernels: Vec<Loaded>,
    reference: ReferenceKernels,
    resident: Mutex<Resident>,
    calls: Calls,
}

/// One of them.
struct Loaded {
    /// Or why there is no code for it, which is said where it is called.
    form: Result<Form, String>,
    /// What is called with elements that nothing wrote.
    watched: OnceLock<Result<Form, String>>,
    /// Which of its buffers it does not write to.
    inputs: Vec<bool>,
}

/// A text of a kernel.
struct Form {
    kernel: Kernel,
    pipelines: OnceLock<Result<Pipelines, String>>,
}

impl Form {
    fn of(kernel: Kernel) -> Self {
        Self { kernel, pipelines: OnceLock::new() }
    }
}

/// What became of calls, and how often the device was given something to do for them.
#[derive(Clone, Debug, Default)]
pub struct Calls {
    ran: Arc<[AtomicUsize; 4]>,
    submissions: Arc<AtomicUsize>,
}

/// Who ran a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ran {
    /// The device.
    Device,
    /// The device, with maps of what was written.
    Watched,
    /// The interpreter, as the call is not what the kernel declares, or an index might leave 32 bits.
    NotLaunched,
    /// The interpreter, after the device stopped.
    Stopped,
}

impl Calls {
    /// How many there were.
    #[must_use]
    pub fn count(&self, ran: Ran) -> usize {
        self.ran[ran as usize].load(Ordering::Relaxed)
    }

    /// How often commands were submitted to the device.
    #[must_use]
    pub fn submissions(&self) -> usize {
        self.submissions.load(Ordering::Relaxed)
    }

    fn add(&self, ran: Ran) {
        self.ran[ran as usize].fetch_add(1, Ordering::Relaxed);
    }
}

impl WgpuKernels {
    /// Of these programs of a module, in the order of their numbers.
    ///
    /// # Errors
    /// When one is not well-formed.
    pub fn new(
        device: Arc<Device>,
        module: &Module,
        programs: &[&TensorProgram],
        (limits, source): (Limits, Option<&Source>),
    ) -> Result<Self, String> {
        let printed = print_wgsl(module, &mut Prover::new(), device.formats(), source);
        let mut kernels = Vec::new();
        for program in programs {
            let found = printed.kernels.iter().find(|kernel| kernel.program.name == program.name);
            let kernel = found.cloned().ok_or_else(|| {
                let left_out = printed.left_out.iter().find(|(name, _)| *name == program.name);
                let reason = left_out.map_or("it was not printed", |(_, reason)| reason.as_str());
                let name = &program.name;
                format!("the tensor program `{name}` has no code for this device: {reason}")
            });
            let body = program.body.as_deref().unwrap_or(&[]);
            let written = stored(body);
            let inputs = program.buffer_params().map(|id| !written.contains(&id)).collect();
            let (form, watched) = (kernel.map(Form::of), OnceLock::new());
            kernels.push(Loaded { form, watched, inputs });
        }
        let reference = ReferenceKernels::new(programs.iter().copied(), limits)?;
        let resident = Mutex::default();
        Ok(Self { device, kernels, reference, resident, calls: Calls::default() })
    }

    /// The same, counting its calls there.
    #[must_use]
    pub fn counted(self, calls: Calls) -> Self {
        Self { calls, ..self }
    }

    /// Has the interpreter run a call, on what the device has.
    fn interpret(
        &self,
        kernel: usize,
        (tensors, maps): (&[TensorArg<'_>], Option<&mut [Vec<u8>]>),
        ints: &[i64],
        ran: Ran,
    ) -> Result<(), KernelTrap> {
        self.calls.add(ran);
        for tensor in tensors {
            self.settle(tensor)?;
        }
        let inputs = self.kernels.get(kernel).map_or(&[][..], |loaded| &loaded.inputs);
        self.with_resident(|resident| {
            for (tensor, _) in tensors.iter().zip(inputs).filter(|(_, input)| !**input) {
                resident.forget(tensor);
            }
        });
        match maps {
            None => self.reference.call(kernel, tensors, ints),
            Some(maps) => self.reference.call_watched(kernel, tensors, maps, ints),
        }
    }

    /// Launches a kernel, or has the interpreter run the call.
    fn launch(
        &self,
        number: usize,
        form: &Form,
        (tensors, mut maps): (&[TensorArg<'_>], Option<&mut [Vec<u8>]>),
        ints: &[i64],
    ) -> Result<(), KernelTrap> {
        let Form { kernel, pipelines } = form;
        let shapes: Vec<&[i64]> = tensors.iter().map(TensorArg::shape).collect();
        let launch = match kernel.launch(&shapes, ints) {
            Ok(launch) => launch,
            Err(Refused::Boundary | Refused::Wide) => {
                return self.interpret(number, (tensors, maps), ints, Ran::NotLaunched);
            }
            Err(Refused::Large(why)) => return Err(unsupported(&why)),
        };
        let pipelines = pipelines
            .get_or_init(|| self.device.compile(kernel).map_err(|error| error.to_string()))
            .as_ref()
            .map_err(|why| unsupported(why))?;
        let (device, inputs) = (&*self.device, self.kernels[number].inputs.as_slice());
        let before = maps.as_deref();
        let call =
            Call { device, kernel, pipelines, launch: &launch, tensors, inputs, maps: before };
        let ran = device.checked(kernel, || self.with_resident(|resident| resident.run(&call)));
        let ran = ran.map_err(|error| unsupported(&error.to_string()))?;
        match ran.map_err(|why| unsupported(&why))? {
            Launched::Stopped => self.interpret(number, (tensors, maps), ints, Ran::Stopped),
            Launched::Whole(after) => {
                self.calls.add(if maps.is_some() { Ran::Watched } else { Ran::Device });
                for (at, map) in after {
                    if let Some(maps) = &mut maps {
                        maps[at] = map;
                    }
                }
                Ok(())
            }
        }
    }

    fn loaded(&self, number: usize) -> Result<&Loaded, KernelTrap> {
        self.kernels.get(number).ok_or_else(|| unsupported("a kernel that is not there"))
    }

    /// Uses the device, and counts what is submitted to it.
    fn with_resident<T>(&self, run: impl FnOnce(&mut Resident) -> T) -> T {
        let mut resident = self.resident.lock().unwrap_or_else(PoisonError::into_inner);
        let value = run(&mut resident);
        self.calls.submissions.fetch_add(resident.take_submissions(), Ordering::Relaxed);
        value
    }
}

impl Kernels for WgpuKernels {
    fn call(
        &self,
        number: usize,
        tensors: &[TensorArg<'_>],
        ints: &[i64],
    ) -> Result<(), KernelTrap> {
        let form = self.loaded(number)?.form.as_ref().map_err(|why| unsupported(why))?;
        self.launch(number, form, (tensors, None), ints)
    }

    fn watches(&self, _: usize) -> bool {
        true
    }

    /// The text with maps is made when it is called first: most kernels never are.
    fn call_watched(
        &self,
        number: usize,
        tensors: &[TensorArg<'_>],
        maps: &mut [Vec<u8>],
        ints: &[i64],
    ) -> Result<(), KernelTrap> {
        let loaded = self.loaded(number)?;
        let form = loaded.form.as_ref().map_err(|why| unsupported(why))?;
        let printed = loaded.watched.get_or_init(|| {
            let program = &form.kernel.program;
            print_watched(program, &mut Prover::new(), self.device.formats()).map(Form::of)
        });
        match printed {
            Ok(form) => self.launch(number, form, (tensors, Some(maps)), ints),
            Err(_) => self.interpret(number, (tensors, Some(maps)), ints, Ran::NotLaunched),
        }
    }

    fn settle(&self, tensor: &TensorArg<'_>) -> Result<(), KernelTrap> {
        self.with_resident(|resident| resident.settle(&self.device, tensor))
            .map_err(|why| unsupported(&why))
    }

    fn account(&self) -> Option<String> {
        let calls = &self.calls;
        let others = calls.count(Ran::NotLaunched) + calls.count(Ran::Stopped);
        Some(format!(
            "{}: {} calls of kernels in {} submissions, {} of them with maps of what was written, {others} by the interpreter",
            self.device.name(),
            calls.count(Ran::Device) + calls.count(Ran::Watched),
            calls.submissions(),
            calls.count(Ran::Watched)
        ))
    }
}

fn unsupported(what: &str) -> KernelTrap {
    KernelTrap::Stop(Box::new(stop_to_machine(Stop::Unsupported(what.to_owned()))))
}
