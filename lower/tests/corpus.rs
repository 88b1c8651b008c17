//! Every expectation of the corpus, again after the passes up to P0, up to P1, after fusion, and after
//! the passes that are asked for by name; `# structure:` expectations; and what holds of every pass on every
//! program: its output prints and parses back to itself, means the same, and knows no less.

use libtest_mimic::{Arguments, Failed, Trial};
use relax_corpus::files;
use relax_corpus::harness::{Mode, Rewrites, run_file_with};
use relax_corpus::sample::Sample;
use relax_lower::pipeline::PIPELINE;
use relax_program::frontend::{Program, print, print_and_parse};
use relax_program::well_formed_part::well_formed_part;
use relax_rewrite::pass::{Device, Exactness, Settings};
use relax_rewrite::pipeline::{Applied, Failed as Ended, Route, Unwatched, Watch, run};
use relax_rewrite::precision::coarsened;
use relax_rewrite::verify::{Effort, Remembered, verify_again};
use relax_semantics::check::Phase;
use relax_semantics::ops::lookup;
use relax_symbolic::Prover;
use relax_syntax::ir::{Body, Callee, Expr, Module};
use relax_syntax::span::Source;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Deep recursion in a program is the interpreter's to limit, not the thread's.
const STACK: usize = 256 << 20;
/// Enough to take every branch now and then; the corpus has its own expectations beside.
const EFFORT: Effort = Effort { cases: 6, seed: 1 };

/// Ingestion, then lowering to tensor programs, which is no part of a phase yet.
const LEGAL: &str = "lift_lambdas,normalize,legalize_ops";
/// Ingestion, then fusion, which is no part of a phase.
const FUSION: &str = "lift_lambdas,normalize,annotate_tir_op_pattern,fuse_ops";
/// From graphs to fused tensor programs with the schedule of the processor.
const FUSED: &str = "lift_lambdas,normalize,legalize_ops,annotate_tir_op_pattern,fuse_ops,fuse_tir,\
                     inline_buffers,fuse_loops,eliminate_dead_code,version_loops,parallelize_loops";
/// Ingestion, then what is asked for by name and keeps values.
const NAMED: &str = "lift_lambdas,normalize,inline_private_functions,bind_params,\
                     combine_parallel_matmul,convert_layout,lift_transform_params,outline_blocks";
/// Ingestion, then rules that keep every bit.
const SATURATED: &str = "lift_lambdas,normalize,saturate";
/// Libraries for a part of the operators, programs for the rest.
const LIBRARY: &str = "cuda/lift_lambdas,normalize,guard_libraries,lower_to_library,legalize_ops";
/// The compiler's own library functions, and the operators that define them.
const NATIVE: &str =
    "lift_lambdas,normalize,eliminate_broadcasts,lower_to_library,expand_libraries,legalize_ops";
/// Libraries by way of functions.
const COMPOSITE: &str = "cuda/lift_lambdas,normalize,guard_libraries,fuse_ops_by_pattern,merge_composite_functions,\
                         run_codegen";

/// All routes but [`SATURATED`].
const ROUTES: [&str; 11] =
    ["P0", "P1", NAMED, FUSION, LEGAL, FUSED, LIBRARY, NATIVE, COMPOSITE, "P2.3", "cuda/P2.3"];

fn main() {
    let arguments = Arguments::from_args();
    let files = files::programs();
    let all = files.clone();
    let ratchet = Trial::test("calls_that_stay_operators", move || legalized(&all));
    let saturated = saturated(&files);
    let rotating = rotating(&files);
    let trial = |path: PathBuf| {
        let mut routes = rotating.get(&path).cloned().unwrap_or_else(|| ROUTES.to_vec());
        if saturated.contains(&path) {
            routes.push(SATURATED);
        }
        trial(path, routes)
    };
    let trials = files.into_iter().map(trial).chain([ratchet]).collect();
    libtest_mimic::run(&arguments, trials).exit();
}

/// Calls of the corpus that could be calls of tensor programs and stay operators: it may only fall.
const STAY: usize = 1065;

