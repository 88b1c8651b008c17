//! Adjoints of operators: every one is compared with central differences, in the interpreter, at dims with 0, 1 and
//! primes. The calls are those by which tensor programs are tested, and some more where ranks and broadcast matter.

mod gradient_cases;
mod legalized_cases;

use gradient_cases::{REFUSED, domain, own};
use legalized_cases::{Case, cases};
use relax_program::frontend::{Program, print, print_and_parse};
use relax_program::signature::{Dims, random_value};
use relax_rewrite::adjoints::remaining::{has_adjoint, is_discrete, is_zero, why_not};
use relax_rewrite::finite_differences::{Outcome, compare};
use relax_rewrite::pass::Settings;
use relax_rewrite::pipeline::{Failed, PIPELINE, Unwatched, run};
use relax_semantics::check::{Phase, check};
use relax_semantics::ops;
use relax_semantics::random::Random;
use relax_semantics::tensor::Tensor;
use relax_semantics::value::Value;
use relax_symbolic::Prover;
use relax_syntax::annotation::Annotation;
use relax_syntax::dtype::DType;
use relax_syntax::ir::Module;
use relax_syntax::span::Source;
use std::collections::{BTreeMap, BTreeSet};

const SIZES: [i64; 6] = [0, 1, 2, 3, 5, 7];
const FLOATS: [&str; 4] = ["f64", "f32", "f16", "bf16"];
const ROUNDS: usize = 12;
const MAX_BYTES: u64 = 1 << 20;

#[test]
fn every_row_without_an_adjoint_says_why() {
    let silent: Vec<&str> = ops::all()
        .filter(|row| why_not(row).is_some_and(|why| why.starts_with("nobody")))
        .map(|row| row.name)
        .collect();
    assert!(silent.is_empty(), "{silent:?} have neither an adjoint nor a reason");
}

#[test]
fn adjoints_agree_with_differences() {
    let (mut wrong, mut runs, mut refused) = (Vec::new(), 0, Vec::new());
    // How many gradients other than 0 were compared, by operator.
    let mut nonzero: BTreeMap<&str, usize> = BTreeMap::new();
    let of_floats = |case: &&Case| {
        let row = ops::lookup(case.row).expect("cases are of rows");
        !is_discrete(row) && case.dtypes.iter().any(|dtype| FLOATS.contains(dtype))
    };
    for case in cases().chain(own()).filter(of_floats) {
        for passes in ["gradient", "normalize,gradient"] {
            match hold(case, passes) {
                Ok(Held::Agrees { runs: more, nonzero: found }) => {
                    runs += more;
                    *nonzero.entry(case.row).or_default() += found;
                }
                Ok(Held::Refused(why)) => match ops::lookup(case.row).and_then(why_not) {
                    Some(reason) if why.ends_with(reason) => {}
                    Some(reason) => wrong.push(format!("{}: {why}, and not {reason}", case.call)),
                    None => refused.push((case.call, why)),
                },
                Ok(Held::NothingToDo) => {}
                Err(why) => wrong.push(format!("{}: {}: {why}", case.row, case.call)),
            }
        }
    }
    assert!(wrong.is_empty(), "{} calls are wrong:\n{}", wrong.len(), wrong.join("\n\n"));
    let rows = ops::all().filter(|row| has_adjoint(row) && !is_zero(row)).map(|row| row.name);
    let missing: Vec<&str> =
        rows.filter(|row| nonzero.get(row).is_none_or(|count| *count == 0)).collect();
    assert!(missing.is_empty(), "no gradient other than 0 was compared of {missing:?}");
    let known: BTreeSet<&str> = REFUSED.iter().map(|(call, _)| *call).collect();
    let found: BTreeSet<&str> = refused.iter().map(|(call, _)| *call).collect();
    assert_eq!(known, found, "refused: {refused:#?}");
    for (call, why) in REFUSED {
        let mut own = refused.iter().filter(|(refused, _)| refused == call);
        assert!(own.all(|(_, message)| message.contains(why)), "{call}: {refused:#?}");
    }
    assert!(runs > 5_000, "only {runs} runs");
}

enum Held {
    Agrees {
        runs: usize,
        nonzero: usize,
    },
    Refused(String),
    /// No float goes in, or none comes out.
    NothingToDo,
}

