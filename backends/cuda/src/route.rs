//! From a module to the one that kernels for a device are printed from: the pipeline, and what schedules
//! loops for blocks and threads.

use crate::product::operands;
use relax_lower::passes::{schedule_gpu, schedule_tensor_cores};
use relax_lower::pipeline::{NARROW, PIPELINE};
use relax_lower::route::lower_scheduled;
use relax_lower::scheduled::ScheduledModule;
use relax_rewrite::pass::{Device, Settings};
use relax_rewrite::passes::fuse_ops::PRIMITIVE;
use relax_rewrite::passes::fuse_ops_by_pattern::{self, COMPOSITE};
use relax_rewrite::passes::guard_libraries;
use relax_rewrite::pipeline::{Failed, Route, Unwatched, Watch, run};
use relax_semantics::check::Phase;
use relax_symbolic::Prover;
use relax_syntax::Name;
use relax_syntax::ir::{AttrValue, Definition, Function, Module, attr};
use relax_tir::analysis::access_summary::AccessSummaries;

/// Who multiplies matrices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Products {
    /// Kernels of ours, which sum in the order of the text.
    #[default]
    Own,
    /// Kernels of ours, of which those of f16 and of bf16 are for tensor cores.
    Cores,
    /// cuBLASLt where a pattern of its functions matches, and it is there: sums have any order. Else kernels of ours, of which those
    /// of f16 and of bf16 are for tensor cores.
    Library,
}

/// A module as the machine runs it with kernels on a device.
///
/// # Errors
/// The pass that refuses the module.
pub fn lower_for_cuda(
    module: &Module,
    settings: &Settings,
    products: Products,
) -> Result<ScheduledModule, Failed> {
    let settings = Settings { device: Device::Cuda, ..settings.clone() };
    let (schedule, pipeline) = match products {
        Products::Own => (&schedule_gpu::PASS, &PIPELINE),
        Products::Cores | Products::Library => (&schedule_tensor_cores::PASS, &NARROW),
    };
    let lower = |module: &Module| {
        let mut summaries = AccessSummaries::default();
        let route = Route::Passes(vec![schedule]);
        let mut schedule = |legal: &Module, watch: &mut dyn Watch| {
            summaries = AccessSummaries::of(legal);
            run(legal, &route, &settings, &mut Prover::new(), watch)
        };
        let module = lower_scheduled(pipeline, module, &settings, &mut Unwatched, &mut schedule)?;
        Ok(ScheduledModule { module, summaries })
    };
    let early = Phase::of_module(module).is_ok_and(|phase| phase <= Phase::P1);
    if products != Products::Library || !early {
        return lower(module);
    }
    let pass = |module: &Module, route: &Route| {
        run(module, route, &settings, &mut Prover::new(), &mut Unwatched)
    };
    let optimized = pass(module, &PIPELINE.to(Phase::P1))?;
    let match_library = vec![&guard_libraries::PASS, &fuse_ops_by_pattern::PASS];
    let matched = pass(&optimized, &Route::Passes(match_library))?;
    lower(&as_programs(matched))
}

/// Has each composite function become one tensor program, which says what it means, and computes it where no library does. The
/// mark stays where its inputs are what the library's function takes, in their order.
fn as_programs(mut module: Module) -> Module {
    for definition in &mut module.definitions {
        let Definition::Graph(function) = definition else { continue };
        if attr(&function.lambda.attrs, COMPOSITE).is_none() {
            continue;
        }
        if !is_of_library(function) {
            function.lambda.attrs.retain(|(name, _)| *name != COMPOSITE);
        }
        function.lambda.attrs.push((Name::new(PRIMITIVE), AttrValue::Bool(true)));
    }
    module
}

/// An operand that is there twice, or a constant, is no parameter of its own.
fn is_of_library(function: &Function) -> bool {
    let Some(AttrValue::Str(name)) = attr(&function.lambda.attrs, COMPOSITE) else { return false };
    operands(name) == Some(function.lambda.params.len())
}
