//! The nest that writes a buffer, and what it stores in the place of a read.

use relax_semantics::tir::ranges::Ranges;
use relax_semantics::tir::walk::visit;
use relax_semantics::tir::walk::{
    Place, Rewrite, expr as rewritten, statements, visit_own, visit_statements,
};
use relax_syntax::dtype::DType;
use relax_syntax::facts::Facts;
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::{BufferId, Intrinsic, ScalarId, Stmt, StmtKind, TExpr, UnOp};
use relax_tir::analysis::traps::never_traps;
use relax_tir::analysis::write_coverage::is_covered;
use relax_tir::kernel_kind::Nest;
use std::collections::{BTreeMap, BTreeSet};

/// Parts of an expression, and how deep it goes: text that is read back has its limits too.
const MAX_PARTS: usize = 400;
const MAX_DEPTH: usize = 40;

/// What is computed for each element of a buffer.
pub(super) struct Producer {
    pub(super) buffer: BufferId,
    /// The place of its nest among the statements of the program.
    pub(super) at: usize,
    /// The loop variable at each index; none where the extent is 1.
    pub(super) indices: Vec<Option<ScalarId>>,
    /// Of loop variables, dims and loads alone.
    value: TExpr,
    /// Buffers that it reads.
    pub(super) reads: BTreeSet<BufferId>,
}

impl Producer {
    /// The one statement that writes `buffer`: a nest that never stops the program. `written` are
    /// the inputs of the program whose elements are all written.
    pub(super) fn of(
        program: &TensorProgram,
        body: &[Stmt],
        buffer: BufferId,
        written: &BTreeSet<BufferId>,
        facts: &mut dyn Facts,
    ) -> Option<Self> {
        let mut writers = (0..body.len()).filter(|&at| writes(&body[at], buffer));
        let at = writers.next()?;
        if writers.next().is_some() || body[..at].iter().any(|stmt| reads(stmt, buffer)) {
            return None;
        }
        let nest = Nest::of_body(program, &body[at..=at], buffer)?;
        let stored = nest.stored?;
        let value = expanded(&nest, stored)?;
        let mut evaluated = BTreeSet::new();
        nest.read.iter().for_each(|expr| loads(expr, &mut evaluated));
        let is_written =
            |id: &BufferId| written.contains(id) || is_covered(program, &body[..at], *id);
        if !evaluated.iter().all(is_written) || !never_traps(program, &nest, facts) {
            return None;
        }
        let dtype = program.buffer(buffer).dtype;
        let value = typed(value, dtype)?;
        let mut reads = BTreeSet::new();
        loads(&value, &mut reads);
        Some(Self { buffer, at, indices: nest.written, value, reads })
    }

    /// The value for one element.
    fn value_at(&self, indices: &[TExpr]) -> TExpr {
        let pairs = self.indices.iter().zip(indices);
        let at = pairs.filter_map(|(var, index)| Some(((*var)?, index.clone()))).collect();
        rewritten(&self.value, &mut At { indices: at }, Place::Value)
    }

    /// Loop variables that the value depends on.
    pub(super) fn uses(&self, var: ScalarId) -> bool {
        let mut uses = false;
        visit(&self.value, &mut |part| uses |= *part == TExpr::Scalar(var));
        uses
    }

    /// Whether a reader that computes elements many times has less to read than one of the buffer: elements only move, or
    /// what they are made of is smaller, as weights of 4 bits are, or is shared by many.
    pub(super) fn saves_memory(&self, program: &TensorProgram) -> bool {
        if matches!(self.value, TExpr::Load { .. }) {
            return true;
        }
        let width = |id| program.buffer(id).dtype.size();
        let mut vars = self.indices.iter().flatten();
        let mut as_large = false;
        visit(&self.value, &mut |part| {
            if let TExpr::Load { buffer, indices } = part {
                let own = |var: &ScalarId| indices.contains(&TExpr::Scalar(*var));
                as_large |= width(*buffer) >= width(self.buffer) && vars.clone().all(own);
            }
        });
        vars.next().is_some() && !as_large
    }

    /// Whether it takes far longer than arithmetic does.
    pub(super) fn is_expensive(&self) -> bool {
        let mut calls = false;
        visit(&self.value, &mut |part| {
            use Intrinsic::{Abs, Ceil, Floor, Fma, Round};
            if let TExpr::Call(function, _) = part {
                calls |= !matches!(function, Abs | Ceil | Floor | Fma | Round);
            }
        });
        calls
    }
}

fn writes(stmt: &Stmt, buffer: BufferId) -> bool {
    let mut writes = false;
    visit_statements(std::slice::from_ref(stmt), &mut |stmt| {
        writes |= matches!(&stmt.kind, StmtKind::Store { buffer: other, .. } if *other == buffer);
    });
    writes
}

/// Adds the buffers that an expression reads.
fn loads(expr: &TExpr, buffers: &mut BTreeSet<BufferId>) {
    visit(expr, &mut |part| {
        if let TExpr::Load { buffer, .. } = part {
            buffers.insert(*buffer);
        }
    });
}