/// Counts what `legalize_ops` leaves of operators that have tensor programs.
fn legalized(files: &[PathBuf]) -> Result<(), Failed> {
    let route = PIPELINE.named(LEGAL)?;
    let (mut stay, mut all) = (BTreeMap::new(), BTreeMap::new());
    for path in files {
        let text = std::fs::read_to_string(path)?;
        let program = Program::load(Source::new("corpus", text.as_str()));
        let part = well_formed_part(&program);
        let settings = Settings::default();
        let done = run(&part, &route, &settings, &mut Prover::new(), &mut Unwatched);
        if let Ok(module) = done {
            count(&module, &mut stay);
            count(&part, &mut all);
        }
    }
    let sum = |counts: &BTreeMap<&str, usize>| counts.values().sum::<usize>();
    if sum(&stay) > STAY {
        let (stays, all) = (sum(&stay), sum(&all));
        return Err(
            format!("{stays} calls stay operators, it were {STAY} (of {all}): {stay:?}").into()
        );
    }
    Ok(())
}

/// Counts the calls of operators that have tensor programs.
fn count(module: &Module, counts: &mut BTreeMap<&'static str, usize>) {
    fn of_body(body: &Body, counts: &mut BTreeMap<&'static str, usize>) {
        for binding in body.bindings() {
            match &binding.expr {
                Expr::Call { callee: Callee::Operator(name), .. } => {
                    if let Some(row) = lookup(name).filter(|row| row.program.are_some()) {
                        *counts.entry(row.name).or_default() += 1;
                    }
                }
                Expr::If { then, otherwise, .. } => {
                    of_body(then, counts);
                    of_body(otherwise, counts);
                }
                _ => {}
            }
        }
    }
    let bodies = module.functions().filter_map(|function| function.lambda.body.as_ref());
    bodies.for_each(|body| of_body(body, counts));
}

fn trial(path: PathBuf, routes: Vec<&'static str>) -> Trial {
    Trial::test(files::name(&path), move || {
        let thread =
            std::thread::Builder::new().stack_size(STACK).spawn(move || hold(&path, &routes))?;
        thread.join().map_err(|_| Failed::from("the run panicked: see above"))?
    })
}

/// Saturation takes longer than all other routes together: of operators' files and models it is tried on one in so many.
const SATURATED_STRIDE: usize = 4;

/// Of operators' files, of which each has the same functions for many dtypes, and of models, which take the longest, one
/// in so many routes is taken.
const ROUTES_STRIDE: usize = 3;

fn is_slow(path: &Path) -> bool {
    let name = files::name(path);
    name.starts_with("suite/ops/") || name.starts_with("models/")
}

/// The routes of files of which not all are taken: neighbors take different ones.
fn rotating(files: &[PathBuf]) -> BTreeMap<PathBuf, Vec<&'static str>> {
    let slow: Vec<&PathBuf> = files.iter().filter(|path| is_slow(path)).collect();
    let pairs = slow.iter().enumerate().flat_map(|(at, path)| {
        let turned = ROUTES.iter().cycle().skip(at).take(ROUTES.len());
        turned.map(move |route| ((*path).clone(), *route))
    });
    let mut taken = BTreeMap::new();
    for (path, route) in
        Sample::of("routes of operators' files and models", ROUTES_STRIDE).take(pairs)
    {
        taken.entry(path).or_insert_with(Vec::new).push(route);
    }
    taken
}

/// The files on which saturation is tried.
fn saturated(files: &[PathBuf]) -> BTreeSet<PathBuf> {
    let (slow, quick): (Vec<&PathBuf>, Vec<&PathBuf>) =
        files.iter().partition(|path| is_slow(path));
    let slow = Sample::of("programs on which saturation is tried", SATURATED_STRIDE).take(slow);
    slow.chain(quick).cloned().collect()
}

