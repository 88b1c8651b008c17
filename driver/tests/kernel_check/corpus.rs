//! Kernels of the corpus: each agrees with the interpreter or is unchecked.

use super::programs::programs;
use relax_corpus::sample::Sample;
use relax_cpu::{Cache, Compiler};
use relax_driver::{Budget, Verdict, check_kernel};
use relax_emit::print_c;
use relax_runtime::program::Numerics;
use relax_symbolic::Prover;
use relax_syntax::ir::{Definition, Module, TensorProgram};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Programs of one C file.
const CHUNK: usize = 80;
/// A sample takes one program of so many.
const STRIDE: usize = 12;

#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) agree: usize,
    pub(super) cases: usize,
    /// How many, by reason.
    pub(super) unchecked: BTreeMap<String, usize>,
    /// Names, with reasons.
    names: Vec<String>,
    pub(super) differ: Vec<String>,
    checking: Duration,
}

fn sample() -> Vec<TensorProgram> {
    Sample::of("kernels that are checked", STRIDE).take(programs()).cloned().collect()
}

pub(super) fn check_all(programs: &[TensorProgram], sums: Numerics, compiler: &Compiler) -> Tally {
    let folder = tempfile::tempdir().expect("a folder for the cache");
    let cache = Cache::at(folder.path());
    let mut tally = Tally::default();
    for chunk in programs.chunks(CHUNK) {
        let definitions = chunk.iter().cloned().map(Definition::Tensor).collect();
        let module = Module { definitions, ..Module::default() };
        let source = print_c(&module, &mut Prover::new(), sums);
        let library = relax_cpu::build(&source, compiler, &cache);
        let library = library.unwrap_or_else(|error| panic!("{error}"));
        let start = Instant::now();
        for kernel in &source.kernels {
            let program = module.tensor_program(&kernel.name).expect("it was printed");
            match check_kernel(program, (kernel, &library), sums, Budget::default()) {
                Verdict::Agrees { cases } => {
                    tally.agree += 1;
                    tally.cases += cases;
                }
                Verdict::Unchecked { reason } => {
                    tally.names.push(format!("{}: {reason}", kernel.name));
                    *tally.unchecked.entry(reason).or_default() += 1;
                }
                Verdict::Differs { difference } => {
                    tally.differ.push(format!("{}: {difference}", kernel.name));
                }
            }
        }
        tally.checking += start.elapsed();
    }
    tally
}

fn no_false_alarm(sums: Numerics) {
    let programs = sample();
    let compiler = Compiler::of_system().expect("a C compiler").with_flag("-O2");
    let tally = check_all(&programs, sums, &compiler);
    let unchecked: usize = tally.unchecked.values().sum();
    eprintln!(
        "{sums:?}: {} agree in {} cases, {unchecked} unchecked: {:?}; {:?}",
        tally.agree, tally.cases, tally.unchecked, tally.checking
    );
    eprintln!("{}", tally.names.join("\n"));
    assert!(tally.differ.is_empty(), "{} differ:\n{}", tally.differ.len(), tally.differ.join("\n"));
    assert!(unchecked * 20 <= tally.agree, "{unchecked} unchecked: {:?}", tally.unchecked);
    assert!(tally.cases >= 5 * tally.agree, "{} cases", tally.cases);
}

#[test]
fn exact_kernels_of_the_corpus_agree() {
    no_false_alarm(Numerics::Exact);
}

#[test]
fn reassociated_kernels_of_the_corpus_agree() {
    no_false_alarm(Numerics::Reassociated);
}
