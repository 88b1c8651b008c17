//! The printed text on the processor against the interpreter, on random elements at small sizes: with the first thread
//! first, and with the last one.

use super::cases::{Case, cases, is_workspace};
use super::programs::programs;
use super::shim::{Shim, compiler};
use super::{printed, scheduled};
use relax_corpus::requirement;
use relax_corpus::sample::Sample;
use relax_cuda::Device;
use relax_emit::Site;
use relax_emit::cuda::{Begins, CudaKernel, Refused};
use relax_lower::gpu::Limits;
use relax_program::compare::{Relation, compare};
use relax_rewrite::pass::Exactness;
use relax_semantics::stop::Stop;
use relax_semantics::tensor::Tensor;
use relax_semantics::tir::{Compiled, Mode, Options};
use relax_semantics::value::Value;
use relax_syntax::dtype::DType;
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::{LoopKind, StmtKind};

/// Programs of one text. With `RELAX_PROGRAM=NAME` only those are run that have this in their names.
const CHUNK: usize = 80;
/// One of so many programs is run, of those that have no loops bound to threads as they are written.
const SAMPLE: usize = 12;
/// Few threads, so that small tensors take several blocks, and several turns.
const LIMITS: Limits = Limits { threads: 4, blocks: 3, shared: 48 << 10, busy: 3 };
/// Steps of one run in the interpreter.
const STEPS: u64 = 100_000;

#[derive(Debug, Default)]
struct Tally {
    values: usize,
    traps: usize,
    left_out: usize,
}

#[test]
fn the_text_does_what_the_interpreter_does() {
    if compiler().is_none() {
        requirement::skip(
            "RELAX_REQUIRE_CC",
            "no C++ compiler to run CUDA source on the processor",
        );
        return;
    }
    let only = std::env::var("RELAX_PROGRAM").ok();
    let is_wanted =
        |program: &TensorProgram| only.as_ref().is_none_or(|name| program.name.contains(&**name));
    let sample = Sample::of("programs whose CUDA text the processor runs", SAMPLE);
    let (with, without): (Vec<&TensorProgram>, Vec<_>) =
        programs().iter().partition(|program| has_threads(program));
    let chosen = with.into_iter().chain(sample.take(without)).filter(|program| is_wanted(program));
    let chosen: Vec<TensorProgram> = chosen.cloned().collect();
    let bound = scheduled(&chosen, LIMITS, Exactness::Exact);
    let free = scheduled(&chosen, LIMITS, Exactness::Approximate);
    // In another order a program is held against the scheduled one, which says which order that is.
    let in_another = free.iter().zip(&bound).filter(|(free, bound)| free != bound);
    let in_another: Vec<_> = in_another.map(|(free, _)| (free, free)).collect();
    let pairs: Vec<(&TensorProgram, &TensorProgram)> = chosen.iter().zip(&bound).collect();
    let many = in_another.len();
    let mut tally = Tally::default();
    let mut wrong = Vec::new();
    for chunk in pairs.chunks(CHUNK).chain(in_another.chunks(CHUNK)) {
        hold_chunk(chunk, &mut tally, &mut wrong);
    }
    eprintln!("{tally:?}, {many} programs in another order");
    assert!(wrong.is_empty(), "{} wrong of {tally:?}\n{}", wrong.len(), wrong.join("\n"));
    assert!(only.is_some() || (tally.values > 2000 && tally.traps > 20), "{tally:?}");
}

/// Programs with what they mean, each in front of what is printed.
fn hold_chunk(
    pairs: &[(&TensorProgram, &TensorProgram)],
    tally: &mut Tally,
    wrong: &mut Vec<String>,
) {
    let bound: Vec<TensorProgram> = pairs.iter().map(|(_, bound)| (*bound).clone()).collect();
    let source = printed(&bound);
    tally.left_out += source.left_out.len();
    let folder = tempfile::tempdir().expect("a folder");
    let devices =
        [false, true].map(|way| Shim::of(&source.text, &source.kernels, folder.path(), way));
    for kernel in &source.kernels {
        let pair = pairs.iter().find(|(program, _)| program.name == kernel.name);
        let (program, _) = pair.expect("invariant: it was printed");
        for case in cases(program) {
            if let Err(why) = hold(program, kernel, &devices, &case, tally) {
                wrong.push(format!("{} at {:?}: {why}", program.name, case.dims));
                break;
            }
        }
    }
}

