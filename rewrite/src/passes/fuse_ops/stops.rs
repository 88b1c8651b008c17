//! Which calls of tensor programs never stop the program: they may change places with calls that do.

use super::Programs;
use crate::tir_call::TirCall;
use crate::trap_free::TrapAnalysis;
use relax_semantics::check::Checked;
use relax_syntax::Name;
use relax_syntax::dim::Dim;
use relax_syntax::dim::evaluation::always_evaluates;
use relax_syntax::facts::Facts;
use relax_syntax::ir::{Atom, Binding, Function, VarId};
use relax_tir::analysis::traps::TrapFree;
use std::collections::{BTreeMap, BTreeSet};

pub(super) struct Stops<'m> {
    programs: &'m Programs<'m>,
    totals: BTreeMap<&'m Name, Option<TrapFree>>,
    checked: &'m Checked,
    maybe_uninit: BTreeMap<Name, BTreeSet<VarId>>,
}

impl<'m> Stops<'m> {
    pub(super) fn new(
        checked: &'m Checked,
        traps: &TrapAnalysis,
        programs: &'m Programs<'m>,
        facts: &mut dyn Facts,
    ) -> Self {
        let totals =
            programs.iter().map(|(&name, known)| (name, TrapFree::of(known.program, facts)));
        Self {
            programs,
            totals: totals.collect(),
            checked,
            maybe_uninit: traps.maybe_uninitialized().clone(),
        }
    }

    /// Whether a call never stops the program. `whole` are variables whose elements such calls before
    /// it have all written.
    pub(super) fn never(
        &self,
        function: &Function,
        binding: &Binding,
        whole: &mut BTreeSet<VarId>,
    ) -> bool {
        let Some(call) = TirCall::of(&binding.expr) else { return false };
        let Some(Some(totals)) = self.totals.get(call.program) else { return false };
        let maybe_uninit = &self.maybe_uninit[&function.name];
        let annotations = &self.checked.annotations[&function.name];
        let mut shapes: Vec<&[Dim]> = Vec::new();
        for arg in call.args {
            let Atom::Var(var) = arg else { return false };
            let tensor = annotations[var.0 as usize].as_tensor();
            let Some(dims) = tensor.and_then(|tensor| tensor.extents.dims()) else { return false };
            if tensor.is_none_or(|tensor| tensor.dtype.is_none())
                || (maybe_uninit.contains(var) && !whole.contains(var))
            {
                return false;
            }
            shapes.push(dims);
        }
        let mut evaluates = true;
        call.out.visit_dims(&mut |dim| evaluates &= always_evaluates(dim, &shapes));
        let buffers = self.programs[call.program].program.params.len();
        let never = evaluates
            && buffers == call.args.len() + 1
            && !self.checked.left_in(&function.name).vars.contains(&binding.var);
        if never && totals.writes_all {
            whole.insert(binding.var);
        }
        never
    }
}
