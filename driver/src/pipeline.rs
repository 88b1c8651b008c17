//! The passes of a target: the stages from text to P2.3, and what schedules tensor programs for its device.

use crate::{Library, Target, Tuning};
use relax_cuda::as_programs;
use relax_emit::tiles::{Hardware, Isa, Measured, Plan, Table, Tile};
use relax_lower::constants::evaluate_constants;
use relax_lower::lowered::Lowered;
use relax_lower::passes::{
    fuse_loops, pack_weights, parallelize_loops, schedule_gpu, schedule_gpu_freely,
    schedule_tensor_cores, version_loops,
};
use relax_lower::pipeline::{FAST, FUSION, FUSION_FAST, NARROW, PIPELINE};
use relax_rewrite::pass::{Device, Pass, Settings};
use relax_rewrite::passes::{
    eliminate_dead_code, fuse_ops_by_pattern, guard_libraries, inline_private_functions, saturate,
};
use relax_rewrite::pipeline::{Failed, Pipeline, Route, Watch, run};
use relax_rewrite::saturation::{Constants, Fusion, Options, Units};
use relax_runtime::program::Numerics;
use relax_semantics::check::Phase;
use relax_symbolic::Prover;
use relax_syntax::ir::Module;
use relax_tir::analysis::access_summary::AccessSummaries;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::num::NonZeroU32;

/// All passes of a target.
#[derive(Clone, Copy, Debug)]
pub struct Passes {
    /// From text to what the virtual machine runs.
    pub stages: &'static Pipeline,
    /// After P0, by the rules of the target: nothing where it has none.
    pub rewrites: &'static [&'static Pass],
    /// After P1: composite functions of what a library of the device computes.
    pub library: &'static [&'static Pass],
    /// At the end of P2.1: the schedule of tensor programs. Constants are evaluated between two groups.
    pub schedule: Schedule,
}

impl Passes {
    /// The way to a phase: the stages, and the schedule where it ends P2.1 and a later phase is asked for. What a library computes and
    /// constants that are evaluated while a module is built are not among them.
    #[must_use]
    pub fn to(&self, phase: Phase, from: Phase) -> Vec<Route> {
        if phase <= Phase::P21 || from > Phase::P21 {
            return vec![self.stages.to(phase)];
        }
        let schedule = Route::Passes(self.schedule.concat());
        vec![self.stages.to(Phase::P21), schedule, self.stages.to(phase)]
    }
}