fn hold(case: &Case, passes: &str) -> Result<Held, String> {
    let Some(text) = loss(case) else { return Ok(Held::NothingToDo) };
    let program = Program::load(Source::new("case", text.as_str()));
    if program.has_errors() {
        return Err(format!("{:?}\n{text}", program.diagnostics));
    }
    let function = program.module.function("main").expect("there is one");
    let params = function.lambda.params.clone();
    let is_float = |annotation: &Annotation| {
        annotation.as_tensor().and_then(|tensor| tensor.dtype) == Some(DType::F64)
    };
    let floats: Vec<usize> =
        (0..params.len()).filter(|&at| is_float(function.param_annotation(params[at]))).collect();
    if floats.is_empty() {
        return Ok(Held::NothingToDo);
    }
    let mut settings = Settings::default();
    settings.gradient.wrt =
        floats.iter().map(|&at| function.var(params[at]).name.clone()).collect();
    let route = PIPELINE.named(passes)?;
    let after = match run(&program.module, &route, &settings, &mut Prover::new(), &mut Unwatched) {
        Ok(after) => after,
        Err(Failed::Refused { diagnostics, .. }) => {
            return Ok(Held::Refused(diagnostics[0].message.clone()));
        }
        Err(Failed::Broken { diagnostics, module, .. }) => {
            return Err(format!("not well-formed: {diagnostics:?}\n{}", print(&module)));
        }
        Err(Failed::Stopped { why, .. }) => return Err(why),
    };
    print_and_parse(&after)?;
    let (mut runs, mut nonzero) = (0, 0);
    for round in 0..ROUNDS {
        let sizes = |at: usize| SIZES[(round + at * (1 + round / SIZES.len())) % SIZES.len()];
        let names = case.names();
        let dims: Dims =
            names.iter().enumerate().map(|(at, name)| ((*name).into(), sizes(at))).collect();
        let Ok(arguments) = arguments(case, &program.module, &dims, round) else { continue };
        let outcome = compare(&after, "main", &floats, &arguments, round as u64)
            .map_err(|why| format!("{passes}: {dims:?}: {why}\n{}", print(&after)))?;
        if let Outcome::Agree { nonzero: found, .. } = outcome {
            runs += 1;
            nonzero += found;
        }
    }
    Ok(Held::Agrees { runs, nonzero })
}

/// The call in a function that sums what it gives, each element with a weight of its own.
fn loss(case: &Case) -> Option<String> {
    // All in f64, in which differences tell something.
    let text = FLOATS[1..]
        .iter()
        .fold(case.text("f64"), |text, dtype| text.replace(&format!("\"{dtype}\""), "\"f64\""));
    let text = text.replace("def f(", "def main(");
    let called = Program::load(Source::new("case", text.as_str()));
    let results = check(&called.module, &mut Prover::new(), Phase::Surface).results;
    let is_float = |annotation: &Annotation| {
        annotation.as_tensor().is_some_and(|tensor| tensor.dtype == Some(DType::F64))
    };
    let parts: Vec<String> = match results.get("main")? {
        Annotation::Tuple(fields) => (0..fields.len())
            .filter(|&at| is_float(&fields[at]) && gradient_cases::counts(case.row, at))
            .map(|at| format!("y[{at}]"))
            .collect(),
        one if is_float(one) => vec!["y".to_owned()],
        _ => return None,
    };
    if parts.is_empty() {
        return None;
    }
    let mut lines = text.trim_end().trim_end_matches("return y").trim_end().to_owned();
    let mut sum = "const(0.0, \"f64\")".to_owned();
    for (at, part) in parts.iter().enumerate() {
        let number = at + 1;
        lines.push_str(&format!(
            "\n    p{at} = astype({part}, \"f64\")\
             \n    w{at} = cos(multiply(cumsum(ones_like(p{at})), const({number}.7, \"f64\")))\
             \n    s{at} = sum(multiply(flatten(p{at}), w{at}))"
        ));
        sum = format!("add({sum}, s{at})");
    }
    Some(format!("{lines}\n    return {sum}\n"))
}

fn arguments(
    case: &Case,
    module: &Module,
    dims: &Dims,
    round: usize,
) -> Result<Vec<Value>, String> {
    let function = module.function("main").expect("there is one");
    let values = function.lambda.params.iter().enumerate().map(|(at, &param)| {
        let info = function.var(param);
        let mut random = Random::new(round as u64, &info.name);
        let annotation = function.param_annotation(param);
        let value = random_value(annotation, dims, &mut random, &(0..=4), MAX_BYTES)?;
        Ok(match value {
            Value::Tensor(tensor) if tensor.dtype() == DType::F64 => {
                let moved = tensor.to_floats().mapv(|own| domain(case.row, at, own));
                Value::Tensor(Tensor::from_floats(DType::F64, moved))
            }
            other => other,
        })
    });
    values.collect()
}
