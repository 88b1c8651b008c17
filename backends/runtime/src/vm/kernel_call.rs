//! Calls of kernels. A tensor in a storage is written where it lies, so that every other name of it sees
//! the new elements. Of any other tensor, the register that was passed holds a new one afterwards.
#![allow(unsafe_code)]

use super::Run;
use super::graphs::{Launch, Passed};
use super::memory::Placed;
use crate::dtype::DType;
use crate::instruction::{Operand, Register};
use crate::kernels::{Access, Home, KernelTrap, TensorArg, located};
use crate::notes::filled;
use crate::observer::{Callee, ObservedCall, Watch};
use crate::program::{Extent, Kernel, Param};
use crate::steps::StepsLeft;
use crate::stop::Stop;
use crate::tensor::{Tensor, Written};
use crate::value::{Kept, Machine, Number, Value};
use std::sync::Arc;

/// The id of a site where a kernel had no memory for its own buffers.
const OUT_OF_MEMORY: &str = "exhausted/memory";

/// A tensor of a call.
#[derive(Clone, Debug)]
pub(super) enum Source {
    Placed(Placed),
    /// It is read.
    Own(Tensor),
    /// One that no kernel can be given, because its elements lie askew, and a copy in its place.
    Staged(Placed, Tensor),
    /// A fresh copy that is written to, and the register that has it afterwards.
    Copied(Tensor, Option<Register>),
}

