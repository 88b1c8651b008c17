//! What the function of a group is called: by what it computes, such as `fused_matmul_bias_gelu`.

use super::{Known, Programs};
use relax_semantics::tir::walk::{visit, visit_statements};
use relax_syntax::Name;
use relax_syntax::ir::tensor::{StmtKind, TExpr};
use relax_tir::kernel_kind::KernelKind;
use std::iter::successors;

/// Parts of a name, at most.
const PARTS: usize = 5;

/// A name of calls of these programs, in their order, after `word`, as in the paper's listings of what FuseOps makes. Those that
/// only move elements are left out, and of many those that do not reduce.
pub(super) fn spoken(word: &str, calls: &[&str], programs: &Programs) -> String {
    let mut parts: Vec<Part> = Vec::new();
    for name in calls {
        let part = Part::of(name, programs, parts.last());
        if parts.last().is_none_or(|last| last.text != part.text) {
            parts.push(part);
        }
    }
    keep(&mut parts, |part| !part.moves);
    if parts.len() > PARTS {
        keep(&mut parts, |part| part.reduces);
    }
    parts.truncate(PARTS);
    let texts: Vec<&str> = parts.iter().map(|part| part.text).collect();
    format!("{word}_{}", texts.join("_"))
}

/// Leaves those that `wanted` says yes to, if there are any.
fn keep(parts: &mut Vec<Part>, wanted: impl Fn(&Part) -> bool) {
    if parts.iter().any(&wanted) {
        parts.retain(wanted);
        parts.dedup_by(|next, last| next.text == last.text);
    }
}

/// What one call gives to the name.
struct Part<'n> {
    text: &'n str,
    /// It only moves elements.
    moves: bool,
    /// It combines elements along an axis.
    reduces: bool,
}

impl<'n> Part<'n> {
    fn of(name: &'n str, programs: &Programs, last: Option<&Self>) -> Self {
        let text = plain(name);
        let Some(known) = programs.get(&Name::new(name)) else {
            return Self { text, moves: false, reduces: false };
        };
        let is_bias = text == "add" && last.is_some_and(|last| last.text == "matmul");
        let text = if is_bias && adds_vector(known) { "bias" } else { text };
        Self { text, moves: moves(known), reduces: known.analysis.kind > KernelKind::Injective }
    }
}

/// Without what other passes put before and behind the name of an operator.
fn plain(name: &str) -> &str {
    let name = successors(Some(name), |name| shorter(name)).last().unwrap_or(name);
    match name.rsplit_once('_') {
        Some((plain, number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => plain,
        _ => name,
    }
}

fn shorter(name: &str) -> Option<&str> {
    ["legal_", "fused_", "stitched_"].iter().find_map(|prefix| name.strip_prefix(prefix))
}

/// Whether one factor has one dim, and the result more.
fn adds_vector(known: &Known) -> bool {
    let program = known.program;
    let ranks = || program.buffer_params().map(|id| program.buffer(id).shape.len());
    ranks().any(|rank| rank == 1) && ranks().any(|rank| rank > 1)
}

/// Whether every element that is written is one that was read, and where from no element tells.
fn moves(known: &Known) -> bool {
    let mut only_loads = true;
    visit_statements(known.program.body.as_deref().unwrap_or(&[]), &mut |stmt| {
        if let StmtKind::Store { value, update, .. } = &stmt.kind {
            let mut loads = 0;
            visit(value, &mut |each| loads += usize::from(matches!(each, TExpr::Load { .. })));
            only_loads &= update.is_none() && loads == 1 && matches!(value, TExpr::Load { .. });
        }
    });
    only_loads
}
