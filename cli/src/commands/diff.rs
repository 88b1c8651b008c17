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
mod routes;
mod subject;

pub(super) use equivalence::equiv;

use super::unknown::unknown;
use crate::args::DiffArgs;
use crate::exit::{Exit, Failure, Outcome};
use crate::terminal::Terminal;
use pairs::pairs;
use relax_program::compare::Relation;
use relax_program::externals::externals;
use relax_program::reals::widened;
use relax_program::rounding::{Precision, Rounding};
use relax_program::signature::{Dims, random_value};
use relax_rewrite::pass::Device;
use relax_runtime as machine;
use relax_runtime::program::{Metadata, Numerics};
use relax_semantics::random::Random;
use relax_semantics::tensor::Tensor;
use relax_semantics::value::Value;
use relax_syntax::Name;
use relax_syntax::ir::{Function, Module};
use report::Shown;
use reproduction::Reproduction;
use routes::{Difference, Other, Routes};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes of one random tensor.
const MAX_BYTES: u64 = 64 << 20;
/// Random integers.
const INTS: std::ops::RangeInclusive<i64> = -4..=4;
/// Steps of one run: a random loop must end.
const MAX_STEPS: u64 = 200_000_000;

/// What became of the cases.
#[derive(Default)]
struct Tally {
    compared: u32,
    /// Of these, those that differ in more than last digits and are the same real numbers.
    as_reals: u32,
    ill_conditioned: u32,
    trapped: u32,
    exhausted: u32,
    rejected: u32,
    unsupported: u32,
}

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
    terminal.tell(&tally.text(), || tally.object())?;
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

/// Another text.
fn of_text(left: &Module, module: Module, relation: Relation) -> Other {
    let is_close = relation == Relation::Close;
    let wide = is_close.then(|| widened(left).zip(widened(&module))).flatten();
    Other::Text { module, relation, wide, externals: None }
}

/// A program as it was compiled.
fn of_module(
    program: &Module,
    module: machine::Module,
    (backend, sums): (Device, Numerics),
    perturbed: Arc<BTreeMap<Name, Tensor>>,
) -> Other {
    let rounding = match (backend, sums) {
        (Device::Wgpu | Device::Cuda, Numerics::Exact) => {
            Rounding::Functions(Precision::of(program))
        }
        (Device::Wgpu | Device::Cuda, Numerics::Reassociated) => {
            Rounding::Sums(Precision::of(program))
        }
        (Device::Cpu | Device::Interp, _) => rounding(program, module.metadata()),
    };
    Other::Compiled { module: Box::new(module), rounding, perturbed }
}

/// What a module for the processor may round.
fn rounding(program: &Module, metadata: &Metadata) -> Rounding {
    match (metadata.numerics, metadata.rounded) {
        (Numerics::Reassociated, _) => Rounding::Sums(Precision::of(program)),
        (Numerics::Exact, 0) => Rounding::Nothing,
        (Numerics::Exact, _) => Rounding::Functions(Precision::of(program)),
    }
}

/// The functions that both have.
fn functions(left: &Module, right: &Module, entry: Option<&str>) -> Result<Vec<Name>, Failure> {
    let has_body = |function: &&Function| function.lambda.body.is_some();
    let both: Vec<Name> = left
        .functions()
        .filter(has_body)
        .filter(|function| right.function(&function.name).is_some())
        .map(|function| function.name.clone())
        .collect();
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
    let wanted = modules.iter().flat_map(|module| externals(module));
    let wanted: Vec<_> = wanted.filter(|(name, _)| !given.contains_key(name)).collect();
    let mut values = given;
    for (name, annotations) in wanted {
        for annotation in annotations {
            let mut random = Random::new(seed, &name);
            match random_value(&annotation, &Dims::new(), &mut random, &INTS, MAX_BYTES) {
                Ok(Value::Tensor(tensor)) => values.insert(name.clone(), tensor),
                Ok(_) => None,
                Err(why) => return Err(Failure::missing(format!("`{name}`: {why}"))),
            };
        }
    }
    Ok(values)
}

impl Tally {
    fn verdict(&self) -> &'static str {
        if self.compared == 0 { "nothing compared" } else { "the same" }
    }

    fn object(&self) -> serde_json::Value {
        json!({
            "type": "diff",
            "verdict": self.verdict(),
            "compared": self.compared,
            "as_reals": self.as_reals,
            "ill_conditioned": self.ill_conditioned,
            "trapped_alike": self.trapped,
            "limits": self.exhausted,
            "unsupported": self.unsupported,
            "rejected": self.rejected,
        })
    }

    fn text(&self) -> String {
        format!("{}: {}\n", self.verdict(), self.counts())
    }

    /// What became of the cases.
    fn counts(&self) -> String {
        let as_reals = match self.as_reals {
            0 => String::new(),
            count => format!(
                " ({count} of them beyond last digits, and in f64 within what rounding explains)"
            ),
        };
        let ill_conditioned = match self.ill_conditioned {
            0 => String::new(),
            count => {
                format!("{count} ill-conditioned (rounding errors of the inputs change as much), ")
            }
        };
        format!(
            "{} compared{as_reals}, {ill_conditioned}{} trapped alike, {} gave up at a limit, {} unsupported, \
             {} rejected (no inputs for the signature)",
            self.compared, self.trapped, self.exhausted, self.unsupported, self.rejected
        )
    }
}
