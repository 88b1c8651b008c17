//! Loop versioning: a nest in which a check on dims and loop variables is left is there twice. Before it the least and the greatest
//! value of each index are compared with the limits once, by interval arithmetic on the bounds of loops; where all are within,
//! a nest runs in which the prover decides every check, else the nest as it was, with its checks, traps and places.
//!
//! Limits of i64 are such checks, too: where sums and products of dims and scalars might leave it, each of them must be smaller
//! than [`LARGE`] for the fast nest. Nests that may stop for other reasons, as indices that are elements, stay as they are.

use super::fuse_loops::{never_stops, never_stops_where};
use relax_rewrite::pass::{Exactness, Pass, PassContext};
use relax_semantics::check::Phase;
use relax_semantics::tir::ranges::{Ranges, assume_declared, is_proved};
use relax_semantics::tir::walk::{accesses, visit, visit_own, visit_statements};
use relax_syntax::Name;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::facts::{Claim, Facts, Relation};
use relax_syntax::ir::tensor::{BinOp, BufferId, Loop, ScalarId, Stmt, StmtKind, TExpr};
use relax_syntax::ir::{Definition, Module, TensorProgram};
use relax_tir::dims::as_expr;
use relax_tir::renumber::renumber_program;
use relax_tir::unique_bindings::bind_uniquely;
use std::collections::{BTreeMap, BTreeSet};

/// No dim that a machine has memory for is as large, and products of three with small numbers stay in i64.
const LARGE: i64 = 1 << 40;
/// Conditions before a nest.
const MOST: usize = 32;

/// Runs behind `fuse_loops`, for the CPU target.
pub static PASS: Pass = Pass {
    name: "version_loops",
    doc: "Gives a nest whose indices are in range for some dims only a version without checks, which           runs where a test of all ranges before it holds.",
    from: Phase::P0,
    to: Phase::P0,
    until: Phase::P22,
    exactness: Exactness::Exact,
    run,
};

// A pass has this signature whether it can refuse a program or not.
#[allow(clippy::unnecessary_wraps)]
fn run(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    let mut result = module.clone();
    let (mut done, mut found) = (0, 0);
    for definition in &mut result.definitions {
        let Definition::Tensor(program) = definition else { continue };
        let Some(body) = program.body.clone() else { continue };
        let nests = body.iter().filter(|stmt| matches!(stmt.kind, StmtKind::For { .. })).count();
        let versions: Vec<Option<Stmt>> =
            body.iter().map(|stmt| version(program, stmt, context.facts)).collect();
        found += nests;
        let made = versions.iter().flatten().count();
        if made == 0 {
            continue;
        }
        done += made;
        let both = body.into_iter().zip(versions).map(|(stmt, both)| both.unwrap_or(stmt));
        let both: Vec<Stmt> = both.collect();
        program.body = Some(bind_uniquely(&both, &mut program.scalars));
        renumber_program(program);
    }
    context.count_of("gave versions to", done, found, "nests");
    Ok(result)
}

/// A nest with its fast version, where a condition makes one.
fn version(program: &TensorProgram, stmt: &Stmt, facts: &mut dyn Facts) -> Option<Stmt> {
    let is_nest = matches!(&stmt.kind, StmtKind::For { kind, .. } if kind.is_sequential());
    if !is_nest || never_stops(program, stmt, facts) {
        return None;
    }
    let limits = Limits::of(program, stmt);
    let small = limits.small();
    // What stays in i64 is asked first: the test of ranges computes with the same numbers.
    let sizes = conjunction(small.iter().cloned())?;
    let condition = if never_stops_where(program, &sizes, stmt, facts) {
        sizes
    } else {
        let all = conjunction(small.into_iter().chain(limits.within(program, stmt)))?;
        let suffices = never_stops_where(program, &all, stmt, facts);
        (suffices && may_hold(program, &all, facts)).then_some(all)?
    };
    let (then, otherwise) = (vec![stmt.clone()], vec![stmt.clone()]);
    Some(Stmt { kind: StmtKind::If { condition, then, otherwise }, span: stmt.span })
}

/// Whether a condition is not known to fail for all dims: of what follows from that everything is proved.
fn may_hold(program: &TensorProgram, condition: &TExpr, facts: &mut dyn Facts) -> bool {
    facts.push();
    assume_declared(facts, &program.dims);
    Ranges::of(program).assume(facts, condition);
    let never = is_proved(facts, &Claim::new(1, Relation::AtMost, 0));
    facts.pop();
    !never
}

/// `None` for none, and for more than are worth it.
fn conjunction(conditions: impl Iterator<Item = TExpr>) -> Option<TExpr> {
    let mut all: Vec<TExpr> = Vec::new();
    for condition in conditions {
        if !all.contains(&condition) {
            all.push(condition);
        }
    }
    if all.len() > MOST {
        return None;
    }
    all.into_iter().reduce(|a, b| TExpr::binary(BinOp::And, a, b))
}

