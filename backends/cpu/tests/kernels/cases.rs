//! Which programs are run, and on what.

use relax_semantics::random::Random;
use relax_semantics::tensor::Tensor;
use relax_syntax::Name;
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::Param;
use relax_tir::workspaces;
use std::collections::BTreeSet;

/// Extents at and around those of vectors and tiles.
const SIZES: [i64; 8] = [0, 1, 2, 3, 5, 7, 16, 17];
/// Elements of one tensor.
const MOST: i64 = 60_000;

/// The arguments of one call.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) dims: Vec<i64>,
    pub(super) tensors: Vec<Tensor>,
    pub(super) ints: Vec<i64>,
}

/// All dims alike, at each size, then mixed ones.
pub(super) fn cases(program: &TensorProgram) -> Vec<Case> {
    let names = dims_of(program);
    let alike = SIZES.iter().map(|&size| vec![size; names.len()]);
    let mixed = (0..6).map(|turn| {
        (0..names.len())
            .map(|at| SIZES[(3 * turn + 5 * at + turn * at + 1) % SIZES.len()])
            .collect()
    });
    let mut sizes: Vec<Vec<i64>> = alike.chain(mixed).collect();
    sizes.dedup();
    let seeds = sizes.into_iter().zip(1..);
    let drawn = seeds.filter_map(|(sizes, seed)| {
        let at = |name: &str| {
            let place = names.iter().position(|other| other == name);
            place.map_or(0, |place| sizes[place])
        };
        case(program, &at, seed)
    });
    drawn.collect()
}

/// The symbolic variables of a program.
pub(super) fn dims_of(program: &TensorProgram) -> Vec<Name> {
    let mut names: BTreeSet<Name> = program.dims.iter().map(|dim| dim.name.clone()).collect();
    for info in &program.buffers {
        info.shape
            .iter()
            .for_each(|dim| dim.visit_vars(&mut |name| _ = names.insert(name.clone())));
    }
    names.into_iter().collect()
}

/// Arguments for these dims; none where a tensor would be large.
pub(super) fn case(
    program: &TensorProgram,
    value: &dyn Fn(&str) -> i64,
    seed: u64,
) -> Option<Case> {
    let mut random = Random::new(seed, &program.name);
    let (mut tensors, mut ints) = (Vec::new(), Vec::new());
    for param in &program.params {
        match param {
            Param::Buffer(id) => {
                let info = program.buffer(*id);
                let mut shape = Vec::new();
                for dim in &info.shape {
                    let extent = dim.eval(&|name| Some(value(name))).ok()?;
                    shape.push(usize::try_from(extent).ok()?);
                }
                let count: usize = shape.iter().product();
                if count > usize::try_from(MOST).expect("invariant: a small number") {
                    return None;
                }
                tensors.push(random.tensor(info.dtype, &shape, &(-3..=6)));
            }
            Param::Scalar(_) => ints.push(random.int(&(-1..=5))),
            Param::Dim(name) => ints.push(value(name)),
        }
    }
    Some(Case { dims: dims_of(program).iter().map(|name| value(name)).collect(), tensors, ints })
}

/// Whether a buffer, of those among the parameters, is a workspace.
pub(super) fn is_workspace(program: &TensorProgram, at: usize) -> bool {
    let mut buffers = program.buffer_params();
    let buffer = buffers.nth(at).expect("invariant: a buffer of the program");
    workspaces::is_workspace(program, buffer)
}
