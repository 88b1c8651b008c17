//! Loop parallelization for the processor: which loops run on threads. The text says so: `parallel(n)` becomes threads, and no other
//! loop does.
//!
//! Of a nest at the top of a program the outermost loops that begin at 0 and carry no dependence become `parallel`. The innermost loop
//! of a nest that only stores elements stays for vectors. Of products in a batch the loops of the batch become `parallel`, as
//! each product is one call. A `parallel` loop of the text stays one where its iterations are proved independent. Else it becomes
//! `serial`: its values are then those of the interpreter, which runs iterations in order.

use relax_rewrite::pass::{Exactness, Pass, PassContext};
use relax_runtime::program::Numerics;
use relax_semantics::check::Phase;
use relax_semantics::tir::codes;
use relax_semantics::tir::ranges::Ranges;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::facts::Facts;
use relax_syntax::ir::tensor::{Loop, LoopKind, ScalarId, Stmt, StmtKind, TExpr};
use relax_syntax::ir::{Definition, Module, TensorProgram};
use relax_syntax::span::Span;
use relax_tir::analysis::dependence::distances::is_independent;
use relax_tir::analysis::dependence::loops::independent_loops;
use relax_tir::dims::as_dim;
use relax_tir::named_blocks::without_named_blocks;
use relax_tir::products::{Product, Roles, is_straight};
use relax_tir::renumber::renumber_program;

/// The record.
pub static PASS: Pass = Pass {
    name: "parallelize_loops",
    doc: "Makes the outermost loops of nests `parallel` where they carry no dependence, and others `serial`.",
    from: Phase::P0,
    to: Phase::P0,
    until: Phase::P23,
    exactness: Exactness::Exact,
    run,
};

// A pass has this signature whether it can refuse a program or not.
#[allow(clippy::unnecessary_wraps)]
fn run(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    let (result, counts) = parallelized(module, context.settings.numerics, context.facts);
    context.count_of("parallelized", counts.made, counts.nests, "nests");
    if counts.serial > 0 {
        context.count("ran on one thread", counts.serial, "loops that are `parallel` in the text");
    }
    Ok(result)
}

/// What became of loops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Nests whose outermost loops are `parallel` now.
    pub made: usize,
    /// Of so many at the top of programs.
    pub nests: usize,
    /// Loops that were `parallel` and are not proved independent.
    pub serial: usize,
}

/// The `parallel` loops of a text that run on one thread, as errors; warnings where that is allowed.
#[must_use]
pub fn loops_on_one_thread(module: &Module, facts: &mut dyn Facts) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for definition in &module.definitions {
        let Definition::Tensor(program) = definition else { continue };
        let mut threads = Threads::of(program, Numerics::default(), facts);
        threads.top(program.body.as_deref().unwrap_or(&[]));
        for (var, span) in threads.serial {
            let message = format!(
                "the loop over `{}` runs on one thread: its iterations are not proved independent",
                program.scalar(var).name
            );
            let note = format!("in the tensor program `{}`", program.name);
            found.push(Diagnostic::error(codes::ONE_THREAD, span, message).with_note(note));
        }
    }
    found
}

/// The module with the loops that run on threads as `parallel` ones.
#[must_use]
pub fn parallelized(
    module: &Module,
    numerics: Numerics,
    facts: &mut dyn Facts,
) -> (Module, Counts) {
    let (mut result, mut counts) = (module.clone(), Counts::default());
    for definition in &mut result.definitions {
        let Definition::Tensor(program) = definition else { continue };
        let Some(body) = program.body.clone() else { continue };
        let mut threads = Threads::of(program, numerics, facts);
        let body = threads.top(&body);
        counts.made += threads.made;
        counts.nests += threads.nests;
        counts.serial += threads.serial.len();
        if program.body.as_ref() != Some(&body) {
            program.body = Some(body);
            renumber_program(program);
        }
    }
    (result, counts)
}

struct Threads<'p> {
    program: &'p TensorProgram,
    numerics: Numerics,
    facts: &'p mut dyn Facts,
    made: usize,
    nests: usize,
    /// `parallel` loops that are `serial` now.
    serial: Vec<(ScalarId, Span)>,
}

impl<'p> Threads<'p> {
    fn of(program: &'p TensorProgram, numerics: Numerics, facts: &'p mut dyn Facts) -> Self {
        Self { program, numerics, facts, made: 0, nests: 0, serial: Vec::new() }
    }

    /// Statements that no loop is around.
    fn top(&mut self, body: &[Stmt]) -> Vec<Stmt> {
        body.iter().map(|stmt| self.outermost(stmt)).collect()
    }

