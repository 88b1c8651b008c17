//! Sums of products of f32 that are formed in f64 and rounded at the end are formed in f32, where they go: what they were
//! formed in needs no memory, and tiles add to the result itself. Sums of products of f64 are formed where they go, too.
//!
//! Of `k` terms whose magnitudes sum to `s` the new sum is off by at most `(k + 2) * 2^-24 * s`, so that this is for those only
//! who ask for it: `relax build --fast`. The text says what the kernels compute then.

use relax_rewrite::pass::{Exactness, Pass, PassContext};
use relax_semantics::check::Phase;
use relax_semantics::tir::Typing;
use relax_semantics::tir::walk::{
    Place, Rewrite, accesses, expr, statements, visit, visit_statements,
};
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::dtype::DType;
use relax_syntax::ir::tensor::{BinOp, BufferId, Stmt, StmtKind, TExpr};
use relax_syntax::ir::{Definition, Module, TensorProgram};
use relax_tir::products::{At, SumOfProducts, narrowed, sums_products};
use relax_tir::renumber::renumber_program;
use relax_tir::workspaces::has_f64_tensors;
use std::collections::{BTreeMap, BTreeSet};

/// The record.
pub static PASS: Pass = Pass {
    name: "narrow_sums",
    doc: "Forms sums of products of f32 in f32, where they go, instead of in f64 beside it; and those of f64 where they go.",
    from: Phase::P0,
    to: Phase::P0,
    until: Phase::P22,
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
        if let Some(narrower) = narrow_workspaces(program) {
            *program = narrower;
        }
        let Some(body) = &program.body else { continue };
        let Ok(typing) = Typing::new(program) else { continue };
        let mut narrow = Narrow { program, typing, forgotten: Vec::new() };
        let mut body = statements(body, &mut narrow);
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

/// Whether an extent of variables that are extents has a value that is one.
fn always_has_value(dim: &Dim) -> bool {
    match dim {
        Dim::Var(_) | Dim::Int(0..) => true,
        Dim::Op(DimOp::Min | DimOp::Max, operands) => {
            always_has_value(&operands.0) && always_has_value(&operands.1)
        }
        _ => false,
    }
}

/// Stores f64 workspaces between sums of products as f32, so that the sums are formed in f32: the result of such a sum, and a
/// buffer that only such sums read. A weight in a sum is then off by 2^-24 of itself, as a product of f32 is.
fn narrow_workspaces(program: &TensorProgram) -> Option<TensorProgram> {
    let body = program.body.as_deref()?;
    let typing = Typing::new(program).ok()?;
    let is_f64 = |buffer: BufferId| program.buffer(buffer).dtype == DType::F64;
    if has_f64_tensors(program) {
        return None;
    }
    let is_own = |buffer: BufferId| is_f64(buffer) && !program.is_param(buffer);
    let mut narrow: BTreeMap<BufferId, Use> = BTreeMap::new();
    let mut sums: Vec<SumOfProducts> = Vec::new();
    visit_statements(body, &mut |stmt| {
        if matches!(stmt.kind, StmtKind::For { .. })
            && sums_products(std::slice::from_ref(stmt))
            && let Some(sum) = SumOfProducts::of(program, stmt)
        {
            sums.push(sum);
        }
    });
    // Loops in a nest are nests too: each sum once.
    sums.dedup_by_key(|sum| sum.total.buffer);
    let factor_of = |factor: &TExpr| match factor {
        TExpr::Load { buffer, .. } if is_own(*buffer) => Some(*buffer),
        _ => None,
    };
    for sum in sums.iter().filter(|sum| sum.wide == DType::F64) {
        let own = sum.factors.map(factor_of);
        let narrows =
            sum.factors.iter().zip(own).all(|(factor, own)| {
                own.is_some() || narrowed(&typing, factor, sum.wide).is_some()
            });
        if !narrows {
            continue;
        }
        for buffer in own.into_iter().flatten() {
            narrow.entry(buffer).or_default().factors += 1;
        }
        if is_own(sum.out.buffer) && sum.out.buffer != sum.total.buffer {
            narrow.entry(sum.out.buffer).or_default().sums.push(sum.total.buffer);
        }
    }
    let (mut loads, mut stores) = (BTreeMap::new(), BTreeMap::new());
    let mut updated = BTreeSet::new();
    visit_statements(body, &mut |stmt| {
        if let StmtKind::Store { buffer, update: Some(_), .. } = &stmt.kind {
            updated.insert(*buffer);
        }
    });
    accesses(body, &mut |buffer, _, is_stored| {
        let counts: &mut BTreeMap<BufferId, usize> =
            if is_stored { &mut stores } else { &mut loads };
        *counts.entry(buffer).or_default() += 1;
    });
    narrow.retain(|buffer, found| {
        let is_sum = found.sums.len() == 1 && stores.get(buffer) == Some(&1);
        let is_weight = found.factors > 0 && loads.get(buffer) == Some(&found.factors);
        !updated.contains(buffer) && (is_sum || is_weight)
    });
    if narrow.is_empty() {
        return None;
    }
    let body = statements(body, &mut Narrower { narrow: &narrow });
    let mut result = TensorProgram { body: Some(body), ..program.clone() };
    for buffer in narrow.keys() {
        result.buffers[buffer.0 as usize].dtype = DType::F32;
    }
    Some(result)
}

/// How sums of products use a workspace.
#[derive(Default)]
struct Use {
    /// In so many of them it is a factor.
    factors: usize,
    /// In what those are formed that go to it.
    sums: Vec<BufferId>,
}

struct Narrower<'a> {
    narrow: &'a BTreeMap<BufferId, Use>,
}

