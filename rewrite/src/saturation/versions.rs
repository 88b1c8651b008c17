//! Versions of a function behind guards, where the cheapest form depends on dims, or a rule needs what nobody can
//! decide.
//!
//! Which versions there are is chosen at samples; a choice can only be slow, for every version is right wherever its
//! guard holds. A version is a private function with the parameters of the one that it is of; that one compares dims
//! and calls one of them, the last unconditionally: so guards cover all dims by construction. None is empty: each
//! has a witness ([`super::witness`]), and a guard that is proved to have none is dropped.

use super::candidates::{Candidate, Source, offers, on_both_sides};
use super::cost::Cost;
use super::extract::Values;
use super::guards::{Numbers, Offer, Sample, alike, learn, usual_numbers};
use super::report::Report;
use super::samples;
use super::walk::{Engine, Extraction};
use super::witness::{Witness, known_of, witness};
use super::{Options, RuleKind};
use crate::guarded::choose::guarded_body;
use crate::guarded::{Guard, Way, make_private, repeated};
use relax_semantics::check::Checked;
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::facts::{Claim, Facts, Relation};
use relax_syntax::ir::{Definition, Function, Module, attr};

/// The most versions of a function.
const MOST_VERSIONS: usize = 4;
/// The mean gain, as a part of the cost, for which one more version is worth its code.
const WORTH: f64 = 0.05;

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
    /// Whether it is right only where its guard holds.
    pub needs_guard: bool,
    /// Dims at which it is called.
    pub witness: Witness,
    /// What its regions cost.
    pub cost: Cost,
    /// What its result is for the caller, where that must be said again.
    pub(super) result: Option<Annotation>,
}

impl Version {
    /// The claims of the guard, as the program compares them.
    #[must_use]
    pub fn comparisons(&self) -> Vec<String> {
        let comparison = |claim: &Claim| match claim.relation {
            Relation::Divides => format!("{} % {} == 0", claim.right, claim.left),
            _ => claim.to_string(),
        };
        self.guard.iter().map(comparison).collect()
    }

    fn way(&self) -> Way {
        let (name, guard) = (self.name.clone(), self.guard.clone());
        Way { name, guard, result: self.result.clone() }
    }
}

/// Gives functions versions where that is worth it; other functions stay as they are. `facts` are asked in the search,
/// `of_guards` whether a guard is ever taken.
pub fn version_module(
    checked: &Checked,
    facts: &mut dyn Facts,
    of_guards: Option<&mut dyn Facts>,
    options: &Options,
    kind: RuleKind,
) -> (Module, Report) {
    let module = &checked.module;
    let mut of_guards = of_guards;
    let mut engine = Engine::new(checked, facts, options, kind, Extraction::Sample(0));
    let (mut definitions, mut versions) = (Vec::new(), Vec::new());
    for definition in &module.definitions {
        match definition {
            Definition::Graph(function) if function.lambda.body.is_some() => {
                match engine.versions(function, of_guards.as_deref_mut()) {
                    Some((made, versioned)) => {
                        definitions.extend(made.into_iter().map(Definition::Graph));
                        versions.push(versioned);
                    }
                    None => definitions.push(definition.clone()),
                }
            }
            other => definitions.push(other.clone()),
        }
    }
    let module = Module { attrs: module.attrs.clone(), definitions };
    (module, Report { is_of_versions: true, versions, ..engine.into_report() })
}

/// Forms of a function beside each other.
pub(super) struct Compared {
    pub(super) candidates: Vec<Candidate>,
    /// Those at which the forms were found.
    pub(super) samples: Vec<Values>,
    /// Those at which they are compared.
    pub(super) looked_at: Vec<Sample>,
    /// What each of them costs there.
    pub(super) offers: Vec<Offer>,
    /// What dims are compared with.
    pub(super) numbers: Numbers,
    /// What the best of them costs at all samples, if nobody has to choose; as an offer, where choosing costs nothing.
    pub(super) without: Option<f64>,
    /// The mean gain, as a part of the cost, for which one more version is worth its code.
    pub(super) worth: f64,
}

/// A candidate that was chosen, with its guard.
struct Chosen {
    guard: Guard,
    form: usize,
    witness: Witness,
}

