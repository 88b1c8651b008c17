//! The statements of a tensor program in the order of the text, with what is known at each.

use super::Found;
use super::reads::Load;
use super::refutation;
use super::scope::{Around, Scope};
use super::values::is_of_values;
use crate::obligation::Outcome;
use relax_syntax::Name;
use relax_syntax::dim::Dim;
use relax_syntax::facts::{Answer, Claim, Counterexample, Relation};
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::{
    Axis, AxisKind, BinOp, BufferId, Loop, LoopKind, ScalarId, Stmt, StmtKind, TExpr, UnOp,
};
use relax_syntax::span::Span;
use std::collections::{BTreeMap, BTreeSet};

/// Where something is written.
#[derive(Clone, Debug)]
pub(super) struct Store {
    pub(super) buffer: BufferId,
    pub(super) number: usize,
    /// One a dim; `None` where an index is no index arithmetic.
    pub(super) indices: Option<Vec<Dim>>,
    /// Whether it combines what it writes with what was there.
    pub(super) updates: bool,
    /// Those around it under conditions that are no comparisons of indices.
    pub(super) branches: Vec<Branch>,
    pub(super) loops: Vec<Around>,
    pub(super) known: Vec<Claim>,
    /// How many loops are around the allocation of the buffer.
    pub(super) allocated: usize,
    /// In the `init` of a block: the values of its explicit reduction axes.
    pub(super) init: Option<Vec<Dim>>,
    /// Values of spatial axes, which are told apart like loop variables.
    pub(super) spatial: Vec<Dim>,
}

/// A branch under a condition that is no comparison of indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Branch {
    number: usize,
    /// How many loops are around it.
    pub(super) loops: usize,
}

pub(super) struct Walk<'p, 'f> {
    pub(super) program: &'p TensorProgram,
    pub(super) scope: Scope<'f>,
    pub(super) found: Vec<Found>,
    pub(super) stores: Vec<Store>,
    pub(super) loads: Vec<Load>,
    accesses: usize,
    /// Whether accesses and arithmetic are obligations.
    asks: bool,
    /// Those around the statement at hand, and how many came before.
    branches: Vec<Branch>,
    branched: usize,
    /// Where the statement at hand stands in the text.
    span: Span,
    /// What refutes the claim on an index that was asked last.
    witness: Option<Counterexample>,
    /// How often the program was run to confirm a counterexample.
    runs: usize,
    /// What names were bound to.
    lets: BTreeMap<ScalarId, TExpr>,
}

/// What surrounds a statement beside loops.
#[derive(Clone, Default)]
struct Inside {
    /// Under a condition.
    conditional: bool,
    /// In the `init` of a block: the values of its explicit reduction axes.
    init: Option<Vec<Dim>>,
    spatial: Vec<Dim>,
}

impl<'p, 'f> Walk<'p, 'f> {
    pub(super) fn of(program: &'p TensorProgram, scope: Scope<'f>) -> Self {
        let (found, stores, loads, lets) = (Vec::new(), Vec::new(), Vec::new(), BTreeMap::new());
        let (accesses, branched, runs) = (0, 0, 0);
        let (branches, span, witness) = (Vec::new(), program.span, None);
        Self {
            program,
            scope,
            found,
            stores,
            loads,
            accesses,
            asks: true,
            branches,
            branched,
            span,
            witness,
            runs,
            lets,
        }
    }

    /// One that notes stores and loads only.
    pub(super) fn silent(program: &'p TensorProgram, scope: Scope<'f>) -> Self {
        Self { asks: false, ..Self::of(program, scope) }
    }

    pub(super) fn body(&mut self, body: &[Stmt]) {
        let mut allocated = Vec::new();
        self.statements(body, &Inside::default(), &mut allocated);
    }

    fn statements(
        &mut self,
        body: &[Stmt],
        inside: &Inside,
        allocated: &mut Vec<(BufferId, usize)>,
    ) {
        self.scope.push();
        for stmt in body {
            self.span = stmt.span;
            self.statement(stmt, inside, allocated);
        }
        self.scope.pop();
    }

