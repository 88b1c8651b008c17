//! Oracle of ranks: a program over a mesh, run by all ranks on their shards, gives what it gives on one device.
//!
//! The local program is well-formed and reads back. Where no sum is formed in another order, results are equal bit for bit, at every
//! size and value: shards may be ragged or empty. The program with its layouts written out means the same, and is sharded alike.

use super::inputs::{drawn, drawn_plain, options};
use crate::case::{Case, Finding};
use crate::session::Statistics;
use crate::times::Work;
use relax_program::compare::{Relation, compare};
use relax_program::frontend::{Program, print, print_and_parse, run};
use relax_rewrite::inlined::inlined;
use relax_rewrite::verify::relation_of_rounded;
use relax_semantics::random::Random;
use relax_semantics::ranks::Mesh;
use relax_semantics::stop::Stop;
use relax_semantics::tensor::Tensor;
use relax_semantics::value::Value;
use relax_sharding::annotated::annotated;
use relax_sharding::layout::declared_meshes;
use relax_sharding::lower::lower;
use relax_sharding::propagate::{Plan, Step, propagate};
use relax_sharding::run::run as run_on_ranks;
use relax_sharding::{Sharded as Made, shard_in_versions};
use relax_syntax::Name;
use relax_syntax::annotation::{Placement, Reduction};
use relax_syntax::dim::Dim;
use relax_syntax::dtype::DType;
use relax_syntax::ir::graph::Literals;
use relax_syntax::ir::{Atom, Constant, Expr, Function, Module};
use relax_syntax::span::Source;
use std::collections::BTreeMap;

/// Calls of each function.
const CALLS: usize = 6;
/// One in so many programs is written with its layouts and sharded again.
const WRITTEN: u64 = 4;
/// One in so many programs chooses among layouts for several sizes.
const IN_VERSIONS: u64 = 8;
/// Workers along an axis whose extent is a variable.
const MOST_WORKERS: i64 = 4;
/// Sizes at which costs are compared: other ones lead to other layouts.
const SAMPLES: [i64; 4] = [1024, 1, 7, 0];
/// What a sum of so many terms may be off, in units of the largest element: sums over ranks are of few terms.
const ROUNDING: f64 = 1024.0;

/// Larger elements are not compared where sums are formed in another order.
const HUGE: f64 = 1e30;

/// What shows a finding.
const COMMAND: &str = "fuzz --replay FILE";

pub(super) fn hold(case: &Case, statistics: &mut Statistics) -> Result<(), Finding> {
    if declared_meshes(&case.checked).is_empty() {
        statistics.unsupported += 1;
        return Ok(());
    }
    for function in case.checked.functions() {
        let inlined = case.ask(|prover| inlined(&case.checked, &function.name, prover));
        let Ok(module) = inlined else {
            statistics.unsupported += 1;
            continue;
        };
        let Some(function) = module.function(&function.name) else { continue };
        let since = statistics.times.now();
        let sizes = sizes(case, function);
        let in_versions = case.seed.is_multiple_of(IN_VERSIONS);
        let made = case.ask(|prover| match in_versions {
            true => shard_in_versions(&module, function, &BTreeMap::new(), prover),
            false => {
                let plan = propagate(&module, function, &sizes, prover)?;
                let local = lower(&module, function, &plan, prover);
                Ok(Made { plan, others: Vec::new(), local })
            }
        });
        let Ok(Made { plan, others, local }) = made else {
            statistics.unsupported += 1;
            continue;
        };
        let local = well_formed(function, &local)?;
        statistics.times.spent(Work::Transform, since);
        statistics.coverage.note(&local);
        let sums = others.iter().map(|own| &own.plan).chain([&plan]).any(sums);
        let sharded = Sharded { case, module: &module, function, plan, sums, local };
        sharded.runs(statistics)?;
        if case.seed.is_multiple_of(WRITTEN) && !in_versions {
            sharded.written(&sizes, statistics)?;
        }
    }
    Ok(())
}

/// The sizes at which costs are compared.
fn sizes(case: &Case, function: &Function) -> BTreeMap<Name, i64> {
    let mut random = Random::new(case.seed, "samples");
    let dims = function.dims.iter().filter(|dim| dim.in_signature);
    let size = |random: &mut Random| SAMPLES[usize::try_from(random.int(&(0..=3))).unwrap_or(0)];
    dims.map(|dim| (dim.name.clone(), size(&mut random))).collect()
}

