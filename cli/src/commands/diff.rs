//! `relax diff`: the same functions on two routes, with random dims and inputs.
//!
//! A case draws dims for the variables of the signature, then data. Both routes must give the same
//! value or stop with the same trap. What was compared, and what could not be, is counted.

use super::kernel_check;
use super::load;
use super::opt::failed_run;
use super::run::{called, compiled};
use super::unknown::unknown;
use crate::args::{Backend, DiffArgs};
use crate::exit::{Exit, Failure, Outcome};
use crate::terminal::Terminal;
use relax_emit::Sums;
use relax_program::compare::{Relation, compare};
use relax_program::externals::externals;
use relax_program::frontend::{RunOptions, print_and_parse, run};
use relax_program::reals::{
    Results, agree, largest_magnitude, widened, widened_value, widened_values,
};
use relax_program::rounding::{
    Precision, Rounding, Verdict, compare_rounded, perturbed_value, perturbed_values,
};
use relax_program::signature::{Dims, random_dims, random_value};
use relax_program::spec::{Typing, literal};
use relax_runtime as machine;
use relax_semantics::random::Random;
use relax_semantics::stop::Stop;
use relax_semantics::tensor::Tensor;
use relax_semantics::value::Value;
use relax_syntax::Name;
use relax_syntax::ir::{Function, Module};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes of one random tensor.
const MAX_BYTES: u64 = 64 << 20;
/// Random integers.
const INTS: std::ops::RangeInclusive<i64> = -4..=4;
/// Steps of one run: a random loop must end.
const MAX_STEPS: u64 = 200_000_000;

/// Two programs that shall mean the same.
struct Routes {
    left: Module,
    other: Other,
    seed: u64,
    cases: u32,
    externals: Arc<BTreeMap<Name, Tensor>>,
}

/// The second program.
enum Other {
    /// Run by the interpreter.
    Text {
        module: Module,
        relation: Relation,
        /// Both in f64, where they may round in different places.
        wide: Option<(Module, Module)>,
    },
    /// The first one, compiled.
    Compiled {
        module: Box<machine::Module>,
        rounding: Rounding,
        /// The constants, each off by a rounding error.
        perturbed: Arc<BTreeMap<Name, Tensor>>,
    },
}

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
    let Some(program) = load(&args.file, terminal)? else { return Ok(Exit::Wrong) };
    let (right, relation) = match &args.against {
        Some(path) => {
            let Some(other) = load(path, terminal)? else { return Ok(Exit::Wrong) };
            (other.module, Relation::Close)
        }
        None => match print_and_parse(&program.module) {
            Ok(printed) => (printed.module, Relation::Equal),
            Err(why) => {
                terminal.result(&format!("different: {why}\n"))?;
                return Ok(Exit::Wrong);
            }
        },
    };
    let externals = Arc::new(random_externals(&[&program.module, &right], args.seed)?);
    let backend = args.backend.filter(|backend| *backend != Backend::Interp);
    let numerics = (args.numerics.sums(), args.kernel_check.policy());
    if backend.is_none() {
        args.numerics.refuse("is for compiled code: give a --backend")?;
    }
    let compiled = match backend {
        None => None,
        Some(backend) => match compiled(&program, backend, &externals, numerics)? {
            Ok(module) => {
                kernel_check::warn(module.metadata().kernel_check.as_ref(), terminal);
                Some(module)
            }
            Err(failed) => return failed_run(&failed, &program, terminal),
        },
    };
    let names = functions(&program.module, &right, args.entry.as_deref())?;
    let (seed, cases) = (args.seed, args.cases);
    let (left, perturbed) = (program.module, Arc::new(perturbed_values(&externals)));
    let other = match compiled {
        Some(module) => {
            let precision = Precision::of(&left);
            let rounding = match args.numerics.sums() {
                Sums::Exact => Rounding::Functions(precision),
                Sums::AnyOrder => Rounding::Sums(precision),
            };
            Other::Compiled { module: Box::new(module), rounding, perturbed }
        }
        None => {
            let is_close = relation == Relation::Close;
            let wide = is_close.then(|| widened(&left).zip(widened(&right))).flatten();
            Other::Text { module: right, relation, wide }
        }
    };
    let routes = Routes { left, other, seed, cases, externals };
    let mut tally = Tally::default();
    for name in names {
        if let Some(difference) = routes.function(&name, &mut tally) {
            terminal.result(&difference)?;
            return Ok(Exit::Wrong);
        }
    }
    terminal.result(&tally.text())?;
    Ok(if tally.compared == 0 { Exit::Vacuous } else { Exit::Fine })
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

