//! What a call of a program gives its functions: symbolic variables from the shapes that came, as `relax_semantics::tir`
//! binds them, and the sizes of everything.

use super::CudaKernel;
use super::launch::{Known, Sizes, value};
use relax_syntax::dim::{Dim, floor_mod};
use relax_syntax::facts::{Claim, Facts, Relation};
use relax_syntax::ir::tensor::Param;
use relax_syntax::ir::{DimVar, TensorProgram};

/// Elements of a tensor with which a device is called: more than any has memory for. Few checks of index arithmetic are left
/// then, and a kernel without checks need not be waited for.
pub(super) const MOST: i64 = 1 << 40;
/// Values of a symbolic variable where tensors have several axes; where they have one, as many as elements.
const MOST_OF_AXIS: i64 = 1 << 31;

/// What [`CudaKernel::plan`] holds of every call.
pub(super) fn assume_small(facts: &mut dyn Facts, program: &TensorProgram) {
    let at_most = |dim: Dim| Claim::new(dim, Relation::AtMost, MOST);
    let most = most_of_dims(program);
    for dim in &program.dims {
        facts.assume(Claim::new(Dim::Var(dim.name.clone()), Relation::AtMost, most));
    }
    for param in &program.params {
        let Param::Buffer(id) = param else { continue };
        let shape = &program.buffer(*id).shape;
        if shape.len() > 1 {
            facts.assume(at_most(Dim::product(shape)));
        }
    }
}

fn most_of_dims(program: &TensorProgram) -> i64 {
    let mut buffers = program.buffer_params().map(|id| program.buffer(id));
    if buffers.any(|buffer| buffer.shape.len() > 1) { MOST_OF_AXIS } else { MOST }
}

fn is_small(shape: &[i64]) -> bool {
    shape
        .iter()
        .try_fold(1_i64, |count, &extent| count.checked_mul(extent))
        .is_some_and(|count| count <= MOST)
}

/// Everything that the host knows before it launches.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Of each launch.
    pub sizes: Vec<Sizes>,
    /// Bytes of each workspace.
    pub workspaces: Vec<usize>,
    /// Symbolic variables, then scalars, as functions take them.
    pub integers: Vec<i64>,
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The call does not fit the program, or a dim of a buffer has no value: the interpreter tells what that means.
    Boundary,
    /// A limit of the device is in the way.
    Limit(String),
}

impl CudaKernel {
    /// The plan of a call with tensors of these shapes, as many and of the ranks that the program says.
    ///
    /// # Errors
    /// When the call does not fit the program, or a limit is in the way.
    pub fn plan(&self, shapes: &[&[i64]], ints: &[i64]) -> Result<Plan, Refused> {
        let mut known = self.bind(shapes, ints).ok_or(Refused::Boundary)?;
        for (var, expr) in &self.scalars {
            if let Some(value) = value(expr, &known) {
                known.scalars.insert(*var, value);
            }
        }
        let has_memory =
            |at: usize| self.workspaces.iter().any(|workspace| workspace.launch() == Some(at));
        let launches = self.launches.iter().enumerate();
        let sizes: Vec<Sizes> = launches
            .map(|(at, launch)| launch.sizes(&known, has_memory(at)).map_err(Refused::Limit))
            .collect::<Result<_, _>>()?;
        let workspaces = self.workspaces.iter().map(|workspace| workspace.bytes(&known, &sizes));
        let workspaces = workspaces.collect::<Option<_>>().ok_or(Refused::Boundary)?;
        let dims = self.dims.iter().map(|name| known.dims.get(name).copied());
        let mut integers: Vec<i64> = dims.collect::<Option<_>>().ok_or(Refused::Boundary)?;
        integers.extend(self.program.params.iter().filter_map(|param| match param {
            Param::Scalar(id) => known.scalars.get(id).copied(),
            Param::Buffer(_) | Param::Dim(_) => None,
        }));
        Ok(Plan { sizes, workspaces, integers })
    }

    fn bind(&self, shapes: &[&[i64]], ints: &[i64]) -> Option<Known> {
        let mut known = Known::default();
        let (mut shapes, mut ints) = (shapes.iter(), ints.iter());
        let mut later: Vec<(&Dim, i64)> = Vec::new();
        for param in &self.program.params {
            match param {
                Param::Buffer(id) => {
                    let (shape, actual) = (&self.program.buffer(*id).shape, shapes.next()?);
                    if shape.len() != actual.len() || !is_small(actual) {
                        return None;
                    }
                    for (dim, &actual) in shape.iter().zip(*actual) {
                        match dim {
                            Dim::Var(name) if !known.dims.contains_key(name) => {
                                known.dims.insert(name.clone(), actual);
                            }
                            _ => later.push((dim, actual)),
                        }
                    }
                }
                Param::Scalar(id) => _ = known.scalars.insert(*id, *ints.next()?),
                Param::Dim(name) => {
                    let value = *ints.next()?;
                    if *known.dims.entry(name.clone()).or_insert(value) != value {
                        return None;
                    }
                }
            }
        }
        let fits = |(dim, actual): (&Dim, i64)| {
            dim.eval(&|name| known.dims.get(name).copied()).is_ok_and(|value| value == actual)
        };
        let declared = self.program.dims.iter().all(|dim| holds(dim, &known));
        let most = most_of_dims(&self.program);
        let small = known.dims.values().all(|&value| value <= most);
        (later.into_iter().all(fits) && declared && small).then_some(known)
    }
}

/// What a `sym_var` line declares; without one, at least 0.
fn holds(dim: &DimVar, known: &Known) -> bool {
    let Some(&value) = known.dims.get(&dim.name) else { return true };
    value >= dim.lower.unwrap_or(0).max(0)
        && dim.upper.is_none_or(|upper| value <= upper)
        && dim.multiple_of.is_none_or(|divisor| floor_mod(value, divisor) == Some(0))
}