impl Rewrite for Narrower<'_> {
    fn replace_statement(&mut self, stmt: &Stmt) -> Option<StmtKind> {
        let StmtKind::Store { buffer, indices, update, value } = &stmt.kind else { return None };
        let found = self.narrow.get(buffer)?;
        let value = expr(value, self, Place::Value);
        let value = expr(&value, &mut Rounded(&found.sums), Place::Value);
        let value = TExpr::Cast(DType::F32, Box::new(value));
        let indices = indices.clone();
        Some(StmtKind::Store { buffer: *buffer, indices, update: *update, value })
    }

    fn replace(&mut self, expr: &TExpr, _: Place) -> Option<TExpr> {
        let TExpr::Load { buffer, .. } = expr else { return None };
        let narrow = self.narrow.contains_key(buffer);
        narrow.then(|| TExpr::Cast(DType::F64, Box::new(expr.clone())))
    }
}

/// Sums as f32 where they stand in what is made of them.
struct Rounded<'a>(&'a [BufferId]);

impl Rewrite for Rounded<'_> {
    fn replace(&mut self, expr: &TExpr, _: Place) -> Option<TExpr> {
        let TExpr::Load { buffer, .. } = expr else { return None };
        let rounded = || TExpr::Cast(DType::F32, Box::new(expr.clone()));
        self.0.contains(buffer).then(|| TExpr::Cast(DType::F64, Box::new(rounded())))
    }
}

struct Narrow<'p> {
    program: &'p TensorProgram,
    typing: Typing<'p>,
    /// Buffers that nothing touches any more.
    forgotten: Vec<BufferId>,
}

impl Narrow<'_> {
    /// Whether a buffer is the program's own, and that it is allocated cannot stop the program.
    fn is_droppable(&self, buffer: BufferId) -> bool {
        let own = self.program.body.iter().flatten();
        let mut own =
            own.filter(|stmt| matches!(stmt.kind, StmtKind::Alloc(other) if other == buffer));
        let given = |dim: &Dim| {
            let mut params = self.program.buffer_params();
            params.any(|param| self.program.buffer(param).shape.contains(dim))
        };
        let is_extent = |dim: &Dim| always_has_value(dim) || given(dim);
        own.next().is_some() && self.program.buffer(buffer).shape.iter().all(is_extent)
    }

    /// A sum that is formed where it goes; none where it is already, or may not be.
    fn sum(&mut self, stmt: &Stmt) -> Option<StmtKind> {
        let sum = SumOfProducts::of(self.program, stmt)?;
        let out = sum.out;
        let dtype = self.program.buffer(out.buffer).dtype;
        let [a, b] = sum.factors.map(|factor| match dtype {
            DType::F32 => narrowed(&self.typing, factor, sum.wide),
            DType::F64 => Some(factor.clone()),
            _ => None,
        });
        let (a, b) = (a?, b?);
        if sum.wide != DType::F64
            || out.buffer == sum.total.buffer
            || !self.is_droppable(sum.total.buffer)
            || [&a, &b].iter().any(|factor| reads(factor, out.buffer))
            || !sums_products(std::slice::from_ref(stmt))
        {
            return None;
        }
        let term = TExpr::Binary(BinOp::Mul, Box::new((a, b)));
        let mut moved = Moved { sum: &sum, term };
        let narrow = moved.statement(stmt);
        self.forgotten.push(sum.total.buffer);
        narrow.map(|stmt| stmt.kind)
    }
}

impl Rewrite for Narrow<'_> {
    fn replace_statement(&mut self, stmt: &Stmt) -> Option<StmtKind> {
        self.sum(stmt)
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

#[cfg(test)]
mod tests {
    use super::narrow_workspaces;
    use relax_program::frontend::Program;
    use relax_syntax::dtype::DType;
    use relax_syntax::ir::Definition;
    use relax_syntax::span::Source;

    /// The dtype of `W`, a workspace that a sum for a result of this dtype multiplies.
    fn workspace(result: &str) -> DType {
        let rounded = if result == "f64" { "T[i]" } else { "f32(T[i])" };
        let text = format!(
            "@tensorir_function\n\
             def f(X: Buffer((\"n\",), \"f32\"), Y: Buffer((1,), \"{result}\")):\n    \
                 W = alloc_buffer((1, n), \"f64\")\n    \
                 T = alloc_buffer((1,), \"f64\")\n    \
                 for i, k in grid(1, n):\n        W[i, k] = f64(X[k]) * 3.0\n    \
                 for i in grid(1):\n        \
                     T[i] = 0.0\n        \
                     for k in grid(n):\n            T[i] += W[i, k] * f64(X[k])\n        \
                     Y[i] = {rounded}\n"
        );
        let module = Program::load(Source::new("weighed", text)).module;
        let [Definition::Tensor(program)] = module.definitions.as_slice() else {
            panic!("the text has one program")
        };
        let narrow = narrow_workspaces(program);
        let program = narrow.as_ref().unwrap_or(program);
        let mut buffers = program.buffers.iter();
        buffers.find(|info| info.name == "W").expect("it has a workspace").dtype
    }

    #[test]
    fn workspaces_below_f64_results_stay_f64() {
        assert_eq!(workspace("f32"), DType::F32);
        assert_eq!(workspace("f64"), DType::F64);
    }
}
