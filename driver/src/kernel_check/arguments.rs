//! Arguments of checked kernels: extents at and around those of vectors and tiles, and elements.

use relax_program::compare::largest_magnitude;
use relax_program::rounding::{Precision, perturbed};
use relax_semantics::random::Random;
use relax_semantics::tensor::Tensor;
use relax_syntax::Name;
use relax_syntax::dtype::DType;
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::{BufferInfo, Param};
use std::collections::BTreeSet;

/// Extents at and around those of vectors and tiles, and primes.
const SIZES: [i64; 10] = [0, 1, 2, 3, 5, 7, 16, 17, 33, 67];
/// Of these, extents of cases in which variables differ.
const SMALL: usize = 8;
/// Cases in which variables differ.
const MIXED: usize = 6;
/// Of a case in which all others are 1, and how many variables have such a case: a product of a single row has other code than one of
/// several, and so has a long row.
const LONG: i64 = 131;
const LONG_CASES: usize = 3;
/// Cases of a program without variables.
const STATIC: usize = 4;
/// Distinct elements of a large tensor; a prime, so that no stride of a kernel meets the same elements again.
const DISTINCT: usize = 1021;

/// Which elements the tensors of a case have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Elements {
    /// Finite floats; small integers.
    Finite,
    /// NaN, infinities, -0.0, denormals, and the least and greatest integers among them.
    Edges,
}

/// Values of the symbolic variables of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Extents {
    names: Vec<Name>,
    values: Vec<i64>,
}

impl Extents {
    /// `None` for a variable that the program does not have.
    pub(super) fn of(&self, name: &str) -> Option<i64> {
        let at = self.names.iter().position(|own| own == name)?;
        self.values.get(at).copied()
    }

    /// `n = 4, m = 5: `; empty where there are no variables.
    pub(super) fn prefix(&self) -> String {
        let pairs = self.names.iter().zip(&self.values);
        let all = pairs.map(|(name, value)| format!("{name} = {value}")).collect::<Vec<_>>();
        if all.is_empty() { String::new() } else { format!("{}: ", all.join(", ")) }
    }
}

/// The arguments of one call.
#[derive(Clone, Debug)]
pub(super) struct Arguments {
    /// One for each buffer of the parameters.
    pub(super) tensors: Vec<Tensor>,
    /// One for each other parameter.
    pub(super) ints: Vec<i64>,
    /// The largest magnitude of a finite element.
    pub(super) magnitude: f64,
}

/// In the order of their names.
fn variables(program: &TensorProgram) -> Vec<Name> {
    let mut names: BTreeSet<Name> = program.dims.iter().map(|dim| dim.name.clone()).collect();
    for info in &program.buffers {
        for dim in &info.shape {
            dim.visit_vars(&mut |name| _ = names.insert(name.clone()));
        }
    }
    names.into_iter().collect()
}

/// All variables equal, at each size; then cases in which they differ, where there are several.
pub(super) fn extents_to_try(program: &TensorProgram) -> Vec<Extents> {
    let names = variables(program);
    if names.is_empty() {
        return vec![Extents { names, values: Vec::new() }; STATIC];
    }
    let equal = SIZES.iter().map(|&size| vec![size; names.len()]);
    let mixed = (0..MIXED).map(|turn| {
        let size = |at: usize| SIZES[(3 * turn + 5 * at + turn * at + 1) % SMALL];
        (0..names.len()).map(size).collect()
    });
    let long = (0..names.len().min(LONG_CASES)).map(|long| {
        let size = |at: usize| if at == long { LONG } else { 1 };
        (0..names.len()).map(size).collect()
    });
    let unequal = mixed.chain(long).filter(|_| names.len() > 1);
    equal.chain(unequal).map(|values| Extents { names: names.clone(), values }).collect()
}

/// Elements of all tensors of the parameters; `None` where an extent is negative or the count overflows.
pub(super) fn element_count(program: &TensorProgram, extents: &Extents) -> Option<usize> {
    program.buffer_params().try_fold(0_usize, |all, id| {
        let shape = shape_at(program.buffer(id), extents)?;
        all.checked_add(shape.iter().try_fold(1_usize, |all, &each| all.checked_mul(each))?)
    })
}

fn shape_at(info: &BufferInfo, extents: &Extents) -> Option<Vec<usize>> {
    let extent = |dim: &relax_syntax::dim::Dim| {
        usize::try_from(dim.eval(&|name| extents.of(name)).ok()?).ok()
    };
    info.shape.iter().map(extent).collect()
}

/// Arguments for extents at which [`element_count`] is known.
pub(super) fn arguments_at(
    program: &TensorProgram,
    extents: &Extents,
    (seed, elements): (u64, Elements),
) -> Option<Arguments> {
    let mut random = Random::new(seed, &program.name);
    if elements == Elements::Edges {
        random = random.with_edges();
    }
    // Small integers are valid indices more often.
    let ints = if seed.is_multiple_of(3) { 0..=2 } else { -3..=6 };
    let (mut tensors, mut others, mut magnitude) = (Vec::new(), Vec::new(), 0.0_f64);
    for param in &program.params {
        match param {
            Param::Buffer(id) => {
                let info = program.buffer(*id);
                let shape = shape_at(info, extents)?;
                let (elements, largest) = tensor(&mut random, info.dtype, &shape, &ints);
                tensors.push(elements);
                magnitude = magnitude.max(largest);
            }
            Param::Scalar(_) => others.push(random.int(&(-1..=5))),
            Param::Dim(name) => others.push(extents.of(name).unwrap_or(0)),
        }
    }
    Some(Arguments { tensors, ints: others, magnitude })
}

/// Random elements, which repeat in a large tensor, and their largest magnitude.
fn tensor(
    random: &mut Random,
    dtype: DType,
    shape: &[usize],
    ints: &std::ops::RangeInclusive<i64>,
) -> (Tensor, f64) {
    let count: usize = shape.iter().product();
    if count <= DISTINCT {
        let tensor = random.tensor(dtype, shape, ints);
        let largest = largest_magnitude(&tensor);
        return (tensor, largest);
    }
    let distinct = random.tensor(dtype, &[DISTINCT], ints);
    let positions: Vec<usize> = (0..count).map(|at| at % DISTINCT).collect();
    (distinct.select(shape, &positions), largest_magnitude(&distinct))
}

impl Arguments {
    /// The same with each finite float off by about a rounding error, up or down.
    pub(super) fn perturbed(&self, precision: Precision) -> Self {
        let tensors = self.tensors.iter().map(|tensor| perturbed(tensor, precision)).collect();
        Self { tensors, ints: self.ints.clone(), magnitude: self.magnitude }
    }
}
