//! Conditions: `and`, `or` and `select`, of which C evaluates some operands only, and the loads in them.

use crate::dtypes::held;
use crate::expressions::grouped;
use crate::printer::Printer;
use relax_semantics::tir::walk::visit;
use relax_syntax::dtype::DType;
use relax_syntax::ir::tensor::{BinOp, TExpr};
use relax_tir::index_bounds::Known;
use relax_tir::launches::reads;

impl Printer<'_, '_> {
    pub(crate) fn short_circuit(&mut self, expr: &TExpr) -> String {
        let TExpr::Binary(op, operands) = expr else {
            unreachable!("invariant: called for `and` and `or`")
        };
        let first = grouped(&self.expr(&operands.0, DType::Bool));
        let guarded = std::mem::replace(&mut self.is_guarded, self.cuda.is_none());
        let first_is = if *op == BinOp::And { Known::Holds } else { Known::Fails };
        let (second, lines) =
            self.aside(first_is(&operands.0), |printer| printer.expr(&operands.1, DType::Bool));
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
        let (a, first) = self.aside(Known::Holds(&parts.0), |printer| printer.expr(&parts.1, want));
        let (b, second) =
            self.aside(Known::Fails(&parts.0), |printer| printer.expr(&parts.2, want));
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
    fn may_load_both(&mut self, (_, then, otherwise): &(TExpr, TExpr, TExpr), want: DType) -> bool {
        let mut nested = false;
        visit(then, &mut |part| nested |= matches!(part, TExpr::Select(..)));
        // What is nested would be printed twice as often in each further one.
        if nested || (!reads(then) && !reads(otherwise)) {
            return false;
        }
        // Each value is loaded where the other one is taken, too.
        [then, otherwise].into_iter().all(|value| {
            let mark = self.mark();
            let (_, lines) = self.aside(Known::Nothing, |printer| printer.expr(value, want));
            self.forget(mark);
            lines.is_empty()
        })
    }

    /// Prints what is evaluated in some cases only: its value, and the lines before it. What is learnt on the way is forgotten.
    pub(crate) fn aside(
        &mut self,
        known: Known<'_>,
        print: impl FnOnce(&mut Self) -> String,
    ) -> (String, String) {
        let lines = std::mem::take(&mut self.lines);
        let within = self.learned.clone();
        self.facts.push();
        known.assume(&self.ranges, self.facts);
        self.indent += 1;
        let value = print(self);
        self.indent -= 1;
        self.facts.pop();
        self.learned = within;
        (value, std::mem::replace(&mut self.lines, lines))
    }
}

#[cfg(test)]
mod tests {
    use crate::print_c;
    use relax_program::frontend::Program;
    use relax_runtime::program::Numerics;
    use relax_symbolic::Prover;
    use relax_syntax::span::Source;

    /// The checks that are left of a program that stores this in a result of `m + n`, and whether both values of a choice are loaded.
    fn left(body: &str) -> (usize, bool) {
        let text = format!(
            "@tensorir_function\n\
             def f(A: Buffer((\"m\",), \"f32\"), B: Buffer((\"n\",), \"f32\"), \
             C: Buffer((\"m + n\",), \"f32\"), Y: Buffer((\"m + n\",), \"f32\")):\n    \
                 m, n = sym_var(), sym_var()\n    for i in grid(m + n):\n        {body}\n"
        );
        let module = Program::load(Source::new("choice", text)).module;
        let source = print_c(&module, &mut Prover::new(), Numerics::Exact);
        assert_eq!(source.kernels.len(), 1, "{:?}", source.left_out);
        (source.kernels[0].checks.left(), source.text.contains(" = rx_select_f32("))
    }

    #[test]
    fn the_opposite_is_known_where_a_condition_does_not_hold() {
        for body in [
            "Y[i] = select(i < m, A[i], B[i - m])",
            "Y[i] = select(i >= m, B[i - m], A[i])",
            "Y[i] = select(not i < m, B[i - m], A[i])",
            "Y[i] = select(i < m or i == m + n, A[min(i, m - 1)], B[i - m])",
            "Y[i] = select(i < m or B[i - m] > 0.0, 1.0, 0.0)",
            "if i < m:\n            Y[i] = A[i]\n        else:\n            Y[i] = B[i - m]",
        ] {
            let open = usize::from(body.contains("min("));
            assert_eq!(left(body), (open, false), "{body}");
        }
        // That both do not hold says of neither that it does not.
        assert_eq!(left("Y[i] = select(i < m and i < n, 0.0, B[i - m])"), (1, false));
        // Nothing is known of floats, which may be NaN.
        assert_eq!(left("Y[i] = select(A[0] < 1.0, 0.0, B[i])").0, 2);
    }

    #[test]
    fn both_values_are_loaded_where_both_are_there_in_any_case() {
        assert_eq!(left("Y[i] = select(i < m, C[i], C[m + n - 1 - i])"), (0, true));
        assert_eq!(left("Y[i] = select(i < m, C[i], B[i - m])"), (0, false));
        assert_eq!(left("Y[i] = select(i < m, A[i], C[i])"), (0, false));
    }
}