fn hold(path: &Path, routes: &[&'static str]) -> Result<(), Failed> {
    let bytes = std::fs::read(path)?;
    let known = RefCell::default();
    let apply = |module: &Module, list: &str| rewritten(module, list, &mut known.borrow_mut());
    let rewrites = Rewrites { routes, apply: &apply };
    let outcome = run_file_with(&path.display().to_string(), &bytes, Mode::Hold, Some(&rewrites));
    if outcome.failures.is_empty() {
        return Ok(());
    }
    let lines = outcome
        .failures
        .iter()
        .map(|failure| format!("{}:{}: {}", path.display(), failure.line, failure.message));
    Err(lines.collect::<Vec<_>>().join("\n").into())
}

/// Runs the passes of a list, or those up to a phase, each held against what must be true of it.
/// A list may begin with a target: `cuda/lower_to_library`.
fn rewritten(module: &Module, list: &str, known: &mut Known) -> Result<Module, String> {
    let (target, list) = match list.split_once('/') {
        Some(("cuda", list)) => (Device::Cuda, list),
        Some((other, _)) => return Err(format!("`{other}` is no target that is tested here")),
        None => (Device::Cpu, list),
    };
    let recorded = Phase::of_module(module)?;
    let route = match Phase::parse(list) {
        // What is beyond that phase already stays as it is.
        Some(phase) if phase <= recorded => return Ok(module.clone()),
        Some(phase) => PIPELINE.to(phase),
        None => PIPELINE.named(list)?,
    };
    if let Route::Passes(passes) = &route
        && passes.iter().any(|pass| pass.until < recorded)
    {
        return Ok(module.clone());
    }
    let settings = Settings { device: target, ..Settings::default() };
    let known = known.0.entry(print(module)).or_default();
    run(
        module,
        &route,
        &settings,
        &mut Prover::new(),
        &mut Held {
            input: module,
            exactness: Exactness::Exact,
            known,
            begins: (target == Device::Cuda && Phase::parse(list).is_some()).then_some(PLAN),
        },
    )
    .map_err(|ended| match ended {
        Ended::Refused { pass, diagnostics } => format!("{pass} refuses: {diagnostics:?}"),
        Ended::Broken { pass, diagnostics, module } => {
            let text = print(&module);
            format!("{pass} makes a wrong module: {diagnostics:?}\n{text}")
        }
        Ended::Stopped { pass, why } => format!("{pass}: {why}"),
    })
}

/// What the routes of a file share: by the text of the input, what was found out about it.
#[derive(Default)]
struct Known(BTreeMap<String, KnownInput>);

#[derive(Default)]
struct KnownInput {
    /// What the input came to.
    remembered: Remembered,
    /// Results of passes, each with the text before the pass and what the passes so far promised: many routes
    /// begin alike.
    held: BTreeSet<(String, String, String)>,
}

/// What must be true of every pass.
struct Held<'a> {
    input: &'a Module,
    /// Of the passes so far.
    exactness: Exactness,
    known: &'a mut KnownInput,
    /// The pass from which on targets differ: those before it are held on the route of the processor.
    begins: Option<&'static str>,
}

/// The first pass of the stages that asks for the target.
const PLAN: &str = "plan_memory";

impl Watch for Held<'_> {
    fn after(&mut self, applied: &Applied) -> Result<(), String> {
        self.begins = self.begins.filter(|pass| *pass != applied.pass.name);
        if !applied.changed() {
            return Ok(());
        }
        self.exactness = self.exactness.then(applied.pass.exactness);
        if self.begins.is_some() {
            return Ok(());
        }
        let (before, after) = (print(applied.before), print(applied.after));
        let promised = format!("{:?} {:?}", self.exactness, applied.pass.to);
        if !self.known.held.insert((before, after, promised)) {
            return Ok(());
        }
        print_and_parse(applied.after)?;
        let knows_less = || coarsened(applied.before, applied.after, &mut Prover::new());
        // From P2.3 on annotations are code.
        if applied.pass.to < Phase::P23
            && let Some(what) = knows_less()
        {
            return Err(format!("{what}\n{}", print(applied.after)));
        }
        verify_again(
            self.input,
            applied.after,
            self.exactness,
            EFFORT,
            &BTreeMap::new(),
            &mut self.known.remembered,
        )
        .map(|_| ())
        .map_err(|difference| format!("{difference}\n{}", print(applied.after)))
    }
}
