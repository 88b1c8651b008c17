//! Calls of tensor programs that go through the same rows, and hand on to each other nothing but elements of the row, become
//! one call of a private function (stitching: BladeDISC §4.2): a norm written as means, differences and quotients then is
//! one program, through whose rows one loop can go.
//!
//! [`super::fuse_ops`] stops at what combines elements, as the paper does; this takes calls on both sides of it. Groups are
//! made the same way otherwise: from a call to the first that all ways from there lead through. Sums of products stay alone.

use super::fuse_ops::{Group, grouped, joined};
use crate::pass::{Exactness, Pass, PassContext};
use crate::tir_call::TirCall;
use relax_semantics::check::Phase;
use relax_syntax::Name;
use relax_syntax::diagnostic::Diagnostic;
use relax_syntax::dim::Dim;
use relax_syntax::ir::{Atom, Binding, Block, Definition, Module, TensorProgram, VarId};
use relax_tir::kernel_kind::Rows;
use std::collections::BTreeMap;

/// The record.
pub static PASS: Pass = Pass {
    name: "stitch_rows",
    doc: "Groups calls of tensor programs that go through the same rows, and hand on only elements of \
          their own row, into private functions marked primitive.",
    from: Phase::P0,
    to: Phase::P0,
    until: Phase::P1,
    exactness: Exactness::Exact,
    run,
};

/// Tensor programs that go row by row.
pub(super) type Programs<'m> = BTreeMap<&'m Name, (&'m TensorProgram, Rows)>;

// A pass has this signature whether it can refuse a program or not.
#[allow(clippy::unnecessary_wraps)]
fn run(module: &Module, context: &mut PassContext) -> Result<Module, Diagnostic> {
    let programs = module.definitions.iter().filter_map(|definition| match definition {
        Definition::Tensor(program) => Some((&program.name, (program, Rows::of(program)?))),
        Definition::Graph(_) => None,
    });
    let programs: Programs = programs.collect();
    Ok(grouped(module, context, "stitched", &|block, graph, never_stop| {
        let calls = calls(block, &programs);
        let by_rows = |at: usize| calls[at].is_some();
        joined(graph, never_stop, &[&by_rows], &|group| share_rows(&calls, group, None))
    }))
}

/// A call that goes row by row.
pub(super) struct Call<'b> {
    /// The dims of its result that count rows.
    pub(super) rows: &'b [Dim],
    /// For each binding of the block that it reads at how many first indices it stays at its own row.
    own: BTreeMap<usize, usize>,
}

/// For each binding the call that it is.
pub(super) fn calls<'b>(block: &'b Block, programs: &Programs) -> Vec<Option<Call<'b>>> {
    let mut places = BTreeMap::new();
    let calls = block.bindings.iter().enumerate().map(|(at, binding)| {
        let call = call(binding, programs, &places);
        places.insert(binding.var, at);
        call
    });
    calls.collect()
}

fn call<'b>(
    binding: &'b Binding,
    programs: &Programs,
    places: &BTreeMap<VarId, usize>,
) -> Option<Call<'b>> {
    let call = TirCall::of(&binding.expr)?;
    let (program, rows) = programs.get(call.program)?;
    let mut own = BTreeMap::new();
    for (arg, buffer) in call.args.iter().zip(program.buffer_params()) {
        let Atom::Var(var) = arg else { continue };
        let Some(&place) = places.get(var) else { continue };
        // What is not read at all is where it should be.
        let stays = rows.own.get(&buffer).copied().unwrap_or(usize::MAX);
        let least = own.entry(place).or_insert(stays);
        *least = stays.min(*least);
    }
    let dims = call.out.dims()?;
    Some(Call { rows: dims.get(..rows.loops)?, own })
}

/// Whether calls have some first dims alike, or as many as `wanted`, and read what others among them give at these dims of their
/// own only.
pub(super) fn share_rows(calls: &[Option<Call>], group: &Group, wanted: Option<usize>) -> bool {
    let Some(members) = group.iter().map(|&at| calls.get(at)?.as_ref()).collect::<Option<Vec<_>>>()
    else {
        return false;
    };
    let Some(first) = members.first() else { return false };
    let alike = |member: &&Call| {
        let pairs = member.rows.iter().zip(first.rows);
        pairs.take_while(|(a, b)| a == b).count()
    };
    let all = members.iter().map(alike).min().unwrap_or(0);
    let shared = wanted.unwrap_or(all);
    let inner = members.iter().flat_map(|member| &member.own);
    let mut inner = inner.filter(|(operand, _)| group.contains(operand));
    shared > 0 && shared <= all && inner.all(|(_, &own)| own >= shared)
}