/// What schedules tensor programs, in groups of passes.
pub type Schedule = &'static [&'static [&'static Pass]];

static CPU: Schedule = &[&[&fuse_loops::PASS, &version_loops::PASS, &parallelize_loops::PASS]];
static CPU_REASSOCIATED: Schedule = &[
    &[&fuse_loops::PASS, &pack_weights::PASS],
    &[&eliminate_dead_code::PASS, &version_loops::PASS, &parallelize_loops::PASS],
];
static GPU: Schedule = &[&[&schedule_gpu::PASS]];
static WGPU_REASSOCIATED: Schedule = &[&[&schedule_gpu_freely::PASS]];
static CUDA_REASSOCIATED: Schedule = &[&[&schedule_tensor_cores::PASS]];
static REWRITES: &[&Pass] = &[&saturate::PASS, &saturate::VERSIONS];
static REWRITES_OF_REALS: &[&Pass] = &[&saturate::REALS, &saturate::VERSIONS_OF_REALS];
static CUDA_LIBRARY: &[&Pass] = &[&guard_libraries::PASS, &fuse_ops_by_pattern::PASS];

/// The passes of a target. The stages are listed in `lower/src/pipeline.rs`.
#[must_use]
pub fn pipeline(target: &Target) -> Passes {
    let (stages, schedule): (_, Schedule) = match (target.device, target.numerics) {
        (Device::Interp, _) => (&PIPELINE, &[]),
        (Device::Cpu, Numerics::Exact) => (&PIPELINE, CPU),
        (Device::Cpu, Numerics::Reassociated) => (&FAST, CPU_REASSOCIATED),
        (Device::Wgpu | Device::Cuda, Numerics::Exact) => (&PIPELINE, GPU),
        (Device::Wgpu, Numerics::Reassociated) => (&PIPELINE, WGPU_REASSOCIATED),
        (Device::Cuda, Numerics::Reassociated) => (&NARROW, CUDA_REASSOCIATED),
    };
    let library = match (target.device, target.numerics, target.library) {
        (Device::Cuda, Numerics::Reassociated, Library::Used) => CUDA_LIBRARY,
        _ => &[],
    };
    let rewrites = match (&target.rules, target.numerics) {
        (None, _) => &[],
        (Some(_), Numerics::Exact) => REWRITES,
        (Some(_), Numerics::Reassociated) => REWRITES_OF_REALS,
    };
    Passes { stages, rewrites, library, schedule }
}

/// A module as the virtual machine runs it with kernels on the device of a target. One that is beyond P2.1 is not scheduled any more.
///
/// # Errors
/// The pass that refuses the module.
pub fn lower(
    target: &Target,
    module: &Module,
    settings: &Settings,
    watch: &mut dyn Watch,
) -> Result<Lowered, Failed> {
    let Passes { stages, rewrites, library, schedule } = pipeline(target);
    let products = target.tuning.products.clone();
    let saturation = match &target.rules {
        Some(rules) => Options { fusion: Some(fusion(target)), ..Options::clone(rules) },
        None => settings.saturation.clone(),
    };
    let Target { device, numerics, .. } = *target;
    let settings = Settings { device, numerics, products, saturation, ..settings.clone() };
    let pass = |module: &Module, route: &Route, watch: &mut dyn Watch| {
        run(module, route, &settings, &mut Prover::new(), watch)
    };
    let mut module = Cow::Borrowed(module);
    if !rewrites.is_empty() {
        let ingested = pass(&module, &stages.to(Phase::P0), watch)?;
        let passes = Route::Passes([saturate::PREPARATION, rewrites].concat());
        module = Cow::Owned(pass(&ingested, &passes, watch)?);
    }
    let phase = Phase::of_module(&module);
    let is_at_most = |last| phase.as_ref().is_ok_and(|phase| *phase <= last);
    if !is_at_most(Phase::P21) {
        let lowered = pass(&module, &stages.to(Phase::P23), watch)?;
        if target.device != Device::Cpu {
            return Ok(lowered.into());
        }
        // A loop runs on threads where it is `parallel`: what a text says of it is proved here as well.
        let proved = Route::Passes(vec![&parallelize_loops::PASS]);
        return pass(&lowered, &proved, watch).map(Lowered::from);
    }
    if !library.is_empty() && is_at_most(Phase::P1) {
        let optimized = pass(&module, &stages.to(Phase::P1), watch)?;
        let matched = pass(&optimized, &Route::Passes(library.to_vec()), watch)?;
        module = Cow::Owned(as_programs(matched));
    }
    let mut module = pass(&module, &stages.to(Phase::P21), watch)?;
    let summaries = match target.device {
        Device::Interp | Device::Cpu => AccessSummaries::default(),
        Device::Wgpu | Device::Cuda => AccessSummaries::of(&module),
    };
    let mut values = BTreeMap::new();
    for (number, group) in schedule.iter().enumerate() {
        if number > 0 {
            let evaluated = evaluate_constants(&module, &settings.params);
            if evaluated.module != module {
                watch.made("evaluate_constants", &evaluated.module);
            }
            (module, values) = (evaluated.module, evaluated.values);
        }
        module = pass(&module, &Route::Passes(group.to_vec()), watch)?;
    }
    let module = pass(&module, &stages.to(Phase::P23), watch)?;
    Ok(Lowered { module, values, summaries })
}

/// After which passes of a target forms of a region are compared.
fn fusion(target: &Target) -> Fusion {
    match (target.device, target.numerics) {
        // The schedule evaluates constants there.
        (Device::Cpu, Numerics::Reassociated) => {
            let (constants, units) = (Constants::Evaluated, of_processor(&target.tuning));
            Fusion { passes: &FUSION_FAST, constants, units }
        }
        (device, _) => {
            let units = match device {
                Device::Interp | Device::Cpu => of_processor(&target.tuning),
                Device::Wgpu | Device::Cuda => Units::GPU,
            };
            Fusion { passes: &FUSION, constants: Constants::Computed, units }
        }
    }
}

/// What bytes and kernels cost beside operations: as `relax tune` measured the fastest tile and reads from behind the second cache, with
/// the built-in time of a start; without measurements the built-in figures.
fn of_processor(tuning: &Tuning) -> Units {
    /// Picoseconds in which a kernel is started.
    const START: i128 = 400_000;
    let Some(table) = &tuning.tiles else { return Units::PROCESSOR };
    let lanes = i128::from(table.hardware.isa.lanes());
    let operations = |tile: Tile| 2 * lanes * i128::from(tile.rows * tile.vectors);
    // Operations in a time, by the tile that does most of them.
    let most = |picoseconds: i128| {
        let in_it = |measured: &Measured| {
            operations(measured.tile) * picoseconds / i128::from(measured.times.in_place.max(1))
        };
        table.tiles.iter().map(in_it).max().unwrap_or(1).max(1)
    };
    // A vector has four bytes a lane.
    let byte = most(i128::from(table.far)) / (4 * lanes);
    Units { byte: byte.max(1), launch: most(START) }
}

/// A module whose products with quantized weights round activations. Private functions are put in the place of their calls before, so
/// that products of the same activations round them once: later passes merge equal calls within a function.
///
/// # Errors
/// The pass that refuses the module.
pub fn round_products(
    module: &Module,
    rounding: &'static Pass,
    settings: &Settings,
    watch: &mut dyn Watch,
) -> Result<Module, Failed> {
    let passes = Route::Passes(vec![&inline_private_functions::PASS, rounding]);
    let ingested = run(module, &PIPELINE.to(Phase::P0), settings, &mut Prover::new(), watch)?;
    run(&ingested, &passes, settings, &mut Prover::new(), watch)
}

/// Columns of the panels of products, as they are cut for these vectors: what `pack_weights` is given. A table for other vectors is not used.
#[must_use]
pub fn panel(isa: Isa, tiles: Option<&Table>) -> Option<NonZeroU32> {
    let table = tiles.filter(|table| table.hardware.isa == isa).cloned();
    let table = table.unwrap_or_else(|| Table::built_in(Hardware::assumed(isa)));
    u32::try_from(Plan::of(&table).panel()).ok().and_then(NonZeroU32::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_and_kernels_cost_what_was_measured() {
        let units =
            |table: &Table| of_processor(&Tuning { tiles: Some(table.clone()), products: None });
        let table = Table::built_in(Hardware::assumed(Isa::Avx512));
        let built_in = units(&table);
        assert_eq!(of_processor(&Tuning::default()), Units::PROCESSOR);

        let mut slow_memory = table.clone();
        slow_memory.far *= 10;
        let of_slow_memory = units(&slow_memory);
        assert!((9..=11).contains(&(of_slow_memory.byte / built_in.byte)), "{of_slow_memory:?}");
        assert_eq!(of_slow_memory.launch, built_in.launch);

        let mut slow_sums = table;
        slow_sums.tiles.iter_mut().for_each(|tile| tile.times.in_place *= 4);
        let of_slow_sums = units(&slow_sums);
        assert!(of_slow_sums.byte < built_in.byte && of_slow_sums.launch < built_in.launch);

        // What nobody can measure is no division by zero.
        slow_memory.tiles.iter_mut().for_each(|tile| tile.times.in_place = 0);
        slow_memory.far = 0;
        assert_eq!(units(&slow_memory).byte, 1);
    }
}
