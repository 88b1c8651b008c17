//! Epilogue of softmax: `T += f(k)` for all `k`, then `Y[k] = f(k) / T`. Where reassociation is allowed, `f` is computed once,
//! kept where the quotient goes, and multiplied by the reciprocal of the sum.

use crate::accumulate::Terms;
use crate::printer::Printer;
use relax_runtime::program::Numerics;
use relax_semantics::tir::walk::{Place, Rewrite, expr};
use relax_syntax::dtype::DType;
use relax_syntax::ir::tensor::{BinOp, BufferId, Loop, ScalarId, Stmt, StmtKind, TExpr};
use relax_tir::analysis::dependence::loads;
use relax_tir::products::mentions;

/// Both loops.
struct Shares<'s> {
    item: &'s Loop,
    total: (BufferId, &'s [TExpr]),
    term: &'s TExpr,
    share: (BufferId, Vec<TExpr>),
}

struct Renamed {
    from: ScalarId,
    to: ScalarId,
}

impl Rewrite for Renamed {
    fn scalar(&mut self, id: ScalarId) -> ScalarId {
        if id == self.from { self.to } else { id }
    }
}

impl Printer<'_, '_> {
    /// Prints both loops as one sum with shares, if they are that and nothing in them may stop the kernel.
    pub(crate) fn shares(&mut self, first: &Stmt, second: &Stmt) -> bool {
        if self.sums != Numerics::Reassociated {
            return false;
        }
        let Some(found) = self.find_shares(first, second) else { return false };
        let text = self.attempt_inline(|printer| printer.shared_sum(&found));
        let Some(text) = text else { return false };
        text.iter().for_each(|line| self.line(line));
        true
    }

    fn find_shares<'s>(&self, first: &'s Stmt, second: &Stmt) -> Option<Shares<'s>> {
        let (item, sum) = lone_store(first)?;
        let (other, share) = lone_store(second)?;
        let (total, indices, Some(BinOp::Add), term) = sum else { return None };
        let (to, places, None, TExpr::Cast(DType::F32, value)) = share else { return None };
        let TExpr::Binary(BinOp::Div, both) = &**value else { return None };
        let mut renamed = Renamed { from: other.var, to: item.var };
        let own = expr(&both.0, &mut renamed, Place::Value);
        let sum = TExpr::Load { buffer: total, indices: indices.to_vec() };
        let places: Vec<TExpr> =
            places.iter().map(|place| expr(place, &mut renamed, Place::Index)).collect();
        let (last, before) = places.split_last()?;
        let mut reads = false;
        loads(first, &mut |buffer, _| reads |= buffer == to || buffer == total);
        let dtypes = [total, to].map(|buffer| self.program.buffer(buffer).dtype);
        let fits = ![total, to].iter().any(|buffer| self.notes_elements(*buffer))
            && own == *term
            && both.1 == sum
            && dtypes == [DType::F64, DType::F32]
            && (item.start == other.start && item.stop == other.stop)
            && *last == TExpr::Scalar(item.var)
            && !mentions(before, item.var)
            && !mentions(indices, item.var)
            && !reads;
        fits.then_some(Shares { item, total: (total, indices), term, share: (to, places) })
    }

    /// The lines; whatever else is printed on the way says that it does not work.
    fn shared_sum(&mut self, found: &Shares) -> Option<Vec<String>> {
        let (start, stop) = (self.index(&found.item.start), self.index(&found.item.stop));
        let values = self.indices(found.total.1);
        let at = self.element(found.total.0, found.total.1, values);
        let sum = format!("{}[{at}]", self.buffers[&found.total.0]);
        self.ranges.enter(self.facts, found.item);
        let values = self.indices(&found.share.1);
        let at = self.element(found.share.0, &found.share.1, values);
        let share = format!("{}[{at}]", self.buffers[&found.share.0]);
        let var = self.scalars[&found.item.var].clone();
        let terms = match self.exponential(found.term, found.item.var) {
            Some((row, less)) => Terms::Row { to: &share, row, less },
            None => Terms::Kept { to: &share, value: self.quick(found.term)? },
        };
        let mut lines = self.block_sum((&var, &start, &stop), &sum, &terms);
        let all = self.names.fresh("all");
        let each = format!("for (int64_t {var} = {start}; {var} < {stop}; {var}++)");
        lines.push(format!("const rx_divisor {all} = rx_by((float){sum});"));
        lines.push(format!("{each} {share} = rx_over({share}, {all});"));
        Some(lines)
    }
}

/// A store: to which buffer, where, how, and what.
type Stored<'s> = (BufferId, &'s [TExpr], Option<BinOp>, &'s TExpr);

/// A loop with one store in it.
fn lone_store(stmt: &Stmt) -> Option<(&Loop, Stored<'_>)> {
    let StmtKind::For { loops, body, .. } = &stmt.kind else { return None };
    let ([item], [Stmt { kind: StmtKind::Store { buffer, indices, update, value }, .. }]) =
        (loops.as_slice(), body.as_slice())
    else {
        return None;
    };
    Some((item, (*buffer, indices, *update, value)))
}