fn has_threads(program: &TensorProgram) -> bool {
    let mut found = false;
    relax_semantics::tir::walk::visit_statements(
        program.body.as_deref().unwrap_or(&[]),
        &mut |stmt| {
            found |= matches!(stmt.kind, StmtKind::For { kind: LoopKind::Thread(_), .. });
        },
    );
    found
}

/// The trap of an access outside of a buffer.
const OUTSIDE: &str = "tir/out_of_bounds";

/// Whether the program checks elements itself.
fn has_checks(program: &TensorProgram) -> bool {
    let mut found = false;
    relax_semantics::tir::walk::visit_statements(
        program.body.as_deref().unwrap_or(&[]),
        &mut |stmt| found |= matches!(stmt.kind, StmtKind::Check(_)),
    );
    found
}

/// Whether what the program gives depends on which thread comes first.
fn races(compiled: &Compiled, case: &Case) -> bool {
    let options = Options { mode: Mode::LockStep, ..Options::default() };
    let ran = compiled.run(case.tensors.clone(), &case.ints, &options, &mut STEPS.clone());
    matches!(ran, Err(Stop::Trap(trap)) if trap.id == "tir/race")
}

fn hold(
    program: &TensorProgram,
    kernel: &CudaKernel,
    devices: &[Shim],
    case: &Case,
    tally: &mut Tally,
) -> Result<(), String> {
    let compiled = Compiled::new(program).map_err(|found| format!("{found:?}"))?;
    if has_threads(program) && races(&compiled, case) {
        return Ok(());
    }
    let mut steps = STEPS;
    // The device finds some elements or other in a workspace; to the program nothing was written there.
    let given = case.tensors.iter().enumerate().map(|(at, tensor)| {
        if is_workspace(program, at) {
            Tensor::undefined(tensor.dtype(), tensor.shape())
        } else {
            tensor.clone()
        }
    });
    let want = match compiled.run(given.collect(), &case.ints, &Options::default(), &mut steps) {
        Err(Stop::Exhausted { .. } | Stop::Unsupported(_)) => return Ok(()),
        want => want,
    };
    for device in devices {
        let got = match run(kernel, device, case) {
            // The interpreter tells what that means, and what it gives is the result.
            Err(Refused::Boundary) => continue,
            Err(Refused::Limit(_)) => {
                tally.left_out += 1;
                continue;
            }
            Ok(got) => got,
        };
        match (&want, got) {
            (Ok(want), Ok(got)) => {
                tally.values += 1;
                let seen = want.iter().zip(got).enumerate();
                // A workspace may be each thread's own.
                seen.filter(|(at, _)| !is_workspace(program, *at)).try_for_each(
                    |(at, (want, got))| {
                        near(want, &got).map_err(|why| format!("buffer {at}: {why}"))
                    },
                )?;
            }
            (Err(Stop::Trap(trap)), Err(site)) => {
                tally.traps += 1;
                let same = site.trap == trap.id && site.span == trap.span;
                // Shapes that the operator refuses have elements outside, which threads may find before others find
                // what a check of elements finds.
                let outside = [trap.id.as_str(), site.trap.as_str()].contains(&OUTSIDE);
                if !same && outside && has_checks(program) {
                    continue;
                }
                // Of threads that stop for different reasons it need not be the interpreter's first one.
                if !same && !has_threads(program) {
                    return Err(format!("{trap:?}, but {site:?}"));
                }
            }
            (Ok(_), Err(site)) => return Err(format!("stops: {site:?}")),
            (Err(stop), Ok(_)) => return Err(format!("does not stop: {stop}")),
            (Err(stop), Err(site)) => return Err(format!("{stop}, but {site:?}")),
        }
    }
    Ok(())
}

