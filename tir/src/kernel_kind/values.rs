//! Def-use chains of scalars: the loop variables and loads that each is computed from.

use relax_semantics::tir::walk::visit;
use relax_syntax::ir::tensor::{BufferId, ScalarId, TExpr};
use std::collections::{BTreeMap, BTreeSet};

/// What an expression depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Sources {
    /// Variables of the enclosing loops.
    pub(super) loops: BTreeSet<ScalarId>,
    /// Buffers that it loads from.
    pub(super) buffers: BTreeSet<BufferId>,
}

impl Sources {
    fn add(&mut self, other: &Sources) {
        self.loops.extend(&other.loops);
        self.buffers.extend(&other.buffers);
    }
}

/// The scalars bound so far. Values are looked up, never put in the place of their names: what is
/// written `t = t0 + t0` again and again must not grow.
#[derive(Debug, Default)]
pub struct Scalars<'p> {
    sources: BTreeMap<ScalarId, Sources>,
    values: BTreeMap<ScalarId, &'p TExpr>,
}

impl<'p> Scalars<'p> {
    pub(super) fn bind_loop(&mut self, var: ScalarId) {
        let sources = Sources { loops: BTreeSet::from([var]), buffers: BTreeSet::new() };
        self.sources.insert(var, sources);
    }

    pub(super) fn bind(&mut self, var: ScalarId, value: &'p TExpr) {
        self.sources.insert(var, self.sources(value));
        self.values.insert(var, value);
    }

    /// Names and what they stand for, in the order of the text.
    pub fn bound(&self) -> impl Iterator<Item = (ScalarId, &'p TExpr)> + '_ {
        self.values.iter().map(|(&var, &value)| (var, value))
    }

    /// What an expression depends on.
    pub(super) fn sources(&self, expr: &TExpr) -> Sources {
        let mut found = Sources::default();
        visit(expr, &mut |part| match part {
            TExpr::Scalar(id) => {
                if let Some(sources) = self.sources.get(id) {
                    found.add(sources);
                }
            }
            TExpr::Load { buffer, .. } => {
                found.buffers.insert(*buffer);
            }
            _ => {}
        });
        found
    }

    /// The expression that a name stands for.
    pub(super) fn resolve<'e>(&self, expr: &'e TExpr) -> &'e TExpr
    where
        'p: 'e,
    {
        let mut expr = expr;
        while let TExpr::Scalar(id) = expr {
            let Some(&value) = self.values.get(id) else { break };
            expr = value;
        }
        expr
    }

    /// The scalar that is no name of another: a loop variable or a parameter.
    pub(super) fn lone(&self, expr: &TExpr) -> Option<ScalarId> {
        match self.resolve(expr) {
            TExpr::Scalar(id) => Some(*id),
            _ => None,
        }
    }

    /// Whether it is the literal 0.
    pub(super) fn is_zero(&self, expr: &TExpr) -> bool {
        *self.resolve(expr) == TExpr::Int(0)
    }
}
