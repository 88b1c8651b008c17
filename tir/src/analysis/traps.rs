//! Trap freedom: which tensor programs never trap on inputs of the right shapes whose elements are all
//! initialized.

use crate::dims::as_expr;
use crate::kernel_kind::{Nest, reads_of};
use relax_semantics::tir::ranges::{Ranges, assume_declared};
use relax_semantics::tir::total::Total;
use relax_syntax::dim::Dim;
use relax_syntax::facts::Facts;
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::{Loop, Param, TExpr};

/// A program that never traps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrapFree {
    /// Every element of its output is written, whatever the dims are.
    pub writes_all: bool,
}

impl TrapFree {
    /// `None`: it may trap. Proved are nests whose reads are proved to be in bounds, with no operation
    /// that some operands have no value for.
    pub fn of(program: &TensorProgram, facts: &mut dyn Facts) -> Option<Self> {
        let nest = Nest::of(program)?;
        reads_of(program, &nest)?;
        let plain_dims = nest.extents.values().chain(program.buffers.iter().flat_map(|b| &b.shape));
        let only_buffers = program.params.iter().all(|param| matches!(param, Param::Buffer(_)));
        let total = only_buffers
            && program.dims.iter().all(|dim| !dim.has_facts())
            && plain_dims.into_iter().all(|dim| matches!(dim, Dim::Var(_) | Dim::Int(0..)))
            && never_traps(program, &nest, facts);
        total.then_some(TrapFree { writes_all: nest.writes_all() })
    }
}

/// Whether all that a nest evaluates has a value for all of its iterations.
pub fn never_traps(program: &TensorProgram, nest: &Nest, facts: &mut dyn Facts) -> bool {
    facts.push();
    assume_declared(facts, &program.dims);
    let mut ranges = Ranges::default();
    for (&var, dim) in &nest.extents {
        ranges.enter(facts, &Loop { var, start: TExpr::Int(0), stop: as_expr(dim) });
    }
    for (var, value) in nest.scalars.bound() {
        ranges.bind(var, value);
    }
    let mut total = Total::new(program, facts);
    // An axis is compared with its extent, which is not looked at here.
    let never = !nest.has_axes && nest.read.iter().all(|expr| total.has_value(&ranges, expr));
    facts.pop();
    never
}