    fn statement(&mut self, stmt: &Stmt, inside: &Inside, allocated: &mut Vec<(BufferId, usize)>) {
        match &stmt.kind {
            StmtKind::For { loops, kind, body } => {
                self.scope.push();
                loops.iter().for_each(|item| self.enter(item, kind));
                self.statements(body, inside, allocated);
                self.scope.pop();
            }
            StmtKind::Block { axes, init, body, .. } => {
                self.scope.push();
                let mut within = inside.clone();
                axes.iter().for_each(|axis| self.axis(axis, &mut within));
                // It runs where the reduction axes are at their first values.
                let reductions = Some(self.reductions(axes));
                let first = Inside { init: reductions, conditional: true, ..within.clone() };
                self.statements(init, &first, allocated);
                self.statements(body, &within, allocated);
                self.scope.pop();
            }
            StmtKind::Store { buffer, indices, update, value } => {
                self.exprs(indices);
                self.whole(value);
                self.access(*buffer, indices, "written");
                if update.is_some() {
                    self.load(*buffer, indices);
                }
                self.store(*buffer, indices, update.is_some(), inside, allocated);
            }
            StmtKind::Let { var, value } => {
                self.whole(value);
                self.scope.ranges.bind(*var, value);
                self.scope.load(self.program, *var, value);
                self.lets.insert(*var, value.clone());
            }
            StmtKind::If { condition, then, otherwise } => {
                self.whole(condition);
                for (branch, holds) in [(then, true), (otherwise, false)] {
                    self.scope.push();
                    let before = self.scope.known.len();
                    self.scope.suppose(condition, holds);
                    let mut within = inside.clone();
                    within.conditional = true;
                    let outside = self.branches.len();
                    if !self.is_comparison(condition, holds)
                        || self.scope.known[before..].iter().any(is_of_values)
                    {
                        let loops = self.scope.loops.len();
                        self.branched += 1;
                        self.branches.push(Branch { number: self.branched, loops });
                    }
                    self.statements(branch, &within, allocated);
                    self.branches.truncate(outside);
                    self.scope.pop();
                }
            }
            StmtKind::Alloc(id) => allocated.push((*id, self.scope.loops.len())),
            StmtKind::Barrier => {}
            StmtKind::Check(check) => {
                self.whole(&check.condition);
                self.exprs(&check.values);
                let before = self.scope.known.len();
                self.scope.suppose(&check.condition, true);
                if !inside.conditional {
                    let claims = self.scope.known[before..].to_vec();
                    self.scope.checked(&claims);
                }
            }
        }
    }

    /// Whether what is assumed of a condition is all that it says.
    fn is_comparison(&self, condition: &TExpr, holds: bool) -> bool {
        match condition {
            TExpr::Unary(UnOp::Not, operand) => self.is_comparison(operand, !holds),
            TExpr::Binary(op, operands) => match (op, holds) {
                (BinOp::And, true) | (BinOp::Or, false) => {
                    self.is_comparison(&operands.0, holds) && self.is_comparison(&operands.1, holds)
                }
                _ => self.scope.comparison(*op, operands).is_some(),
            },
            _ => false,
        }
    }

    fn enter(&mut self, item: &Loop, kind: &LoopKind) {
        self.whole(&item.start);
        self.whole(&item.stop);
        self.scope.enter(item, kind);
    }

    fn axis(&mut self, axis: &Axis, within: &mut Inside) {
        self.whole(&axis.extent);
        self.whole(&axis.value);
        let name = self.program.scalar(axis.var).name.clone();
        let (value, extent) =
            (self.scope.ranges.dim(&axis.value), self.scope.ranges.dim(&axis.extent));
        let mut outcome = Outcome::Unproved("its value is no index arithmetic".to_owned());
        if let (Some(value), Some(extent)) = (value, extent) {
            if self.asks {
                outcome = self.within(&value, &extent);
                outcome = self.refuted(outcome, ("tir/axis_range", &name));
            }
            if axis.kind == AxisKind::Spatial {
                within.spatial.push(value.clone());
            }
            // The program stops where it is not.
            self.scope.assume(Claim::new(0, Relation::AtMost, value.clone()));
            self.scope.assume(Claim::new(value, Relation::Less, extent));
        }
        self.found.push((format!("axis `{name}`"), "is within its extent".to_owned(), outcome));
        self.scope.ranges.bind(axis.var, &axis.value);
    }

