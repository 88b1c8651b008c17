//! Kernels that the interpreter of tensor programs runs.

use crate::stops;
use crate::values::tensor_of;
use relax_lower::program::elements;
use relax_runtime::{KernelTrap, Kernels, TensorArg};
use relax_semantics::ops::Limits;
use relax_semantics::stop::Stop;
use relax_semantics::tensor::Tensor;
use relax_semantics::tir::{Compiled, Mode, Options};
use relax_syntax::ir::TensorProgram;

/// The tensor programs of one module.
pub struct ReferenceKernels {
    programs: Vec<(Compiled, Vec<bool>)>,
    limits: Limits,
}

impl ReferenceKernels {
    /// Of these programs, in the order of their numbers.
    ///
    /// # Errors
    /// When one is not well-formed.
    pub fn new<'p>(
        programs: impl IntoIterator<Item = &'p TensorProgram>,
        limits: Limits,
    ) -> Result<Self, String> {
        let compiled = programs.into_iter().map(|program| {
            let compiled = Compiled::new(program).map_err(|diagnostics| {
                let first = diagnostics.first().map_or("", |found| found.message.as_str());
                format!("`{}` is not well-formed: {first}", program.name)
            })?;
            let writes = compiled.writes();
            Ok((compiled, writes))
        });
        Ok(Self { programs: compiled.collect::<Result<_, String>>()?, limits })
    }
}

impl Kernels for ReferenceKernels {
    fn call(
        &self,
        kernel: usize,
        tensors: &[TensorArg<'_>],
        ints: &[i64],
    ) -> Result<(), KernelTrap> {
        let buffers = tensors.iter().map(|tensor| {
            let read = elements_of(tensor)?;
            Ok(if tensor.is_written() {
                read
            } else {
                Tensor::undefined(read.dtype(), read.shape())
            })
        });
        let buffers = buffers.collect::<Result<Vec<_>, KernelTrap>>()?;
        self.run(kernel, tensors, buffers, ints).map(drop)
    }

    fn watches(&self, _: usize) -> bool {
        true
    }

    fn call_watched(
        &self,
        kernel: usize,
        tensors: &[TensorArg<'_>],
        maps: &mut [Vec<u8>],
        ints: &[i64],
    ) -> Result<(), KernelTrap> {
        let buffers = tensors.iter().zip(&*maps).map(|(tensor, map)| {
            let undefined = map.iter().map(|&byte| byte == 0).collect();
            Ok(elements_of(tensor)?.with_undefined(undefined))
        });
        let buffers = buffers.collect::<Result<Vec<_>, KernelTrap>>()?;
        let results = self.run(kernel, tensors, buffers, ints)?;
        for (result, map) in results.iter().zip(maps) {
            match result.undefined_elements() {
                None => map.fill(1),
                Some(mask) => map.iter_mut().zip(mask).for_each(|(byte, &u)| *byte = u8::from(!u)),
            }
        }
        Ok(())
    }
}

impl ReferenceKernels {
    /// The tensors afterwards.
    fn run(
        &self,
        kernel: usize,
        tensors: &[TensorArg<'_>],
        buffers: Vec<Tensor>,
        ints: &[i64],
    ) -> Result<Vec<Tensor>, KernelTrap> {
        let missing = || unsupported("a kernel that the module has not");
        let (compiled, writes) = self.programs.get(kernel).ok_or_else(missing)?;
        let options = Options { limits: self.limits.clone(), mode: Mode::Sequential };
        let mut steps = self.limits.steps;
        let results = compiled
            .run(buffers, ints, &options, &mut steps)
            .map_err(|stop| KernelTrap::Stop(Box::new(stops::to_machine(stop))))?;
        for ((result, tensor), _) in results.iter().zip(tensors).zip(writes).filter(|(_, w)| **w) {
            tensor.write(&elements(result))?;
        }
        Ok(results)
    }
}

fn elements_of(tensor: &TensorArg<'_>) -> Result<Tensor, KernelTrap> {
    let read = tensor_of(tensor.dtype(), tensor.shape(), &tensor.to_bytes());
    read.ok_or_else(|| unsupported("a tensor without a shape"))
}

fn unsupported(what: &str) -> KernelTrap {
    KernelTrap::Stop(Box::new(stops::to_machine(Stop::Unsupported(what.to_owned()))))
}
