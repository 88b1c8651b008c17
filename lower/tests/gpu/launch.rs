//! Programs before and after scheduling on the same data, in the interpreter.

use relax_program::compare::{Relation, compare};
use relax_program::frontend::print;
use relax_program::signature::dim_of_size;
use relax_semantics::ops::Limits;
use relax_semantics::random::Random;
use relax_semantics::stop::Stop;
use relax_semantics::tensor::Tensor;
use relax_semantics::tir::{Mode, Options, run};
use relax_semantics::value::Value;
use relax_syntax::Name;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::ir::tensor::{BufferId, BufferInfo, Param, Scope};
use relax_syntax::ir::{Definition, Module, TensorProgram};
use relax_tir::launches::{Launch, has_threads, launches};
use relax_tir::workspaces::is_workspace;
use std::collections::BTreeMap;

/// Steps of the program before; sizes that take more are left out.
const STEPS: u64 = 60_000;

/// Sizes of all dims, the hurting ones first: 7 and 9 are one off a tile of four threads, and off rows of whole vectors; 16 rows of
/// whole vectors are the fewest that tensor cores take.
const SIZES: [i64; 11] = [0, 1, 2, 3, 7, 8, 9, 16, 17, 33, 257];
/// Cases with sizes of their own for each dim.
const MIXED: u64 = 4;

/// What one dim is where the others are short: so long that all threads of a block share a row, or larger tiles keep a device busy.
pub(crate) const LONG: &[(i64, i64)] = &[(64, 9), (33, 4)];
/// So long, too, that several blocks of four threads share one row, or all numbers: as often as a block has threads, so that each of them
/// has the greatest element once. Sums of so many numbers agree only where they are exact.
pub(crate) const VERY_LONG: &[(i64, i64)] =
    &[(2053, 1), (2053, 1), (2053, 1), (2053, 1), (64, 9), (33, 4)];

type Dims = BTreeMap<Name, i64>;
type Outcome = Result<Vec<Tensor>, Stop>;

/// What one call is given.
struct Call {
    dims: Dims,
    buffers: Vec<Tensor>,
    numbers: Vec<i64>,
}

/// Whether a program and its schedule agree wherever the program is quick enough.
pub(crate) fn agrees(
    program: &TensorProgram,
    scheduled: &TensorProgram,
    relation: Relation,
    long: &[(i64, i64)],
) -> Result<u32, String> {
    is_launched(program, scheduled)?;
    let mut held = 0;
    for call in calls(program, relation, long) {
        let want = before(program, &call, Mode::Sequential);
        if matches!(want, Err(Stop::Exhausted { .. } | Stop::Unsupported(_))) {
            continue;
        }
        let got = after(scheduled, &call);
        let is_race =
            |outcome: &Outcome| matches!(outcome, Err(Stop::Trap(trap)) if trap.id == "tir/race");
        if is_race(&got) && is_race(&before(program, &call, Mode::LockStep)) {
            continue;
        }
        let told = |why: String| format!("{why}\n{:?}\n{}", call.dims, text(scheduled));
        same(program, relation, &want, &got).map_err(told)?;
        held += 1;
    }
    Ok(held)
}

pub(crate) fn text(program: &TensorProgram) -> String {
    print(&Module { definitions: vec![Definition::Tensor(program.clone())], ..Module::default() })
}

/// What stops a scheduled program in lock-step mode at some size.
pub(crate) fn first_stop(program: &TensorProgram) -> Option<Stop> {
    calls(program, Relation::Close, VERY_LONG).iter().find_map(|call| after(program, call).err())
}

/// Whether all that was bound to threads is launches over blocks, which need nothing of each other but memory that the host finds.
fn is_launched(program: &TensorProgram, scheduled: &TensorProgram) -> Result<(), String> {
    let [before, after] = [program, scheduled].map(|it| it.body.as_deref().unwrap_or(&[]));
    let found = launches(after);
    let alone = |launch: &Launch<'_>| launch.has_threads && !launch.blocks.is_empty();
    let host = |id: &BufferId| scheduled.buffer(*id).scope == Scope::Global;
    let is_apart = found.launches.iter().all(alone) && found.memory.iter().all(host);
    (is_apart || has_threads(before)).then_some(()).ok_or_else(|| text(scheduled))
}

fn calls(program: &TensorProgram, relation: Relation, long: &[(i64, i64)]) -> Vec<Call> {
    let same = SIZES.iter().map(|&size| {
        program.dims.iter().map(|dim| (dim.name.clone(), dim_of_size(dim, size))).collect()
    });
    let mixed = (0..MIXED).map(|case| {
        let mut random = Random::new(case, "dims");
        let mut size = || SIZES[usize::try_from(random.int(&(0..=6))).unwrap_or(0)];
        program.dims.iter().map(|dim| (dim.name.clone(), dim_of_size(dim, size()))).collect()
    });
    // One that is long among short ones, where all of that size would be too many elements.
    let each = program.dims.iter().flat_map(|dim| long.iter().map(move |sizes| (*sizes, dim)));
    let long = each.map(|((length, short), long)| {
        let size = |name: &Name| if *name == long.name { length } else { short };
        let sizes = program.dims.iter();
        sizes.map(|dim| (dim.name.clone(), dim_of_size(dim, size(&dim.name)))).collect()
    });
    let all: Vec<Dims> = same.chain(mixed).chain(long).collect();
    let cases = all.into_iter().enumerate();
    cases.filter_map(|(case, dims)| call(program, dims, case as u64, relation)).collect()
}

