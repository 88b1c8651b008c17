//! A module held against the one it was made from: the same functions, on random dims and inputs,
//! in the interpreter. Both give the same value and print the same, or stop with the same trap.
//!
//! The first cases give every symbolic variable the same small size, so that dims that are equal by
//! accident are among them; the others draw each from 0, 1, primes and powers of two. What a signature
//! leaves open is drawn from these values and from the literals of the program, so that its casts are
//! passed now and then. A case that differs is shrunk to smaller dims.

mod arguments;
mod blame;
mod discrete;
mod wide;

use crate::pass::Exactness;
use arguments::{Instance, interesting};
pub use blame::{binding_names, cut_after};
pub use discrete::{relation_of, relation_of_rounded};
use relax_program::compare::{Relation, compare_sums};
use relax_program::externals::{as_identifier, externals};
use relax_program::frontend::{Ran, RunOptions, run};
use relax_program::printed::floats_of;
use relax_program::reals::largest_magnitude;
use relax_program::replay::{has_graphs, run_again};
use relax_program::signature::{Dims, random_value};
use relax_semantics::random::Random;
use relax_semantics::stop::{Stop, Trap};
use relax_semantics::tensor::Tensor;
use relax_semantics::value::Value;
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::ir::{AttrValue, Function, Module, attr};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use wide::Wide;

/// How much is tried.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Cases for each function.
    pub cases: u32,
    /// Of dims and inputs.
    pub seed: u64,
}

/// What became of the cases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Both gave a value, and the same one.
    pub compared: u32,
    /// Of these, those whose values were held against each other as real numbers, in f64.
    pub as_reals: u32,
    /// Both stopped with the same trap.
    pub trapped: u32,
    /// One gave up at a limit.
    pub exhausted: u32,
    /// One met something that the interpreter does not run.
    pub unsupported: u32,
    /// No inputs could be drawn for the signature.
    pub rejected: u32,
}

/// A case in which the modules differ.
#[derive(Clone, Debug)]
pub struct Difference {
    /// The function.
    pub function: Name,
    /// The dims of the case, made as small as they go.
    pub dims: Dims,
    /// What was given.
    pub arguments: Vec<(Name, Value)>,
    /// What differs.
    pub why: String,
    /// The first binding that both have and that differs.
    pub binding: Option<Name>,
}

/// Bytes of one random tensor, bytes and steps of one run, random integers.
const MAX_BYTES: u64 = 16 << 20;
const MAX_MEMORY: u64 = 512 << 20;
const MAX_STEPS: u64 = 20_000_000;
const INTS: std::ops::RangeInclusive<i64> = -4..=4;

/// Whether a function is for its module only: passes may remove it when nothing uses it.
#[must_use]
pub fn is_private(function: &Function) -> bool {
    matches!(attr(&function.lambda.attrs, "private"), Some(AttrValue::Bool(true)))
}

/// Holds `after` against `before`, whose functions it must still have. `values` are those of parameters
/// and external constants that passes were given: a parameter that is gone had its value.
///
/// # Errors
/// The first case in which they differ.
pub fn verify(
    before: &Module,
    after: &Module,
    exactness: Exactness,
    effort: Effort,
    values: &BTreeMap<Name, Tensor>,
) -> Result<Tally, Box<Difference>> {
    verify_again(before, after, exactness, effort, values, &mut Remembered::default())
}

/// What was drawn for a module and what its runs came to, for those who hold several modules against it.
#[derive(Debug, Default)]
pub struct Remembered {
    /// By name and annotation.
    externals: BTreeMap<(Name, String), Tensor>,
    /// Of functions and the numbers of their cases.
    cases: BTreeMap<(Name, u32), Option<Known>>,
}

/// Arguments of a function, where there are any for its signature, and what they came to.
type Known = (Vec<Value>, Ran);