impl Engine<'_> {
    /// The function that chooses, then its versions.
    fn versions(
        &mut self,
        function: &Function,
        of_guards: Option<&mut (dyn Facts + '_)>,
    ) -> Option<(Vec<Function>, Versioned)> {
        let primitive = attr(&function.lambda.attrs, "primitive").is_some();
        if primitive || !function.dims.iter().any(|dim| dim.in_signature) {
            return None;
        }
        let found = match self.fusion() {
            Some(fusion) => self.compared_after_fusion(function, &fusion)?,
            None => self.compared(function)?,
        };
        let chosen = self.chosen(function, &found, of_guards)?;
        let (versions, made) = self.made(function, chosen, &found);
        let ways: Vec<Way> = versions.iter().map(Version::way).collect();
        let mut functions = vec![guarded_body(function, &ways, self.names())];
        functions.extend(made);
        let function = function.name.clone();
        Some((functions, Versioned { function, versions }))
    }

    /// Forms by the costs of calls, each of which is a kernel.
    fn compared(&mut self, function: &Function) -> Option<Compared> {
        let mut samples = samples::apart(&function.dims);
        samples.retain(|values| fits(function, values));
        if samples.is_empty() {
            return None;
        }
        let mut candidates = self.cheap_at(function, &samples);
        candidates.extend(self.cheap_under(function, &samples));
        let mut looked_at = on_both_sides(function, &samples, &candidates);
        looked_at.retain(|values| fits(function, values));
        let offers = offers(&candidates, &looked_at);
        let looked_at = alike(looked_at);
        let numbers = usual_numbers(&function.dims);
        Some(Compared {
            candidates,
            samples,
            looked_at,
            offers,
            numbers,
            without: None,
            worth: WORTH,
        })
    }

    /// Candidates with guards, none of which is proved to be empty, and the one for all other dims.
    fn chosen(
        &mut self,
        function: &Function,
        found: &Compared,
        of_guards: Option<&mut (dyn Facts + '_)>,
    ) -> Option<Vec<Chosen>> {
        let looked_at = &found.looked_at;
        let choices = learn(found, &function.dims, MOST_VERSIONS);
        let samples: Vec<Values> = looked_at.iter().map(|sample| sample.values.clone()).collect();
        let known = known_of(function, self.checked());
        let facts: &mut dyn Facts = match of_guards {
            Some(facts) => facts,
            None => self.facts(),
        };
        let mut chosen: Vec<Chosen> = Vec::new();
        let last = (Guard::new(), choices.otherwise);
        let guarded = choices.guarded.into_iter().map(|choice| (choice.guard, choice.form));
        for (guard, form) in guarded.chain([last]) {
            let before: Vec<&Guard> = chosen.iter().map(|before| &before.guard).collect();
            match witness(function, &known, (&guard, &before), &samples, facts) {
                Some(witness) => chosen.push(Chosen { guard, form, witness }),
                // What no dims take is not made; if that is the last one, the one before it takes all that is left.
                None if guard.is_empty() => chosen.last_mut()?.guard.clear(),
                None => {}
            }
        }
        (chosen.len() > 1).then_some(chosen)
    }

    /// The versions, and the functions that they are, in order.
    fn made(
        &mut self,
        function: &Function,
        chosen: Vec<Chosen>,
        Compared { candidates, samples, .. }: &Compared,
    ) -> (Vec<Version>, Vec<Function>) {
        self.report_from_here();
        let (mut versions, mut functions) = (Vec::new(), Vec::new());
        let mut known: Vec<(usize, Name)> = Vec::new();
        for Chosen { guard, form, witness } in chosen {
            let candidate = &candidates[form];
            let name = match known.iter().find(|(at, _)| *at == form) {
                Some((_, name)) => name.clone(),
                None => {
                    let version = self.version(function, candidate, samples);
                    let name = version.name.clone();
                    functions.push(version);
                    known.push((form, name.clone()));
                    name
                }
            };
            let needs_guard = !candidate.requires.is_empty();
            let result = needs_guard.then(|| self.result(function)).flatten();
            let cost = candidate.cost.clone();
            versions.push(Version { name, guard, needs_guard, witness, cost, result });
        }
        (versions, functions)
    }

    /// A copy that nothing else calls, with the forms of a candidate.
    fn version(
        &mut self,
        function: &Function,
        candidate: &Candidate,
        samples: &[Values],
    ) -> Function {
        let mut version = match &candidate.source {
            Source::Made(made) => (**made).clone(),
            Source::Sample(at) => {
                self.take(Extraction::Sample(*at), samples.to_vec());
                self.function(function)
            }
        };
        version.name = self.names().numbered_from_one(&function.name);
        self.report_under(&version.name, &function.name);
        make_private(&mut version);
        version
    }

    /// What a function gives, as far as its caller knows it.
    fn result(&self, function: &Function) -> Option<Annotation> {
        self.checked().results.get(&function.name).and_then(repeated)
    }
}

/// Whether there are tensors of these dims: every dim of a parameter has a value and is no negative number.
pub(super) fn fits(function: &Function, values: &Values) -> bool {
    let mut all = true;
    for &param in &function.lambda.params {
        function.param_annotation(param).visit_dims(&mut |dim| {
            let value = dim.eval(&|name| values.get(name).copied());
            all &= value.is_ok_and(|value| value >= 0);
        });
    }
    all
}
