//! Compiled kernels against the interpreter: tensor programs of the corpus, and those that the passes
//! up to P2.3 make of the corpus, a half with each commit, on random elements at sizes around those of tiles and vectors. Results are
//! equal bit for bit where no function of the C library is called; traps have the same id and place.

use super::cases::{Case, cases};
use super::native::{All, Built, build_all};
use super::programs::programs;
use relax_corpus::sample::Sample;
use relax_emit::OUT_OF_MEMORY;
use relax_program::compare::{Relation, compare, largest_difference};
use relax_runtime::program::Numerics;
use relax_semantics::random::Random;
use relax_semantics::stop::Stop;
use relax_semantics::tensor::Tensor;
use relax_semantics::tir::{Compiled, Options};
use relax_semantics::value::Value;
use relax_syntax::dtype::DType;
use relax_syntax::ir::TensorProgram;
use relax_tir::analysis::bit_exact::is_bit_exact;
use relax_tir::analysis::definite_init::unproved;

/// One in so many is compiled as the text says; the corpus on the machine compiles half of them as well.
const EXACT: usize = 4;
/// Steps of one run in the interpreter.
const STEPS: u64 = 400_000;

/// What came of the runs.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) values: usize,
    pub(super) traps: usize,
    exhausted: usize,
}

#[test]
fn kernels_do_what_the_interpreter_does() {
    let sample = Sample::of("kernels by the C compiler", EXACT);
    let programs: Vec<TensorProgram> = sample.take(programs()).cloned().collect();
    let (tally, built) = hold_all(&programs, Numerics::Exact);
    // A test that compares nothing would not find anything.
    let innermost = built.innermost;
    let text = format!(
        "{tally:?}, {}, {innermost} on dims in innermost loops, left out: {:?}",
        built.checks, built.left_out
    );
    let share = if sample.is_whole() { 1 } else { EXACT };
    let are_many = built.kernels.len() > 2000 / share && tally.values > 20_000 / share;
    assert!(are_many && tally.traps > 150 / share / 2, "{text}");
    assert!(tally.exhausted < tally.values / 100, "{text}");
    // Most of those left are on elements, as of what is sorted.
    assert!(built.checks.left() < built.checks.found / 6, "{text}");
    assert!(innermost < built.checks.found / 50, "{text}");
    let known = |why: &str| why.contains("barrier") || why.contains("external");
    assert!(built.left_out.iter().all(|(_, why)| known(why)), "{text}");
}

/// A part of the programs: what differs from the exact text is found by loops, not by operators. All that may read what
/// nothing wrote are in it, since routines of the prelude do not notice that.
#[test]
fn kernels_in_any_order_are_near() {
    let all = programs().iter().enumerate();
    let taken = all.filter(|(at, program)| at % 5 == 0 || !unproved(program).is_empty());
    let programs: Vec<TensorProgram> = taken.map(|(_, program)| program.clone()).collect();
    let (tally, _) = hold_all(&programs, Numerics::Reassociated);
    assert!(tally.values > 4_000 && tally.traps > 5, "{tally:?}");
}

fn hold_all(programs: &[TensorProgram], sums: Numerics) -> (Tally, All<'_>) {
    let built = build_all(programs, sums);
    let mut tally = Tally::default();
    let mut wrong = Vec::new();
    for kernel in &built.kernels {
        wrong.extend(hold_cases(kernel, cases(kernel.program), sums, &mut tally));
    }
    assert!(wrong.is_empty(), "{} wrong of {tally:?}\n{}", wrong.len(), wrong.join("\n"));
    (tally, built)
}

/// The first of these cases that is wrong.
pub(super) fn hold_cases(
    kernel: &Built<'_>,
    cases: Vec<Case>,
    sums: Numerics,
    tally: &mut Tally,
) -> Option<String> {
    cases.into_iter().find_map(|case| {
        let why = hold(kernel, &case, sums, tally).err()?;
        Some(format!("{} at {:?}: {why}", kernel.program.name, case.dims))
    })
}

