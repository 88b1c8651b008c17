//! `docs/OPERATORS.md`: which operators there are of those planned, then the reference.

use super::GENERATED;
use relax_rewrite::adjoints::remaining as without_adjoint;
use relax_rewrite::passes::legalize_ops;
use relax_semantics::ops::{self, reference};
use std::fmt::Write;

/// A family of the plan: its name and its operators.
fn families(planned: &str) -> impl Iterator<Item = (&str, Vec<&str>)> {
    planned.lines().filter_map(|line| {
        let (family, names) = line.split_once(':')?;
        Some((family, names.split_whitespace().collect()))
    })
}

/// Planned operators that the table lacks.
#[must_use]
pub fn missing(planned: &str) -> Vec<String> {
    let names = families(planned).flat_map(|(_, names)| names);
    names.filter(|name| ops::lookup(name).is_none()).map(str::to_owned).collect()
}

pub(super) fn page(planned: &str) -> String {
    let reference = reference::markdown();
    let (title, reference) = reference.split_once('\n').unwrap_or_default();
    let mut text = format!("{title}\n\n{GENERATED}\n{}\n## Status\n\n", status_line(planned));
    text.push_str("| family | operators, each with its program in `corpus/suite/ops/` | missing |\n|---|---|---|\n");
    for (family, names) in families(planned) {
        let (there, missing): (Vec<&str>, Vec<&str>) =
            names.into_iter().partition(|name| ops::lookup(name).is_some());
        let linked: Vec<String> = there.into_iter().map(link).collect();
        let missing = if missing.is_empty() { "none".to_owned() } else { missing.join(" ") };
        let _ = writeln!(text, "| {family} | {} | {missing} |", linked.join(" "));
    }
    text + &legalize_ops::remaining_table() + &without_adjoint::table() + reference
}

fn status_line(planned: &str) -> String {
    let count = families(planned).map(|(_, names)| names.len()).sum::<usize>();
    let there = count - missing(planned).len();
    format!("Of {count} planned operators {there} are implemented.\n")
}

/// The name with a link to its corpus file.
fn link(name: &str) -> String {
    let file = ops::lookup(name).map_or(name, |row| row.short_name());
    format!("[{name}](../corpus/suite/ops/{file}.rx)")
}