impl Run<'_> {
    pub(super) fn call_kernel(&mut self, number: u32, args: &[Operand]) -> Result<(), Stop> {
        let at = number as usize;
        let module = self.module;
        let (Some(kernel), Some(name)) = (module.program.kernels.get(at), module.names.get(at))
        else {
            return Err(Stop::Unsupported("a kernel that is not there".to_owned()));
        };
        let (mut sources, ints) = self.arguments(kernel, args)?;
        refuse_shared(kernel, &sources)?;
        if self.graphs.is_recording() {
            let buffers = sources.iter().map(Source::passed).collect();
            let launch = Launch { kernel: number, buffers, ints: ints.clone() };
            self.graphs.launch(launch, writes(kernel), name)?;
        }
        for (source, is_written) in sources.iter().zip(writes(kernel)) {
            if let Source::Placed(placed) = source {
                if is_written { placed.writable()? } else { placed.readable()? }
            }
        }
        check_signature(kernel, &sources, ints.len())?;
        for (source, is_written) in sources.iter_mut().zip(writes(kernel)) {
            self.own(source, is_written)?;
        }
        let tensors = sources.iter().zip(writes(kernel)).map(|(source, is_written)| {
            let access = if is_written { Access::ReadWrite } else { Access::Read };
            source.lent(access)
        });
        let tensors = tensors.collect::<Result<Vec<_>, Stop>>()?;
        let mut maps = match module.kernels.watches(at) {
            true => Maps::of(kernel, &sources)?,
            false => None,
        };
        let watch = Watch::start(module.observer.as_deref());
        let steps = StepsLeft::of(self.limits.steps);
        let lent = maps.as_mut().map(|maps| maps.maps.as_mut_slice());
        let result = module.kernels.call_within(at, &tensors, lent, &ints, &steps);
        self.limits.steps = steps.left(self.limits.steps);
        watch.stop(|start, duration| ObservedCall {
            callee: Callee::Kernel,
            name,
            shapes: tensors.iter().map(TensorArg::shape).collect(),
            integers: &ints,
            span: self.span(),
            start,
            duration: module.kernels.elapsed().unwrap_or(duration),
        });
        drop(tensors);
        result.map_err(|trap| stop(kernel, trap, maps.is_some()))?;
        for (at, (source, is_written)) in sources.into_iter().zip(writes(kernel)).enumerate() {
            let written = || maps.as_ref().map_or(Written::All, |maps| maps.written(at));
            match source {
                Source::Placed(placed) if is_written => placed.wrote(name, written()),
                Source::Staged(placed, tensor) if is_written => {
                    placed.assign(&tensor)?;
                    placed.wrote(name, written());
                }
                Source::Copied(tensor, Some(register)) => {
                    let tensor = Tensor { written: written(), ..tensor };
                    self.set(register, Value::Tensor(tensor));
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn arguments(
        &self,
        kernel: &Kernel,
        args: &[Operand],
    ) -> Result<(Vec<Source>, Vec<i64>), Stop> {
        let (mut sources, mut ints) = (Vec::with_capacity(args.len()), Vec::new());
        for &operand in args {
            match self.given(operand)? {
                Value::Machine(Machine(Kept::Placed(placed))) => {
                    sources.push(Source::Placed(placed.clone()));
                }
                Value::Tensor(tensor) => sources.push(match operand {
                    Operand::Register(at) => Source::Copied(tensor.clone(), Some(Register(at))),
                    Operand::Constant(_) => Source::Copied(tensor.clone(), None),
                }),
                Value::Scalar(_, Number::Int(value)) => {
                    ints.push(i64::try_from(*value).unwrap_or(i64::MAX));
                }
                other => {
                    let (name, kind) = (&kernel.name, other.kind());
                    let message = format!("`{name}` takes tensors and integers, found {kind}");
                    return Err(Stop::trap("call_tir/kind", message));
                }
            }
        }
        Ok((sources, ints))
    }

    /// What is not in a storage is a value: a kernel writes to a copy of it.
    fn own(&self, source: &mut Source, is_written: bool) -> Result<(), Stop> {
        if let Source::Placed(placed) = source
            && !placed.is_aligned()
        {
            self.settle(placed)?;
            let copy = placed.staged(self.pool)?;
            *source = Source::Staged(placed.clone(), copy);
        }
        let Source::Copied(tensor, register) = source else { return Ok(()) };
        if !is_written {
            *source = Source::Own(tensor.clone());
            return Ok(());
        }
        let bytes = tensor.bytes();
        let block = self.pool.give(bytes.len())?;
        // SAFETY: the block is new, nobody else has a name of it, and it has as many bytes.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), block.data().as_ptr(), bytes.len());
        }
        let (dtype, shape) = (tensor.dtype, Arc::clone(&tensor.shape));
        let written = tensor.written.clone();
        let copy = Tensor { dtype, shape, block: Arc::new(block), offset: 0, written };
        *source = Source::Copied(copy, *register);
        Ok(())
    }

    /// Has a tensor where it lies, whoever held what was written to it.
    pub(super) fn settle(&self, placed: &Placed) -> Result<(), Stop> {
        let source = Source::Placed(placed.clone());
        let lent = source.lent(Access::ReadWrite)?;
        self.module.kernels.settle(&lent).map_err(of_kernels)
    }
}

/// What whoever runs kernels says outside of a call.
pub(super) fn of_kernels(trap: KernelTrap) -> Stop {
    match trap {
        KernelTrap::Stop(stop) => *stop,
        KernelTrap::Site(at) | KernelTrap::Noted(at, _) => {
            Stop::Unsupported(format!("memory stops at a place {at}"))
        }
    }
}

impl Source {
    fn passed(&self) -> Passed {
        match self {
            Source::Placed(placed) | Source::Staged(placed, _) => Passed::Bytes(placed.clone()),
            Source::Own(tensor) | Source::Copied(tensor, _) => Passed::Elements(tensor.clone()),
        }
    }

    pub(super) fn signature(&self) -> (DType, &[i64]) {
        match self {
            Source::Placed(placed) => (placed.dtype, &placed.shape),
            Source::Own(tensor) | Source::Staged(_, tensor) | Source::Copied(tensor, _) => {
                (tensor.dtype, &tensor.shape)
            }
        }
    }

    pub(super) fn written(&self) -> Written {
        match self {
            Source::Placed(placed) => placed.written(),
            Source::Own(tensor) | Source::Staged(_, tensor) | Source::Copied(tensor, _) => {
                tensor.written.clone()
            }
        }
    }

    pub(super) fn lent(&self, access: Access) -> Result<TensorArg<'_>, Stop> {
        let (data, is_written) = match self {
            Source::Placed(placed) => (placed.data()?, placed.is_written()),
            Source::Own(tensor) | Source::Staged(_, tensor) | Source::Copied(tensor, _) => {
                // SAFETY: a tensor lies in its block.
                (unsafe { tensor.block.data().add(tensor.offset) }, tensor.is_written())
            }
        };
        let home = match self {
            Source::Placed(placed) => Home::Storage(placed),
            Source::Own(tensor) => Home::Tensor(tensor),
            Source::Staged(..) | Source::Copied(..) => Home::Call,
        };
        // SAFETY: the source keeps the block, or the machine, which waits, its storage. Dtype and shape are
        // those of the tensor. What is written is a new copy, or lies in a storage of this run, which
        // nobody else sees, and shares no byte with another tensor of the call (`refuse_shared`); what is
        // read is such a storage or a block that nothing writes to.
        Ok(unsafe { TensorArg::new(data, self.signature(), access, is_written, home) })
    }
}

/// For each buffer whether the kernel writes to it; a buffer that it does not have is refused later.
fn writes(kernel: &Kernel) -> impl Iterator<Item = bool> + '_ {
    let buffers = kernel.params.iter().filter_map(|param| match param {
        Param::Buffer { is_written, .. } => Some(*is_written),
        Param::Int => None,
    });
    buffers.chain(std::iter::repeat(false))
}

/// What was written to the tensors of a call that is watched.
struct Maps {
    /// For each tensor a byte for each element.
    maps: Vec<Vec<u8>>,
    /// Tensors that are whole after the call, whatever their maps say.
    filled: Vec<bool>,
}

