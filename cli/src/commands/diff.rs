//! `relax diff`: the same functions on two routes, with random dims and inputs.
//!
//! A case draws dims for the variables of the signature, then data. Both routes must give the same
//! value or stop with the same trap. What was compared, and what could not be, is counted.

mod bindings;
mod equivalence;
mod gradients;
mod pairs;
mod report;
mod reproduction;
mod subject;

pub(super) use equivalence::equiv;

use super::unknown::unknown;
use crate::args::DiffArgs;
use crate::exit::{Exit, Failure, Outcome};
use crate::terminal::Terminal;
use pairs::pairs;
use relax_driver::differential::{self, Difference, Routes, Tally, common};
use relax_semantics::tensor::Tensor;
use relax_syntax::Name;
use relax_syntax::ir::Module;
use report::Shown;
use reproduction::Reproduction;
use serde_json::json;
use std::collections::BTreeMap;

pub(super) fn diff(args: &DiffArgs, terminal: &mut Terminal) -> Outcome {
    if args.grad {
        return gradients::gradients(args, terminal);
    }
    if let Some(path) = &args.save {
        reproduction::refuse_path(path)?;
    }
    let pairs = pairs(args, terminal)?;
    let mut tally = Tally::default();
    for (routes, names) in pairs {
        for name in names {
            let watch = &mut |cases| terminal.doing(format!("`{name}`: {cases} of {}", args.cases));
            if let Some(difference) = routes.function(&name, &mut tally, watch) {
                return different(args, &routes, &difference, terminal);
            }
        }
    }
    terminal.tell(&text(&tally), || object(&tally))?;
    Ok(if tally.compared == 0 { Exit::Vacuous } else { Exit::Fine })
}

fn different(
    args: &DiffArgs,
    routes: &Routes,
    difference: &Difference,
    terminal: &mut Terminal,
) -> Outcome {
    let again = Reproduction::of(args, routes, difference)?;
    terminal.doing("searching for the first binding that differs".to_owned());
    let origin = bindings::origin(args, routes, difference);
    let shown = Shown { left: &routes.left, difference, origin, again };
    terminal.tell(&shown.text(), || shown.object())?;
    Ok(Exit::Wrong)
}

/// The functions that both have.
fn functions(left: &Module, right: &Module, entry: Option<&str>) -> Result<Vec<Name>, Failure> {
    let both = common(left, right);
    let names: Vec<&str> = both.iter().map(Name::as_str).collect();
    match entry {
        Some(entry) if !names.contains(&entry) => Err(unknown("common function", entry, &names)),
        Some(entry) => Ok(vec![Name::new(entry)]),
        None if both.is_empty() => Err(Failure::usage("the programs have no function in common")),
        None => Ok(both),
    }
}

/// Constants of a file, and random ones where it has none.
fn all_externals(
    given: BTreeMap<Name, Tensor>,
    modules: &[&Module],
    seed: u64,
) -> Result<BTreeMap<Name, Tensor>, Failure> {
    differential::all_externals(given, modules, seed).map_err(Failure::missing)
}

fn object(tally: &Tally) -> serde_json::Value {
    json!({
        "type": "diff",
        "verdict": tally.verdict(),
        "compared": tally.compared,
        "as_reals": tally.as_reals,
        "ill_conditioned": tally.ill_conditioned,
        "trapped_alike": tally.trapped,
        "limits": tally.exhausted,
        "unsupported": tally.unsupported,
        "rejected": tally.rejected,
    })
}

fn text(tally: &Tally) -> String {
    format!("{}: {}\n", tally.verdict(), counts(tally))
}

/// What became of the cases.
fn counts(tally: &Tally) -> String {
    let as_reals = match tally.as_reals {
        0 => String::new(),
        count => format!(
            " ({count} of them beyond last digits, and in f64 within what rounding explains)"
        ),
    };
    let ill_conditioned = match tally.ill_conditioned {
        0 => String::new(),
        count => {
            format!("{count} ill-conditioned (rounding errors of the inputs change as much), ")
        }
    };
    format!(
        "{} compared{as_reals}, {ill_conditioned}{} trapped alike, {} gave up at a limit, {} unsupported, \
         {} rejected (no inputs for the signature)",
        tally.compared, tally.trapped, tally.exhausted, tally.unsupported, tally.rejected
    )
}
