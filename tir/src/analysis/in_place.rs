//! In-place safety: whether a tensor program may write an output over an input. It may where each element of the input is read for
//! the last time before the same element of the output is written.
//!
//! The test follows the order of the text. Statements that only read come before those that write. A loop that does both has
//! iterations that touch elements of their own ([`are_independent`]), and within an iteration reads come before writes again.

use super::definite_init::unproved_with_parameters;
use super::dependence::{Nest, are_independent};
use super::write_coverage::is_covered;
use crate::renumber::renumber_program;
use relax_semantics::tir::walk::{Rewrite, accesses, statements, stored, visit, visit_own};
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::{BufferId, Param, Scope, Stmt, StmtKind, TExpr};

/// The program without a parameter for the output, which it writes over the input. `None` where values could differ: another
/// shape or dtype, a read after a write, or an element of the output that is not known to be written.
#[must_use]
pub fn written_over(
    program: &TensorProgram,
    input: BufferId,
    output: BufferId,
) -> Option<TensorProgram> {
    let body = program.body.as_ref()?;
    let (from, to) = (program.buffer(input), program.buffer(output));
    let is_alike = (&from.shape, from.dtype) == (&to.shape, to.dtype);
    let is_global = from.scope == Scope::Global && to.scope == Scope::Global;
    if !is_alike || !is_global || input == output || stored(body).contains(&input) {
        return None;
    }
    let is_written = is_covered(program, body, output);
    if !is_written || unproved_with_parameters(program).contains(&output) {
        return None;
    }
    let both = Both { input, output };
    if !both.reads_first(body) {
        return None;
    }
    let mut made = program.clone();
    made.params.retain(|param| *param != Param::Buffer(output));
    made.body = Some(statements(body, &mut Over(both)));
    renumber_program(&mut made);
    Some(made)
}

#[derive(Clone, Copy)]
struct Both {
    input: BufferId,
    output: BufferId,
}

/// Puts the input in the place of the output.
struct Over(Both);

impl Rewrite for Over {
    fn buffer(&mut self, id: BufferId) -> BufferId {
        if id == self.0.output { self.0.input } else { id }
    }
}

impl Both {
    /// Whether statements read an element of the input only before they write that element of the output.
    fn reads_first(self, body: &[Stmt]) -> bool {
        let mut written = false;
        body.iter().all(|stmt| {
            let (reads, writes) = self.touched(stmt);
            let right = !reads || !written && (!writes || self.is_elementwise(stmt));
            written |= writes;
            right
        })
    }

    /// Whether a statement reads the input, and whether it writes the output.
    fn touched(self, stmt: &Stmt) -> (bool, bool) {
        let (mut reads, mut writes) = (false, false);
        accesses(std::slice::from_ref(stmt), &mut |buffer, _, is_stored| {
            reads |= buffer == self.input && !is_stored;
            writes |= buffer == self.output && is_stored;
        });
        (reads, writes)
    }

    /// The same within a statement that does both.
    fn is_elementwise(self, stmt: &Stmt) -> bool {
        match &stmt.kind {
            // Indices and the value are computed before anything is written.
            StmtKind::Store { .. } => true,
            StmtKind::For { loops, body, .. } => {
                let merged = statements(std::slice::from_ref(stmt), &mut Over(self));
                let vars = loops.iter().map(|item| item.var).collect();
                let nest = Nest { vars, stmt: &merged[0] };
                are_independent(&[nest]) && !self.is_read_by_head(stmt) && self.reads_first(body)
            }
            StmtKind::Block { init, body, .. } => {
                let all: Vec<Stmt> = init.iter().chain(body).cloned().collect();
                !self.is_read_by_head(stmt) && self.reads_first(&all)
            }
            StmtKind::If { then, otherwise, .. } => {
                self.reads_first(then) && self.reads_first(otherwise)
            }
            StmtKind::Let { .. } | StmtKind::Alloc(_) | StmtKind::Barrier | StmtKind::Check(_) => {
                false
            }
        }
    }

