//! Operators that have no adjoint, and why.

use super::{Adjoint, adjoint};
use relax_semantics::ops::{self, Family, Operator};
use std::fmt::Write;

/// Why an operator has no adjoint; `None` for one that has.
#[must_use]
pub fn why_not(row: &Operator) -> Option<&'static str> {
    if adjoint(row).is_some() {
        return None;
    }
    let named = REASONS.iter().find(|(names, _)| names.contains(&row.name));
    let why = named.map(|(_, why)| *why).or_else(|| of_family(row.family));
    Some(why.unwrap_or("nobody has written its adjoint"))
}

/// Whether the result of an operator is no float, so that nothing is to be differentiated.
#[must_use]
pub fn is_discrete(row: &Operator) -> bool {
    why_not(row) == Some(DISCRETE)
}

/// Whether an operator has an adjoint, zero included.
#[must_use]
pub fn has_adjoint(row: &Operator) -> bool {
    adjoint(row).is_some()
}

/// Whether the adjoint of an operator is zero.
#[must_use]
pub fn is_zero(row: &Operator) -> bool {
    matches!(adjoint(row), Some(Adjoint::Zero))
}

/// The operators without an adjoint by reason, as a chapter of the reference.
#[must_use]
pub fn table() -> String {
    let zero: Vec<&str> = ops::all().filter(|row| is_zero(row)).map(Operator::short_name).collect();
    let own = ops::all().filter(|row| has_adjoint(row) && !is_zero(row)).count();
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for row in ops::all() {
        let Some(why) = why_not(row) else { continue };
        match reasons.iter_mut().find(|(reason, _)| *reason == why) {
            Some((_, names)) => names.push(row.short_name()),
            None => reasons.push((why, vec![row.short_name()])),
        }
    }
    let mut text = format!(
        "\n## Adjoints\n\nThe pass `gradient` has adjoints for {own} of these operators ([TRAINING.md](TRAINING.md)). The derivative of \
         {} more is 0 where it exists: {}. These have none:\n\n| why | operators |\n|---|---|\n",
        zero.len(),
        zero.join(" ")
    );
    for (why, names) in reasons {
        let _ = writeln!(text, "| {why} | {} |", names.join(" "));
    }
    text
}

const DISCRETE: &str = "its result is no float";

static REASONS: &[(&[&str], &str)] = &[
    (
        &[
            "bitwise_not",
            "isfinite",
            "isinf",
            "isnan",
            "logical_not",
            "bitwise_and",
            "bitwise_or",
            "bitwise_xor",
            "equal",
            "greater",
            "greater_equal",
            "left_shift",
            "less",
            "less_equal",
            "logical_and",
            "logical_or",
            "logical_xor",
            "not_equal",
            "right_shift",
            "argmax",
            "argmin",
            "argsort",
            "nonzero",
            "bucketize",
            "shape_of",
            "shape_to_tensor",
            "size",
            "tensor_to_shape",
            "quantize",
            "random_bits",
        ],
        DISCRETE,
    ),
    (&["unique"], "equal elements share one element of the result"),
    (&["empty"], "its elements are not written"),
    (&["print", "assert_op"], "it has an effect"),
    (&["call_tir", "call_tir_inplace"], "adjoints of tensor programs are not derived"),
    (
        &["call_dps_library"],
        "adjoints of library functions are not declared: run `expand_libraries` before",
    ),
    (&["call_packed", "call_pure_packed"], "what a foreign function computes is not known"),
    (
        &["make_closure", "invoke_closure", "invoke_pure_closure"],
        "calls of closures are not differentiated",
    ),
];

fn of_family(family: Family) -> Option<&'static str> {
    Some(match family {
        Family::Calls => "it calls another operator by name",
        Family::Memory => "memory is explicit only after P1, and gradients are made in P0",
        Family::Builtins => "it belongs to phase P2.3, and gradients are made in P0",
        Family::Distributed => "gradients over several workers are not made",
        _ => return None,
    })
}