    /// The values of reduction axes; one that is no index arithmetic stands for itself, of which nothing is known.
    fn reductions(&self, axes: &[Axis]) -> Vec<Dim> {
        let reduced = axes.iter().filter(|axis| axis.kind == AxisKind::Reduce);
        let unknown = || Dim::Var(Name::new("reduction axis"));
        reduced.map(|axis| self.scope.ranges.dim(&axis.value).unwrap_or_else(unknown)).collect()
    }

    fn within(&mut self, index: &Dim, extent: &Dim) -> Outcome {
        let low = Claim::new(0, Relation::AtMost, index.clone());
        let high = Claim::new(index.clone(), Relation::Less, extent.clone());
        for claim in [low, high] {
            let answer = self.scope.facts.decide(&claim);
            if answer != Answer::Proved {
                let values = if let Answer::Refuted(values) = answer { Some(values) } else { None };
                self.witness = values;
                return Outcome::Unproved(format!("`{claim}`"));
            }
        }
        Outcome::Proved
    }

    /// Refutes what is not proved where the interpreter stops at the counterexample with a trap that names this.
    fn refuted(&mut self, outcome: Outcome, (trap, name): (&str, &Name)) -> Outcome {
        let values = self.witness.take();
        match (outcome, values) {
            (Outcome::Unproved(why), Some(values)) if self.runs < refutation::MOST_RUNS => {
                self.runs += 1;
                if refutation::is_confirmed(self.program, &values, (self.span, trap, name)) {
                    Outcome::Refuted(refutation::told(self.program, &values))
                } else {
                    Outcome::Unproved(why)
                }
            }
            (outcome, _) => outcome,
        }
    }

    /// An index that is chosen is looked at in both cases.
    fn index_within(&mut self, index: &TExpr, extent: &Dim) -> Outcome {
        if let Some(index) = self.scope.dim(index) {
            return self.within(&index, extent);
        }
        let bound = match index {
            TExpr::Scalar(id) => self.lets.get(id).cloned(),
            _ => None,
        };
        let TExpr::Select(parts) = bound.as_ref().unwrap_or(index) else {
            return Outcome::Unproved("an index is no index arithmetic".to_owned());
        };
        for (holds, part) in [(true, &parts.1), (false, &parts.2)] {
            self.scope.push();
            self.scope.suppose(&parts.0, holds);
            let outcome = self.index_within(part, extent);
            self.scope.pop();
            if outcome != Outcome::Proved {
                return outcome;
            }
        }
        Outcome::Proved
    }

    fn access(&mut self, buffer: BufferId, indices: &[TExpr], how: &str) {
        self.accesses += 1;
        if !self.asks {
            return;
        }
        let shape = self.program.buffer(buffer).shape.clone();
        let mut outcome = Outcome::Proved;
        let name = self.program.buffer(buffer).name.clone();
        for (index, extent) in indices.iter().zip(&shape) {
            let found = self.index_within(index, extent);
            let found = self.refuted(found, ("tir/out_of_bounds", &name));
            let is_refuted = |outcome: &Outcome| matches!(outcome, Outcome::Refuted(_));
            if outcome == Outcome::Proved || (is_refuted(&found) && !is_refuted(&outcome)) {
                outcome = found;
            }
        }
        let place = format!("access {}, `{name}`", self.accesses);
        self.found.push((place, format!("is {how} in bounds"), outcome));
    }

    fn load(&mut self, buffer: BufferId, indices: &[TExpr]) {
        self.loads.push(Load {
            buffer,
            number: self.accesses,
            indices: indices.iter().map(|index| self.scope.ranges.dim(index)).collect(),
            loops: self.scope.loops.clone(),
            known: self.scope.known.clone(),
            branches: self.branches.clone(),
        });
    }

    fn store(
        &mut self,
        buffer: BufferId,
        indices: &[TExpr],
        updates: bool,
        inside: &Inside,
        allocated: &[(BufferId, usize)],
    ) {
        // Not what was loaded: that differs from iteration to iteration in ways that no claim tells.
        let indices = indices.iter().map(|index| self.scope.ranges.dim(index)).collect();
        let allocated = allocated.iter().rev().find(|(id, _)| *id == buffer);
        self.stores.push(Store {
            buffer,
            number: self.accesses,
            indices,
            updates,
            branches: self.branches.clone(),
            init: inside.init.clone(),
            loops: self.scope.loops.clone(),
            known: self.scope.known.clone(),
            allocated: allocated.map_or(0, |(_, loops)| *loops),
            spatial: inside.spatial.clone(),
        });
    }

