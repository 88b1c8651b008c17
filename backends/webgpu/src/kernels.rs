//! The kernels of one module on a device: at each call inputs go there, the kernel is launched, and outputs come back. What a
//! kernel stops with is said by the interpreter, which runs the same call on what the device has not changed.

use crate::device::{Device, Pipelines};
use crate::{Content, Kernel, Refused, print_wgsl};
use relax_reference::{ReferenceKernels, stop_to_machine};
use relax_rewrite::walk::stored;
use relax_runtime::{KernelTrap, Kernels, TensorArg};
use relax_semantics::ops::Limits;
use relax_semantics::stop::Stop;
use relax_symbolic::Prover;
use relax_syntax::dtype::DType;
use relax_syntax::ir::tensor::Param;
use relax_syntax::ir::{Module, TensorProgram};
use relax_syntax::span::Source;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// The tensor programs of one module.
pub struct WgpuKernels {
    device: Arc<Device>,
    kernels: Vec<Loaded>,
    reference: ReferenceKernels,
    calls: Calls,
}

/// One of them.
struct Loaded {
    /// Or why there is no code for it, which is said where it is called.
    kernel: Result<Kernel, String>,
    pipelines: OnceLock<Result<Pipelines, String>>,
    /// Which of its buffers it does not write to.
    inputs: Vec<bool>,
}

/// What became of calls.
#[derive(Clone, Debug, Default)]
pub struct Calls(Arc<[AtomicUsize; 3]>);

/// Who ran a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ran {
    /// The device.
    Device,
    /// The interpreter, as the call is not what the kernel declares, or an index might leave 32 bits.
    NotLaunched,
    /// The interpreter, after the device stopped.
    Stopped,
}

impl Calls {
    /// How many there were.
    #[must_use]
    pub fn count(&self, ran: Ran) -> usize {
        self.0[ran as usize].load(Ordering::Relaxed)
    }

    fn add(&self, ran: Ran) {
        self.0[ran as usize].fetch_add(1, Ordering::Relaxed);
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
        let printed = print_wgsl(module, &mut Prover::new(), device.doubles(), source);
        let mut kernels = Vec::new();
        for program in programs {
            let found = printed.kernels.iter().find(|kernel| kernel.program.name == program.name);
            let kernel = found.cloned().ok_or_else(|| {
                let left_out = printed.left_out.iter().find(|(name, _)| *name == program.name);
                let reason = left_out.map_or("it was not printed", |(_, reason)| reason.as_str());
                let name = &program.name;
                format!("the tensor program `{name}` has no code for this device: {reason}")
            });
            let written = stored(program.body.as_deref().unwrap_or(&[]));
            let params = program.params.iter().filter_map(|param| match param {
                Param::Buffer(id) => Some(!written.contains(id)),
                Param::Scalar(_) | Param::Dim(_) => None,
            });
            let inputs = params.collect();
            kernels.push(Loaded { kernel, pipelines: OnceLock::new(), inputs });
        }
        let reference = ReferenceKernels::new(programs.iter().copied(), limits)?;
        Ok(Self { device, kernels, reference, calls: Calls::default() })
    }

    /// The same, counting its calls there.
    #[must_use]
    pub fn counted(self, calls: Calls) -> Self {
        Self { calls, ..self }
    }

