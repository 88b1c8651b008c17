//! Floor 8: the extension module of the Python package `relaxc`. It calls the functions of the compiler and of the runtime that
//! the command calls; what is convenient to say in Python is in `python/relaxc/`.
#![allow(missing_docs)] // users see the stubs, `python/relaxc/_native.pyi`
#![allow(unsafe_code)] // memory of other libraries is lent to calls, and memory of results to other libraries

mod buffers;
mod comparing;
mod compiling;
mod dlpack;
mod errors;
mod inputs;
mod modules;
mod outputs;
mod passes;
mod proving;
mod sharding;
mod strided;
mod training;

use pyo3::prelude::*;

#[pymodule(gil_used = true)]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<modules::Module>()?;
    module.add_class::<modules::Function>()?;
    module.add_class::<outputs::Tensor>()?;
    module.add_function(wrap_pyfunction!(compiling::compile, module)?)?;
    module.add_function(wrap_pyfunction!(compiling::load, module)?)?;
    module.add_function(wrap_pyfunction!(compiling::check, module)?)?;
    module.add_function(wrap_pyfunction!(compiling::imported, module)?)?;
    module.add_function(wrap_pyfunction!(compiling::text, module)?)?;
    module.add_function(wrap_pyfunction!(compiling::refused_nodes, module)?)?;
    module.add_function(wrap_pyfunction!(compiling::compiler_version, module)?)?;
    module.add_function(wrap_pyfunction!(compiling::write_params, module)?)?;
    module.add_function(wrap_pyfunction!(comparing::diff, module)?)?;
    module.add_function(wrap_pyfunction!(comparing::equiv, module)?)?;
    module.add_function(wrap_pyfunction!(passes::opt, module)?)?;
    module.add_function(wrap_pyfunction!(passes::memory_report, module)?)?;
    module.add_function(wrap_pyfunction!(passes::grad, module)?)?;
    module.add_function(wrap_pyfunction!(passes::rewrite, module)?)?;
    module.add_function(wrap_pyfunction!(passes::versions, module)?)?;
    module.add_function(wrap_pyfunction!(sharding::shard, module)?)?;
    module.add_function(wrap_pyfunction!(training::train, module)?)?;
    module.add_function(wrap_pyfunction!(proving::prove, module)?)?;
    module.add_function(wrap_pyfunction!(proving::solver, module)?)
}
