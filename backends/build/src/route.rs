//! From a module to the one that kernels are printed from: the pipeline, and the loops of the tensor programs
//! fused, so that a row is read again while it is in a cache, and given versions where ranges are open. Threads share the loops that are left.

use relax_emit::tiles::{Hardware, Isa, Plan, Table};
use relax_lower::constants::{Evaluated, evaluate_constants};
use relax_lower::passes::{fuse_loops, pack_weights, version_loops};
use relax_lower::pipeline::{FAST, PIPELINE};
use relax_lower::route::{lower_scheduled, lower_with};
use relax_rewrite::pass::Settings;
use relax_rewrite::passes::{eliminate_dead_code, inline_private_functions, round_activations};
use relax_rewrite::pipeline::{Failed, Route, Watch, run};
use relax_semantics::check::Phase;
use relax_semantics::tensor::Tensor;
use relax_symbolic::Prover;
use relax_syntax::Name;
use relax_syntax::ir::Module;
use std::collections::BTreeMap;
use std::num::NonZeroU32;

/// A module as the machine runs it on a processor.
///
/// # Errors
/// The pass that refuses the module.
pub fn lower_for_cpu(
    module: &Module,
    settings: &Settings,
    watch: &mut dyn Watch,
) -> Result<Module, Failed> {
    lower_with(module, settings, &[&fuse_loops::PASS, &version_loops::PASS], watch)
}

/// The same where sums of products of f32 are formed in f32, with weights as products read them that have these vectors, and their
/// values. A table for other vectors is not used.
///
/// # Errors
/// The pass that refuses the module.
pub fn lower_packed_for_cpu(
    module: &Module,
    settings: &Settings,
    (isa, tiles): (Isa, Option<&Table>),
    watch: &mut dyn Watch,
) -> Result<Evaluated, Failed> {
    let settings = Settings { panel: panel(isa, tiles), ..settings.clone() };
    let pass = |module: &Module, passes, watch: &mut dyn Watch| {
        run(module, &Route::Passes(passes), &settings, &mut Prover::new(), watch)
    };
    let mut values: BTreeMap<Name, Tensor> = BTreeMap::new();
    let module = lower_scheduled(&FAST, module, &settings, watch, &mut |legal, watch| {
        let packed = pass(legal, vec![&fuse_loops::PASS, &pack_weights::PASS], watch)?;
        let evaluated = evaluate_constants(&packed, &settings.params);
        if evaluated.module != packed {
            watch.made("evaluate_constants", &evaluated.module);
        }
        values = evaluated.values;
        pass(&evaluated.module, vec![&eliminate_dead_code::PASS, &version_loops::PASS], watch)
    })?;
    Ok(Evaluated { module, values })
}

/// A module whose products with quantized weights round activations. Private functions are put in the place of their calls before, so
/// that products of the same activations round them once: later passes merge equal calls within a function.
///
/// # Errors
/// The pass that refuses the module.
pub fn round_products(
    module: &Module,
    settings: &Settings,
    watch: &mut dyn Watch,
) -> Result<Module, Failed> {
    let passes = Route::Passes(vec![&inline_private_functions::PASS, &round_activations::PASS]);
    let ingested = run(module, &PIPELINE.to(Phase::P0), settings, &mut Prover::new(), watch)?;
    run(&ingested, &passes, settings, &mut Prover::new(), watch)
}

/// Columns of the panels of products, as they are cut for these vectors.
fn panel(isa: Isa, tiles: Option<&Table>) -> Option<NonZeroU32> {
    let table = tiles.filter(|table| table.hardware.isa == isa).cloned();
    let table = table.unwrap_or_else(|| Table::built_in(Hardware::assumed(isa)));
    u32::try_from(Plan::of(&table).panel()).ok().and_then(NonZeroU32::new)
}