fn random_externals(modules: &[&Module], seed: u64) -> Result<BTreeMap<Name, Tensor>, Failure> {
    let mut values = BTreeMap::new();
    for (name, annotations) in modules.iter().flat_map(|module| externals(module)) {
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

impl Routes {
    /// The first difference, as text.
    fn function(&self, name: &Name, tally: &mut Tally) -> Option<String> {
        let function = self.left.function(name)?;
        (0..self.cases).find_map(|case| {
            let mut random = Random::new(self.seed, &format!("{name}/{case}"));
            let dims = random_dims(function, &mut random);
            let Ok(arguments) = arguments(function, &dims, &mut random) else {
                tally.rejected += 1;
                return None;
            };
            let why = self.case(name, &arguments, tally).err()?;
            Some(describe(function, case, &dims, &arguments, &why))
        })
    }

    fn case(&self, name: &Name, arguments: &[Value], tally: &mut Tally) -> Result<(), String> {
        let options = RunOptions {
            externals: self.externals.clone(),
            steps: Some(MAX_STEPS),
            ..RunOptions::default()
        };
        let left = run(&self.left, name, arguments.to_vec(), &options).result;
        let right = match &self.other {
            Other::Compiled { module, .. } => called(module, name, arguments),
            Other::Text { module, .. } => run(module, name, arguments.to_vec(), &options).result,
        };
        match (left, right) {
            (Err(Stop::Exhausted { .. }), _) | (_, Err(Stop::Exhausted { .. })) => {
                tally.exhausted += 1;
            }
            (Err(Stop::Unsupported(_)), _) | (_, Err(Stop::Unsupported(_))) => {
                tally.unsupported += 1;
            }
            (Ok(left), Ok(right)) => {
                self.values(name, arguments, (&left, &right), tally)?;
            }
            (Err(Stop::Trap(left)), Err(Stop::Trap(right))) => {
                tally.trapped += 1;
                if left.id != right.id {
                    return Err(format!("one stops with {}, the other with {}", left.id, right.id));
                }
            }
            (Ok(_), Err(stop)) => return Err(format!("only the second stops: {stop}")),
            (Err(stop), Ok(_)) => return Err(format!("only the first stops: {stop}")),
        }
        Ok(())
    }
}

impl Routes {
    /// Compares two results.
    fn values(
        &self,
        name: &Name,
        arguments: &[Value],
        (left, right): (&Value, &Value),
        tally: &mut Tally,
    ) -> Result<(), String> {
        match &self.other {
            Other::Text { relation, wide, .. } => {
                tally.compared += 1;
                let Err(why) = compare(*relation, left, right) else { return Ok(()) };
                self.as_reals(name, arguments, (left, right), wide.as_ref()).map_err(|more| {
                    match more {
                        Some(more) => format!("{why}; {more}"),
                        None => why,
                    }
                })?;
                tally.as_reals += 1;
            }
            Other::Compiled { rounding, perturbed, .. } => {
                let options = RunOptions {
                    externals: Arc::clone(perturbed),
                    steps: Some(MAX_STEPS),
                    ..RunOptions::default()
                };
                let inputs = largest_magnitude(arguments);
                let perturbed = || {
                    let arguments = arguments.iter().map(perturbed_value).collect();
                    run(&self.left, name, arguments, &options).result.ok()
                };
                match compare_rounded(*rounding, (left, right), inputs, perturbed)? {
                    Verdict::Near => tally.compared += 1,
                    Verdict::IllConditioned => tally.ill_conditioned += 1,
                }
            }
        }
        Ok(())
    }

    /// Whether results are the same real numbers, each rounded on its way; if not, what more is to be said.
    fn as_reals(
        &self,
        name: &Name,
        arguments: &[Value],
        rounded: (&Value, &Value),
        wide: Option<&(Module, Module)>,
    ) -> Result<(), Option<String>> {
        compare(Relation::Shaped, rounded.0, rounded.1).map_err(|_| None)?;
        let (left, right) = wide.ok_or(None)?;
        let options = RunOptions {
            externals: Arc::new(widened_values(&self.externals)),
            steps: Some(MAX_STEPS),
            ..RunOptions::default()
        };
        let inputs = largest_magnitude(arguments);
        let arguments: Vec<Value> = arguments.iter().map(widened_value).collect();
        let left = run(left, name, arguments.clone(), &options).result.map_err(|_| None)?;
        let right = run(right, name, arguments, &options).result.map_err(|_| None)?;
        agree(Results { rounded, wide: (&left, &right), inputs }).map_err(Some)
    }
}

fn arguments(function: &Function, dims: &Dims, random: &mut Random) -> Result<Vec<Value>, String> {
    let params = function.lambda.params.iter();
    params
        .map(|&id| random_value(function.param_annotation(id), dims, random, &INTS, MAX_BYTES))
        .collect()
}

/// Enough to run the case again.
fn describe(function: &Function, case: u32, dims: &Dims, arguments: &[Value], why: &str) -> String {
    use std::fmt::Write;
    const LONGEST: usize = 2000;
    let mut text = format!("different: `{}`, case {case}: {why}\n", function.name);
    for (name, value) in dims {
        let _ = writeln!(text, "  {name} = {value}");
    }
    for (&id, value) in function.lambda.params.iter().zip(arguments) {
        let shown = literal(value, Typing::Written).unwrap_or_else(|| value.kind().to_owned());
        let shown = if shown.len() > LONGEST { value.annotation().to_string() } else { shown };
        let _ = writeln!(text, "  --input '{}={shown}'", function.var(id).name);
    }
    text
}

impl Tally {
    fn text(&self) -> String {
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
        let verdict = if self.compared == 0 { "nothing compared" } else { "the same" };
        format!(
            "{verdict}: {} compared{as_reals}, {ill_conditioned}{} trapped alike, {} gave up at a limit, \
             {} unsupported, {} rejected (no inputs for the signature)\n",
            self.compared, self.trapped, self.exhausted, self.unsupported, self.rejected
        )
    }
}
