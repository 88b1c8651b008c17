//! Sums of products of f32 that are formed in f64 and rounded at the end are formed in f32, where they go: what they were
//! formed in needs no memory, and tiles add to the result itself.
//!
//! Of `k` terms whose magnitudes sum to `s` the new sum is off by at most `(k + 2) * 2^-24 * s`, so that this is for those only
//! who ask for it: `relax build --fast`. The text says what the kernels compute then.

use relax_rewrite::pass::{Exactness, Pass, PassContext};
use relax_semantics::check::Phase;
use relax_semantics::tir::Typing;
use relax_semantics::tir::walk::{Place, Rewrite, expr, visit};
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::ir::tensor::{BinOp, BufferId, Stmt, StmtKind, TExpr};
use relax_syntax::ir::{Definition, Module, TensorProgram};
use relax_tir::products::{At, SumOfProducts, narrowed, sums_products};
use relax_tir::renumber::renumber_program;

/// The record.
pub static PASS: Pass = Pass {
    name: "narrow_sums",
    doc: "Forms sums of products of f32 in f32, where they go, instead of in f64 beside it.",
    from: Phase::P0,
    to: Phase::P0,
    exactness: Exactness::Rounded(DType::F32),
    run,
};

// A pass has this signature whether it can refuse a program or not.
#[allow(clippy::unnecessary_wraps)]
fn run(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    let mut result = module.clone();
    let mut done = 0;
    for definition in &mut result.definitions {
        let Definition::Tensor(program) = definition else { continue };
        let Some(body) = &program.body else { continue };
        let Ok(typing) = Typing::new(program) else { continue };
        let mut narrow = Narrow { program, typing, forgotten: Vec::new() };
        let mut body = narrow.statements(body);
        let forgotten = narrow.forgotten;
        if !forgotten.is_empty() {
            done += forgotten.len();
            body.retain(
                |stmt| !matches!(stmt.kind, StmtKind::Alloc(buffer) if forgotten.contains(&buffer)),
            );
            program.body = Some(body);
            renumber_program(program);
        }
    }
    context.count("narrowed", done, "sums");
    Ok(result)
}

struct Narrow<'p> {
    program: &'p TensorProgram,
    typing: Typing<'p>,
    /// Buffers that nothing touches any more.
    forgotten: Vec<BufferId>,
}

impl Narrow<'_> {
    fn statements(&mut self, body: &[Stmt]) -> Vec<Stmt> {
        body.iter().map(|stmt| self.statement(stmt)).collect()
    }

    fn statement(&mut self, stmt: &Stmt) -> Stmt {
        if let Some(narrow) = self.sum(stmt) {
            return narrow;
        }
        let kind = match &stmt.kind {
            StmtKind::For { loops, kind, body } => StmtKind::For {
                loops: loops.clone(),
                kind: kind.clone(),
                body: self.statements(body),
            },
            StmtKind::Block { name, axes, init, body } => StmtKind::Block {
                name: name.clone(),
                axes: axes.clone(),
                init: init.clone(),
                body: self.statements(body),
            },
            StmtKind::If { condition, then, otherwise } => StmtKind::If {
                condition: condition.clone(),
                then: self.statements(then),
                otherwise: self.statements(otherwise),
            },
            other => other.clone(),
        };
        Stmt { kind, span: stmt.span }
    }

    /// Whether a buffer is the program's own, and that it is allocated cannot stop the program.
    fn is_droppable(&self, buffer: BufferId) -> bool {
        let own = self.program.body.iter().flatten();
        let mut own =
            own.filter(|stmt| matches!(stmt.kind, StmtKind::Alloc(other) if other == buffer));
        let given = |dim: &Dim| {
            let mut params = self.program.buffer_params();
            params.any(|param| self.program.buffer(param).shape.contains(dim))
        };
        let is_extent = |dim: &Dim| matches!(dim, Dim::Var(_) | Dim::Int(0..)) || given(dim);
        own.next().is_some() && self.program.buffer(buffer).shape.iter().all(is_extent)
    }

    /// A sum that is formed where it goes; none where it is already, or may not be.
    fn sum(&mut self, stmt: &Stmt) -> Option<Stmt> {
        let sum = SumOfProducts::of(self.program, stmt)?;
        let [a, b] = sum.factors.map(|factor| narrowed(&self.typing, factor, sum.wide));
        let (a, b, out) = (a?, b?, sum.out);
        if sum.wide != DType::F64
            || self.program.buffer(out.buffer).dtype != DType::F32
            || !self.is_droppable(sum.total.buffer)
            || [&a, &b].iter().any(|factor| reads(factor, out.buffer))
            || !sums_products(std::slice::from_ref(stmt))
        {
            return None;
        }
        let term = TExpr::Binary(BinOp::Mul, Box::new((a, b)));
        let mut moved = Moved { sum: &sum, term };
        let narrow = moved.statements(std::slice::from_ref(stmt)).pop();
        self.forgotten.push(sum.total.buffer);
        narrow
    }
}

/// A sum on its way to where it goes.
struct Moved<'a, 's> {
    sum: &'a SumOfProducts<'s>,
    term: TExpr,
}

impl Moved<'_, '_> {
    fn statements(&mut self, body: &[Stmt]) -> Vec<Stmt> {
        body.iter().filter_map(|stmt| self.statement(stmt)).collect()
    }

    fn statement(&mut self, stmt: &Stmt) -> Option<Stmt> {
        let At { buffer, indices } = self.sum.out;
        let store = |update, value| {
            let indices = indices.to_vec();
            StmtKind::Store { buffer, indices, update, value }
        };
        let kind = match &stmt.kind {
            StmtKind::For { loops, kind, body } => {
                let (loops, kind) = (loops.clone(), kind.clone());
                StmtKind::For { loops, kind, body: self.statements(body) }
            }
            StmtKind::Block { name, axes, init, body } => {
                let (name, axes, init) = (name.clone(), axes.clone(), init.clone());
                StmtKind::Block { name, axes, init, body: self.statements(body) }
            }
            StmtKind::Store { update: Some(_), .. } => store(Some(BinOp::Add), self.term.clone()),
            StmtKind::Store { buffer: to, value, .. } if *to == self.sum.total.buffer => {
                store(None, value.clone())
            }
            StmtKind::Store { .. } => {
                let (value, wide) = self.sum.finish.as_ref()?;
                let own = TExpr::Load { buffer, indices: indices.to_vec() };
                let mut finished = Finished { wide, own };
                store(None, expr(value, &mut finished, Place::Value))
            }
            other => other.clone(),
        };
        Some(Stmt { kind, span: stmt.span })
    }
}

/// The sum where it stands in what is made of it.
struct Finished<'a> {
    wide: &'a TExpr,
    own: TExpr,
}

impl Rewrite for Finished<'_> {
    fn replace(&mut self, expr: &TExpr, _: Place) -> Option<TExpr> {
        (expr == self.wide).then(|| self.own.clone())
    }
}

fn reads(expr: &TExpr, buffer: BufferId) -> bool {
    let mut found = false;
    visit(expr, &mut |part| {
        found |= matches!(part, TExpr::Load { buffer: other, .. } if *other == buffer);
    });
    found
}