/// As [`verify`], for a module that others were held against before, with the same effort and values.
///
/// # Errors
/// The first case in which they differ.
pub fn verify_again(
    before: &Module,
    after: &Module,
    exactness: Exactness,
    effort: Effort,
    values: &BTreeMap<Name, Tensor>,
    remembered: &mut Remembered,
) -> Result<Tally, Box<Difference>> {
    let relation = relation_of(exactness, before);
    let options = RunOptions {
        externals: Arc::new(remembered.externals_of(&[before, after], effort.seed, values)),
        memory: Some(MAX_MEMORY),
        steps: Some(MAX_STEPS),
        ..RunOptions::default()
    };
    let replays = has_graphs(after) && !has_graphs(before);
    let wide = match exactness {
        Exactness::Reals => Wide::of(before, after, &options),
        _ => None,
    };
    let sides = Sides { before, after, relation, options, values, replays, wide };
    let mut tally = Tally::default();
    for function in before.functions().filter(|function| function.lambda.body.is_some()) {
        match after.function(&function.name) {
            Some(_) => sides.function(function, effort, remembered, &mut tally)?,
            None if is_private(function) => {}
            None => return Err(Box::new(gone(function))),
        }
    }
    Ok(tally)
}

fn param_names(function: &Function) -> impl Iterator<Item = &Name> {
    function.lambda.params.iter().map(|&param| &function.var(param).name)
}

fn gone(function: &Function) -> Difference {
    Difference {
        function: function.name.clone(),
        dims: Dims::new(),
        arguments: Vec::new(),
        why: "the function is gone, and it is not private".to_owned(),
        binding: None,
    }
}

impl Remembered {
    /// The values that are known, and random ones for the others.
    fn externals_of(
        &mut self,
        modules: &[&Module],
        seed: u64,
        known: &BTreeMap<Name, Tensor>,
    ) -> BTreeMap<Name, Tensor> {
        let mut values = known.clone();
        for (name, annotations) in modules.iter().flat_map(|module| externals(module)) {
            if known.contains_key(&name) {
                continue;
            }
            for annotation in annotations {
                if let Some(tensor) = self.external(&name, &annotation, seed) {
                    values.insert(name.clone(), tensor);
                }
            }
        }
        values
    }

    fn external(&mut self, name: &Name, annotation: &Annotation, seed: u64) -> Option<Tensor> {
        let key = (name.clone(), annotation.to_string());
        if !self.externals.contains_key(&key) {
            let mut random = Random::new(seed, name);
            let value = random_value(annotation, &Dims::new(), &mut random, &INTS, MAX_BYTES);
            let Ok(Value::Tensor(tensor)) = value else { return None };
            self.externals.insert(key.clone(), tensor);
        }
        self.externals.get(&key).cloned()
    }
}

/// What became of one case.
enum Case {
    Compared,
    /// As real numbers.
    AsReals,
    Trapped,
    Exhausted,
    Unsupported,
}

/// Two modules that shall mean the same.
struct Sides<'a> {
    before: &'a Module,
    after: &'a Module,
    relation: Relation,
    options: RunOptions,
    values: &'a BTreeMap<Name, Tensor>,
    /// Passes made graphs, which a later call replays.
    replays: bool,
    /// Where results are compared as real numbers.
    wide: Option<Wide>,
}

