//! Sums of few long rows: several blocks have a piece of each row, and what the pieces come to is combined by a kernel after that. A row
//! of a block each would leave most of a device idle.

use super::Limits;
use super::block::{Sharing, combined, kept, neutral};
use super::expressions::opposite;
use super::rows::{Group, reach, statements_of};
use super::steps::{Reduction, Role, Step, reduction};
use crate::writer::Writer;
use relax_semantics::tir::walk::{loaded, stored};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::facts::Facts;
use relax_syntax::ir::tensor::{
    BinOp, BufferId, BufferInfo, Loop, ScalarId, Scope, StmtKind, TExpr,
};
use relax_tir::dims::as_dim;

/// Pieces of a row: what they come to takes no more memory than a short row; and of all elements, where there are no rows.
const PIECES: [i64; 2] = [16, 128];
/// Elements of a piece, for each thread of a block.
const LEAST: i64 = 4;

/// The groups in the place of one, and the memory between them.
pub(super) struct Pieces {
    /// 1 where rows are cut into pieces, else 0.
    pub(super) times: TExpr,
    pub(super) partial: BufferId,
    /// Pieces of a row.
    pub(super) count: i64,
    /// What each piece comes to; its last loop over rows is over pieces.
    pub(super) each: Group,
    /// What they all do.
    pub(super) all: Group,
    pub(super) sharing: Sharing,
}

/// 1 where rows are cut into pieces, else 0; none where that never is, or rows come to more than one number each.
fn chosen(writer: &Writer, group: &Group, facts: &mut dyn Facts, limits: Limits) -> Option<TExpr> {
    let reductions = group.steps.iter().filter(|step| step.role == Role::Reduce).count();
    let is_sum = reductions == 1 && group.steps.iter().all(|step| step.role != Role::Elements);
    let from_zero = |item: &Loop| item.start == TExpr::Int(0);
    let has_shape = group.rows.iter().all(|row| {
        from_zero(row) && matches!(as_dim(&row.stop), Some(Dim::Var(_) | Dim::Int(0..)))
    });
    (is_sum && has_shape).then_some(())?;
    let least = pieces(group) * limits.threads * LEAST;
    let long = reach(writer, group.count()?, least, facts).times()?;
    if group.rows.is_empty() {
        return Some(long);
    }
    let many = match reach(writer, group.number_of_rows(), limits.busy, facts).times() {
        None => return Some(long),
        Some(TExpr::Int(_)) => return None,
        Some(many) => many,
    };
    let few = opposite(&many);
    Some(match long {
        TExpr::Int(_) => few,
        long => TExpr::binary(BinOp::Min, long, few),
    })
}

fn pieces(group: &Group) -> i64 {
    PIECES[usize::from(group.rows.is_empty())]
}

/// A group that sums, as one of pieces and one of what they come to; none where that never is worth it, or rows come to more.
pub(super) fn cut(
    writer: &mut Writer,
    group: &Group,
    facts: &mut dyn Facts,
    limits: Limits,
) -> Option<Pieces> {
    let times = chosen(writer, group, facts, limits)?;
    let span = group.span;
    let at = group.steps.iter().position(|step| step.role == Role::Reduce)?;
    let step = &group.steps[at];
    let (last, lets) = step.body.split_last()?;
    let Reduction { op, buffer, value, .. } = reduction(last)?;
    // What a row came to before is not there for its pieces.
    let mut before = stored(&statements_of(&group.steps));
    before.remove(&buffer);
    loaded(&step.body).is_disjoint(&before).then_some(())?;
    let dtype = writer.program.buffer(buffer).dtype;
    let begin = begin(group, (op, dtype), buffer)?;
    let count = pieces(group);
    let rows = group.rows.iter().map(|row| as_dim(&row.stop));
    let shape = rows.chain([Some(Dim::Int(count))]).collect::<Option<Vec<Dim>>>()?;
    let info = BufferInfo { name: "partial".into(), shape, dtype, scope: Scope::Global, span };
    let partial = writer.buffer("partial", info);
    let [piece, other] = ["piece", "piece"].map(|base| writer.scalar(base, Some(DType::I64), span));
    let over = |var: ScalarId| Loop { var, start: TExpr::Int(0), stop: TExpr::Int(count) };
    let place = |var: ScalarId| -> Vec<TExpr> {
        group.rows.iter().map(|row| row.var).chain([var]).map(TExpr::Scalar).collect()
    };
    let first = kept(partial, place(piece), begin, span);
    let first = Step { role: Role::Cell, loops: Vec::new(), body: vec![first] };
    let next = [lets, &[combined(op, partial, place(piece), value, span)]].concat();
    let next = Step { role: Role::Reduce, loops: step.loops.clone(), body: next };
    let rows = [group.rows.clone(), vec![over(piece)]].concat();
    let each = group.of(rows, vec![first, next]).renamed(writer);
    let mut all = group.clone();
    let StmtKind::Store { indices, .. } = &last.kind else { return None };
    let value = TExpr::Load { buffer: partial, indices: place(other) };
    all.steps[at] = Step {
        role: Role::Reduce,
        loops: vec![over(other)],
        body: vec![combined(op, buffer, indices.clone(), value, span)],
    };
    let sharing = if group.rows.is_empty() { Sharing::Block } else { Sharing::Warp };
    Some(Pieces { times, partial, count, each, all, sharing })
}

/// What a piece begins with: what changes nothing. A maximum begins with what the row begins with, where that is a number of the text.
fn begin(group: &Group, (op, dtype): (BinOp, DType), buffer: BufferId) -> Option<TExpr> {
    if let Some(value) = neutral(op, dtype) {
        return Some(value);
    }
    let mut all = group.steps.iter().flat_map(|step| &step.body);
    let first = all.find_map(|stmt| match &stmt.kind {
        StmtKind::Store { buffer: to, update, value, .. } if *to == buffer => {
            Some((update.is_none(), value))
        }
        _ => None,
    });
    match first {
        Some((true, value @ (TExpr::Int(_) | TExpr::Float(_)))) => Some(value.clone()),
        _ => None,
    }
}
