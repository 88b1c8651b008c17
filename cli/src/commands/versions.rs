//! `relax versions`: which dims get which version of a function, and what each costs.

use super::rewrite::{kind, options, prepared};
use crate::args::VersionsArgs;
use crate::exit::{Exit, Outcome};
use crate::terminal::Terminal;
use relax_rewrite::saturation::{Polynomial, Version, Versioned, Witness, version_module};
use relax_symbolic::Prover;
use relax_syntax::facts::{Claim, Relation};
use std::fmt::Write;

/// Steps of the solver for a question on guards, of which there are few.
const SOLVER_LIMIT: u32 = 2_000_000;

pub(super) fn versions(args: &VersionsArgs, terminal: &mut Terminal) -> Outcome {
    let options = options(&args.rules)?;
    let Some(checked) = prepared(&args.file, &args.model, terminal)? else {
        return Ok(Exit::Wrong);
    };
    let of_guards = &mut Prover::with_solver(SOLVER_LIMIT);
    let facts = &mut Prover::new();
    let (_, versioned) =
        version_module(&checked, facts, Some(of_guards), &options, kind(&args.rules));
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
    let claims: Vec<String> = version.guard.iter().map(comparison).collect();
    format!("where {}", claims.join(" and "))
}

/// The claim as the program compares it.
fn comparison(claim: &Claim) -> String {
    match claim.relation {
        Relation::Divides => format!("{} % {} == 0", claim.right, claim.left),
        _ => claim.to_string(),
    }
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
