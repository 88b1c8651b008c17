//! Reciprocals: a divisor that is invariant in an innermost loop is inverted once before it, where reassociation is allowed. A
//! product takes a fraction of the time of a quotient.

use crate::printer::Printer;
use relax_runtime::program::Numerics;
use relax_semantics::tir::walk::{stored, visit, visit_own};
use relax_syntax::ir::tensor::{BinOp, Loop, Stmt, StmtKind, TExpr};
use relax_tir::products::mentions;

impl Printer<'_, '_> {
    /// Names what a loop divides by that is the same in all its iterations; what is known of divisors is put back by who
    /// asked, to what it was before.
    pub(crate) fn name_divisors(&mut self, item: &Loop, body: &[Stmt]) {
        let is_straight = body.iter().all(|stmt| matches!(stmt.kind, StmtKind::Store { .. }));
        if !is_straight || self.sums != Numerics::Reassociated || self.is_cuda() {
            return;
        }
        for divisor in self.divisors_of(item, body) {
            // Checks that are given up have shown nothing.
            let text = self.attempt_inline(|printer| Some(printer.narrow(&divisor)));
            let Some(text) = text else { continue };
            let name = self.names.fresh("by");
            self.line(&format!("const rx_divisor {name} = rx_by({text});"));
            self.divisors.push((divisor, name));
        }
    }

    fn divisors_of(&self, item: &Loop, body: &[Stmt]) -> Vec<TExpr> {
        let mut found: Vec<TExpr> = Vec::new();
        let written = stored(body);
        for stmt in body {
            visit_own(stmt, &mut |own| {
                visit(own, &mut |part| {
                    let TExpr::Binary(BinOp::Div, both) = part else { return };
                    let mut changes = mentions(std::slice::from_ref(&both.1), item.var);
                    visit(&both.1, &mut |part| {
                        changes |=
                            matches!(part, TExpr::Load { buffer, .. } if written.contains(buffer));
                    });
                    if !changes && self.is_narrow(part) && !found.contains(&both.1) {
                        found.push(both.1.clone());
                    }
                });
            });
        }
        found
    }
}
