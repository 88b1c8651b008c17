//! Reshape recognition: whether a tensor program gives the elements of its input, in row-major order, under another shape.
//!
//! It does when each element of the output is a load whose position in the input, counted in
//! row-major order, is proved to be the position that is written, for all sizes.

use super::nest::Nest;
use crate::dims::as_dim;
use relax_semantics::tir::ranges::dim_op;
use relax_syntax::Name;
use relax_syntax::annotation::OWN;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::{Answer, Claim, Facts, Relation};
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::{Axis, AxisKind, BufferId, Param, ScalarId, Stmt, StmtKind, TExpr};
use std::collections::BTreeMap;

/// Parts of an index expression that are looked at, names of values replaced.
const MAX_PARTS: usize = 256;

/// Whether a program with one input and one output, of shapes with the same number of elements, only
/// reshapes, and never stops on an input whose elements are all written.
pub fn only_reshapes(program: &TensorProgram, facts: &mut dyn Facts) -> bool {
    let Some(view) = View::of(program) else { return false };
    facts.push();
    let proved = view.is_proved(facts);
    facts.pop();
    proved
}

/// What there is to prove.
struct View<'p> {
    program: &'p TensorProgram,
    from: &'p [Dim],
    to: &'p [Dim],
    /// Loop variables as dims, with their extents.
    loops: BTreeMap<ScalarId, (Dim, Dim)>,
    /// The indices that are read and written.
    read: Vec<Dim>,
    written: Vec<Dim>,
    /// What is computed on the way to the indices.
    steps: Vec<Dim>,
    divisors: Vec<Dim>,
}

impl<'p> View<'p> {
    fn of(program: &'p TensorProgram) -> Option<Self> {
        let [Param::Buffer(input), Param::Buffer(output)] = program.params.as_slice() else {
            return None;
        };
        let nest = Nest::of(program)?;
        let plain = !nest.is_reduction() && program.dims.iter().all(|dim| !dim.has_facts());
        if !plain || nest.output != *output || !is_plain(&nest, program.body.as_ref()?) {
            return None;
        }
        let (from, to) = (program.buffer(*input), program.buffer(*output));
        let mut view = View {
            program,
            from: &from.shape,
            to: &to.shape,
            loops: nest
                .extents
                .iter()
                .map(|(&id, extent)| (id, (var(id), extent.clone())))
                .collect(),
            read: Vec::new(),
            written: Vec::new(),
            steps: Vec::new(),
            divisors: Vec::new(),
        };
        let (value, named) = nest.read.split_last()?;
        if from.dtype != to.dtype {
            return None;
        }
        let indices = loaded(&nest, *input, value)?;
        for expr in named {
            let is_value = loaded(&nest, *input, expr).is_some_and(|found| found == indices);
            (is_value || view.index(&nest, expr, &mut 0).is_some()).then_some(())?;
        }
        view.read = view.indices(&nest, indices)?;
        let written = nest.written.iter();
        view.written = written.map(|index| index.map_or(Dim::Int(0), var)).collect();
        Some(view)
    }

    fn indices(&mut self, nest: &Nest, exprs: &[TExpr]) -> Option<Vec<Dim>> {
        let mut parts = 0;
        exprs.iter().map(|expr| self.index(nest, expr, &mut parts)).collect()
    }

    /// An index as a dim over loop variables and the variables of the program.
    fn index(&mut self, nest: &Nest, expr: &TExpr, parts: &mut usize) -> Option<Dim> {
        *parts += 1;
        if *parts > MAX_PARTS {
            return None;
        }
        match nest.scalars.resolve(expr) {
            TExpr::Scalar(id) => self.loops.get(id).map(|(var, _)| var.clone()),
            TExpr::Binary(op, operands) => {
                let a = self.index(nest, &operands.0, parts)?;
                let b = self.index(nest, &operands.1, parts)?;
                let op = dim_op(*op).filter(|op| !matches!(op, DimOp::Min | DimOp::Max))?;
                if matches!(op, DimOp::FloorDiv | DimOp::FloorMod) {
                    self.divisors.push(b.clone());
                }
                let step = Dim::op(op, a, b);
                self.steps.push(step.clone());
                Some(step)
            }
            atom => as_dim(atom),
        }
    }

    /// Where an element is written there is one, so that no extent is 0; and both shapes have as many.
    fn is_proved(&self, facts: &mut dyn Facts) -> bool {
        for dim in &self.program.dims {
            facts.assume(Claim::new(0, Relation::AtMost, Dim::Var(dim.name.clone())));
        }
        for extent in self.from.iter().chain(self.to) {
            facts.assume(Claim::new(1, Relation::AtMost, extent.clone()));
        }
        for (var, extent) in self.loops.values() {
            facts.assume(Claim::new(0, Relation::AtMost, var.clone()));
            facts.assume(Claim::new(var.clone(), Relation::Less, extent.clone()));
        }
        let volume = Dim::product(self.to);
        let mut proves = |left: &Dim, relation, right: &Dim| {
            let claim = Claim::new(left.clone(), relation, right.clone());
            facts.decide(&claim) == Answer::Proved
        };
        let divides = self.divisors.iter().all(|by| proves(&Dim::Int(1), Relation::AtMost, by));
        let fits = divides
            && self.steps.iter().all(|step| {
                proves(&Dim::Int(0), Relation::AtMost, step)
                    && proves(step, Relation::AtMost, &volume)
            });
        let within = fits
            && self.read.iter().zip(self.from).all(|(index, extent)| {
                proves(&Dim::Int(0), Relation::AtMost, index)
                    && proves(index, Relation::Less, extent)
            });
        let read = position(&self.read, self.from);
        within && proves(&read, Relation::Equal, &position(&self.written, self.to))
    }
}

/// A loop variable as a variable of dims, which no program names.
fn var(id: ScalarId) -> Dim {
    Dim::Var(Name::new(format!("{OWN}{}", id.0)))
}

/// In row-major order.
fn position(indices: &[Dim], shape: &[Dim]) -> Dim {
    indices.iter().zip(shape).fold(Dim::Int(0), |position, (index, extent)| {
        Dim::op(DimOp::Add, Dim::op(DimOp::Mul, position, extent.clone()), index.clone())
    })
}

/// The indices of a load from a buffer.
fn loaded<'e>(nest: &Nest<'e>, from: BufferId, value: &'e TExpr) -> Option<&'e [TExpr]> {
    match nest.scalars.resolve(value) {
        TExpr::Load { buffer, indices } if *buffer == from => Some(indices),
        _ => None,
    }
}

/// Whether nothing can stop the program but what the innermost statements compute: axes are loop
/// variables with their extents, and names are bound within the innermost loop.
fn is_plain(nest: &Nest, statements: &[Stmt]) -> bool {
    let names = statements.iter().take_while(|stmt| matches!(stmt.kind, StmtKind::Let { .. }));
    let count = names.count();
    let has_names = count > 0;
    match &statements[count..] {
        [only] => match &only.kind {
            StmtKind::For { body, .. } => !has_names && is_plain(nest, body),
            StmtKind::Block { axes, body, .. } => {
                !has_names && axes.iter().all(|axis| is_loop(nest, axis)) && is_plain(nest, body)
            }
            StmtKind::Store { .. } => true,
            _ => false,
        },
        _ => false,
    }
}

fn is_loop(nest: &Nest, axis: &Axis) -> bool {
    let extent = nest.scalars.lone(&axis.value).and_then(|var| nest.extents.get(&var));
    axis.kind == AxisKind::Spatial && extent.is_some() && extent == as_dim(&axis.extent).as_ref()
}