    fn exprs(&mut self, exprs: &[TExpr]) {
        exprs.iter().for_each(|expr| self.whole(expr));
    }

    /// An expression of a statement: its accesses, and its index arithmetic in one obligation.
    fn whole(&mut self, expr: &TExpr) {
        let mut arithmetic = Arithmetic::default();
        self.expr(expr, &mut arithmetic);
        if arithmetic.asked {
            let outcome = arithmetic.open.map_or(Outcome::Proved, Outcome::Unproved);
            let place = format!("after access {}", self.accesses);
            self.found.push((place, "index arithmetic has a value in i64".to_owned(), outcome));
        }
    }

    fn expr(&mut self, expr: &TExpr, arithmetic: &mut Arithmetic) {
        match expr {
            TExpr::Int(_) | TExpr::Float(_) | TExpr::Bool(_) | TExpr::Dim(_) | TExpr::Scalar(_) => {
            }
            TExpr::Load { buffer, indices } => {
                indices.iter().for_each(|index| self.expr(index, arithmetic));
                self.access(*buffer, indices, "read");
                self.load(*buffer, indices);
            }
            TExpr::Unary(op, operand) => {
                self.expr(operand, arithmetic);
                if *op == UnOp::Negate {
                    self.stays(expr, arithmetic);
                }
            }
            TExpr::Binary(op, operands) => {
                self.expr(&operands.0, arithmetic);
                let lazy = matches!(op, BinOp::And | BinOp::Or);
                if lazy {
                    self.under(&operands.0, *op == BinOp::And, &operands.1, arithmetic);
                } else {
                    self.expr(&operands.1, arithmetic);
                    self.operation(*op, expr, operands, arithmetic);
                }
            }
            TExpr::Select(parts) => {
                self.expr(&parts.0, arithmetic);
                self.under(&parts.0, true, &parts.1, arithmetic);
                self.under(&parts.0, false, &parts.2, arithmetic);
            }
            TExpr::Cast(_, operand) => self.expr(operand, arithmetic),
            TExpr::Call(_, operands) => {
                operands.iter().for_each(|operand| self.expr(operand, arithmetic))
            }
        }
    }

    /// An expression that is evaluated where a condition holds, or does not.
    fn under(&mut self, condition: &TExpr, holds: bool, expr: &TExpr, arithmetic: &mut Arithmetic) {
        self.scope.push();
        self.scope.suppose(condition, holds);
        self.expr(expr, arithmetic);
        self.scope.pop();
    }

    fn operation(
        &mut self,
        op: BinOp,
        expr: &TExpr,
        operands: &(TExpr, TExpr),
        arithmetic: &mut Arithmetic,
    ) {
        match op {
            _ if !self.asks => {}
            BinOp::Add | BinOp::Sub | BinOp::Mul => self.stays(expr, arithmetic),
            BinOp::FloorDiv | BinOp::Mod if self.scope.ranges.is_index(expr) => {
                let divisor = self.scope.ranges.dim(&operands.1);
                let claim = divisor.map(|divisor| Claim::new(0, Relation::Less, divisor));
                let proved = claim.as_ref().is_some_and(|claim| self.scope.proves(claim));
                arithmetic.note(proved, || "a divisor may be 0 or less".to_owned());
            }
            _ => {}
        }
    }

    fn stays(&mut self, expr: &TExpr, arithmetic: &mut Arithmetic) {
        if !self.asks || !self.scope.ranges.is_index(expr) {
            return;
        }
        match self.scope.ranges.dim(expr) {
            Some(dim) if dim.as_int().is_some() => {}
            Some(dim) if !arithmetic.seen.insert(dim.clone()) => {}
            Some(dim) => {
                let stays = self.scope.stays_in_i64(&dim);
                arithmetic.note(stays, || format!("`{dim}` may leave i64"));
            }
            None => arithmetic.note(false, || "an index may leave i64".to_owned()),
        }
    }
}

/// What is asked of the index arithmetic of an expression.
#[derive(Default)]
struct Arithmetic {
    asked: bool,
    open: Option<String>,
    seen: BTreeSet<Dim>,
}

impl Arithmetic {
    fn note(&mut self, proved: bool, why: impl FnOnce() -> String) {
        self.asked = true;
        if !proved && self.open.is_none() {
            self.open = Some(why());
        }
    }
}