    fn interpret(
        &self,
        kernel: usize,
        (tensors, ints): (&[TensorArg<'_>], &[i64]),
        ran: Ran,
    ) -> Result<(), KernelTrap> {
        self.calls.add(ran);
        self.reference.call(kernel, tensors, ints)
    }
}

impl Kernels for WgpuKernels {
    fn call(
        &self,
        number: usize,
        tensors: &[TensorArg<'_>],
        ints: &[i64],
    ) -> Result<(), KernelTrap> {
        let found = self.kernels.get(number);
        let loaded = found.ok_or_else(|| unsupported("a kernel that is not there"))?;
        let kernel = loaded.kernel.as_ref().map_err(|why| unsupported(why))?;
        // To read of what nothing was written to is a trap.
        if tensors.iter().zip(&loaded.inputs).any(|(tensor, input)| *input && !tensor.is_written())
        {
            return self.interpret(number, (tensors, ints), Ran::NotLaunched);
        }
        let shapes: Vec<&[i64]> = tensors.iter().map(TensorArg::shape).collect();
        let launch = match kernel.launch(&shapes, ints) {
            Ok(launch) => launch,
            Err(Refused::Boundary | Refused::Wide) => {
                return self.interpret(number, (tensors, ints), Ran::NotLaunched);
            }
            Err(Refused::Large(why)) => return Err(unsupported(&why)),
        };
        let compiled = loaded
            .pipelines
            .get_or_init(|| self.device.compile(kernel).map_err(|error| error.to_string()))
            .as_ref()
            .map_err(|why| unsupported(why))?;
        let contents: Vec<Vec<u8>> = kernel
            .bindings
            .iter()
            .zip(&launch.sizes)
            .map(|(binding, sizes)| {
                let mut bytes = Vec::new();
                for (part, size) in binding.parts.iter().zip(sizes) {
                    let end = bytes.len() + usize::try_from(*size * 4).unwrap_or(0);
                    if let Content::Parameter(at) = part.content {
                        widen(kernel.dtype(part.buffer), &tensors[at].to_bytes(), &mut bytes);
                    }
                    if let Content::Given(at) = part.content
                        && tensors[at].is_written()
                    {
                        bytes.extend((0..*size).flat_map(|_| 1_u32.to_ne_bytes()));
                    }
                    bytes.resize(end, 0);
                }
                bytes
            })
            .collect();
        let results = self.device.run(kernel, compiled, &launch, &contents);
        let results = results.map_err(|error| unsupported(&error.to_string()))?;
        let Some(results) = results else {
            return self.interpret(number, (tensors, ints), Ran::Stopped);
        };
        self.calls.add(Ran::Device);
        give_back(kernel, &launch.sizes, &results, tensors)
    }
}

/// Writes what a kernel wrote to the tensors that it may write to.
fn give_back(
    kernel: &Kernel,
    sizes: &[Vec<u64>],
    results: &[Option<Vec<u8>>],
    tensors: &[TensorArg<'_>],
) -> Result<(), KernelTrap> {
    let written = stored(kernel.program.body.as_deref().unwrap_or(&[]));
    for ((binding, sizes), result) in kernel.bindings.iter().zip(sizes).zip(results) {
        let Some(result) = result else { continue };
        let mut at = 0;
        for (part, size) in binding.parts.iter().zip(sizes) {
            let begin = at;
            at += usize::try_from(*size * 4).unwrap_or(0);
            let Content::Parameter(number) = part.content else { continue };
            if written.contains(&part.buffer) {
                let tensor = &tensors[number];
                let mut bytes = narrow(kernel.dtype(part.buffer), &result[begin..at]);
                bytes.truncate(tensor.length());
                tensor.write(&bytes)?;
            }
        }
    }
    Ok(())
}

/// Elements as the device has them: those of less than 32 bits take a word each.
fn widen(dtype: DType, bytes: &[u8], into: &mut Vec<u8>) {
    let halves = || bytes.chunks_exact(2).map(|two| u16::from_ne_bytes([two[0], two[1]]));
    match dtype {
        DType::F16 | DType::BF16 | DType::U16 => {
            into.extend(halves().flat_map(|bits| u32::from(bits).to_ne_bytes()));
        }
        DType::I16 => {
            into.extend(halves().flat_map(|bits| i32::from(bits as i16).to_ne_bytes()));
        }
        DType::I8 => {
            into.extend(bytes.iter().flat_map(|&byte| i32::from(byte as i8).to_ne_bytes()))
        }
        DType::U8 | DType::Bool => {
            into.extend(bytes.iter().flat_map(|&byte| u32::from(byte).to_ne_bytes()));
        }
        _ => into.extend_from_slice(bytes),
    }
}

/// The same back.
fn narrow(dtype: DType, bytes: &[u8]) -> Vec<u8> {
    let words = bytes.chunks_exact(4).map(|w| u32::from_ne_bytes([w[0], w[1], w[2], w[3]]));
    match dtype.size() {
        1 => words.map(|word| word as u8).collect(),
        2 => words.flat_map(|word| (word as u16).to_ne_bytes()).collect(),
        _ => bytes.to_vec(),
    }
}

fn unsupported(what: &str) -> KernelTrap {
    KernelTrap::Stop(Box::new(stop_to_machine(Stop::Unsupported(what.to_owned()))))
}
