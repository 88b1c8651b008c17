//! Pipeline stages: branches that the worker with one coordinate along an axis of the mesh takes alone. In a stage that worker has whole
//! what it alone has; the other branch gives tensors without rows.

use super::branches::Given;
use super::{Comparison, Held, Layout, Shown};
use relax_semantics::ops::{OfDims, lookup, of_dims};
use relax_syntax::annotation::{Annotation, Placement};
use relax_syntax::dim::Dim;
use relax_syntax::facts::{Claim, Relation};
use relax_syntax::ir::{Atom, Binding, Body, Callee, Expr, VarId};
use relax_theorems::placement::calls::{tensor, tensors};

/// Axes of the mesh, each with the worker along it.
pub(super) type Workers = Vec<(usize, usize)>;

impl Comparison<'_> {
    /// What a variable is. In a stage its worker has whole what it alone has.
    pub(super) fn held(&self, var: VarId) -> Vec<Held> {
        let all = self.held.get(&var).cloned().unwrap_or_default();
        let within = |(value, mut layout): Held| {
            for &(axis, worker) in &self.stage {
                if layout[axis] == Placement::Only(worker) {
                    layout[axis] = Placement::Replicated;
                }
            }
            (value, layout)
        };
        all.into_iter().map(within).collect()
    }

    /// The scalar that a binding computes of dims, if it is one.
    pub(super) fn of_dims(&self, binding: &Binding) -> Option<OfDims> {
        let Expr::Call { callee: Callee::Operator(name), args, attrs } = &binding.expr else {
            return None;
        };
        let known = |atom: &Atom| match atom {
            Atom::Var(var) => self.scalars.get(var).cloned(),
            _ => None,
        };
        of_dims(lookup(name)?, args, attrs, &known)
    }

    /// The stage that a condition asks for: workers along axes that no stage around it is about.
    pub(super) fn stage_of(&self, condition: VarId) -> Option<Workers> {
        let Some(OfDims::Holds(claims)) = self.scalars.get(&condition) else { return None };
        let mut found = Workers::new();
        for claim in claims {
            let axis = self.world.axis_of(&claim.left)?;
            let worker = usize::try_from(claim.right.as_int()?).ok()?;
            let is_new = found.iter().chain(&self.stage).all(|(own, _)| *own != axis);
            if claim.relation != Relation::Equal || !is_new {
                return None;
            }
            found.push((axis, worker));
        }
        Some(found)
    }

    /// What an `if` is that the workers of a stage take.
    ///
    /// # Errors
    /// Why that is not known.
    pub(super) fn staged(
        &mut self,
        (var, stage): (VarId, &Workers),
        [then, otherwise]: [&Body; 2],
        shown: &mut Vec<Shown>,
    ) -> Result<(), String> {
        let around = self.stage.clone();
        self.facts.push();
        for &(axis, worker) in stage {
            let (rank, worker) = (self.world.rank(axis), i64::try_from(worker).unwrap_or(i64::MAX));
            self.facts.assume(Claim::new(rank, Relation::Equal, Dim::Int(worker)));
        }
        self.stage.extend(stage);
        let Given { fields: given, is_tuple } = self.branch(then, None, shown);
        self.stage = around;
        self.facts.pop();
        for binding in otherwise.bindings() {
            let is = match self.never_stops(binding) {
                true => Ok(()),
                false => Err("a rank may stop where another one has a value".to_owned()),
            };
            let place = format!("`{}`", self.ranks.name_of(binding.var));
            shown.push(Shown::of(place, "a rank without a value does not stop", is));
        }
        let own = self.ranks.annotation(var).and_then(tensors);
        let own = own.ok_or("dims or dtypes of what it gives are not known")?;
        if own.len() != given.len() {
            return Err("its branches give other results".to_owned());
        }
        let mut fields = Vec::new();
        for (held, own) in given.into_iter().zip(&own) {
            let mut found = Vec::new();
            for (value, layout) in held {
                let Some(layout) = only(layout, stage) else { continue };
                let Some(whole) = self.one.tensor(value) else { continue };
                // On other workers these dims have no rows, so nothing is to be shown of elements.
                if self.world.is_legal(&layout) && self.is_shard(&whole, own, &layout) {
                    found.push((value, layout));
                }
            }
            if found.is_empty() {
                return Err("what a stage gives is not known to be on its worker alone".to_owned());
            }
            fields.push(found);
        }
        self.gives(var, fields, is_tuple);
        Ok(())
    }

    /// A binding of scalars of dims: those of a stage are asked for by its condition.
    pub(super) fn is_of_dims(&mut self, binding: &Binding) -> bool {
        self.scalars.contains_key(&binding.var) && self.never_stops(binding)
    }

    /// Whether a cast says of a tensor what is so.
    pub(super) fn is_so(&mut self, of: VarId, wanted: &Annotation) -> bool {
        let (Some((own, dtype)), Some((dims, other))) = (self.ranks.tensor(of), tensor(wanted))
        else {
            return false;
        };
        dtype == other
            && own.len() == dims.len()
            && own.iter().zip(&dims).all(|(own, wanted)| self.is_equal(own, wanted))
    }
}

/// The layout outside of a stage of what its workers have in it.
fn only(mut layout: Layout, stage: &Workers) -> Option<Layout> {
    for &(axis, worker) in stage {
        if layout[axis] != Placement::Replicated {
            return None;
        }
        layout[axis] = Placement::Only(worker);
    }
    Some(layout)
}
