//! Oracle of the prover: dims that are known before a run are those of the run, and proved or refuted claims hold
//! or fail for numbers.

use super::inputs::{drawn, options};
use crate::case::{Case, Finding};
use crate::session::Statistics;
use relax_program::frontend::run;
use relax_semantics::check::{Phase, check};
use relax_semantics::random::Random;
use relax_semantics::value::Value;
use relax_symbolic::Prover;
use relax_syntax::Name;
use relax_syntax::annotation::Annotation;
use relax_syntax::dim::Dim;
use relax_syntax::facts::{Answer, Claim, Counterexample, Facts, Relation};
use relax_syntax::ir::Function;
use std::collections::BTreeSet;

/// Calls of each function, claims on its dims, numbers tried for each.
const CALLS: usize = 3;
const CLAIMS: usize = 24;
const NUMBERS: [i64; 10] = [0, 1, 2, 3, 4, 5, 7, 8, 16, 33];

pub(super) fn hold(case: &Case, statistics: &mut Statistics) -> Result<(), Finding> {
    let checked =
        case.ask(|prover| Ok::<_, Finding>(check(&case.checked, prover, Phase::Surface)))?;
    let results = checked.results;
    for function in case.checked.functions() {
        if let Some(result) = results.get(&function.name) {
            for index in 0..CALLS {
                shapes(case, function, result, index, statistics)?;
            }
        }
        claims(case, function, statistics)?;
    }
    Ok(())
}

/// The result has the dims that were told.
fn shapes(
    case: &Case,
    function: &Function,
    result: &Annotation,
    index: usize,
    statistics: &mut Statistics,
) -> Result<(), Finding> {
    let Some((dims, arguments)) = drawn(case, function, index, statistics) else { return Ok(()) };
    let Ok(value) = run(&case.checked, &function.name, arguments, &options()).result else {
        statistics.trapped += 1;
        return Ok(());
    };
    statistics.compared += 1;
    let known = result.dims();
    let (Some(known), Value::Tensor(tensor)) = (known, &value) else { return Ok(()) };
    for (dim, &extent) in known.iter().zip(tensor.shape()) {
        let told = dim.eval(&|name: &Name| dims.get(name).copied());
        if told.is_ok_and(|told| usize::try_from(told) != Ok(extent)) {
            let why = format!(
                "`{}` at {dims:?} was to give `{result}`, and gives {:?}",
                function.name,
                tensor.shape()
            );
            let command = format!("run FILE --entry {} --random", function.name);
            return Err(Finding::new("static", why, command));
        }
    }
    Ok(())
}

/// The dims that annotations of a function mention, over its signature.
fn mentioned(function: &Function) -> Vec<Dim> {
    let of_signature = |name: &Name| function.dim(name).is_some_and(|dim| dim.in_signature);
    let mut found = BTreeSet::new();
    for annotation in function.vars.iter().filter_map(|info| info.annotation.as_ref()) {
        annotation.visit_dims(&mut |dim| {
            if dim.vars_all(&|name| of_signature(name)) {
                found.insert(dim.clone());
            }
        });
    }
    found.into_iter().collect()
}

fn claims(case: &Case, function: &Function, statistics: &mut Statistics) -> Result<(), Finding> {
    let terms = mentioned(function);
    let mut random = Random::new(case.seed, &format!("{}/claims", function.name));
    let mut draw = |count: usize| {
        let last = i64::try_from(count).unwrap_or(1) - 1;
        usize::try_from(random.int(&(0..=last))).unwrap_or(0)
    };
    let relations =
        [Relation::Equal, Relation::AtMost, Relation::Less, Relation::NotEqual, Relation::Divides];
    for _ in 0..CLAIMS.min(terms.len() * terms.len()) {
        let (left, right) = (terms[draw(terms.len())].clone(), terms[draw(terms.len())].clone());
        let claim = Claim::new(left, relations[draw(relations.len())], right);
        statistics.compared += 1;
        let mut prover = Prover::new();
        let wrong = match prover.decide(&claim) {
            Answer::Proved => refuting(function, &claim),
            Answer::Refuted(values) => (claim.holds(&values) == Some(true)).then_some(values),
            Answer::Unknown => None,
        };
        if let Some(values) = wrong {
            let why = format!("the prover is wrong on {claim:?}, see {values:?}");
            return Err(Finding::new("claim", why, format!("prove '{claim}'")));
        }
    }
    Ok(())
}

/// Numbers for which a claim fails; without facts every number is allowed.
fn refuting(function: &Function, claim: &Claim) -> Option<Counterexample> {
    let names: Vec<Name> =
        function.dims.iter().filter(|dim| dim.in_signature).map(|dim| dim.name.clone()).collect();
    let own = claim.vars();
    let names: Vec<&Name> = names.iter().filter(|name| own.contains(*name)).collect();
    let count = NUMBERS.len().pow(u32::try_from(names.len()).unwrap_or(0).min(3));
    (0..count).find_map(|mut index| {
        let mut values = Counterexample::new();
        for name in &names {
            values.insert((*name).clone(), NUMBERS[index % NUMBERS.len()]);
            index /= NUMBERS.len();
        }
        (claim.holds(&values) == Some(false)).then_some(values)
    })
}