    /// Whether bounds of loops or values of axes read the input: they belong to no iteration.
    fn is_read_by_head(self, stmt: &Stmt) -> bool {
        let mut found = false;
        visit_own(stmt, &mut |expr| {
            visit(expr, &mut |part| {
                found |= matches!(part, TExpr::Load { buffer, .. } if *buffer == self.input);
            });
        });
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_program::program;

    /// Whether the last parameter may be written over the first one.
    fn shares(parameters: &str, body: &str) -> bool {
        let program = program(parameters, body);
        let buffers: Vec<BufferId> = program.buffer_params().collect();
        let (input, output) = (buffers[0], buffers[buffers.len() - 1]);
        let made = written_over(&program, input, output);
        if let Some(made) = &made {
            assert_eq!(made.buffer_params().count() + 1, buffers.len());
        }
        made.is_some()
    }

    const VECTORS: &str =
        "X: Buffer((\"n\",), \"f32\"), G: Buffer((\"n\",), \"f32\"), Y: Buffer((\"n\",), \"f32\")";

    #[test]
    fn elementwise_programs_are_in_place() {
        for body in [
            "for i in grid(n):\n    Y[i] = X[i] - G[i]",
            "for i in grid(n):\n    with block(\"b\"):\n        Y[i] = X[i] - G[i] * X[i]",
            "for i in grid(n):\n    t = X[i]\n    Y[i] = t\n    Y[i] = Y[i] + t",
            "T = alloc_buffer((n,), \"f32\")\nfor i in grid(n):\n    T[i] = X[n - 1 - i]\nfor i in grid(n):\n    \
             Y[i] = T[i]",
        ] {
            assert!(shares(VECTORS, body), "{body}");
        }
        let matrices = "X: Buffer((\"n\", 4), \"f32\"), Y: Buffer((\"n\", 4), \"f32\")";
        assert!(shares(
            matrices,
            "for i in grid(n):\n    for j in grid(4):\n        Y[i, j] = X[i, j] * 2.0"
        ));
    }

    #[test]
    fn a_read_after_a_write_is_refused() {
        for body in [
            // Another element.
            "for i in grid(n):\n    Y[i] = X[n - 1 - i]",
            // The same one, too late.
            "for i in grid(n):\n    Y[i] = G[i]\n    Y[i] = Y[i] + X[i]",
            "for i in grid(n):\n    Y[i] = G[i]\nfor i in grid(n):\n    Y[i] = Y[i] + X[i]",
            // An element that all iterations read.
            "for i in grid(n):\n    Y[i] = X[0] + G[i]",
            // Before anything was written: not the value of the input.
            "for i in grid(n):\n    Y[i] = Y[i] + X[i]",
            // Not all elements are written.
            "for i in grid(n // 2):\n    Y[i] = X[i]",
            // The input is memory of its own.
            "for i in grid(n):\n    X[i] = G[i]\n    Y[i] = X[i]",
        ] {
            assert!(!shares(VECTORS, body), "{body}");
        }
        let matrices = "X: Buffer((\"n\", \"n\"), \"f32\"), Y: Buffer((\"n\", \"n\"), \"f32\")";
        assert!(!shares(matrices, "for i, j in grid(n, n):\n    Y[i, j] = X[j, i]"));
        assert!(!shares(
            matrices,
            "for i in grid(n):\n    for j in grid(n):\n        Y[i, j] = X[i, 0]"
        ));
        let init = "for i in grid(n):\n    for j in grid(4):\n        with block(\"sum\"):\n            vi = spatial(n, i)\n            \
                    vj = reduce(4, j)\n            with init():\n                Y[vi] = 0.0\n            Y[vi] += X[vi]";
        assert!(!shares(VECTORS, init));
        let shapes = "X: Buffer((\"m\",), \"f32\"), Y: Buffer((\"n\",), \"f32\")";
        assert!(!shares(shapes, "for i in grid(n):\n    Y[i] = X[i]"));
        let dtypes = "X: Buffer((\"n\",), \"f64\"), Y: Buffer((\"n\",), \"f32\")";
        assert!(!shares(dtypes, "for i in grid(n):\n    Y[i] = f32(X[i])"));
    }
}
