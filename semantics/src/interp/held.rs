//! What a run holds: values are dropped after their last use, and what is held is counted.

use crate::stop::Stop;
use crate::value::Value;
use relax_syntax::ir::{Body, Expr, VarId};
use relax_syntax::resolve::{visit_atom_uses, visit_expr_uses};
use std::collections::BTreeMap;

/// For each binding of a body, in order, the variables of the body that nothing uses after it. The function
/// that it stands in has so many variables.
pub(super) fn last_uses(body: &Body, vars: usize) -> Vec<Vec<VarId>> {
    let (mut own, mut used) = (vec![false; vars], vec![false; vars]);
    body.bindings().for_each(|binding| own[binding.var.0 as usize] = true);
    visit_atom_uses(&body.result, &mut |var| used[var.0 as usize] = true);
    let mut drops: Vec<Vec<VarId>> = Vec::new();
    for binding in body.blocks.iter().rev().flat_map(|block| block.bindings.iter().rev()) {
        let mut drop = Vec::new();
        let mut note = |var: VarId| {
            let index = var.0 as usize;
            if !std::mem::replace(&mut used[index], true) && own[index] {
                drop.push(var);
            }
        };
        note(binding.var);
        visit_expr_uses(&binding.expr, &mut note);
        drops.push(drop);
    }
    drops.reverse();
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
