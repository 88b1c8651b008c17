//! Compiled kernels against the interpreter: every tensor program of the corpus, and those that the passes
//! up to P2.3 make of the corpus, on random elements at sizes around those of tiles and vectors. Results are
//! equal bit for bit where no function of the C library is called; traps have the same id and place.

use super::cases::{Case, cases, programs};
use super::native::{Built, build_all};
use relax_corpus::compare::{Relation, compare};
use relax_emit::{OUT_OF_MEMORY, Sums};
use relax_semantics::stop::Stop;
use relax_semantics::tensor::Tensor;
use relax_semantics::tir::{Compiled, Options};
use relax_semantics::value::Value;
use relax_syntax::dtype::DType;
use relax_syntax::ir::tensor::Intrinsic;

/// Steps of one run in the interpreter.
const STEPS: u64 = 400_000;

/// What came of the runs.
#[derive(Debug, Default)]
struct Tally {
    values: usize,
    traps: usize,
    exhausted: usize,
}

#[test]
fn kernels_do_what_the_interpreter_does() {
    let programs = programs();
    let built = build_all(&programs, Sums::Exact);
    let mut tally = Tally::default();
    let mut wrong = Vec::new();
    for kernel in &built.kernels {
        for case in cases(kernel.program) {
            if let Err(why) = hold(kernel, &case, &mut tally) {
                wrong.push(format!("{} at {:?}: {why}", kernel.program.name, case.dims));
                break;
            }
        }
    }
    let count = built.kernels.len();
    let text =
        format!("{count} kernels, {tally:?}, {}, left out: {:?}", built.checks, built.left_out);
    assert!(wrong.is_empty(), "{} wrong of {text}\n{}", wrong.len(), wrong.join("\n"));
    // A test that compares nothing would not find anything.
    assert!(count > 500 && tally.values > 5_000 && tally.traps > 50, "{text}");
    assert!(tally.exhausted < tally.values / 10, "{text}");
    assert!(
        built.left_out.iter().all(|(_, why)| why.contains("barrier") || why.contains("external"))
    );
}

fn hold(kernel: &Built<'_>, case: &Case, tally: &mut Tally) -> Result<(), String> {
    let options = Options::default();
    let compiled = Compiled::new(kernel.program).map_err(|found| format!("{found:?}"))?;
    let mut steps = STEPS;
    let want = match compiled.run(case.tensors.clone(), &case.ints, &options, &mut steps) {
        Ok(want) => want,
        Err(Stop::Trap(trap)) => {
            tally.traps += 1;
            let stopped = kernel.run(case).err();
            let found = stopped.as_ref().map(|site| (site.trap, site.span));
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
    let inexact = kernel.calls(INEXACT);
    let relation = if inexact { Relation::Close } else { Relation::Equal };
    let scale = want.iter().map(largest_magnitude).fold(0.0, f64::max);
    let pairs = want.into_iter().zip(got);
    pairs.enumerate().try_for_each(|(at, (want, got))| {
        if inexact && want.dtype() == DType::F64 && differs_by_rounding(&want, &got, scale) {
            return Ok(());
        }
        compare(relation, &Value::Tensor(want), &Value::Tensor(got))
            .map_err(|why| format!("buffer {at}: {why}"))
    })
}

/// The C library's functions of f64 and those of the interpreter are both right within a unit, but not the
/// same. What a program then subtracts from each other may be larger than what it gives, so that the
/// magnitudes of all its buffers count.
fn differs_by_rounding(want: &Tensor, got: &Tensor, scale: f64) -> bool {
    let near = |a: f64, b: f64| {
        a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= 16.0 * f64::EPSILON * scale
    };
    (0..want.len()).all(|at| near(want.number(at).as_f64(), got.number(at).as_f64()))
}

/// Of the finite elements.
fn largest_magnitude(tensor: &Tensor) -> f64 {
    let magnitudes = (0..tensor.len()).map(|at| tensor.number(at).as_f64().abs());
    magnitudes.filter(|magnitude| magnitude.is_finite()).fold(0.0, f64::max)
}

/// Functions that are rounded once where this processor computes them, and within a unit elsewhere.
const INEXACT: &[Intrinsic] = &[
    Intrinsic::Exp,
    Intrinsic::Log,
    Intrinsic::Tanh,
    Intrinsic::Erf,
    Intrinsic::Sigmoid,
    Intrinsic::Sin,
    Intrinsic::Cos,
    Intrinsic::Acos,
    Intrinsic::Acosh,
    Intrinsic::Asin,
    Intrinsic::Asinh,
    Intrinsic::Atan,
    Intrinsic::Atanh,
    Intrinsic::Cosh,
    Intrinsic::Sinh,
    Intrinsic::Tan,
    Intrinsic::Expm1,
    Intrinsic::Log1p,
    Intrinsic::Erfc,
    Intrinsic::Atan2,
    Intrinsic::Pow,
];
