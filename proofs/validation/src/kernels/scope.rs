//! What is known at a place of a tensor program: the ranges of the loops around it and the conditions that it is
//! under, as claims that can be said again of another iteration.

use super::limits::{LOWEST, Limits};
use super::values::Values;
use relax_semantics::tir::ranges::{Ranges, assume_declared};
use relax_syntax::Name;
use relax_syntax::dim::{Dim, DimOp};
use relax_syntax::facts::{Answer, Claim, Facts, Relation};
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::{BinOp, Loop, LoopKind, ScalarId, TExpr, UnOp};

/// A loop around a place.
#[derive(Clone, Debug)]
pub(super) struct Around {
    pub(super) var: ScalarId,
    /// What its variable is called in claims.
    pub(super) name: Name,
    pub(super) start: Option<Dim>,
    pub(super) stop: Option<Dim>,
    /// Whether its iterations may run at the same time.
    pub(super) concurrent: bool,
    /// How many claims were known outside of it.
    pub(super) known: usize,
}

/// A place.
pub(super) struct Scope<'f> {
    pub(super) facts: &'f mut dyn Facts,
    pub(super) ranges: Ranges,
    /// Outermost first.
    pub(super) loops: Vec<Around>,
    /// What holds here beside what is declared, in the order in which it came to hold.
    pub(super) known: Vec<Claim>,
    pub(super) limits: Limits,
    pub(super) values: Values,
    marks: Vec<(usize, usize)>,
}

impl<'f> Scope<'f> {
    pub(super) fn new(program: &TensorProgram, facts: &'f mut dyn Facts) -> Self {
        assume_declared(facts, &program.dims);
        let limits = Limits::of(program);
        let (ranges, loops, known, marks) = (Ranges::default(), Vec::new(), Vec::new(), Vec::new());
        let values = Values::of(program);
        Self { facts, ranges, loops, known, limits, values, marks }
    }

    pub(super) fn push(&mut self) {
        self.marks.push((self.loops.len(), self.known.len()));
        self.facts.push();
    }

    pub(super) fn pop(&mut self) {
        self.facts.pop();
        if let Some((loops, known)) = self.marks.pop() {
            self.loops.truncate(loops);
            self.known.truncate(known);
        }
    }

    pub(super) fn assume(&mut self, claim: Claim) {
        self.known.push(claim.clone());
        self.facts.assume(claim);
    }

    /// Enters a loop.
    pub(super) fn enter(&mut self, item: &Loop, kind: &LoopKind) {
        let known = self.known.len();
        // The ranges name the variable; what they assume is assumed again here, where it is kept.
        self.facts.push();
        self.ranges.enter(self.facts, item);
        self.facts.pop();
        let Some(name) = self.ranges.name(item.var) else { return };
        let (start, stop) = (self.ranges.dim(&item.start), self.ranges.dim(&item.stop));
        let var = || Dim::Var(name.clone());
        if let Some(start) = &start {
            self.assume(Claim::new(start.clone(), Relation::AtMost, var()));
        }
        if let Some(stop) = &stop {
            self.assume(Claim::new(var(), Relation::Less, stop.clone()));
        }
        let concurrent = matches!(
            kind,
            LoopKind::Parallel
                | LoopKind::Vectorized
                | LoopKind::Thread(_)
                | LoopKind::Shard { .. }
        );
        self.loops.push(Around { var: item.var, name, start, stop, concurrent, known });
    }

    /// An index: arithmetic on loop variables, symbolic variables and literals, or an integer that was loaded.
    pub(super) fn dim(&self, expr: &TExpr) -> Option<Dim> {
        self.values.name(expr).or_else(|| self.ranges.dim(expr))
    }

    /// Assumes a condition that holds, or one that does not, as far as it compares indices.
    pub(super) fn suppose(&mut self, condition: &TExpr, holds: bool) {
        match condition {
            TExpr::Unary(UnOp::Not, operand) => self.suppose(operand, !holds),
            TExpr::Binary(op, operands) => match (op, holds) {
                (BinOp::And, true) | (BinOp::Or, false) => {
                    self.suppose(&operands.0, holds);
                    self.suppose(&operands.1, holds);
                }
                _ => {
                    if let Some(claim) = self.comparison(*op, operands) {
                        self.assume(if holds { claim } else { claim.opposite() });
                    }
                }
            },
            _ => {}
        }
    }

    /// A comparison of indices.
    pub(super) fn comparison(&self, op: BinOp, operands: &(TExpr, TExpr)) -> Option<Claim> {
        let relation = match op {
            BinOp::Equal => Relation::Equal,
            BinOp::NotEqual => Relation::NotEqual,
            BinOp::Less | BinOp::Greater => Relation::Less,
            BinOp::LessEqual | BinOp::GreaterEqual => Relation::AtMost,
            _ => return None,
        };
        let (a, b) = (self.dim(&operands.0)?, self.dim(&operands.1)?);
        let turned = matches!(op, BinOp::Greater | BinOp::GreaterEqual);
        let (a, b) = if turned { (b, a) } else { (a, b) };
        Some(Claim::new(a, relation, b))
    }

    pub(super) fn proves(&mut self, claim: &Claim) -> bool {
        self.facts.decide(claim) == Answer::Proved
    }

    /// Whether index arithmetic stays in i64.
    pub(super) fn stays_in_i64(&mut self, dim: &Dim) -> bool {
        self.is_below_a_limit(dim) && self.is_above_a_limit(dim)
    }

    fn is_below_a_limit(&mut self, dim: &Dim) -> bool {
        let limits = self.limits.above(dim, &self.loops).into_iter();
        let mut claims = limits.map(|limit| Claim::new(dim.clone(), Relation::AtMost, limit));
        claims.any(|claim| self.proves(&claim))
    }

    fn is_above_a_limit(&mut self, dim: &Dim) -> bool {
        let low = Claim::new(LOWEST, Relation::AtMost, dim.clone());
        self.proves(&low) || {
            let opposite = Dim::op(DimOp::Sub, Dim::Int(0), dim.clone());
            self.is_below_a_limit(&opposite)
        }
    }
}
