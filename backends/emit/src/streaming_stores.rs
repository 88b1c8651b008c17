//! Streaming (non-temporal) stores for rows of results that are larger than the caches: a plain store fetches the line first and
//! moves half as much again. A few hundred elements are computed into a buffer before they are stored, so that the compiler can
//! vectorize them. The size of the whole result decides at run time.

use crate::printer::Printer;
use relax_semantics::tir::walk::visit;
use relax_syntax::dtype::DType;
use relax_syntax::ir::tensor::{BufferId, Intrinsic, Loop, Stmt, StmtKind, TExpr};
use relax_tir::products::{flat, mentions};
use relax_tir::workspaces::is_workspace;

/// Elements that are computed before they are written.
const BLOCK: usize = 256;

impl Printer<'_, '_> {
    /// Prints the innermost loop of a nest that stores a row of f32 side by side in both ways, if it does nothing else.
    pub(crate) fn write_past(
        &mut self,
        item: &Loop,
        (start, stop): &(String, String),
        body: &[Stmt],
    ) -> bool {
        let Some((buffer, indices, value)) = lone_store(body) else { return false };
        let info = self.program.buffer(buffer);
        let is_result = self.program.is_param(buffer)
            && !is_workspace(self.program, buffer)
            && info.dtype == DType::F32;
        let Some((last, outer)) = indices.split_last() else { return false };
        let is_row = *last == TExpr::Scalar(item.var) && !mentions(outer, item.var);
        let is_plain = !self.is_cuda() && !self.notes_elements(buffer);
        if !is_result
            || !is_row
            || !is_plain
            || start != "0"
            || reads_beside(value, buffer, indices)
            || computes_long(value)
        {
            return false;
        }
        let printed = self.attempt_inline(|printer| {
            printer.ranges.enter(printer.facts, item);
            printer.sources.bind_loop(item);
            let values = printer.indices(indices);
            let value = printer.expr(value, DType::F32);
            Some((printer.element(buffer, indices, values), value))
        });
        let Some((at, value)) = printed else { return false };
        let (var, name) = (self.scalars[&item.var].clone(), self.buffers[&buffer].clone());
        let extents: Vec<String> =
            self.extent_names(buffer).iter().map(|extent| format!("(double)({extent})")).collect();
        let [block, end, some] = ["block", "end", "some"].map(|wish| self.names.fresh(wish));
        self.line(&format!("if (rx_is_past({stop}, {})) {{", extents.join(" * ")));
        for line in [
            format!("    for (int64_t {block} = 0; {block} < {stop}; {block} += {BLOCK}) {{"),
            format!(
                "        const int64_t {end} = {stop} - {block} < {BLOCK} ? {stop} : {block} + {BLOCK};"
            ),
            format!("        _Alignas(64) float {some}[{BLOCK}];"),
            format!(
                "        for (int64_t {var} = {block}; {var} < {end}; {var}++) {some}[{var} - {block}] = {value};"
            ),
            format!("        const int64_t {var} = {block};"),
            format!("        rx_write_past(&{name}[{at}], {some}, {end} - {block});"),
            "    }".to_owned(),
            "    rx_written();".to_owned(),
            "} else {".to_owned(),
            format!("    for (int64_t {var} = 0; {var} < {stop}; {var}++) {name}[{at}] = {value};"),
            "}".to_owned(),
        ] {
            self.line(&line);
        }
        true
    }
}

/// The only statement, if it stores a value and nothing else.
fn lone_store(body: &[Stmt]) -> Option<(BufferId, &[TExpr], &TExpr)> {
    match flat(body) {
        (loops, [Stmt { kind: StmtKind::Store { buffer, indices, update: None, value }, .. }])
            if loops.is_empty() =>
        {
            Some((*buffer, indices, value))
        }
        _ => None,
    }
}

/// Whether a value takes longer to compute than to write; a second loop of it is nothing but more to compile.
fn computes_long(value: &TExpr) -> bool {
    let mut found = false;
    visit(value, &mut |part| {
        found |= matches!(part, TExpr::Call(function, _) if *function != Intrinsic::Sqrt);
    });
    found
}

/// Whether an element of a buffer is read that may have been stored just before.
fn reads_beside(value: &TExpr, buffer: BufferId, at: &[TExpr]) -> bool {
    let mut found = false;
    for expr in at.iter().chain([value]) {
        visit(expr, &mut |part| {
            if let TExpr::Load { buffer: read, indices } = part {
                found |= *read == buffer && indices != at;
            }
        });
    }
    found
}

#[cfg(test)]
mod tests {
    use crate::print_c;
    use relax_program::frontend::Program;
    use relax_runtime::program::Numerics;
    use relax_symbolic::Prover;
    use relax_syntax::span::Source;

    /// How many loops are printed in both ways, of a program that fills rows of a result and then does this.
    fn rows(body: &str) -> usize {
        let text = format!(
            "@tensorir_function\n\
             def f(X: Buffer((\"n\", 8), \"f32\"), Y: Buffer((\"n\", 8), \"f32\")):\n    \
                 for i, j in grid(n, 8):\n        Y[i, j] = 0.0\n    for i, j in grid(n, 8):\n        {body}\n"
        );
        let module = Program::load(Source::new("rows", text)).module;
        let source = print_c(&module, &mut Prover::new(), Numerics::Exact);
        assert_eq!(source.kernels.len(), 1, "{:?}", source.left_out);
        source.text.matches("if (rx_is_past(").count()
    }

    #[test]
    fn rows_that_read_what_they_store_are_not_written_past_caches() {
        assert_eq!(rows("Y[i, j] = X[i, j] * 2.0"), 2);
        assert_eq!(rows("Y[i, j] = X[i, j] + Y[i, j]"), 2);
        assert_eq!(rows("Y[i, j] = X[i, j] + Y[i, max(j - 1, 0)]"), 1);
        assert_eq!(rows("Y[i, j] = X[i, j] + Y[i, 7 - j]"), 1);
        assert_eq!(rows("Y[i, j] += X[i, j]"), 1);
        assert_eq!(rows("Y[i, j] = sqrt(X[i, j])"), 2);
        assert_eq!(rows("Y[i, j] = exp(X[i, j])"), 1);
        assert_eq!(rows("Y[i, 7 - j] = X[i, j]"), 1);
    }
}
