//! The same functions on two routes, compared at random dims and inputs.

use crate::compiling::{Externals, Origin, Wishes, built, given, is_model};
use crate::errors::{Class, Failure};
use pyo3::prelude::*;
use relax_driver::differential::{
    Difference, Files, Integers, Known, Other, Routes, Tally, all_externals, common, of_module,
    of_text,
};
use relax_driver::equivalence::{Trust, alone, findings};
use relax_program::compare::Relation;
use relax_program::frontend::{Program, print_and_parse};
use relax_program::rounding::perturbed_values;
use relax_program::spec::{Typing, literal};
use relax_rewrite::pass::Device;
use relax_runtime::program::Numerics;
use relax_semantics::stop::Stop;
use relax_semantics::value::Value;
use relax_syntax::Name;
use relax_syntax::ir::Module;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Which cases are compared.
#[derive(FromPyObject)]
pub(crate) struct Cases {
    /// A function; none for all that both have.
    #[pyo3(item)]
    entry: Option<String>,
    #[pyo3(item)]
    seed: u64,
    #[pyo3(item)]
    cases: u32,
}

/// Function, case, dims, why, arguments, what was expected and found.
type Found = (String, u32, BTreeMap<String, i64>, String, BTreeMap<String, String>, String, String);

/// The verdict, counts by name, and the first difference.
type Compared = (&'static str, BTreeMap<&'static str, u32>, Option<Found>);

#[pyfunction]
pub(crate) fn diff(
    py: Python<'_>,
    origin: Origin,
    other: Option<Origin>,
    wishes: Wishes,
    cases: Cases,
) -> PyResult<Compared> {
    let compared = py.detach(|| compared(&origin, other.as_ref(), &wishes, &cases));
    compared.map_err(|failure| failure.raised(py))
}

fn compared(
    origin: &Origin,
    other: Option<&Origin>,
    wishes: &Wishes,
    cases: &Cases,
) -> Result<Compared, Failure> {
    let (routes, names) = routed(origin, other, wishes, cases)?;
    let mut tally = Tally::default();
    let difference = names.iter().find_map(|name| routes.function(name, &mut tally, &mut |_| {}));
    let verdict = if difference.is_some() { "different" } else { tally.verdict() };
    Ok((verdict, counts(&tally), difference.map(|found| shown(&routes.left, &found))))
}

/// For each function its name, the verdict, how it is proved or why not, and counts; or a difference, or a function that only one has.
type Equivalence = (
    Vec<(String, &'static str, String, BTreeMap<&'static str, u32>)>,
    Option<Found>,
    Option<String>,
);

#[pyfunction]
pub(crate) fn equiv(
    py: Python<'_>,
    origin: Origin,
    other: Origin,
    wishes: Wishes,
    cases: Cases,
) -> PyResult<Equivalence> {
    py.detach(|| judged(&origin, &other, &wishes, &cases)).map_err(|failure| failure.raised(py))
}

fn judged(
    origin: &Origin,
    other: &Origin,
    wishes: &Wishes,
    cases: &Cases,
) -> Result<Equivalence, Failure> {
    let (mut routes, names) = routed(origin, Some(other), wishes, cases)?;
    if let Other::Text { module, relation, wide, .. } = &mut routes.other {
        (*relation, *wide) = (Relation::Equal, None);
        if let (None, Some(why)) = (&cases.entry, alone(&routes.left, module)) {
            return Ok((Vec::new(), None, Some(why)));
        }
    }
    let mut tallies = Vec::new();
    for name in names {
        let mut tally = Tally::default();
        if let Some(found) = routes.function(&name, &mut tally, &mut |_| {}) {
            return Ok((Vec::new(), Some(shown(&routes.left, &found)), None));
        }
        tallies.push((name, tally));
    }
    let (found, _) =
        findings(&routes, tallies).map_err(|why| Failure::new(Class::Internal, why))?;
    let each = found.iter().map(|one| {
        let verdict = one.verdict(Trust::Rules).word();
        (one.function.to_string(), verdict, one.how(), counts(&one.tally))
    });
    Ok((each.collect(), None, None))
}

