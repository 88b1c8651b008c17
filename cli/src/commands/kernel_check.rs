//! The kernel check for the user: a summary after `relax build`, and warnings of miscompiled kernels.

use crate::args::Format;
use crate::exit::Failure;
use crate::terminal::Terminal;
use relax_runtime::program::KernelCheck;
use serde_json::json;

/// Kernels that are listed with their reasons; `-v` lists all.
const LISTED: usize = 5;

/// Says how many kernels agree and which ones were not compared.
pub(super) fn summary(
    check: Option<&KernelCheck>,
    kernels: usize,
    terminal: &mut Terminal,
) -> Result<(), Failure> {
    if terminal.format == Format::Json {
        return terminal.result(&format!("{}\n", object(check)));
    }
    match check {
        Some(check) => terminal.note(&text(check, terminal.is_verbose())),
        None if kernels > 0 => terminal.note("kernel check: off"),
        None => {}
    }
    Ok(())
}

/// Results, with every kernel that was not compared.
pub(super) fn all(check: &KernelCheck) -> String {
    text(check, true)
}

fn text(check: &KernelCheck, is_verbose: bool) -> String {
    let KernelCheck { agree, unchecked, .. } = check;
    let most = if is_verbose { usize::MAX } else { LISTED };
    let mut listed: Vec<String> =
        unchecked.iter().take(most).map(|(name, reason)| format!("{name}: {reason}")).collect();
    if unchecked.len() > most {
        listed.push(format!("{} more", unchecked.len() - most));
    }
    let listed =
        if listed.is_empty() { String::new() } else { format!(" ({})", listed.join("; ")) };
    format!("kernel check: {agree} agree, {} unchecked{listed}", unchecked.len())
}

pub(super) fn object(check: Option<&KernelCheck>) -> serde_json::Value {
    let pairs = |pairs: &[(String, String)], what: &str| {
        let object = |(name, why): &(String, String)| json!({ "kernel": name, what: why });
        pairs.iter().map(object).collect::<Vec<_>>()
    };
    let Some(check) = check else { return json!({ "type": "kernel_check", "done": false }) };
    json!({
        "type": "kernel_check",
        "done": true,
        "agree": check.agree,
        "unchecked": pairs(&check.unchecked, "reason"),
        "miscompiled": pairs(&check.miscompiled, "difference"),
    })
}

/// Warns of kernels that the C compiler miscompiled.
pub(super) fn warn(check: Option<&KernelCheck>, terminal: &mut Terminal) {
    let miscompiled = check.map_or(&[][..], |check| &check.miscompiled);
    for (name, difference) in miscompiled {
        terminal.warn(&format!(
            "the C compiler miscompiles the tensor program `{name}`: {difference}; all kernels were compiled with fewer \
             optimizations, which may be slower, and none differs from the interpreter"
        ));
    }
}
