//! Conditions: `and`, `or` and `select`, of which C evaluates some operands only, and the loads in them.

use crate::dtypes::held;
use crate::expressions::grouped;
use crate::printer::Printer;
use relax_semantics::tir::walk::visit;
use relax_syntax::dtype::DType;
use relax_syntax::ir::tensor::{BinOp, TExpr};
use relax_tir::index_bounds::assume;
use relax_tir::launches::reads;

impl Printer<'_, '_> {
    pub(crate) fn short_circuit(&mut self, expr: &TExpr) -> String {
        let TExpr::Binary(op, operands) = expr else {
            unreachable!("invariant: called for `and` and `or`")
        };
        let first = grouped(&self.expr(&operands.0, DType::Bool));
        let guarded = std::mem::replace(&mut self.is_guarded, self.cuda.is_none());
        let (second, lines) = self.aside(&operands.0, *op == BinOp::And, |printer| {
            printer.expr(&operands.1, DType::Bool)
        });
        self.is_guarded = guarded;
        let symbol = if *op == BinOp::And { "&&" } else { "||" };
        if lines.is_empty() {
            return format!("({first} {symbol} {})", grouped(&second));
        }
        let name = self.names.fresh("c");
        self.line(&format!("int {name} = {first};"));
        let negation = if *op == BinOp::And { "" } else { "!" };
        self.line(&format!("if ({negation}{name}) {{"));
        self.lines.push_str(&lines);
        self.line(&format!("    {name} = {second};"));
        self.line("}");
        name
    }

    pub(crate) fn select(&mut self, parts: &(TExpr, TExpr, TExpr), want: DType) -> String {
        let condition = grouped(&self.expr(&parts.0, DType::Bool));
        // A loop with loads in branches stays one of scalars; of two values a vector takes one.
        let loads_both = matches!(want, DType::F32 | DType::F64)
            && !self.is_cuda()
            && self.may_load_both(parts, want);
        let guarded = self.is_guarded;
        self.is_guarded = !loads_both && !self.is_cuda();
        let (a, first) = self.aside(&parts.0, true, |printer| printer.expr(&parts.1, want));
        let (b, second) = self.aside(&parts.0, false, |printer| printer.expr(&parts.2, want));
        self.is_guarded = guarded;
        if first.is_empty() && second.is_empty() {
            if loads_both {
                return format!("rx_select_{want}({condition}, {a}, {b})");
            }
            return format!("({condition} ? {a} : {b})");
        }
        let name = self.names.fresh("s");
        self.line(&format!("{} {name};", held(want)));
        self.line(&format!("if ({condition}) {{"));
        self.lines.push_str(&first);
        self.line(&format!("    {name} = {a};"));
        self.line("} else {");
        self.lines.push_str(&second);
        self.line(&format!("    {name} = {b};"));
        self.line("}");
        name
    }

    /// Whether both values are loaded without a doubt, whatever the condition is, and one of them is.
    fn may_load_both(
        &mut self,
        (condition, then, otherwise): &(TExpr, TExpr, TExpr),
        want: DType,
    ) -> bool {
        let mut nested = false;
        visit(then, &mut |part| nested |= matches!(part, TExpr::Select(..)));
        // What is nested would be printed twice as often in each further one.
        if nested || (!reads(then) && !reads(otherwise)) {
            return false;
        }
        // The other value knew nothing of the condition.
        let mark = self.mark();
        let (_, lines) = self.aside(condition, false, |printer| printer.expr(then, want));
        self.forget(mark);
        lines.is_empty()
    }

    /// Prints what is evaluated in some cases only: its value, and the lines before it. Where the
    /// condition `holds`, it is known; what is learnt on the way is forgotten.
    fn aside(
        &mut self,
        condition: &TExpr,
        holds: bool,
        print: impl FnOnce(&mut Self) -> String,
    ) -> (String, String) {
        let lines = std::mem::take(&mut self.lines);
        let within = self.learned.clone();
        self.facts.push();
        if holds {
            assume(&self.ranges, self.facts, condition);
        }
        self.indent += 1;
        let value = print(self);
        self.indent -= 1;
        self.facts.pop();
        self.learned = within;
        (value, std::mem::replace(&mut self.lines, lines))
    }
}