impl Maps {
    /// Where the kernel may read an element that nothing wrote, or leave one so.
    fn of(kernel: &Kernel, sources: &[Source]) -> Result<Option<Self>, Stop> {
        let places = || (0..sources.len()).zip(writes(kernel));
        let is_filled = |place| fills(kernel, sources, place);
        let is_open = |(at, is_written): (usize, bool)| {
            sources[at].written() != Written::All && !is_filled((at, is_written))
        };
        if !places().any(is_open) {
            return Ok(None);
        }
        let map = |source: &Source| {
            let elements = source.signature().1.iter().product::<i64>();
            let map = source.written().map(usize::try_from(elements).unwrap_or(0));
            map.ok_or_else(|| Stop::Exhausted {
                resource: "memory",
                detail: format!("`{}` is watched, and {elements} bytes are missing", kernel.name),
            })
        };
        let maps = sources.iter().map(map).collect::<Result<_, _>>()?;
        Ok(Some(Self { maps, filled: places().map(is_filled).collect() }))
    }

    /// After the call.
    fn written(&self, at: usize) -> Written {
        if self.filled[at] { Written::All } else { Written::of(&self.maps[at]) }
    }
}

/// Whether the code that watches nothing reads no element of a buffer that it has not written before, and, where it writes to
/// the buffer, leaves none unwritten.
fn fills(kernel: &Kernel, sources: &[Source], (at, is_written): (usize, bool)) -> bool {
    let elements = kernel.watched.as_ref().and_then(|watched| watched.elements.get(at));
    let is_positive = |extent: &Extent| {
        let source = sources.get(extent.buffer as usize);
        let found = source.and_then(|source| source.signature().1.get(extent.axis as usize));
        found.is_some_and(|found| *found > 0)
    };
    elements.is_some_and(|elements| {
        let positive = elements.are_written_where.as_ref();
        let is_whole = || positive.is_some_and(|all| all.iter().all(is_positive));
        !elements.are_read_first && (!is_written || is_whole())
    })
}

/// A kernel that writes to one of two tensors which share bytes would see its own writes in the other.
fn refuse_shared(kernel: &Kernel, sources: &[Source]) -> Result<(), Stop> {
    for (at, (target, is_written)) in sources.iter().zip(writes(kernel)).enumerate() {
        let (Source::Placed(target), true) = (target, is_written) else { continue };
        for (other, source) in sources.iter().enumerate().filter(|(other, _)| *other != at) {
            let Source::Placed(source) = source else { continue };
            if let Some(both) = target.shared(source) {
                let message = format!(
                    "`{}` writes to buffer {at}, which shares bytes with buffer {other}: {both}",
                    kernel.name
                );
                return Err(Stop::trap("memory/shared", message));
            }
        }
    }
    Ok(())
}

/// Number, dtypes and ranks: what the code of the kernel relies on.
fn check_signature(kernel: &Kernel, sources: &[Source], ints: usize) -> Result<(), Stop> {
    let is_buffer = |param: &&Param| matches!(param, Param::Buffer { .. });
    let buffers = kernel.params.iter().filter(is_buffer).count();
    let others = kernel.params.len() - buffers;
    if sources.len() != buffers || ints != others {
        let message = format!(
            "`{}` takes {buffers} buffer(s) and {others} scalar(s), found {} and {ints}",
            kernel.name,
            sources.len()
        );
        return Err(Stop::trap("boundary/arity", message));
    }
    for (param, source) in kernel.params.iter().filter(is_buffer).zip(sources) {
        let Param::Buffer { name, dtype, rank, .. } = param else { continue };
        let (found, shape) = source.signature();
        if found != *dtype {
            let message = format!("`{name}` has dtype {dtype}, found {found}");
            return Err(Stop::trap("boundary/dtype", message));
        }
        if shape.len() != *rank as usize {
            let message = format!("`{name}` has {rank} dims, found a tensor of shape {shape:?}");
            return Err(Stop::trap("boundary/rank", message));
        }
    }
    Ok(())
}

fn stop(kernel: &Kernel, trap: KernelTrap, is_watched: bool) -> Stop {
    let sites = match &kernel.watched {
        Some(watched) if is_watched => &watched.sites,
        _ => &kernel.sites,
    };
    let (at, values) = match trap {
        KernelTrap::Stop(stop) => return *stop,
        KernelTrap::Site(at) => (at, None),
        KernelTrap::Noted(at, values) => (at, Some(values)),
    };
    match sites.get(at) {
        // The calling convention has one trap that is none.
        Some(site) if site.id == OUT_OF_MEMORY => {
            Stop::Exhausted { resource: "memory", detail: site.message.clone() }
        }
        Some(site) if site.values == 0 => located(&site.id, &site.message, site.span),
        Some(site) => located(&site.id, &filled(&site.message, values.as_deref()), site.span),
        None => Stop::Unsupported(format!("`{}` stops at a place {at} it has not", kernel.name)),
    }
}