/// The local program as its text reads back.
fn well_formed(function: &Function, local: &Module) -> Result<Module, Finding> {
    let wrong = |why: String| {
        let text = print(local);
        Finding::new("local program", format!("`{}`: {why}\n{text}", function.name), COMMAND)
    };
    let program = print_and_parse(local).map_err(wrong)?;
    match program.diagnostics.first() {
        Some(first) if program.has_errors() => Err(wrong(first.message.clone())),
        _ => Ok(program.module),
    }
}

struct Sharded<'a> {
    case: &'a Case,
    module: &'a Module,
    function: &'a Function,
    plan: Plan,
    /// Whether sums are formed in another order than on one device.
    sums: bool,
    local: Module,
}

impl Sharded<'_> {
    fn runs(&self, statistics: &mut Statistics) -> Result<(), Finding> {
        let since = statistics.times.now();
        let sums = self.sums;
        for index in 0..CALLS {
            // Rounding makes anything of what is at the edges of a dtype.
            let inputs = if sums { drawn_plain } else { drawn };
            let Some((dims, arguments)) = inputs(self.case, self.function, index, statistics)
            else {
                continue;
            };
            let name = &self.function.name;
            let want = run(self.module, name, arguments.clone(), &options()).result;
            let given = options().interpreter_options();
            let placed = (&self.plan, &self.mesh(index));
            let ran = run_on_ranks(self.function, placed, &self.local, &arguments, &given);
            self.alike(sums, (want, ran.result), statistics).map_err(|why| {
                let text = print(&self.local);
                let extents = &placed.1.extents;
                let why =
                    format!("`{name}` at {dims:?} on {extents:?}, case {index}: {why}\n{text}");
                Finding::new("ranks", why, COMMAND)
            })?;
        }
        statistics.times.spent(Work::Run, since);
        Ok(())
    }

    /// The mesh of a call: extents that are variables are drawn for it.
    fn mesh(&self, index: usize) -> Mesh {
        let axes = &self.plan.axes;
        let mut random = Random::new(self.case.seed, &format!("extents {index}"));
        let extent = |own: &Dim| match own.as_int() {
            Some(literal) => literal,
            None => random.int(&(1..=MOST_WORKERS)),
        };
        let extents = axes.workers.iter().map(extent);
        let extents = extents.map(|extent| usize::try_from(extent).unwrap_or(1));
        let extents: Vec<usize> = extents.collect();
        axes.with_extents(&extents).unwrap_or_else(|why| panic!("invariant: {why}"))
    }

    /// The same value, or the same trap.
    fn alike(
        &self,
        sums: bool,
        (want, got): (Result<Value, Stop>, Result<Value, (usize, Stop)>),
        statistics: &mut Statistics,
    ) -> Result<(), String> {
        let count = match (want, got) {
            (Err(Stop::Exhausted { .. }), _) | (_, Err((_, Stop::Exhausted { .. }))) => {
                &mut statistics.exhausted
            }
            (Err(Stop::Unsupported(_)), _) | (_, Err((_, Stop::Unsupported(_)))) => {
                &mut statistics.unsupported
            }
            // A collective reads what it sends, where one device only hands it on.
            (_, Err((_, Stop::Trap(got)))) if got.id == "undefined/read" => {
                &mut statistics.unsupported
            }
            (Ok(want), Ok(got)) => {
                match compare(Relation::Equal, &want, &got) {
                    Ok(()) => {}
                    Err(_) if sums => match relation_of_rounded(self.module) {
                        Relation::Ranked => compare(Relation::Ranked, &want, &got)?,
                        rounded => self.near(rounded, &want, &got)?,
                    },
                    Err(why) => return Err(why),
                }
                &mut statistics.compared
            }
            (Err(Stop::Trap(want)), Err((_, Stop::Trap(got)))) if want.id == got.id => {
                &mut statistics.trapped
            }
            (want, Err((rank, stop))) => {
                let one = want.map_or_else(|stop| stop.to_string(), |_| "a value".to_owned());
                return Err(format!("one device: {one}; rank {rank}: {stop}"));
            }
            (Err(stop), Ok(_)) => return Err(format!("one device: {stop}; the ranks: a value")),
        };
        *count += 1;
        Ok(())
    }

    /// The same but for the rounding of sums that are formed in another order.
    fn near(&self, rounded: Relation, want: &Value, got: &Value) -> Result<(), String> {
        match (want, got) {
            (Value::Tuple(want), Value::Tuple(got)) if want.len() == got.len() => {
                want.iter().zip(got).try_for_each(|(want, got)| self.near(rounded, want, got))
            }
            (Value::Tensor(own), Value::Tensor(other)) => {
                if self.is_near(rounded, own, other) {
                    return Ok(());
                }
                compare(Relation::Equal, want, got)
            }
            _ => compare(Relation::Equal, want, got),
        }
    }

    fn is_near(&self, rounded: Relation, want: &Tensor, got: &Tensor) -> bool {
        let shapes = want.shape() == got.shape() && want.dtype() == got.dtype();
        // What a rounded value decides, and what a narrow dtype rounds, is any.
        if !shapes || rounded.leaves_integers() || self.is_chaotic() {
            return shapes;
        }
        if !want.dtype().is_float() {
            return false;
        }
        let pairs =
            || (0..want.len()).map(|at| (want.number(at).as_f64(), got.number(at).as_f64()));
        // Terms may be infinite where their sum is not.
        let tame = |value: f64| value.abs() <= HUGE;
        let pairs = pairs().filter(|(want, got)| tame(*want) && tame(*got));
        let pairs: Vec<(f64, f64)> = pairs.collect();
        let scale = pairs.iter().map(|(want, _)| want.abs()).fold(1.0, f64::max);
        let allowed = ROUNDING * f64::from(f32::EPSILON) * scale;
        pairs.iter().all(|(want, got)| (want - got).abs() <= allowed)
    }

    /// Whether rounding may be large: constants at the edges of a dtype, or narrow floats.
    fn is_chaotic(&self) -> bool {
        let dtypes = || {
            self.function.vars.iter().filter_map(|var| var.annotation.as_ref()?.as_tensor()?.dtype)
        };
        let bindings = self.function.lambda.body.iter().flat_map(|body| body.bindings());
        let mut atoms = bindings.flat_map(|binding| match &binding.expr {
            Expr::Call { args, .. } => args.as_slice(),
            Expr::Atom(atom) => std::slice::from_ref(atom),
            _ => &[],
        });
        dtypes().any(|dtype| matches!(dtype, DType::F16 | DType::BF16))
            || atoms.any(|atom| matches!(atom, Atom::Constant(constant) if !is_tame(constant)))
    }

    /// The program with its layouts is well-formed, means the same, and moves no more bytes.
    fn written(
        &self,
        sizes: &BTreeMap<Name, i64>,
        statistics: &mut Statistics,
    ) -> Result<(), Finding> {
        let name = &self.function.name;
        let text = print(&annotated(self.module, self.function, &self.plan));
        let wrong = |why: String| {
            Finding::new("annotated program", format!("`{name}`: {why}\n{text}"), COMMAND)
        };
        let program = Program::load(Source::new("annotated", text.as_str()));
        if program.has_errors() {
            let first = program.diagnostics.first().map(|first| first.message.clone());
            return Err(wrong(first.unwrap_or_default()));
        }
        let Some(function) = program.module.function(name) else {
            return Err(wrong("it is gone".to_owned()));
        };
        let again = self
            .case
            .ask(|prover| propagate(&program.module, function, sizes, prover))
            .map_err(|refused| wrong(format!("it is refused: {}", refused.message)))?;
        let (own, other) = (self.cost(&self.plan)?, self.cost(&again)?);
        if other > own && !self.plan.is_truncated {
            return Err(wrong(format!("it moves {own:?} bytes, and then {other:?}")));
        }
        let Some((_, arguments)) = drawn(self.case, self.function, 2, statistics) else {
            return Ok(());
        };
        let want = run(self.module, name, arguments.clone(), &options()).result;
        let got = run(&program.module, name, arguments, &options()).result;
        match (want, got) {
            (Ok(want), Ok(got)) => compare(Relation::Equal, &want, &got).map_err(wrong),
            (Err(_), Err(_)) => Ok(()),
            _ => Err(wrong("only one of both gives a value".to_owned())),
        }
    }

    /// The bytes that are moved at the sizes at which costs were compared, where they are known.
    fn cost(&self, plan: &Plan) -> Result<Option<i64>, Finding> {
        let bytes = self.case.ask(|prover| Ok::<_, Finding>(plan.bytes(prover)))?;
        Ok(bytes.eval(&|name| plan.samples.get(name).copied()).ok())
    }
}

/// Whether some value is a term of a sum.
fn sums(plan: &Plan) -> bool {
    let is_sum = |layout: &[Placement]| {
        layout.iter().any(|placement| matches!(placement, Placement::Partial(Reduction::Sum)))
    };
    plan.all_steps().into_iter().any(|step| match step {
        Step::Bind { layout, .. } | Step::Same { layout, .. } | Step::If { layout, .. } => {
            is_sum(layout)
        }
        Step::Move { from, .. } => is_sum(from),
    })
}

fn is_tame(constant: &Constant) -> bool {
    match &constant.data {
        Literals::Float(values) => values.iter().all(|value| value.abs() <= HUGE),
        _ => true,
    }
}