fn hold(kernel: &Built<'_>, case: &Case, sums: Numerics, tally: &mut Tally) -> Result<(), String> {
    let options = Options::default();
    let compiled = Compiled::new(kernel.program).map_err(|found| format!("{found:?}"))?;
    let mut steps = STEPS;
    let want = match compiled.run(case.tensors.clone(), &case.ints, &options, &mut steps) {
        Ok(want) => want,
        Err(Stop::Trap(trap)) => {
            tally.traps += 1;
            let stopped = kernel.run(case).err();
            let found = stopped.as_ref().map(|site| (site.trap.as_str(), site.span));
            let same = found == Some((trap.id.as_str(), trap.span));
            return if same { Ok(()) } else { Err(format!("{trap:?}, but {found:?}")) };
        }
        Err(_) => {
            tally.exhausted += 1;
            return Ok(());
        }
    };
    let got = match kernel.run(case) {
        Ok(got) => got,
        Err(site) if site.trap == OUT_OF_MEMORY => {
            tally.exhausted += 1;
            return Ok(());
        }
        Err(site) => return Err(format!("stops: {site:?}")),
    };
    tally.values += 1;
    let inexact = !is_bit_exact(kernel.program);
    let relation = if inexact { Relation::Close } else { Relation::Equal };
    // Not of integers: words that hold several are large, and what is computed from them is not.
    let floats = want.iter().filter(|tensor| tensor.dtype().is_float());
    let scale = floats.map(largest_magnitude).fold(0.0, f64::max);
    // Results of cancellation are ill-conditioned. Inputs perturbed by a unit in the last place measure by how much.
    let second =
        || compiled.run(perturbed(&case.tensors), &case.ints, &options, &mut STEPS.clone());
    let pairs = want.into_iter().zip(got);
    pairs.enumerate().try_for_each(|(at, (want, got))| {
        // What is forwarded in registers is not in its workspace, integers neither.
        if sums == Numerics::Reassociated && kernel.is_workspace(at) {
            return Ok(());
        }
        if sums == Numerics::Reassociated && want.dtype().is_float() {
            let bound = scale * (TERMS * f64::powi(2.0, -24) + half_unit(want.dtype()));
            let with_change = || {
                let change = second().map_or(0.0, |all| largest_difference(&want, &all[at]));
                if change.is_finite() { bound + PERTURBED * change } else { bound }
            };
            let near = is_near(&want, &got, bound) || is_near(&want, &got, with_change());
            let text = || format!("buffer {at}: {want:?} is far from {got:?}");
            return near.then_some(()).ok_or_else(text);
        }
        let rounding = inexact && want.dtype() == DType::F64;
        if rounding && differs_by_rounding(kernel.program, &want, &got, scale) {
            return Ok(());
        }
        let change = || {
            let change = second().map_or(0.0, |all| largest_difference(&want, &all[at]));
            if change.is_finite() { change } else { 0.0 }
        };
        // A value of a C function that is rounded to the other neighbour is as an input that is off by a unit.
        let is_close = |why: &String| {
            let near = inexact && want.dtype() == DType::F32 && is_near(&want, &got, change());
            if near { None } else { Some(format!("buffer {at}: {why}")) }
        };
        let compared = compare(relation, &Value::Tensor(want.clone()), &Value::Tensor(got.clone()));
        compared.err().and_then(|why| is_close(&why.to_string())).map_or(Ok(()), Err)
    })
}

/// The C library's functions of f64 and those of the interpreter are both right within a unit, but not the
/// same. What a program then subtracts from each other may be larger than what it gives, so that the
/// magnitudes of all its buffers count. Where there are narrower floats, f64 may hold sums of what was rounded to those.
fn differs_by_rounding(program: &TensorProgram, want: &Tensor, got: &Tensor, scale: f64) -> bool {
    let narrower = |dtype: DType| dtype.is_float() && dtype != DType::F64;
    let is_mixed = program.buffers.iter().any(|buffer| narrower(buffer.dtype));
    let unit = if is_mixed { f64::from(f32::EPSILON) } else { f64::EPSILON };
    is_near(want, got, 16.0 * unit * scale)
}

/// Terms of the longest sums of the corpus, times the magnitude of a factor: an error of rounding is below
/// that many units of the largest element, one of indexing is of the order of the elements.
const TERMS: f64 = 1024.0;

/// Allowed multiple of the change that perturbed inputs cause.
const PERTURBED: f64 = 64.0;

/// Elements of f32 that are off by a unit in the last place, up or down.
fn perturbed(tensors: &[Tensor]) -> Vec<Tensor> {
    let mut random = Random::new(1, "perturbed");
    let mut off = |tensor: &Tensor| {
        if tensor.dtype() != DType::F32 {
            return tensor.clone();
        }
        let sign = |bits: u64| if bits & 1 == 0 { 1.0 } else { -1.0 };
        let unit = f64::from(f32::EPSILON);
        let floats = tensor.to_floats().mapv(|x| x * (1.0 + sign(random.bits()) * unit));
        Tensor::from_floats(DType::F32, floats)
    };
    tensors.iter().map(&mut off).collect()
}

/// What lies between two halves is rounded to either where a sum may be formed in any order.
fn half_unit(dtype: DType) -> f64 {
    match dtype {
        DType::F16 => f64::powi(2.0, -10),
        DType::BF16 => f64::powi(2.0, -7),
        _ => 0.0,
    }
}

fn is_near(want: &Tensor, got: &Tensor, bound: f64) -> bool {
    let near = |a: f64, b: f64| a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= bound;
    (0..want.len()).all(|at| near(want.number(at).as_f64(), got.number(at).as_f64()))
}

/// Of the finite elements.
fn largest_magnitude(tensor: &Tensor) -> f64 {
    let magnitudes = (0..tensor.len()).map(|at| tensor.number(at).as_f64().abs());
    magnitudes.filter(|magnitude| magnitude.is_finite()).fold(0.0, f64::max)
}
