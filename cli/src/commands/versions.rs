//! `relax versions`: which dims get which version of a function, and what each costs.

use super::rewrite::{kind, options, prepared};
use crate::args::VersionsArgs;
use crate::exit::{Exit, Outcome};
use crate::terminal::Terminal;
use relax_rewrite::saturation::{Polynomial, Version, Versioned, version_module};
use relax_symbolic::Prover;
use std::fmt::Write;

pub(super) fn versions(args: &VersionsArgs, terminal: &mut Terminal) -> Outcome {
    let options = options(&args.rules)?;
    let Some(checked) = prepared(&args.file, terminal)? else { return Ok(Exit::Wrong) };
    let (_, versioned) = version_module(&checked, &mut Prover::new(), &options, kind(&args.rules));
    let mut text = String::new();
    for function in checked.module.functions() {
        match versioned.iter().find(|versioned| versioned.function == function.name) {
            Some(versioned) => table(versioned, &mut text),
            None => _ = writeln!(text, "{}: one version for all dims", function.name),
        }
    }
    terminal.result(&text)?;
    Ok(Exit::Fine)
}

fn table(versioned: &Versioned, text: &mut String) {
    let _ = writeln!(text, "{}: {} versions", versioned.function, versioned.versions.len());
    for version in &versioned.versions {
        let _ = writeln!(text, "  {} {}", version.name, when(version));
        let values: Vec<String> =
            version.witness.iter().map(|(name, value)| format!("{name} = {value}")).collect();
        let _ = writeln!(text, "    such as {}", values.join(", "));
        let cost = &version.cost;
        let _ = writeln!(text, "    operations: {}", Polynomial::of(&cost.operations));
        let _ = writeln!(text, "    bytes: {}", Polynomial::of(&cost.bytes));
        let _ = writeln!(text, "    launches: {}", cost.launches);
    }
}

fn when(version: &Version) -> String {
    if version.guard.is_empty() {
        return "otherwise".to_owned();
    }
    let claims: Vec<String> = version.guard.iter().map(ToString::to_string).collect();
    format!("where {}", claims.join(" and "))
}