/// The two routes, and the functions that are compared.
fn routed(
    origin: &Origin,
    other: Option<&Origin>,
    wishes: &Wishes,
    cases: &Cases,
) -> Result<(Routes, Vec<Name>), Failure> {
    let (program, values) = given(origin)?;
    let inputs = if is_model(origin) { Integers::OftenIndices } else { Integers::Signed };
    let (other, externals, names) = match other {
        Some(other) => {
            let (right, own) = given(other)?;
            let second = is_model(other).then_some(own);
            let modules = [&program.module, &right.module];
            let modules = if second.is_some() { &modules[..1] } else { &modules[..] };
            let externals = random(values, modules, cases)?;
            let names = functions(&program.module, &right.module, cases)?;
            let mut made = of_text(&program.module, right.module, Relation::Close);
            if let Other::Text { externals, .. } = &mut made {
                *externals = second.map(Arc::new);
            }
            (made, externals, names)
        }
        None => {
            let externals = random(values, &[&program.module], cases)?;
            let names = functions(&program.module, &program.module, cases)?;
            (itself(&program, &externals, wishes)?, externals, names)
        }
    };
    let files = Files { left: "<text>".into(), other: "<text>".into(), built: None };
    let routes = Routes {
        left: program.module,
        other,
        seed: cases.seed,
        cases: cases.cases,
        externals,
        known: Known::default(),
        inputs,
        random_constants: false,
        files,
    };
    Ok((routes, names))
}

fn random(
    values: Externals,
    modules: &[&Module],
    cases: &Cases,
) -> Result<Arc<Externals>, Failure> {
    all_externals(values, modules, cases.seed).map(Arc::new).map_err(Failure::argument)
}

fn functions(left: &Module, right: &Module, cases: &Cases) -> Result<Vec<Name>, Failure> {
    let both = common(left, right);
    match &cases.entry {
        Some(entry) if !both.iter().any(|name| name.as_str() == entry) => {
            let names: Vec<&str> = both.iter().map(Name::as_str).collect();
            let names = names.join(", ");
            Err(Failure::argument(format!(
                "there is no common function `{entry}`; there are {names}"
            )))
        }
        Some(entry) => Ok(vec![Name::new(entry)]),
        None if both.is_empty() => {
            Err(Failure::argument("the programs have no function in common"))
        }
        None => Ok(both),
    }
}

/// The program compiled; without a compiler the program printed and parsed.
fn itself(
    program: &Program,
    externals: &Arc<Externals>,
    wishes: &Wishes,
) -> Result<Other, Failure> {
    if wishes.compiler.is_none() {
        let printed = print_and_parse(&program.module);
        let printed = printed.map_err(|why| Failure::new(Class::Internal, why))?;
        return Ok(of_text(&program.module, printed.module, Relation::Equal));
    }
    let (machine, _) = built(program, externals, wishes)?;
    let sums = if wishes.exact { Numerics::Exact } else { Numerics::Reassociated };
    let perturbed = Arc::new(perturbed_values(externals));
    Ok(of_module(&program.module, machine.module, (Device::Cpu, sums), perturbed))
}

fn counts(tally: &Tally) -> BTreeMap<&'static str, u32> {
    BTreeMap::from([
        ("compared", tally.compared),
        ("as_reals", tally.as_reals),
        ("ill_conditioned", tally.ill_conditioned),
        ("trapped_alike", tally.trapped),
        ("limits", tally.exhausted),
        ("unsupported", tally.unsupported),
        ("rejected", tally.rejected),
    ])
}

fn shown(left: &Module, found: &Difference) -> Found {
    let text = |value: &Value| {
        literal(value, Typing::Written).unwrap_or_else(|| value.annotation().to_string())
    };
    let result = |result: &Result<Value, Stop>| match result {
        Ok(value) => text(value),
        Err(stop) => stop.to_string(),
    };
    let function = left.function(&found.function);
    let names = function
        .iter()
        .flat_map(|function| function.lambda.params.iter().map(|&id| &function.var(id).name));
    let arguments =
        names.zip(&found.case.arguments).map(|(name, value)| (name.to_string(), text(value)));
    let dims = found.case.dims.iter().map(|(name, value)| (name.to_string(), *value)).collect();
    let (expected, got) = (result(&found.expected), result(&found.found));
    let (name, why) = (found.function.to_string(), found.why.clone());
    (name, found.case.number, dims, why, arguments.collect(), expected, got)
}
