//! Kernels of generated programs, compiled as `relax build` does it, agree with the interpreter: a search for miscompilations.
//! `RELAX_GENERATED=2000` takes so many; `$CC` is the compiler.

use super::corpus::check_all;
use super::programs::take;
use relax_cpu::{Compiler, hardware};
use relax_driver::{Target, lower, panel};
use relax_generate::{drawn, module};
use relax_program::frontend::Program;
use relax_rewrite::pass::{Device, Settings};
use relax_rewrite::pipeline::Unwatched;
use relax_runtime::program::Numerics;
use relax_semantics::random::Random;
use relax_syntax::ir::{Module, TensorProgram};
use relax_syntax::span::Source;
use std::collections::BTreeSet;

/// Kernels in a test without the variable.
const FEW: usize = 40;

/// A generated program as kernels are printed from; `None` where it is refused.
fn lowered(seed: u64, sums: Numerics) -> Option<Module> {
    let bytes = drawn(&mut Random::new(seed, "kernels"), 240);
    let program = Program::load(Source::new("generated", module(&bytes)));
    if program.has_errors() {
        return None;
    }
    let settings = Settings { panel: panel(hardware().isa, None), ..Settings::default() };
    let target = Target::of(Device::Cpu, sums);
    Some(lower(&target, &program.module, &settings, &mut Unwatched).ok()?.module)
}

fn kernels(count: usize, sums: Numerics) -> Vec<TensorProgram> {
    let (mut seen, mut found) = (BTreeSet::new(), Vec::new());
    let modules = (0_u64..).filter_map(|seed| lowered(seed, sums));
    for module in modules.take(count * 20) {
        take(&module, &mut seen, &mut found);
        if found.len() >= count {
            break;
        }
    }
    found.truncate(count);
    assert_eq!(found.len(), count, "the generator repeats itself");
    found
}

#[test]
fn generated_kernels_agree() {
    let count = std::env::var("RELAX_GENERATED").ok().and_then(|text| text.parse().ok());
    let compiler = Compiler::of_system().expect("a C compiler");
    let mut wrong = Vec::new();
    for sums in [Numerics::Exact, Numerics::Reassociated] {
        let tally = check_all(&kernels(count.unwrap_or(FEW), sums), sums, &compiler);
        let unchecked: usize = tally.unchecked.values().sum();
        let (agree, cases, differ) = (tally.agree, tally.cases, tally.differ.len());
        eprintln!(
            "{}, {sums:?}: {agree} agree in {cases} cases, {unchecked} unchecked, {differ} differ",
            compiler.version()
        );
        assert!(unchecked * 10 <= agree, "{:?}", tally.unchecked);
        wrong.extend(tally.differ);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