impl Sides<'_> {
    fn function(
        &self,
        function: &Function,
        effort: Effort,
        remembered: &mut Remembered,
        tally: &mut Tally,
    ) -> Result<(), Box<Difference>> {
        let interesting = interesting(function);
        let bound = self.bound(function);
        for case in 0..effort.cases {
            let mut random = Random::new(effort.seed, &format!("{}/{case}", function.name));
            let instance = Instance::draw(function, case, &interesting, &mut random).with(&bound);
            let seed = random.bits();
            let run = || {
                let arguments = instance.arguments(&instance.dims, seed).ok()?;
                let before = self.before(function, &arguments);
                Some((arguments, before))
            };
            let key = (function.name.clone(), case);
            // Parameters with values of their own make other cases.
            let known = match bound.is_empty() {
                true => remembered.cases.entry(key).or_insert_with(run).clone(),
                false => run(),
            };
            let Some((arguments, before)) = known else {
                tally.rejected += 1;
                continue;
            };
            match self.judged(function, &arguments, before) {
                Ok(Case::Compared) => tally.compared += 1,
                Ok(Case::AsReals) => {
                    tally.compared += 1;
                    tally.as_reals += 1;
                }
                Ok(Case::Trapped) => tally.trapped += 1,
                Ok(Case::Exhausted) => tally.exhausted += 1,
                Ok(Case::Unsupported) => tally.unsupported += 1,
                Err(why) => return Err(Box::new(self.shrunk(function, &instance, seed, why))),
            }
        }
        Ok(())
    }

    /// The values of parameters that only one side still has.
    fn bound(&self, function: &Function) -> BTreeMap<Name, Tensor> {
        let after = self.after.function(&function.name);
        let kept: BTreeSet<&Name> = after.into_iter().flat_map(param_names).collect();
        let gone: BTreeSet<&Name> =
            param_names(function).filter(|name| !kept.contains(name)).collect();
        let named = self.values.iter().map(|(name, value)| (Name::new(as_identifier(name)), value));
        named.filter(|(name, _)| gone.contains(name)).map(|(n, value)| (n, value.clone())).collect()
    }

    fn case(&self, function: &Function, arguments: &[Value]) -> Result<Case, String> {
        self.judged(function, arguments, self.before(function, arguments))
    }

    fn before(&self, function: &Function, arguments: &[Value]) -> Ran {
        run(self.before, &function.name, arguments.to_vec(), &self.options)
    }

    fn after(&self, function: &Function, arguments: &[Value]) -> Ran {
        let arguments = self.arguments_after(function, arguments);
        if self.replays {
            return run_again(self.after, &function.name, arguments, &self.options);
        }
        run(self.after, &function.name, arguments, &self.options)
    }

    /// Those of parameters that are not bound.
    fn arguments_after(&self, function: &Function, arguments: &[Value]) -> Vec<Value> {
        let bound = self.bound(function);
        let named = param_names(function).zip(arguments);
        named
            .filter(|(name, _)| !bound.contains_key(*name))
            .map(|(_, value)| value.clone())
            .collect()
    }

    /// What `before` came to against what the other module does, which runs only where that can be compared.
    fn outcomes(
        &self,
        arguments: &[Value],
        before: Ran,
        after: impl FnOnce() -> Ran,
    ) -> Result<Case, String> {
        let want = match ended(before.result) {
            Ok(want) => want,
            Err(case) => return Ok(case),
        };
        let after = after();
        let case = match (want, ended(after.result)) {
            (_, Err(case)) => return Ok(case),
            (Ok(want), Ok(Ok(got))) => {
                compare_values(self.relation, &want, &got, arguments)?;
                Case::Compared
            }
            (Err(want), Ok(Err(got))) if want.id == got.id => Case::Trapped,
            // An index that comes of a rounded float may be in range or not.
            (Err(_), Ok(_)) | (Ok(_), Ok(Err(_))) if self.relation.leaves_integers() => {
                return Ok(Case::Unsupported);
            }
            (Err(want), Ok(Err(got))) => {
                return Err(format!("it stopped with {want}, and stops with {got}"));
            }
            (Ok(_), Ok(Err(stop))) => {
                return Err(format!("it gave a value, and stops with {stop}"));
            }
            (Err(stop), Ok(Ok(_))) => {
                return Err(format!("it stopped with {stop}, and gives a value"));
            }
        };
        compare_printed(self.relation, &before.printed, &after.printed, arguments)?;
        Ok(case)
    }

    /// The same difference at dims as small as they go.
    fn shrunk(&self, function: &Function, drawn: &Instance, seed: u64, why: String) -> Difference {
        let (mut dims, mut why) = (drawn.dims.clone(), why);
        let mut again = true;
        while again {
            again = false;
            for (name, value) in dims.clone() {
                for smaller in drawn.smaller(&name, value) {
                    let mut tried = dims.clone();
                    tried.insert(name.clone(), smaller);
                    let Ok(arguments) = drawn.arguments(&tried, seed) else { continue };
                    if let Err(found) = self.case(function, &arguments) {
                        (dims, why, again) = (tried, found, true);
                        break;
                    }
                }
            }
        }
        let arguments = drawn.arguments(&dims, seed).unwrap_or_default();
        let binding = self.blame(&function.name, &arguments);
        let arguments = param_names(function).cloned().zip(arguments).collect();
        Difference { function: function.name.clone(), dims, arguments, why, binding }
    }
}

