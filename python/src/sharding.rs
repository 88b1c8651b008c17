//! Layouts of a distributed program, as of the subcommand `shard`.

use crate::compiling::{Origin, failed, given};
use crate::errors::Failure;
use pyo3::prelude::*;
use relax_program::frontend::print;
use relax_rewrite::inlined::inlined;
use relax_rewrite::passes::bind_params::entry;
use relax_sharding::annotated::annotated;
use relax_sharding::{Sharded, shard as sharded};
use relax_symbolic::Prover;
use relax_syntax::Name;
use std::collections::BTreeMap;

/// The text with layouts, that of each rank, the bytes that all ranks send as an expression of dims, the sizes at which costs were
/// compared, and whether all layouts were.
type Plan = (String, String, String, BTreeMap<String, i64>, bool);

#[pyfunction]
pub(crate) fn shard(
    py: Python<'_>,
    origin: Origin,
    function: Option<String>,
    sizes: BTreeMap<String, i64>,
) -> PyResult<Plan> {
    py.detach(|| planned(&origin, function.as_deref(), &sizes))
        .map_err(|failure| failure.raised(py))
}

fn planned(
    origin: &Origin,
    function: Option<&str>,
    sizes: &BTreeMap<String, i64>,
) -> Result<Plan, Failure> {
    let (program, _) = given(origin)?;
    let named = match function {
        Some(name) => program
            .module
            .function(name)
            .ok_or_else(|| Failure::argument(format!("there is no function `{name}`")))?,
        None => entry(&program.module).ok_or_else(|| {
            Failure::argument(
                "the program has no `main` and not one public function: name one as `entry`",
            )
        })?,
    };
    let module = inlined(&program.module, &named.name, &mut Prover::new())
        .map_err(|refused| failed(&program, refused))?;
    let function = module.function(&named.name).expect("invariant: the entry stays");
    let mut given = BTreeMap::new();
    for (name, &size) in sizes {
        if size < 0 || function.dim(name).is_none() {
            let text = format!(
                "sizes: `{name}` = {size}: expected a dim of `{}`, at least 0",
                function.name
            );
            return Err(Failure::argument(text));
        }
        given.insert(Name::new(name), size);
    }
    let Sharded { plan, local, .. } = sharded(&module, function, &given, &mut Prover::new())
        .map_err(|refused| Failure::program(&program.source, &[refused]))?;
    let text = print(&annotated(&module, function, &plan));
    let samples = plan.samples.iter().map(|(name, size)| (name.to_string(), *size)).collect();
    let bytes = plan.bytes(&mut Prover::new());
    Ok((text, print(&local), bytes.to_string(), samples, !plan.is_truncated))
}