/// Functions of CUDA and of the interpreter differ by units in the last place, and what is subtracted from each
/// other may be larger than what is left.
pub(super) fn near(want: &Tensor, got: &Tensor) -> Result<(), String> {
    let (a, b) = (Value::Tensor(want.clone()), Value::Tensor(got.clone()));
    let Err(why) = compare(Relation::Close, &a, &b) else { return Ok(()) };
    let numbers = |tensor: &Tensor, at| tensor.number(at).as_f64();
    let scale = (0..want.len()).map(|at| numbers(want, at).abs());
    let scale = scale.filter(|value| value.is_finite()).fold(1.0, f64::max);
    let is_near = |at| {
        let (a, b) = (numbers(want, at), numbers(got, at));
        a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= 16.0 * f64::EPSILON * scale
    };
    let all = want.dtype() == DType::F64 && want.shape() == got.shape();
    if all && (0..want.len()).all(is_near) { Ok(()) } else { Err(why) }
}

pub(super) fn run(
    kernel: &CudaKernel,
    device: &Shim,
    case: &Case,
) -> Result<Result<Vec<Tensor>, Site>, Refused> {
    let shapes: Vec<Vec<i64>> = case
        .tensors
        .iter()
        .map(|tensor| tensor.shape().iter().map(|&extent| extent as i64).collect())
        .collect();
    let shapes: Vec<&[i64]> = shapes.iter().map(Vec::as_slice).collect();
    let plan = kernel.plan(&shapes, &case.ints)?;
    let here = "the processor has memory";
    let mut taken = Vec::new();
    let mut take = |bytes: usize| {
        let address = device.allocate(bytes.max(1)).expect(here);
        taken.push(address);
        address
    };
    let mut arguments = vec![take(4)];
    device.fill(arguments[0], 0xff, 4).expect(here);
    for tensor in &case.tensors {
        let bytes = relax_lower::program::elements(tensor);
        let address = take(bytes.len());
        device.upload(address, &bytes).expect(here);
        arguments.push(address);
    }
    for (workspace, &bytes) in kernel.workspaces.iter().zip(&plan.workspaces) {
        let address = take(bytes);
        // Whatever was there before.
        let byte = if workspace.begins == Begins::Cleared { 0 } else { 0x7f };
        device.fill(address, byte, bytes).expect(here);
        arguments.push(address);
    }
    arguments.extend(plan.integers.iter().map(|&value| value as u64));
    for (launch, sizes) in kernel.launches.iter().zip(&plan.sizes) {
        device.launch(&launch.symbol, sizes, &arguments).expect(here);
    }
    let mut status = [0; 4];
    device.download(arguments[0], &mut status).expect(here);
    let mut results = Vec::new();
    for (tensor, &address) in case.tensors.iter().zip(&arguments[1..]) {
        let mut bytes = relax_lower::program::elements(tensor);
        device.download(address, &mut bytes).expect(here);
        results.push(tensor_of(tensor, &bytes));
    }
    taken.into_iter().for_each(|address| device.release(address).expect(here));
    Ok(match u32::from_ne_bytes(status) {
        u32::MAX => Ok(results),
        site => Err(kernel.sites[site as usize - 1].clone()),
    })
}

/// A tensor of the shape and dtype of another one.
fn tensor_of(like: &Tensor, bytes: &[u8]) -> Tensor {
    let shape: Vec<i64> = like.shape().iter().map(|&extent| extent as i64).collect();
    let dtype = relax_runtime::DType::parse(like.dtype().name()).expect("the same dtypes");
    let tensor = relax_runtime::Tensor::from_bytes(dtype, &shape, bytes).expect("a tensor");
    let value = relax_reference::to_semantics(&relax_runtime::Value::Tensor(tensor), &mut |_| None);
    match value {
        Ok(Value::Tensor(tensor)) => tensor,
        other => panic!("{other:?}"),
    }
}
