//! Operators that have no tensor program, and why.

use crate::passes::erase_sharding::is_erased;
use relax_semantics::ops::{self, Operator, Programs};
use std::fmt::Write;

/// Why an operator stays; `None` for one of which some calls have a tensor program or another pass takes them.
#[must_use]
pub fn why_it_stays(row: &Operator) -> Option<&'static str> {
    match row.program {
        Programs::None(why) if !is_erased(row) => Some(why),
        _ => None,
    }
}

/// The operators that stay, by reason, as a chapter of the reference.
#[must_use]
pub fn remaining_table() -> String {
    let count = ops::all().filter(|row| row.program.are_some()).count();
    let mut text = format!(
        "\n## Tensor programs\n\nThe pass `legalize_ops` has tensor programs for {count} of these \
         operators; a call keeps its operator where a constraint is left to run time, where dims or \
         dtypes are not known, and in the cases that its builder in `semantics/src/ops/programs/` does not \
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
