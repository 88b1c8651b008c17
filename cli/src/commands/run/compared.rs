//! A program as `relax diff --backend` runs it: compiled once, called with many arguments.

use super::super::build::{Bound, compiler, image};
use super::accelerated;
use super::compiled::loaded;
use super::is_built;
use crate::exit::Failure;
use relax_build::KernelCheck;
use relax_cpu::Cpu;
use relax_program::frontend::Program;
use relax_reference::{Printed, register, stop_to_semantics, to_machine, to_semantics};
use relax_rewrite::pass::Device;
use relax_rewrite::pipeline::{Failed, Unwatched};
use relax_runtime::program::Numerics;
use relax_runtime::{self as machine, Limits};
use relax_semantics::ops;
use relax_semantics::stop::Stop;
use relax_semantics::tensor::Tensor;
use relax_semantics::value::Value;
use relax_syntax::Name;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The program for a backend, with values of its `param(...)` constants; the inner error is that of a pass.
pub(in crate::commands) fn compiled(
    program: &Program,
    backend: Device,
    externals: &Arc<BTreeMap<Name, Tensor>>,
    (sums, check): (Numerics, KernelCheck),
) -> Result<Result<machine::Module, Failed>, Failure> {
    is_built(backend)?;
    let made = match backend {
        Device::Cuda | Device::Wgpu => {
            accelerated::compiled(program, backend, (**externals).clone(), sums)?
        }
        _ => {
            let compiler = compiler(&Cpu::Native)?;
            let bound = Bound::of(Arc::clone(externals), sums, compiler, check);
            match image(program, &bound, &mut Unwatched)? {
                Ok(image) => {
                    let module = machine::Module::load_with(&image.to_bytes(), Limits::default());
                    Ok(loaded(module, &program.source.name)?)
                }
                Err(failed) => Err(failed),
            }
        }
    };
    made.map_or_else(|failed| Ok(Err(failed)), |module| registered(module).map(Ok))
}

/// With the reference library.
pub(in crate::commands) fn registered(
    mut module: machine::Module,
) -> Result<machine::Module, Failure> {
    register(&mut module, &ops::Limits::default(), &Printed::default()).map_err(Failure::usage)?;
    Ok(module)
}

/// What a function gives.
pub(in crate::commands) fn called(
    module: &machine::Module,
    name: &str,
    arguments: &[Value],
) -> Result<Value, Stop> {
    let arguments = arguments.iter().map(to_machine).collect::<Result<Vec<_>, _>>();
    let arguments = arguments.map_err(Stop::Unsupported)?;
    let function = module.function(name);
    let function = function.ok_or_else(|| Stop::Unsupported(format!("`{name}` is private")))?;
    let mut named =
        |value: &machine::Value| module.name_of(value).map(|name| Value::Global(name.into()));
    match function.call(&arguments) {
        Ok(value) => to_semantics(&value, &mut named).map_err(Stop::Unsupported),
        Err(stop) => Err(stop_to_semantics(stop)),
    }
}
