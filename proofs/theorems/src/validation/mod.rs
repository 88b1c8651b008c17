//! Translation validation: whether the functions of a module mean after a pass what they meant before it,
//! for all shapes and all elements.
//!
//! Nothing is believed of the pass: only the two modules are read. Both are run on names ([`evaluate`]), into one
//! table of values ([`values`]), in which the same call of the same operands is one entry: what a pass moved,
//! merged or left out is equal by that. Bindings that keep their name are compared as terms ([`prove`]), and
//! once proved equal are one entry, so that what follows is compared no deeper. What is not understood is not
//! proved.
//!
//! Work is counted and bounded ([`fuel`]): values are entries of one table, not trees, so that what grows are terms of
//! elements, dims, and questions on dims; when none is left the answer is that there is no proof.
//!
//! Not asked here is whether memory that is written to is apart from other memory: a tensor in memory is what
//! was written to it, and a parameter is a tensor that nobody else writes to meanwhile. What may stop the program is
//! compared as a set: which of two reasons comes first, and what was printed before it, is not. Of annotations of bindings those count whose dims, and those of the value, are known.

mod branches;
mod calls;
mod checks;
mod constants;
mod dims_of_terms;
mod evaluate;
mod functions;
mod heaps;
mod libraries;
mod meanings;
pub(crate) mod metered;
mod objects;
mod operators;
mod programs;
pub(crate) mod prove;
mod results;
mod same_bindings;
mod same_stops;
mod signatures;
mod stops;
mod trace;
mod uninitialized;
mod values;
mod writes;

use crate::denotation::composed::with_functions;
use crate::denotation::fuel;
use evaluate::Side;
pub use meanings::compare_meanings;
use metered::Metered;
use prove::Elements;
use relax_syntax::Name;
use relax_syntax::dim::Dim;
use relax_syntax::facts::{Answer, Claim, Facts, Relation};
use relax_syntax::ir::layouts::without_layouts;
use relax_syntax::ir::references::texts_from;
use relax_syntax::ir::tensor::BufferId;
use relax_syntax::ir::{Definition, Function, Module, TensorProgram};
use same_bindings::differs_in_blocks_alone;
use same_stops::same_stops;
use signatures::same_signature;
use std::collections::BTreeSet;
use stops::Stop;
use uninitialized::none_is_read;
use values::{Table, Value};

/// Steps that the comparison of one function may take: see [`fuel`].
pub const FUEL: u64 = 60_000;
/// And so many more for each variable of the two: what follows a long function is not guessed by fewer.
const FUEL_OF_VARIABLE: u64 = 4_000;

/// What is known of one function that stands in both modules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Its name.
    pub function: Name,
    /// Where in it: a variable, or nothing for the whole function.
    pub place: String,
    /// What was to be shown.
    pub what: String,
    /// How that ended.
    pub outcome: Outcome,
}

/// How an obligation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Shown for all shapes and elements.
    Proved,
    /// There is no proof, for this reason.
    Unproved(String),
    /// Shown to be wrong, by this.
    Refuted(String),
}

/// Which of some parameters a tensor program fills that hold nothing before; nothing where it may read an uninitialized element of these or of a
/// buffer of its own.
pub type Filled =
    fn(&TensorProgram, &BTreeSet<BufferId>, &mut dyn Facts) -> Option<BTreeSet<BufferId>>;

/// Compares the functions of two modules that are not private, each within so many steps. `prover` makes one that
/// knows nothing yet.
pub fn validate(
    before: &Module,
    after: &Module,
    steps: u64,
    prover: &mut dyn FnMut() -> Box<dyn Facts>,
    filled: Filled,
) -> Vec<Finding> {
    // Layouts say nothing of values.
    let [before, after] = [before, after].map(|module| without_layouts(module).0);
    let mut findings = Vec::new();
    for definition in &before.definitions {
        let name = definition.name();
        // Private functions and tensor programs count where they are called.
        let Definition::Graph(function) = definition else { continue };
        if is_private(function) {
            continue;
        }
        let outcome = validate_within(steps, (&before, &after), name, prover, filled);
        findings.push(Finding {
            function: name.clone(),
            place: String::new(),
            what: "the result, what stops it, and its effects are the same".to_owned(),
            outcome,
        });
    }
    findings
}

/// Compares a function of two modules, whether it is private or not.
pub fn validate_function(
    before: &Module,
    after: &Module,
    name: &Name,
    prover: &mut dyn FnMut() -> Box<dyn Facts>,
    filled: Filled,
) -> Outcome {
    let [before, after] = [before, after].map(|module| without_layouts(module).0);
    let variables = [&before, &after].into_iter().filter_map(|module| module.function(name));
    let variables: usize = variables.map(|function| function.vars.len()).sum();
    let steps = FUEL + FUEL_OF_VARIABLE * variables as u64;
    validate_within(steps, (&before, &after), name, prover, filled)
}

fn validate_within(
    steps: u64,
    (before, after): (&Module, &Module),
    name: &Name,
    prover: &mut dyn FnMut() -> Box<dyn Facts>,
    filled: Filled,
) -> Outcome {
    let (Some(function), Some(other)) = (before.function(name), after.function(name)) else {
        return Outcome::Unproved("it is gone".to_owned());
    };
    if differs_in_blocks_alone(before, after, name) {
        return Outcome::Proved;
    }
    let metered = &mut || Metered(prover());
    let mut compared = || {
        fuel::limited(steps, || with_recursive((before, function), (after, other), metered, filled))
    };
    let (mut outcome, mut spent) = compared();
    if outcome.is_err() && spent == steps {
        (outcome, spent) = with_functions(compared);
    }
    match outcome {
        Ok(()) => Outcome::Proved,
        Err(_) if spent == steps => Outcome::Unproved(fuel::SPENT.to_owned()),
        Err(why) => Outcome::Unproved(why),
    }
}

