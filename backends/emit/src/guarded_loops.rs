//! Innermost loops with loads that are guarded, as those of padding, windows and concatenation: one loop for the iterations where the
//! guard holds, and others for those before and after, each without a condition, so that the compiler makes vectors of them.

use crate::printer::Printer;
use relax_semantics::tir::walk::{mentions, statements, visit_own};
use relax_syntax::dtype::DType;
use relax_syntax::ir::tensor::{Loop, Stmt, StmtKind, TExpr};
use relax_tir::guards::{Chosen, Guard, choices, only};
use relax_tir::index_bounds::Known;
use relax_tir::products::flat;
use std::collections::BTreeSet;

/// Iterations below which a loop is not worth being three.
const SHORT: i64 = 8;

impl Printer<'_, '_> {
    /// Prints an innermost loop so, if it is one.
    pub(crate) fn guarded_loop(
        &mut self,
        item: &Loop,
        bound: &(String, String),
        body: &[Stmt],
    ) -> bool {
        let (loops, body) = flat(body);
        let is_short = matches!(item.stop, TExpr::Int(stop) if stop < SHORT);
        if self.is_cuda() || is_short || !loops.is_empty() {
            return false;
        }
        let Some(all) = plain_choices(body) else { return false };
        let Some(condition) = only(&all) else { return false };
        let Some(guard) = self.guard(condition, item.var) else { return false };
        let bound_within = |stmt: &Stmt| match &stmt.kind {
            StmtKind::Let { var, .. } => Some(*var),
            _ => None,
        };
        let own: BTreeSet<_> = body.iter().filter_map(bound_within).collect();
        if mentions(condition, &own) || !self.guards_loads(item, condition, body) {
            return false;
        }
        self.attempt(|printer| printer.split_loop(item, bound, body, (condition, &guard))).is_some()
    }

    /// Whether a load of the body is one that only some iterations may do, and nothing stops the loop in the condition: where arithmetic
    /// in it leaves i64 an end of a range would not show that.
    fn guards_loads(&mut self, item: &Loop, condition: &TExpr, body: &[Stmt]) -> bool {
        let mut guards = false;
        self.attempt(|printer| {
            let before = printer.lines.len();
            printer.ranges.enter(printer.facts, item);
            printer.sources.bind_loop(item);
            printer.expr(condition, DType::Bool);
            let never_stops = printer.lines.len() == before;
            printer.body(body);
            guards = never_stops && printer.lines[before..].contains("RX_GUARDED(");
            None::<()>
        });
        guards
    }

    fn split_loop(
        &mut self,
        item: &Loop,
        (start, stop): &(String, String),
        body: &[Stmt],
        (condition, guard): (&TExpr, &Guard),
    ) -> Option<()> {
        let (before, sites) = (self.lines.len(), self.sites.len());
        let range = self.guard_range(guard);
        if self.lines.len() != before {
            return None;
        }
        self.line("{");
        self.indent += 1;
        self.bound_range(&range, (start, stop), None);
        let [from, upto] = &range.names;
        let chosen = |holds| statements(body, &mut Chosen { condition, holds });
        let (within, without) = (chosen(true), chosen(false));
        let parts = [
            (start, from, Known::Fails(condition), &without),
            (from, upto, Known::Holds(condition), &within),
            (upto, stop, Known::Fails(condition), &without),
        ];
        let var = self.scalars[&item.var].clone();
        for (begin, end, known, body) in parts {
            self.line(&format!("for (int64_t {var} = {begin}; {var} < {end}; {var}++) {{"));
            self.facts.push();
            let (learned, shared) = (self.learned.clone(), self.shared.len());
            self.share("int64_t", &var);
            self.ranges.enter(self.facts, item);
            self.sources.bind_loop(item);
            known.assume(&self.ranges, self.facts);
            self.nested(body);
            self.shared.truncate(shared);
            self.learned = learned;
            self.facts.pop();
            self.line("}");
        }
        self.close();
        // A loop that may stop is none of vectors; its checks would stand there twice.
        (self.sites.len() == sites).then_some(())
    }
}

/// The conditions of the choices of statements that only store and name values; `None` for others.
fn plain_choices(body: &[Stmt]) -> Option<Vec<&TExpr>> {
    let mut all = Vec::new();
    for stmt in body {
        if !matches!(stmt.kind, StmtKind::Store { .. } | StmtKind::Let { .. }) {
            return None;
        }
        visit_own(stmt, &mut |expr| all.extend(choices(expr)));
    }
    Some(all)
}