fn shape(info: &BufferInfo, dims: &Dims) -> Option<Vec<usize>> {
    let extent = |dim: &Dim| {
        let value = dim.eval(&|name| dims.get(name).copied()).ok()?;
        usize::try_from(value).ok()
    };
    let shape: Vec<usize> = info.shape.iter().map(extent).collect::<Option<_>>()?;
    let elements = shape.iter().try_fold(1_usize, |count, extent| count.checked_mul(*extent));
    elements.filter(|elements| *elements <= 1 << 16).map(|_| shape)
}

/// Numbers whose sums and products are exact in any order: what differs is wrong. One of each row is greater than all others, another
/// one with each row and seed: a maximum may miss all else.
fn exact_in_any_order(
    random: &mut Random,
    (info, seed): (&BufferInfo, u64),
    shape: &[usize],
) -> Tensor {
    let numbers = random.tensor(DType::I32, shape, &(0..=5)).to_ints();
    let choices = [-2.0, -1.0, -0.5, 0.5, 1.0, 2.0];
    let mut chosen = numbers.mapv(|number| choices[usize::try_from(number).unwrap_or(0)]);
    let seed = usize::try_from(seed).unwrap_or(0);
    for (number, mut row) in chosen.rows_mut().into_iter().enumerate() {
        if let Some(greatest) = (seed + number).checked_rem(row.len()) {
            row[greatest] = 4.0;
        }
    }
    Tensor::from_floats(info.dtype, chosen)
}

/// Inputs are random; what is written only is undefined.
fn call(program: &TensorProgram, dims: Dims, seed: u64, relation: Relation) -> Option<Call> {
    let mut random = Random::new(seed, &program.name);
    let body = program.body.as_deref().unwrap_or(&[]);
    let read = relax_semantics::tir::walk::loaded(body);
    let written = relax_semantics::tir::walk::stored(body);
    let largest = dims.values().copied().max().unwrap_or(2).max(1);
    let (mut buffers, mut numbers) = (Vec::new(), Vec::new());
    for param in &program.params {
        match param {
            Param::Buffer(id) => {
                let info = program.buffer(*id);
                let shape = shape(info, &dims)?;
                let is_input = read.contains(id) && !written.contains(id);
                let ints = -1..=largest;
                buffers.push(match is_input {
                    true if relation == Relation::Close && info.dtype.is_float() => {
                        exact_in_any_order(&mut random, (info, seed), &shape)
                    }
                    true if seed % 3 == 2 => {
                        random.clone().with_edges().tensor(info.dtype, &shape, &ints)
                    }
                    true if seed % 3 == 1 => random.tensor(info.dtype, &shape, &(0..=0)),
                    true => random.tensor(info.dtype, &shape, &ints),
                    false => Tensor::undefined(info.dtype, &shape),
                });
            }
            Param::Scalar(_) => numbers.push(random.int(&(0..=largest))),
            Param::Dim(name) => numbers.push(dims[name]),
        }
    }
    Some(Call { dims, buffers, numbers })
}

fn options(steps: u64, mode: Mode) -> Options {
    Options { limits: Limits { steps, tensor_bytes: 1 << 24, ..Limits::default() }, mode }
}

fn before(program: &TensorProgram, call: &Call, mode: Mode) -> Outcome {
    run(program, call.buffers.clone(), &call.numbers, &options(STEPS, mode))
}

fn after(program: &TensorProgram, call: &Call) -> Outcome {
    run(program, call.buffers.clone(), &call.numbers, &options(u64::MAX, Mode::LockStep))
}

/// The same bits, or floats that are close where that is enough; or the same trap with the same words. What a program
/// leaves in its workspaces is nobody's business where a kernel hands it on in shared memory.
fn same(
    program: &TensorProgram,
    relation: Relation,
    want: &Outcome,
    got: &Outcome,
) -> Result<(), String> {
    let (want, got) = match (want, got) {
        (Ok(want), Ok(got)) => (want, got),
        (Err(Stop::Trap(want)), Err(Stop::Trap(got)))
            if (&want.id, &want.message) == (&got.id, &got.message) =>
        {
            return Ok(());
        }
        _ => return Err(format!("wanted {want:?}\nfound {got:?}")),
    };
    let buffers = program.buffer_params();
    for ((want, got), buffer) in want.iter().zip(got).zip(buffers) {
        if is_workspace(program, buffer) {
            continue;
        }
        let info = program.buffer(buffer);
        let [want, got] = [want, got].map(|tensor| Value::Tensor(tensor.clone()));
        compare(relation, &want, &got).map_err(|why| format!("`{}`: {why}", info.name))?;
    }
    Ok(())
}
