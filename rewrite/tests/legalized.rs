//! Every operator that has a tensor program is held against it: calls with several attributes and
//! dtypes, at sizes that find bugs, in the interpreter, before and after `legalize_ops`.

mod legalized_cases;

use legalized_cases::{Case, cases};
use relax_program::compare::{Relation, compare};
use relax_program::frontend::{Program, RunOptions, print, print_and_parse, run as interpret};
use relax_program::signature::{Dims, random_value};
use relax_rewrite::pass::Settings;
use relax_rewrite::passes::legalize_ops::why_it_stays;
use relax_rewrite::pipeline::{PIPELINE, Unwatched, run};
use relax_semantics::check::{Phase, check};
use relax_semantics::ops;
use relax_semantics::random::Random;
use relax_semantics::stop::Stop;
use relax_semantics::tensor::{Number, Tensor};
use relax_semantics::value::Value;
use relax_symbolic::Prover;
use relax_syntax::annotation::{Annotation, Extents};
use relax_syntax::ir::{Atom, Callee, Expr, Module};
use relax_syntax::span::Source;
use std::collections::BTreeSet;

const SIZES: [i64; 6] = [0, 1, 2, 3, 5, 7];
/// Sizes for each case: with one or two variables all pairs, with more a part of them.
const MOST: usize = 36;
const MAX_BYTES: u64 = 1 << 22;

#[test]
fn every_row_with_a_program_has_a_case() {
    let held: BTreeSet<&str> = cases().map(|case| case.row).collect();
    let missing: Vec<&str> = ops::all()
        .filter(|row| row.program.are_some())
        .map(|row| row.name)
        .filter(|row| !held.contains(row))
        .collect();
    assert!(missing.is_empty(), "no case of {missing:?}");
}

#[test]
fn every_row_without_a_program_says_why() {
    let silent: Vec<&str> = ops::all()
        .filter(|row| why_it_stays(row).is_some_and(|why| why.starts_with("nobody")))
        .map(|row| row.name)
        .collect();
    assert!(silent.is_empty(), "{silent:?} have neither a program nor a reason");
}

#[test]
fn programs_do_what_operators_do() {
    let (mut wrong, mut runs) = (Vec::new(), 0);
    for case in cases() {
        for dtype in case.dtypes {
            match hold(case, dtype) {
                Ok(count) => runs += count,
                Err(why) => wrong.push(format!("{} ({dtype}): {why}", case.call)),
            }
        }
    }
    assert!(wrong.is_empty(), "{} cases are wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(runs > 10_000, "only {runs} runs");
}

fn hold(case: &Case, dtype: &str) -> Result<usize, String> {
    let program = Program::load(Source::new("case", case.text(dtype).as_str()));
    if program.has_errors() {
        return Err(format!("{:?}", program.diagnostics));
    }
    let before = program.module;
    let after = legal(&before)?;
    if calls(&after, case.row) {
        return Err(format!("it stays an operator:\n{}", print(&after)));
    }
    print_and_parse(&after)?;
    let results = check(&before, &mut Prover::new(), Phase::Surface).results;
    let annotation = &results[&relax_syntax::Name::new("f")];
    let (mut runs, names) = (0, case.names());
    for (number, sizes) in all_sizes(names.len()).into_iter().enumerate() {
        let dims: Dims = names.iter().map(|name| (*name).into()).zip(sizes).collect();
        let arguments = arguments(&before, &dims, number);
        let Ok(arguments) = arguments else { continue };
        one(&before, &after, annotation, &dims, arguments)
            .map_err(|why| format!("{dims:?}: {why}\n{}", print(&after)))?;
        runs += 1;
    }
    Ok(runs)
}

/// The module after legalization.
fn legal(module: &Module) -> Result<Module, String> {
    let route = PIPELINE.named("normalize,legalize_ops")?;
    run(module, &route, &Settings::default(), &mut Prover::new(), &mut Unwatched)
        .map_err(|_| "the passes fail".to_owned())
}

/// Whether the module calls an operator.
fn calls(module: &Module, row: &str) -> bool {
    let bodies = module.functions().filter_map(|function| function.lambda.body.as_ref());
    let mut bindings = bodies.flat_map(|body| body.bindings());
    bindings.any(|binding| match &binding.expr {
        Expr::Call { callee: Callee::Operator(name), .. } => {
            ops::lookup(name).is_some_and(|found| found.name == row)
        }
        _ => false,
    })
}

fn all_sizes(count: usize) -> Vec<Vec<i64>> {
    let total = SIZES.len().pow(u32::try_from(count).expect("few"));
    let step = total.div_ceil(MOST);
    // A step that shares no factor with 6 goes through every size of every variable.
    let step = if step > 1 { step + (6 - step % 6) + 1 } else { 1 };
    let numbers = (0..total).step_by(step);
    numbers
        .map(|number| {
            (0..count)
                .map(|at| {
                    SIZES[number / SIZES.len().pow(u32::try_from(at).expect("few")) % SIZES.len()]
                })
                .collect()
        })
        .collect()
}

fn arguments(module: &Module, dims: &Dims, number: usize) -> Result<Vec<Value>, String> {
    let function = module.function("f").expect("there is one");
    let params = function.lambda.params.iter();
    let values = params.map(|&param| {
        let info = function.var(param);
        let mut random = Random::new(number as u64, &info.name);
        let annotation = function.param_annotation(param);
        let value = random_value(annotation, dims, &mut random, &(-4..=9), MAX_BYTES)?;
        // Every other run has the numbers that have rules of their own.
        Ok(if number % 2 == 1 { with_specials(value, &mut random) } else { value })
    });
    values.collect()
}

fn with_specials(value: Value, random: &mut Random) -> Value {
    const SPECIAL: [f64; 5] = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 0.0];
    let Value::Tensor(tensor) = value else { return value };
    if !tensor.dtype().is_float() {
        return Value::Tensor(tensor);
    }
    let specials = SPECIAL.map(|value| Tensor::scalar(tensor.dtype(), Number::Float(value)));
    let mut parts: Vec<&Tensor> = specials.iter().collect();
    parts.push(&tensor);
    let positions = (0..tensor.len()).map(|at| {
        let choice = usize::try_from(random.int(&(0..=19))).unwrap_or(0);
        if choice < SPECIAL.len() { choice } else { SPECIAL.len() + at }
    });
    let positions: Vec<usize> = positions.collect();
    Value::Tensor(Tensor::joined(&parts).select(tensor.shape(), &positions))
}

