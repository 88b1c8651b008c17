//! Operators that have no tensor program, and why.

use crate::passes::erase_sharding::is_erased;
use relax_semantics::ops::{self, Family, Operator};
use std::fmt::Write;

/// Why an operator stays; `None` for one that has a tensor program for some calls.
#[must_use]
pub fn why_it_stays(row: &Operator) -> Option<&'static str> {
    if super::has_kernels(row) || SHAPES.contains(&row.name) || is_erased(row) {
        return None;
    }
    let named = STAYS.iter().find(|(names, _)| names.contains(&row.name));
    let why = named.map(|(_, why)| *why).or_else(|| of_family(row.family));
    Some(why.unwrap_or("nobody has written its program"))
}

/// Operators that give a shape: an instruction reads it from a tensor, or the text spells its dims.
const SHAPES: &[&str] = &["shape_of", "tensor_to_shape"];

/// The operators that stay, by reason, as a chapter of the reference.
#[must_use]
pub fn table() -> String {
    let count = ops::all().filter(|row| super::has_kernels(row)).count();
    let mut text = format!(
        "\n## Tensor programs\n\nThe pass `legalize_ops` has tensor programs for {count} of these \
         operators; a call keeps its operator where a constraint is left to run time, where dims or \
         dtypes are not known, and in the cases that its builder in `rewrite/src/kernels/` does not \
         take. These stay always:\n\n| why | operators |\n|---|---|\n"
    );
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for row in ops::all() {
        let Some(why) = why_it_stays(row) else { continue };
        match reasons.iter_mut().find(|(reason, _)| *reason == why) {
            Some((_, names)) => names.push(row.short_name()),
            None => reasons.push((why, vec![row.short_name()])),
        }
    }
    for (why, names) in reasons {
        let _ = writeln!(text, "| {why} | {} |", names.join(" "));
    }
    text
}

static STAYS: &[(&[&str], &str)] = &[
    (&["empty"], "it computes nothing: its elements are not written"),
    (&["print", "assert_op"], "it has an effect"),
    (
        &[
            "spmd.all_gather",
            "spmd.all_reduce",
            "spmd.all_to_all",
            "spmd.own_shard",
            "spmd.reduce_scatter",
        ],
        "the interpreter alone runs all ranks of a mesh",
    ),
];

fn of_family(family: Family) -> Option<&'static str> {
    Some(match family {
        Family::Calls => "it calls something",
        Family::Memory => "it is about memory, no computation",
        Family::Builtins => "a virtual machine does it, no computation on tensors",
        _ => return None,
    })
}
