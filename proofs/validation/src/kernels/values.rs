//! Integers that a program loads and binds to a name. What a `check` in one loop says of the elements of a buffer
//! that nothing writes is known of them in later loops.

use super::covers::witness;
use super::scope::{Around, Scope};
use relax_semantics::tir::walk::stored;
use relax_syntax::Name;
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::facts::{Claim, Relation};
use relax_syntax::ir::TensorProgram;
use relax_syntax::ir::tensor::{BufferId, ScalarId, TExpr};
use std::collections::{BTreeMap, BTreeSet};

/// How the names of loaded integers begin in claims.
const VALUE: &str = "value ";

/// Loaded integers with a name, and what is known of elements.
#[derive(Default)]
pub(super) struct Values {
    /// Buffers that nothing writes.
    constant: BTreeSet<BufferId>,
    names: BTreeMap<ScalarId, Name>,
    loads: BTreeMap<Name, (BufferId, Vec<Dim>)>,
    checked: Vec<Checked>,
}

/// For all iterations of the loops, the claims hold of the element there.
struct Checked {
    buffer: BufferId,
    indices: Vec<Dim>,
    value: Name,
    claims: Vec<Claim>,
    loops: Vec<Around>,
}

impl Values {
    pub(super) fn of(program: &TensorProgram) -> Self {
        let written = program.body.as_deref().map(stored).unwrap_or_default();
        let all = (0..program.buffers.len()).filter_map(|at| u32::try_from(at).ok()).map(BufferId);
        Self { constant: all.filter(|id| !written.contains(id)).collect(), ..Self::default() }
    }

    /// What claims call a scalar that was loaded.
    pub(super) fn name(&self, expr: &TExpr) -> Option<Dim> {
        match expr {
            TExpr::Scalar(id) => self.names.get(id).cloned().map(Dim::Var),
            TExpr::Cast(DType::I64, operand) => self.name(operand),
            _ => None,
        }
    }
}

impl Scope<'_> {
    /// `t = X[i, j]`, of integers whose dtype i64 holds.
    pub(super) fn load(&mut self, program: &TensorProgram, var: ScalarId, value: &TExpr) {
        let value = match value {
            TExpr::Cast(DType::I64, operand) => operand,
            other => other,
        };
        let TExpr::Load { buffer, indices } = value else { return };
        let dtype = program.buffer(*buffer).dtype;
        let is_held = matches!(
            dtype,
            DType::I8 | DType::I16 | DType::I32 | DType::I64 | DType::U8 | DType::U16 | DType::U32
        );
        let indices: Option<Vec<Dim>> = indices.iter().map(|index| self.dim(index)).collect();
        let Some(indices) = indices.filter(|_| is_held) else { return };
        let name = Name::new(format!("{VALUE}{}", var.0));
        self.values.names.insert(var, name.clone());
        if self.values.constant.contains(buffer) {
            let known: Vec<Claim> = self.known_of(*buffer, &indices, &name);
            known.into_iter().for_each(|claim| self.assume(claim));
            self.values.loads.insert(name, (*buffer, indices));
        }
    }

    /// What was checked of an element in loops that have ended.
    fn known_of(&mut self, buffer: BufferId, indices: &[Dim], name: &Name) -> Vec<Claim> {
        let checked = std::mem::take(&mut self.values.checked);
        let mut known = Vec::new();
        for each in checked.iter().filter(|each| each.buffer == buffer) {
            let ended = each.loops.iter().all(|of| self.loops.iter().all(|now| now.var != of.var));
            let Some(mut at) = witness(&each.loops, &each.indices, indices) else { continue };
            if !ended || !self.proves_all(&each.required(&at, indices)) {
                continue;
            }
            at.insert(each.value.clone(), Dim::Var(name.clone()));
            known.extend(each.claims.iter().map(|claim| claim.substitute(&at)));
        }
        self.values.checked = checked;
        known
    }

    /// A check that every iteration of the loops around it comes to has these claims.
    pub(super) fn checked(&mut self, claims: &[Claim]) {
        let all_ranges = self.loops.iter().all(|of| of.start.is_some() && of.stop.is_some());
        for (value, (buffer, indices)) in &self.values.loads {
            let about = claims.iter().filter(|claim| claim.vars().contains(value));
            let claims: Vec<Claim> = about.cloned().collect();
            if all_ranges && !claims.is_empty() {
                let (buffer, indices, value) = (*buffer, indices.clone(), value.clone());
                let loops = self.loops.clone();
                self.values.checked.push(Checked { buffer, indices, value, claims, loops });
            }
        }
    }

    fn proves_all(&mut self, claims: &[Claim]) -> bool {
        claims.iter().all(|claim| self.proves(claim))
    }
}

impl Checked {
    /// What makes the element of an iteration the one at these indices.
    fn required(&self, at: &BTreeMap<Name, Dim>, indices: &[Dim]) -> Vec<Claim> {
        let mut claims = Vec::new();
        for around in &self.loops {
            let var = || Dim::Var(around.name.clone());
            let start =
                around.start.iter().map(|start| Claim::new(start.clone(), Relation::AtMost, var()));
            let stop =
                around.stop.iter().map(|stop| Claim::new(var(), Relation::Less, stop.clone()));
            claims.extend(start.chain(stop).map(|claim| claim.substitute(at)));
        }
        let equal = self.indices.iter().zip(indices);
        claims
            .extend(equal.map(|(own, other)| {
                Claim::new(own.substitute(at), Relation::Equal, other.clone())
            }));
        claims
    }
}

/// Whether a claim is about integers that were loaded: in another iteration they are others.
pub(super) fn is_of_values(claim: &Claim) -> bool {
    claim.vars().iter().any(|name| name.starts_with(VALUE))
}