fn one(
    before: &Module,
    after: &Module,
    annotation: &Annotation,
    dims: &Dims,
    arguments: Vec<Value>,
) -> Result<(), String> {
    let options = RunOptions::default();
    let want = interpret(before, "f", arguments.clone(), &options).result;
    let got = interpret(after, "f", arguments, &options).result;
    match (want, got) {
        (Ok(want), Ok(got)) => {
            fits(annotation, &got, dims)?;
            compare(Relation::Close, &want, &got)
        }
        (Err(Stop::Trap(want)), Err(Stop::Trap(got)))
            if want.id == got.id && want.message == got.message =>
        {
            Ok(())
        }
        (want, got) => Err(format!("expected {want:?}, found {got:?}")),
    }
}

/// Whether a value has the dims that were deduced.
fn fits(annotation: &Annotation, value: &Value, dims: &Dims) -> Result<(), String> {
    match (annotation, value) {
        (Annotation::Tuple(fields), Value::Tuple(items)) if fields.len() == items.len() => {
            fields.iter().zip(items).try_for_each(|(field, item)| fits(field, item, dims))
        }
        (Annotation::Tensor(tensor), Value::Tensor(found)) => {
            if tensor.extents == Extents::Rank(found.rank()) && tensor.dtype == Some(found.dtype())
            {
                return Ok(());
            }
            let known = tensor.extents.dims().ok_or("the dims are not deduced")?;
            let deduced = known.iter().map(|dim| dim.eval(&|name| dims.get(name).copied()).ok());
            let shape = found.shape().iter().map(|&extent| i64::try_from(extent).ok());
            let same = deduced.eq(shape) && tensor.dtype == Some(found.dtype());
            same.then_some(()).ok_or(format!("deduced {annotation}, found {:?}", found.shape()))
        }
        _ => Err(format!("deduced {annotation}, found {}", value.kind())),
    }
}

/// A program that the text spells twice is made once: nothing in it differs from itself.
#[test]
fn equal_calls_share_a_program() {
    for case in cases() {
        let once = case.text(case.dtypes[0]);
        let twice = once.replace(
            "    return y",
            &format!(
                "    z = {}\n    return (y, z)",
                case.call.replace("DT", &format!("\"{}\"", case.dtypes[0]))
            ),
        );
        let (of_one, of_two) = (programs(case, &once), programs(case, &twice));
        // Where elements decide extents, a program counts them before another one.
        let is_counted = ["dynamic_strided_slice", "nonzero", "unique"].contains(&case.row);
        let most = if is_counted { 2 } else { 1 };
        assert!(of_one.len() <= most, "{}: {of_one:?}", case.call);
        assert_eq!(of_one, of_two, "{}", case.call);
    }
}

/// The tensor programs of the operator that a module calls.
fn programs(case: &Case, text: &str) -> BTreeSet<relax_syntax::Name> {
    let program = Program::load(Source::new("case", text));
    let after = legal(&program.module).expect("it goes through");
    let bodies = after.functions().filter_map(|function| function.lambda.body.as_ref());
    let mut programs = BTreeSet::new();
    for binding in bodies.flat_map(|body| body.bindings()) {
        if let Expr::Call { args, .. } = &binding.expr
            && let Some(Atom::Global(name)) = args.first()
            && name.contains(case.row.trim_start_matches("nn."))
        {
            programs.insert(name.clone());
        }
    }
    programs
}