/// The least and the greatest value of an index, and the loops that step through all values between them.
#[derive(Clone)]
struct Interval {
    least: TExpr,
    most: TExpr,
    loops: BTreeSet<ScalarId>,
}

impl Interval {
    /// A value that no loop changes.
    fn fixed(expr: &TExpr) -> Self {
        Self { least: expr.clone(), most: expr.clone(), loops: BTreeSet::new() }
    }

    fn is_fixed(&self) -> bool {
        self.loops.is_empty()
    }
}

/// Intervals of what a nest binds.
struct Limits {
    bound: BTreeMap<ScalarId, Option<Interval>>,
    dims: BTreeSet<Name>,
    scalars: BTreeSet<ScalarId>,
}

impl Limits {
    fn of(program: &TensorProgram, stmt: &Stmt) -> Self {
        let nest = std::slice::from_ref(stmt);
        let mut limits =
            Self { bound: BTreeMap::new(), dims: BTreeSet::new(), scalars: BTreeSet::new() };
        visit_statements(nest, &mut |stmt| limits.bind(stmt));
        visit_statements(nest, &mut |stmt| {
            visit_own(stmt, &mut |expr| visit(expr, &mut |part| limits.mention(part)));
        });
        accesses(nest, &mut |buffer, _, _| {
            for dim in &program.buffer(buffer).shape {
                dim.visit_vars(&mut |name| _ = limits.dims.insert(name.clone()));
            }
        });
        limits
    }

    fn bind(&mut self, stmt: &Stmt) {
        match &stmt.kind {
            StmtKind::For { loops, .. } => {
                for item in loops {
                    let own = self.loop_interval(item);
                    self.bound.insert(item.var, own);
                }
            }
            StmtKind::Block { axes, .. } => {
                for axis in axes {
                    let own = self.interval(&axis.value);
                    self.bound.insert(axis.var, own);
                }
            }
            StmtKind::Let { var, value } => {
                let own = self.interval(value);
                self.bound.insert(*var, own);
            }
            _ => {}
        }
    }

    fn mention(&mut self, part: &TExpr) {
        match part {
            TExpr::Dim(name) => _ = self.dims.insert(name.clone()),
            TExpr::Scalar(id) if !self.bound.contains_key(id) => _ = self.scalars.insert(*id),
            _ => {}
        }
    }

    /// That all dims and scalars of the nest are far from the limits of i64.
    fn small(&self) -> Vec<TExpr> {
        let at_most = |a: TExpr, b: TExpr| TExpr::binary(BinOp::LessEqual, a, b);
        let scalars = self.scalars.iter().flat_map(|id| {
            let scalar = || TExpr::Scalar(*id);
            [at_most(TExpr::Int(-LARGE), scalar()), at_most(scalar(), TExpr::Int(LARGE))]
        });
        let dims =
            self.dims.iter().map(|name| at_most(TExpr::Dim(name.clone()), TExpr::Int(LARGE)));
        scalars.chain(dims).collect()
    }

    /// That all indices whose intervals are known are within their extents, where no condition guards the access.
    fn within(&self, program: &TensorProgram, stmt: &Stmt) -> Vec<TExpr> {
        let mut conditions = Vec::new();
        unguarded(std::slice::from_ref(stmt), &mut |buffer, indices| {
            for (index, extent) in indices.iter().zip(&program.buffer(buffer).shape) {
                let Some(Interval { least, most, .. }) = self.interval(index) else { continue };
                if !matches!(least, TExpr::Int(0..)) {
                    conditions.push(TExpr::binary(BinOp::LessEqual, TExpr::Int(0), least));
                }
                let extent = as_expr(extent);
                if most != sum(&extent, &TExpr::Int(-1)) {
                    conditions.push(TExpr::binary(BinOp::Less, most, extent));
                }
            }
        });
        conditions
    }

    /// Where other loops change its bounds, what the loop steps through is no interval.
    fn loop_interval(&self, item: &Loop) -> Option<Interval> {
        let (start, stop) = (self.interval(&item.start)?, self.interval(&item.stop)?);
        (start.is_fixed() && stop.is_fixed()).then(|| Interval {
            least: start.least,
            most: sum(&stop.most, &TExpr::Int(-1)),
            loops: [item.var].into(),
        })
    }

    fn interval(&self, expr: &TExpr) -> Option<Interval> {
        match expr {
            TExpr::Int(_) | TExpr::Dim(_) => Some(Interval::fixed(expr)),
            TExpr::Scalar(id) => match self.bound.get(id) {
                Some(known) => known.clone(),
                None => Some(Interval::fixed(expr)),
            },
            TExpr::Binary(op, operands) => {
                let (a, b) = (self.interval(&operands.0)?, self.interval(&operands.1)?);
                combined(*op, &a, &b)
            }
            _ => None,
        }
    }
}

