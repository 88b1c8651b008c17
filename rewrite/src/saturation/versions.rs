//! Versions of a function behind guards, where the cheapest form depends on dims.
//!
//! Forms are chosen at samples; every form is right for all dims, so a choice can only be slow. A version is a
//! private function with the signature of the one that it is of; that one compares dims and calls one of them, the
//! last unconditionally. Each guard has a witness: dims that satisfy what is declared and the guard and none of the
//! guards before it, found by evaluation.

use super::cost::Cost;
use super::emit_guards::guarded_body;
use super::extract::Values;
use super::guards::{Guard, holds, learn};
use super::samples;
use super::walk::{Engine, Extraction};
use super::{Options, RuleKind};
use relax_semantics::check::Checked;
use relax_syntax::Name;
use relax_syntax::facts::Facts;
use relax_syntax::ir::{AttrValue, Definition, Function, Module, attr};
use std::collections::BTreeMap;

/// The most versions of a function.
const MOST_VERSIONS: usize = 4;

/// A function that has several versions.
#[derive(Clone, Debug)]
pub struct Versioned {
    /// Which.
    pub function: Name,
    /// In the order in which they are tried.
    pub versions: Vec<Version>,
}

/// One of them.
#[derive(Clone, Debug)]
pub struct Version {
    /// The function that it is.
    pub name: Name,
    /// When it is called, if no guard before it holds; empty: whenever that is so.
    pub guard: Guard,
    /// Dims at which it is called.
    pub witness: BTreeMap<Name, i64>,
    /// What its regions cost.
    pub cost: Cost,
}

/// Gives functions versions where that is worth it; other functions stay as they are.
pub fn version_module(
    checked: &Checked,
    facts: &mut dyn Facts,
    options: &Options,
    kind: RuleKind,
) -> (Module, Vec<Versioned>) {
    let module = &checked.module;
    let mut engine = Engine::new(checked, facts, options, kind, Extraction::Sample(0));
    let (mut definitions, mut all) = (Vec::new(), Vec::new());
    for definition in &module.definitions {
        match definition {
            Definition::Graph(function) if function.lambda.body.is_some() => {
                match engine.versions(function) {
                    Some((made, versioned)) => {
                        definitions.extend(made.into_iter().map(Definition::Graph));
                        all.push(versioned);
                    }
                    None => definitions.push(definition.clone()),
                }
            }
            other => definitions.push(other.clone()),
        }
    }
    (Module { attrs: module.attrs.clone(), definitions }, all)
}

impl Engine<'_> {
    /// The function that chooses, then its versions.
    fn versions(&mut self, function: &Function) -> Option<(Vec<Function>, Versioned)> {
        let primitive = attr(&function.lambda.attrs, "primitive").is_some();
        if primitive || !function.dims.iter().any(|dim| dim.in_signature) {
            return None;
        }
        let samples: Vec<Values> = samples::apart(&function.dims)
            .into_iter()
            .filter(|values| fits(function, values))
            .collect();
        if samples.is_empty() {
            return None;
        }
        self.take(Extraction::Sample(0), samples.clone());
        self.function(function);
        let visited = self.visited().to_vec();
        let mut forms: Vec<(usize, Vec<usize>, Cost)> = Vec::new();
        for at in 0..samples.len() {
            let picks: Vec<usize> = visited.iter().map(|solved| solved.at[at]).collect();
            if forms.iter().all(|(_, known, _)| *known != picks) {
                let costs =
                    visited.iter().zip(&picks).map(|(solved, &pick)| &solved.forms[pick].cost);
                let cost = costs.fold(Cost::zero(), |sum, cost| sum.plus(cost));
                forms.push((at, picks, cost));
            }
        }
        let costs: Vec<Vec<f64>> =
            forms.iter().map(|(_, _, cost)| logarithms(cost, &samples)).collect();
        let choices = learn(&samples, &costs, &function.dims, MOST_VERSIONS);
        if choices.guarded.is_empty() {
            return None;
        }
        let mut chosen: Vec<(Guard, usize)> =
            choices.guarded.into_iter().map(|choice| (choice.guard, choice.form)).collect();
        chosen.push((Guard::new(), choices.otherwise));
        let mut versions: Vec<Version> = Vec::with_capacity(chosen.len());
        let mut made: BTreeMap<usize, Function> = BTreeMap::new();
        for (guard, form) in &chosen {
            let before: Vec<&Guard> = versions.iter().map(|version| &version.guard).collect();
            let first = |values: &&Values| {
                holds(guard, values) && before.iter().all(|guard| !holds(guard, values))
            };
            let witness = samples.iter().find(first)?.clone();
            let (at, _, cost) = &forms[*form];
            let name = match made.get(form) {
                Some(known) => known.name.clone(),
                None => {
                    self.take(Extraction::Sample(*at), samples.clone());
                    let version = self.version(function);
                    let name = version.name.clone();
                    made.insert(*form, version);
                    name
                }
            };
            versions.push(Version { name, guard: guard.clone(), witness, cost: cost.clone() });
        }
        let body = guarded_body(function, &versions, self.names());
        let order: Vec<Name> = versions.iter().map(|version| version.name.clone()).collect();
        let mut functions: Vec<Function> = made.into_values().collect();
        functions.sort_by_key(|made| order.iter().position(|name| *name == made.name));
        functions.insert(0, body);
        let function = function.name.clone();
        Some((functions, Versioned { function, versions }))
    }

    /// A copy that nothing else calls, with the forms of a sample.
    fn version(&mut self, function: &Function) -> Function {
        let mut version = self.function(function);
        version.name = self.names().numbered_from_one(&function.name);
        let attrs = &mut version.lambda.attrs;
        attrs.retain(|(key, _)| key != "private");
        attrs.push((Name::new("private"), AttrValue::Bool(true)));
        version
    }
}

/// Whether there are tensors of these dims: every dim of a parameter has a value and is no negative number.
fn fits(function: &Function, values: &Values) -> bool {
    let mut all = true;
    for &param in &function.lambda.params {
        function.param_annotation(param).visit_dims(&mut |dim| {
            let value = dim.eval(&|name| values.get(name).copied());
            all &= value.is_ok_and(|value| value >= 0);
        });
    }
    all
}

fn logarithms(cost: &Cost, samples: &[Values]) -> Vec<f64> {
    let total = cost.total();
    let at = |values: &Values| {
        let value = total.eval(&|name| values.get(name).copied()).unwrap_or(i64::MAX);
        (value.max(1) as f64).ln()
    };
    samples.iter().map(at).collect()
}