/// Whether a statement, or one within it, reads a buffer.
pub(super) fn reads(stmt: &Stmt, buffer: BufferId) -> bool {
    let mut buffers = BTreeSet::new();
    visit_statements(std::slice::from_ref(stmt), &mut |stmt| {
        visit_own(stmt, &mut |expr| loads(expr, &mut buffers));
        if let StmtKind::Store { buffer, update: Some(_), .. } = &stmt.kind {
            buffers.insert(*buffer);
        }
    });
    buffers.contains(&buffer)
}

/// With names replaced by what they stand for.
fn expanded(nest: &Nest, expr: &TExpr) -> Option<TExpr> {
    let mut names = Names { values: BTreeMap::new() };
    for (var, value) in nest.scalars.bound() {
        let value = rewritten(value, &mut names, Place::Value);
        if !is_small(&value) {
            return None;
        }
        // A name of literals alone has the dtype that literals have by themselves.
        let value = match is_untyped(&value) {
            true if is_float(&value) => TExpr::Cast(DType::F32, Box::new(value)),
            true => TExpr::Cast(DType::I64, Box::new(value)),
            false => value,
        };
        names.values.insert(var, value);
    }
    let value = rewritten(expr, &mut names, Place::Value);
    is_small(&value).then_some(value)
}

struct Names {
    values: BTreeMap<ScalarId, TExpr>,
}

impl Rewrite for Names {
    fn replace(&mut self, expr: &TExpr, _place: Place) -> Option<TExpr> {
        let TExpr::Scalar(id) = expr else { return None };
        self.values.get(id).cloned()
    }
}

/// An expression that has the dtype of the buffer wherever it stands, as a load has: literals are cast.
/// An index would trap where it leaves i64, which elements of a buffer do not, so that there is
/// none for it.
fn typed(value: TExpr, dtype: DType) -> Option<TExpr> {
    if is_untyped(&value) {
        let plain = dtype.is_float() || matches!(value, TExpr::Int(_));
        return plain.then(|| TExpr::Cast(dtype, Box::new(value)));
    }
    (dtype != DType::I64 || !Ranges::default().is_index(&value)).then_some(value)
}

/// Whether an expression takes its dtype from what is around it.
fn is_untyped(expr: &TExpr) -> bool {
    match expr {
        TExpr::Int(_) | TExpr::Float(_) => true,
        TExpr::Unary(UnOp::Negate | UnOp::Invert, operand) => is_untyped(operand),
        TExpr::Binary(op, operands) => {
            !relax_semantics::tir::ranges::is_comparison(*op)
                && is_untyped(&operands.0)
                && is_untyped(&operands.1)
        }
        TExpr::Select(parts) => is_untyped(&parts.1) && is_untyped(&parts.2),
        TExpr::Call(_, operands) => operands.iter().all(is_untyped),
        _ => false,
    }
}

fn is_float(expr: &TExpr) -> bool {
    let mut float = false;
    visit(expr, &mut |part| {
        float |= match part {
            TExpr::Float(_) => true,
            TExpr::Call(function, _) => *function != Intrinsic::Abs,
            _ => false,
        };
    });
    float
}

fn is_small(expr: &TExpr) -> bool {
    let mut parts = 0;
    visit(expr, &mut |_| parts += 1);
    parts <= MAX_PARTS && depth(expr) <= MAX_DEPTH
}

fn depth(expr: &TExpr) -> usize {
    let deepest = |operands: &[TExpr]| operands.iter().map(depth).max().unwrap_or(0);
    1 + match expr {
        TExpr::Load { indices: operands, .. } | TExpr::Call(_, operands) => deepest(operands),
        TExpr::Unary(_, operand) | TExpr::Cast(_, operand) => depth(operand),
        TExpr::Binary(_, operands) => depth(&operands.0).max(depth(&operands.1)),
        TExpr::Select(parts) => depth(&parts.0).max(depth(&parts.1)).max(depth(&parts.2)),
        _ => 0,
    }
}

/// Loop variables of the producer, as the indices of a read.
struct At {
    indices: BTreeMap<ScalarId, TExpr>,
}

impl Rewrite for At {
    fn replace(&mut self, expr: &TExpr, place: Place) -> Option<TExpr> {
        let TExpr::Scalar(id) = expr else { return None };
        let index = self.indices.get(id)?.clone();
        // A loop variable is an i64; a literal would take the dtype of what is around it.
        let cast = place == Place::Value && is_untyped(&index);
        Some(if cast { TExpr::Cast(DType::I64, Box::new(index)) } else { index })
    }
}

/// A statement that reads the buffer, with its values in the place of the reads.
pub(super) struct Inlined<'p> {
    producer: &'p Producer,
}

impl<'p> Inlined<'p> {
    pub(super) fn new(producer: &'p Producer) -> Self {
        Self { producer }
    }

    /// `None` where some expression would grow too far.
    pub(super) fn statement(mut self, stmt: &Stmt) -> Option<Stmt> {
        let result = statements(std::slice::from_ref(stmt), &mut self);
        let mut fits = true;
        visit_statements(&result, &mut |stmt| {
            visit_own(stmt, &mut |expr| fits &= is_small(expr));
        });
        result.into_iter().next().filter(|_| fits)
    }
}

impl Rewrite for Inlined<'_> {
    fn replace(&mut self, expr: &TExpr, _place: Place) -> Option<TExpr> {
        match expr {
            TExpr::Load { buffer, indices } if *buffer == self.producer.buffer => {
                Some(self.producer.value_at(indices))
            }
            _ => None,
        }
    }
}