/// A value or a trap; a run that a limit ended, or that the interpreter does not know, says nothing.
fn ended(result: Result<Value, Stop>) -> Result<Result<Value, Box<Trap>>, Case> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(Stop::Trap(trap)) => Ok(Err(trap)),
        Err(Stop::Exhausted { .. }) => Err(Case::Exhausted),
        Err(Stop::Unsupported(_)) => Err(Case::Unsupported),
    }
}

/// What calls with the same arguments gave, as [`compare_sums`] sees it; functions are alike when both are functions. A sum is
/// taken to be of terms as large as the largest argument: terms that are larger, and cancel, may be called different.
///
/// # Errors
/// The first difference.
pub fn compare_values(
    relation: Relation,
    want: &Value,
    got: &Value,
    arguments: &[Value],
) -> Result<(), String> {
    let summed = if relation == Relation::Close { largest_magnitude(arguments) } else { 0.0 };
    compare_beside(relation, want, got, summed)
}

fn compare_beside(
    relation: Relation,
    want: &Value,
    got: &Value,
    summed: f64,
) -> Result<(), String> {
    let is_function =
        |value: &Value| matches!(value, Value::Global(_) | Value::Closure(_) | Value::Partial(_));
    match (want, got) {
        (want, got) if is_function(want) && is_function(got) => Ok(()),
        (Value::Tuple(want), Value::Tuple(got)) if want.len() == got.len() => {
            want.iter().zip(got).enumerate().try_for_each(|(index, (want, got))| {
                compare_beside(relation, want, got, summed)
                    .map_err(|why| format!("item {index}: {why}"))
            })
        }
        (Value::Storage(want), Value::Storage(got))
            if (want.bytes, want.dtype) == (got.bytes, got.dtype) =>
        {
            Ok(())
        }
        (Value::Annotation(want), Value::Annotation(got)) if want == got => Ok(()),
        _ => compare_sums(relation, want, got, summed),
    }
}

/// What calls with the same arguments printed: the same lines, but for floats, which are compared as results are.
///
/// # Errors
/// What both printed, where it differs.
pub fn compare_printed(
    relation: Relation,
    want: &[String],
    got: &[String],
    arguments: &[Value],
) -> Result<(), String> {
    if want == got {
        return Ok(());
    }
    let ((wanted, floats), (found, others)) = (floats_of(want), floats_of(got));
    let words = |texts: &[String]| match relation.leaves_integers() {
        // As integers of results may.
        true => texts.iter().map(|text| text.replace(char::is_numeric, "")).collect(),
        false => texts.to_vec(),
    };
    let alike = relation != Relation::Equal
        && words(&wanted) == words(&found)
        && compare_values(relation, &floats, &others, arguments).is_ok();
    if alike { Ok(()) } else { Err(format!("it printed {want:?}, and prints {got:?}")) }
}

impl Tally {
    /// Adds the cases of another function or pass.
    pub fn add(&mut self, other: &Tally) {
        self.compared += other.compared;
        self.as_reals += other.as_reals;
        self.trapped += other.trapped;
        self.exhausted += other.exhausted;
        self.unsupported += other.unsupported;
        self.rejected += other.rejected;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} compared", self.compared)?;
        if self.as_reals > 0 {
            write!(f, " ({} of them as real numbers, in f64)", self.as_reals)?;
        }
        write!(
            f,
            ", {} trapped alike, {} gave up at a limit, {} unsupported, {} rejected \
             (no inputs for the signature)",
            self.trapped, self.exhausted, self.unsupported, self.rejected
        )
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}", self.function, self.why)?;
        if let Some(binding) = &self.binding {
            write!(f, "\n  the first binding that differs: `{binding}`")?;
        }
        for (name, value) in &self.dims {
            write!(f, "\n  {} = {value}", arguments::shown(name))?;
        }
        for (name, value) in &self.arguments {
            write!(f, "\n  --input '{name}={}'", arguments::text(value))?;
        }
        Ok(())
    }
}
