//! `relax versions`: which dims get which version of a function, and what each costs.

use super::own_rules;
use super::rewrite::{kind, options, prepared};
use crate::args::{Format, VersionsArgs};
use crate::exit::{Exit, Outcome};
use crate::terminal::Terminal;
use relax_rewrite::saturation::{Polynomial, Version, Versioned, Witness, version_module};
use relax_symbolic::Prover;
use relax_syntax::Name;
use serde_json::{Value, json};
use std::fmt::Write;

/// Steps of the solver for a question on guards, of which there are few.
const SOLVER_LIMIT: u32 = 2_000_000;

pub(super) fn versions(args: &VersionsArgs, terminal: &mut Terminal) -> Outcome {
    let (options, unproved) = options(&args.rules, terminal)?;
    let Some(checked) = prepared(&args.file, &args.model, terminal)? else {
        return Ok(Exit::Wrong);
    };
    let of_guards = &mut Prover::with_solver(SOLVER_LIMIT);
    let facts = &mut Prover::new();
    terminal.doing(format!("searching versions of {}", args.file.display()));
    let (_, report) = version_module(&checked, facts, Some(of_guards), &options, kind(&args.rules));
    let versioned = &report.versions;
    own_rules::warn_of_unproved(&unproved, terminal);
    let mut text = String::new();
    for function in checked.module.functions() {
        match versioned.iter().find(|versioned| versioned.function == function.name) {
            Some(versioned) => table(versioned, &mut text),
            None => _ = writeln!(text, "{}: one version for all dims", function.name),
        }
    }
    if terminal.format == Format::Json {
        for function in checked.module.functions() {
            let own = versioned.iter().find(|versioned| versioned.function == function.name);
            terminal.object(|| object(&function.name, own))?;
        }
        return Ok(Exit::Fine);
    }
    terminal.result(&text)?;
    Ok(Exit::Fine)
}

fn object(function: &Name, versioned: Option<&Versioned>) -> Value {
    let version = |version: &Version| {
        let cost = &version.cost;
        json!({
            "name": version.name.to_string(),
            "guard": version.comparisons(),
            "taken": taken(&version.witness),
            "operations": Polynomial::of(&cost.operations).to_string(),
            "bytes": Polynomial::of(&cost.bytes).to_string(),
            "launches": cost.launches.to_string(),
        })
    };
    let versions = versioned.map(|versioned| versioned.versions.iter().map(version).collect());
    let versions: Vec<Value> = versions.unwrap_or_default();
    json!({ "type": "versions", "function": function.as_str(), "versions": versions })
}

fn table(versioned: &Versioned, text: &mut String) {
    let _ = writeln!(text, "{}: {} versions", versioned.function, versioned.versions.len());
    for version in &versioned.versions {
        let _ = writeln!(text, "  {} {}", version.name, when(version));
        let _ = writeln!(text, "    {}", taken(&version.witness));
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
    format!("where {}", version.comparisons().join(" and "))
}

/// Dims that take a version.
fn taken(witness: &Witness) -> String {
    match witness {
        Witness::Unknown => "no dims are known that take it".to_owned(),
        Witness::Dims(dims) => {
            let values = dims.iter().map(|(name, value)| format!("{name} = {value}"));
            format!("such as {}", values.collect::<Vec<_>>().join(", "))
        }
    }
}