    fn outermost(&mut self, stmt: &Stmt) -> Stmt {
        let kind = match &stmt.kind {
            StmtKind::For { loops, kind: LoopKind::Grid | LoopKind::Serial, body } => {
                self.nests += 1;
                let count = self.independent(stmt);
                self.made += usize::from(count > 0);
                return match count {
                    0 => self.within(stmt, &mut Vec::new()),
                    _ => parallel(loops, count, body, stmt.span),
                };
            }
            StmtKind::If { condition, then, otherwise } => {
                let (then, otherwise) = (self.top(then), self.top(otherwise));
                StmtKind::If { condition: condition.clone(), then, otherwise }
            }
            StmtKind::Block { name, axes, init, body } if axes.is_empty() && init.is_empty() => {
                let (name, body) = (name.clone(), self.top(body));
                StmtKind::Block { name, axes: Vec::new(), init: Vec::new(), body }
            }
            _ => return self.within(stmt, &mut Vec::new()),
        };
        Stmt { kind, span: stmt.span }
    }

    /// How many of the outermost loops of a nest become `parallel`.
    fn independent(&self, stmt: &Stmt) -> usize {
        let plain = without_named_blocks(std::slice::from_ref(stmt));
        let [stmt @ Stmt { kind: StmtKind::For { loops, body, .. }, .. }] = plain.as_slice() else {
            return 0;
        };
        let of_dims = |item: &Loop| item.start == TExpr::Int(0) && as_dim(&item.stop).is_some();
        let independent = independent_loops(loops, body);
        let free = loops.iter().zip(independent).take_while(|(item, free)| *free && of_dims(item));
        let count = free.count();
        if loops[..count].iter().all(|item| item.stop == TExpr::Int(1)) {
            return 0;
        }
        match self.batch(stmt) {
            Some(batch) if batch <= count => batch,
            Some(_) => 0,
            None if count > 1 && count == loops.len() && is_straight(body) => count - 1,
            None => count,
        }
    }

    /// How many loops are around a product that is one call, where sums may have any order.
    fn batch(&self, stmt: &Stmt) -> Option<usize> {
        if self.numerics != Numerics::Reassociated {
            return None;
        }
        let product = Product::of(self.program, stmt)?;
        let roles = Roles::of(self.program, &Ranges::of(self.program), &product)?;
        roles.leading(&product).filter(|batch| *batch > 0)
    }

    /// A statement within loops, of which those that are `parallel` are asked about.
    fn within(&mut self, stmt: &Stmt, outside: &mut Vec<Loop>) -> Stmt {
        let mut all = |threads: &mut Self, body: &[Stmt]| -> Vec<Stmt> {
            body.iter().map(|stmt| threads.within(stmt, outside)).collect()
        };
        let kind = match &stmt.kind {
            StmtKind::For { loops, kind, body } => {
                let depth = outside.len();
                let kind = match (kind, loops.as_slice()) {
                    (LoopKind::Parallel, [item]) if !self.keeps(outside, item, body) => {
                        self.serial.push((item.var, stmt.span));
                        LoopKind::Serial
                    }
                    _ => kind.clone(),
                };
                outside.extend(loops.iter().cloned());
                let body = body.iter().map(|stmt| self.within(stmt, outside)).collect();
                outside.truncate(depth);
                StmtKind::For { loops: loops.clone(), kind, body }
            }
            StmtKind::If { condition, then, otherwise } => StmtKind::If {
                condition: condition.clone(),
                then: all(self, then),
                otherwise: all(self, otherwise),
            },
            StmtKind::Block { name, axes, init, body } => StmtKind::Block {
                name: name.clone(),
                axes: axes.clone(),
                init: all(self, init),
                body: all(self, body),
            },
            other => other.clone(),
        };
        Stmt { kind, span: stmt.span }
    }

    /// Whether a loop that the text calls `parallel` is proved to carry no dependence.
    fn keeps(&mut self, outside: &[Loop], item: &Loop, body: &[Stmt]) -> bool {
        independent_loops(std::slice::from_ref(item), body) == [true]
            || is_independent(self.program, outside, (item, body), self.facts)
    }
}

/// A nest whose first loops are `parallel`, one in the other.
fn parallel(loops: &[Loop], count: usize, body: &[Stmt], span: Span) -> Stmt {
    let (first, inner) = loops.split_at(count);
    let body = match inner {
        [] => body.to_vec(),
        _ => {
            let kind = LoopKind::Grid;
            vec![Stmt {
                kind: StmtKind::For { loops: inner.to_vec(), kind, body: body.to_vec() },
                span,
            }]
        }
    };
    let nest = first.iter().rev().fold(body, |body, item| {
        let kind = StmtKind::For { loops: vec![item.clone()], kind: LoopKind::Parallel, body };
        vec![Stmt { kind, span }]
    });
    nest.into_iter().next().expect("invariant: a nest has a loop")
}
