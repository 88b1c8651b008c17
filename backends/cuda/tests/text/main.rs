//! The text for CUDA without a device: NVRTC compiles it, and the processor runs it.

#[path = "../../../cpu/tests/kernels/cases.rs"]
mod cases;
mod compile;
mod cores;
#[path = "../../../cpu/tests/kernels/programs.rs"]
mod programs;
mod run;
mod shim;
mod versions;
mod warps;

use relax_corpus::par_map::par_map_chunks;
use relax_emit::cuda::{CudaSource, print_cuda};
use relax_lower::gpu::{Limits, schedule_in};
use relax_program::frontend::Program;
use relax_rewrite::pass::Exactness;
use relax_runtime::program::Numerics;
use relax_symbolic::Prover;
use relax_syntax::facts::Facts;
use relax_syntax::ir::{Definition, Module, TensorProgram};
use relax_syntax::span::Source;
use std::collections::BTreeSet;

/// Programs as they are run on a device: with loops bound to blocks and threads.
fn scheduled(
    programs: &[TensorProgram],
    limits: Limits,
    exactness: Exactness,
) -> Vec<TensorProgram> {
    let one = |program: &TensorProgram| {
        let bound = schedule_in(program, &mut Prover::new(), limits, exactness);
        bound.unwrap_or_else(|| program.clone())
    };
    each(programs.iter().collect(), one)
}

/// What is made of each, in their order, by all cores.
fn each<T: Send, R: Send>(items: Vec<T>, make: impl Fn(T) -> R + Sync) -> Vec<R> {
    let items = items.into_iter().enumerate().collect();
    let shares = par_map_chunks(items, |share: Vec<(usize, T)>| {
        share.into_iter().map(|(at, item)| (at, make(item))).collect::<Vec<_>>()
    });
    let mut made: Vec<(usize, R)> = shares.into_iter().flatten().collect();
    made.sort_by_key(|(at, _)| *at);
    made.into_iter().map(|(_, item)| item).collect()
}

/// The text of some programs.
fn printed(programs: &[TensorProgram]) -> CudaSource {
    printed_with(programs, &mut Prover::new())
}

/// The same with somebody else to answer which checks can never fail.
fn printed_with(programs: &[TensorProgram], facts: &mut dyn Facts) -> CudaSource {
    let definitions = programs.iter().cloned().map(Definition::Tensor).collect();
    print_cuda(
        &Module { definitions, ..Module::default() },
        facts,
        None,
        &BTreeSet::new(),
        Numerics::Exact,
    )
}

/// The tensor programs of a text.
fn programs_of(name: &str, text: &str) -> Vec<TensorProgram> {
    let module = Program::load(Source::new(name, text)).module;
    let programs = module.definitions.into_iter().filter_map(|definition| match definition {
        Definition::Tensor(program) => Some(program),
        Definition::Graph(_) => None,
    });
    programs.collect()
}