/// Calls `seen` on the accesses that happen in every iteration of the loops around them.
fn unguarded(body: &[Stmt], seen: &mut dyn FnMut(BufferId, &[TExpr])) {
    for stmt in body {
        match &stmt.kind {
            StmtKind::For { body, .. } => unguarded(body, seen),
            StmtKind::Block { init, body, .. } => {
                unguarded(init, seen);
                unguarded(body, seen);
            }
            StmtKind::Store { buffer, indices, value, .. } => {
                seen(*buffer, indices);
                indices.iter().chain([value]).for_each(|part| unguarded_loads(part, seen));
            }
            StmtKind::Let { value, .. } => unguarded_loads(value, seen),
            StmtKind::If { condition, .. } => unguarded_loads(condition, seen),
            StmtKind::Alloc(_) | StmtKind::Barrier | StmtKind::Check(_) => {}
        }
    }
}

fn unguarded_loads(expr: &TExpr, seen: &mut dyn FnMut(BufferId, &[TExpr])) {
    match expr {
        TExpr::Load { buffer, indices } => {
            seen(*buffer, indices);
            indices.iter().for_each(|index| unguarded_loads(index, seen));
        }
        TExpr::Unary(_, operand) | TExpr::Cast(_, operand) => unguarded_loads(operand, seen),
        TExpr::Binary(op, operands) => {
            unguarded_loads(&operands.0, seen);
            if !matches!(op, BinOp::And | BinOp::Or) {
                unguarded_loads(&operands.1, seen);
            }
        }
        TExpr::Select(parts) => unguarded_loads(&parts.0, seen),
        TExpr::Call(_, operands) => operands.iter().for_each(|part| unguarded_loads(part, seen)),
        TExpr::Int(_) | TExpr::Float(_) | TExpr::Bool(_) | TExpr::Scalar(_) | TExpr::Dim(_) => {}
    }
}

/// `None` where it is not known, or where the loops of one operand change the other one as well: not every pair of their values
/// occurs then.
fn combined(op: BinOp, a: &Interval, b: &Interval) -> Option<Interval> {
    if !a.loops.is_disjoint(&b.loops) {
        return None;
    }
    let natural =
        |of: &Interval| of.is_fixed() && matches!(of.least, TExpr::Int(0..) | TExpr::Dim(_));
    let positive = |of: &Interval| of.is_fixed() && matches!(of.least, TExpr::Int(1..));
    let each = |op| {
        (
            TExpr::binary(op, a.least.clone(), b.least.clone()),
            TExpr::binary(op, a.most.clone(), b.most.clone()),
        )
    };
    let (least, most) = match op {
        BinOp::Add => (sum(&a.least, &b.least), sum(&a.most, &b.most)),
        BinOp::Sub => (difference(&a.least, &b.most), difference(&a.most, &b.least)),
        BinOp::Min | BinOp::Max => each(op),
        BinOp::Mul if natural(b) => (product(&a.least, &b.least), product(&a.most, &b.least)),
        BinOp::Mul if natural(a) => return combined(op, b, a),
        BinOp::FloorDiv if positive(b) => each(op),
        _ => return None,
    };
    Some(Interval { least, most, loops: a.loops.union(&b.loops).copied().collect() })
}

/// `a + b`, with literals together.
fn sum(a: &TExpr, b: &TExpr) -> TExpr {
    match (a, b) {
        (_, TExpr::Int(0)) => a.clone(),
        (TExpr::Int(0), _) => b.clone(),
        (TExpr::Int(x), TExpr::Int(y)) if x.checked_add(*y).is_some() => TExpr::Int(x + y),
        (_, TExpr::Int(x @ ..0)) if *x > i64::MIN => difference(a, &TExpr::Int(-x)),
        (TExpr::Binary(BinOp::Sub, parts), TExpr::Int(_)) if parts.1 == *b => parts.0.clone(),
        _ => TExpr::binary(BinOp::Add, a.clone(), b.clone()),
    }
}

fn difference(a: &TExpr, b: &TExpr) -> TExpr {
    match (a, b) {
        (_, TExpr::Int(0)) => a.clone(),
        (TExpr::Int(x), TExpr::Int(y)) if x.checked_sub(*y).is_some() => TExpr::Int(x - y),
        _ => TExpr::binary(BinOp::Sub, a.clone(), b.clone()),
    }
}

fn product(a: &TExpr, b: &TExpr) -> TExpr {
    match (a, b) {
        (_, TExpr::Int(1)) => a.clone(),
        (TExpr::Int(x), TExpr::Int(y)) if x.checked_mul(*y).is_some() => TExpr::Int(x * y),
        _ => TExpr::binary(BinOp::Mul, a.clone(), b.clone()),
    }
}
