//! What a run holds: values are dropped after their last use, and what is held is counted.

use crate::stop::Stop;
use crate::value::Value;
use relax_syntax::ir::{Body, Expr, VarId};
use relax_syntax::resolve::{atom_uses, expr_uses};
use std::collections::{BTreeMap, BTreeSet};

/// For each binding of a body, in order, the variables of the body that nothing uses after it.
pub(super) fn last_uses(body: &Body) -> Vec<Vec<VarId>> {
    let bindings: Vec<_> = body.bindings().collect();
    let own: BTreeSet<VarId> = bindings.iter().map(|binding| binding.var).collect();
    let mut used = BTreeSet::new();
    atom_uses(&body.result, &mut used);
    let mut drops = vec![Vec::new(); bindings.len()];
    for (binding, drop) in bindings.iter().zip(&mut drops).rev() {
        let mut here = BTreeSet::from([binding.var]);
        expr_uses(&binding.expr, &mut here);
        for var in here {
            if used.insert(var) && own.contains(&var) {
                drop.push(var);
            }
        }
    }
    drops
}

/// Bytes of the tensors that calls made and variables still hold. Those in storages are counted with
/// their storage.
#[derive(Debug, Default)]
pub(super) struct Held {
    total: u64,
}

/// What the variables of one frame hold.
pub(super) type Shares = BTreeMap<VarId, u64>;

impl Held {
    /// Counts what a binding made. Only calls make something: other expressions name what is there.
    pub(super) fn add(&mut self, shares: &mut Shares, var: VarId, expr: &Expr, value: &Value) {
        if matches!(expr, Expr::Call { .. }) {
            let bytes = bytes(value);
            self.total = self.total.saturating_add(bytes);
            shares.insert(var, bytes);
        }
    }

    /// What variables and storages hold together is limited.
    pub(super) fn within(&self, storages: u64, limit: u64) -> Result<(), Stop> {
        if self.total.saturating_add(storages) > limit {
            let detail = format!("the tensors that are in use take more than {limit} bytes");
            return Err(Stop::Exhausted { resource: "memory", detail });
        }
        Ok(())
    }

    /// A variable is dropped.
    pub(super) fn remove(&mut self, shares: &mut Shares, var: VarId) {
        self.total = self.total.saturating_sub(shares.remove(&var).unwrap_or(0));
    }

    /// A call ends, and everything in its frame goes.
    pub(super) fn remove_all(&mut self, shares: &mut Shares) {
        let all: u64 = std::mem::take(shares).into_values().fold(0, u64::saturating_add);
        self.total = self.total.saturating_sub(all);
    }
}

fn bytes(value: &Value) -> u64 {
    match value {
        Value::Tensor(tensor) => (tensor.len() as u64).saturating_mul(tensor.dtype().size() as u64),
        Value::Tuple(items) => items.iter().map(bytes).fold(0, u64::saturating_add),
        _ => 0,
    }
}