fn is_private(function: &Function) -> bool {
    use relax_syntax::ir::{AttrValue, attr};
    attr(&function.lambda.attrs, "private") == Some(&AttrValue::Bool(true))
}

/// Compares a function, and private ones that call themselves where they are called: of those the call by themselves
/// counts by name, for arguments of which nothing is known there.
fn with_recursive(
    (before, function): (&Module, &Function),
    (after, other): (&Module, &Function),
    prover: &mut dyn FnMut() -> Metered,
    filled: Filled,
) -> Result<(), String> {
    let mut seen: BTreeSet<Name> = [function.name.clone()].into();
    let mut work = compared((before, function), (after, other), prover, filled)?;
    while let Some(name) = work.pop_first() {
        if texts_from(before, &name) == texts_from(after, &name) || !seen.insert(name.clone()) {
            continue;
        }
        let (Some(one), Some(other)) = (before.function(&name), after.function(&name)) else {
            return Err(format!("`{name}` calls itself, and one module does not have it"));
        };
        work.append(&mut compared((before, one), (after, other), prover, filled)?);
    }
    Ok(())
}

/// Compares two functions; gives those that call themselves and were taken to be equal. Where an operand has dims that are not known
/// the second attempt names them, which helps where the other side checks that operand, and hinders where it knows the dims.
fn compared(
    before: (&Module, &Function),
    after: (&Module, &Function),
    prover: &mut dyn FnMut() -> Metered,
    filled: Filled,
) -> Result<BTreeSet<Name>, String> {
    let mut table = Table::default();
    let found = compared_in(&mut table, before, after, prover, filled);
    match found {
        Err(_) if table.has_unnamed => {
            let mut table = Table::with_named_dims();
            compared_in(&mut table, before, after, prover, filled).or(found)
        }
        _ => found,
    }
}

fn compared_in(
    table: &mut Table,
    (before, function): (&Module, &Function),
    (after, other): (&Module, &Function),
    prover: &mut dyn FnMut() -> Metered,
    filled: Filled,
) -> Result<BTreeSet<Name>, String> {
    let mut declared = prover();
    signature_facts(function, &mut declared);
    let by_objects = !same_signature(function, other, &mut declared);
    if by_objects && !objects::take_alike(function, other) {
        return Err("the signatures differ".to_owned());
    }
    let run = |side: &mut Side, function: &Function| match by_objects {
        true => side.run_on_objects(function),
        false => side.run(function),
    };
    let mut facts = prover();
    let mut first = Side::new(before, after, table, &mut facts, None, 0);
    let left = run(&mut first, function)?;
    let left = first.settled(left);
    let left = first.told(left);
    let (stops, effects, trace) = (first.stops, first.effects, first.trace);
    let mut recursive = first.recursive;
    let fresh = first.fresh + 1_000_000;
    // What the one checks, the other has to check as well: it does not know of it.
    let mut facts = prover();
    let mut second = Side::new(after, before, table, &mut facts, Some(&trace), fresh);
    let right = run(&mut second, other)?;
    let right = second.settled(right);
    let right = second.told(right);
    let named = second.named_dims();
    let (others, other_effects) = (second.stops, second.effects);
    recursive.append(&mut second.recursive);
    let mut fresh = second.fresh + 1_000_000;
    if effects != other_effects {
        return Err("the calls with an effect differ".to_owned());
    }
    // Values count where neither stops.
    stops.iter().filter_map(Stop::claim).for_each(|claim| facts.assume(claim.clone()));
    let mut elements = Elements::new(table, &mut facts, &mut fresh);
    same_value(&mut elements, &left, &right)?;
    none_is_read(table, [&stops, &others], prover, filled)?;
    let mut plain = prover();
    match by_objects {
        true => {
            named.into_iter().for_each(|dim| plain.assume(Claim::new(0, Relation::AtMost, dim)))
        }
        false => signature_facts(function, &mut plain),
    }
    same_stops(&mut elements, &mut plain, &stops, &others)?;
    Ok(recursive)
}

/// What is known of the dims of a signature.
fn signature_facts(function: &Function, facts: &mut dyn Facts) {
    for dim in function.dims.iter().filter(|dim| dim.in_signature) {
        let var = Dim::Var(dim.name.clone());
        facts.assume(Claim::new(dim.lower.unwrap_or(0), Relation::AtMost, var.clone()));
        if let Some(upper) = dim.upper {
            facts.assume(Claim::new(var.clone(), Relation::AtMost, upper));
        }
        if let Some(factor) = dim.multiple_of {
            facts.assume(Claim::new(factor, Relation::Divides, var));
        }
    }
}

fn same_value(elements: &mut Elements, a: &Value, b: &Value) -> Result<(), String> {
    match (a, b) {
        (Value::Entry(a), Value::Entry(b)) => elements.equal(*a, *b),
        (Value::Tuple(a), Value::Tuple(b)) if a.len() == b.len() => {
            a.iter().zip(b).try_for_each(|(a, b)| same_value(elements, a, b))
        }
        (Value::Shape(a), Value::Shape(b)) if a.len() == b.len() => {
            let equal = a.iter().zip(b).all(|(a, b)| elements.facts.equal(a, b) == Answer::Proved);
            if equal { Ok(()) } else { Err("the shapes are not known to be equal".to_owned()) }
        }
        (Value::Heap(_), _) => Err("a heap as a result".to_owned()),
        _ if a == b => Ok(()),
        _ => Err("results of different kinds, or different functions".to_owned()),
    }
}
