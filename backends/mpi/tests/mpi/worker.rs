//! What each rank does. The first one compares what came of all with interpreted ranks in its own process.
#![allow(clippy::print_stdout)] // a process tells the test what it has done

use crate::by_hand::{
    beside, by_hand, collectives, disagreements, given, numbers, posted, shown, tensor,
};
use relax_cpu::{Cache, Compiler};
use relax_driver::ranks::{OneRank, Processes};
use relax_driver::{Artifact, Bound, KernelCheck, Target, Toolchain, compile};
use relax_program::compare::{Relation, compare};
use relax_program::frontend::Program;
use relax_rewrite::pass::Device;
use relax_rewrite::pipeline::Unwatched;
use relax_runtime::Limits;
use relax_runtime::program::Numerics;
use relax_semantics::interp::{Interpreter, Options};
use relax_semantics::ops;
use relax_semantics::ranks::{Mesh, RanRank, run as interpret};
use relax_semantics::value::Value;
use relax_sharding::run::{run as run_interpreted, run_one};
use relax_sharding::{Sharded, shard};
use relax_symbolic::Prover;
use relax_syntax::dtype::DType;
use relax_syntax::ir::Module;
use relax_syntax::span::Source;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// The environment variable that names what ranks do.
pub(crate) const WORKER: &str = "RELAX_MPI_WORKER";

type Checked = Result<usize, String>;

pub(crate) fn run(job: &str) -> ExitCode {
    let transport = relax_mpi::connect().expect("the first process looked for it");
    let (job, rest) = job.split_once(' ').unwrap_or((job, ""));
    let patience = Duration::from_secs(if job == "hangs" { 2 } else { 60 });
    let processes = Arc::new(Processes::new(transport, patience));
    let compared = match job {
        "sizes" => sizes(&processes, rest),
        "dtypes" => dtypes(&processes),
        "disagreements" => disagree(&processes),
        "beside" => go_on(&processes),
        "counts" => counts(&processes),
        "hangs" | "dies" => fails(&processes, job == "dies", rest),
        other => Err(format!("there is no job {other}")),
    };
    match compared {
        Ok(compared) => {
            if processes.rank() == 0 {
                println!("done: {job}, {compared} compared");
            }
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("rank {}: {why}", processes.rank());
            // The others wait for this one, and MPI is left together only.
            std::process::abort();
        }
    }
}

fn loaded(text: &str) -> Program {
    let program = Program::load(Source::new("program", text));
    assert!(!program.has_errors(), "{:?}\n{text}", program.diagnostics);
    program
}

fn interpreted(processes: &Arc<Processes>, local: &Module, given: Vec<Value>) -> RanRank {
    let options = Options { rank: Some(Arc::clone(processes) as _), ..Options::default() };
    let mut interpreter = Interpreter::new(local, options);
    let result = interpreter.call("main", given);
    RanRank { result, printed: interpreter.printed }
}

/// The compiled local program, with the bits of the interpreter.
fn compiled(program: &Program, local: &Module, cache: &Cache) -> OneRank {
    let compiler = Compiler::of_system().expect("a C compiler");
    let tools = Toolchain { compiler, cache: cache.clone(), check: KernelCheck::default() };
    let target = Target::of(Device::Cpu, Numerics::Exact).by(tools);
    let (source, module) = (program.source.clone(), local.clone());
    let program = Program { source, module, diagnostics: Vec::new(), left: Vec::new() };
    let image = compile(&program, &target, &Bound::default(), &mut Unwatched)
        .and_then(Artifact::into_file)
        .unwrap_or_else(|error| panic!("{error}\n{}", program.source.text));
    let limits = Limits { threads: 1, ..Limits::default() };
    OneRank::load(&image, limits, &ops::Limits::default()).expect("it loads")
}

/// Every size of some cases, interpreted; some of them compiled as well.
fn sizes(processes: &Arc<Processes>, lists: &str) -> Checked {
    let folder = tempfile::tempdir().expect("a folder for the cache");
    let cache = Cache::at(folder.path());
    let cases = crate::every_case();
    let mut compared = 0;
    let listed = |list: &str| -> Vec<usize> {
        list.split(',').filter_map(|number| number.parse().ok()).collect()
    };
    let (all, also_compiled) = lists.split_once(' ').unwrap_or((lists, ""));
    let also_compiled = listed(also_compiled);
    for number in listed(all) {
        let case = &cases[number];
        let program = loaded(&case.text);
        let function = program.module.function("main").expect("a main");
        let sharded = shard(&program.module, function, &BTreeMap::new(), &mut Prover::new());
        let Sharded { plan, local, .. } =
            sharded.unwrap_or_else(|refused| panic!("{refused:?}\n{}", case.text));
        let mesh = plan.axes.with_workers(processes.ranks()).expect("a mesh of all ranks");
        let machine = also_compiled.contains(&number).then(|| compiled(&program, &local, &cache));
        for n in 0..=33 {
            let shapes = (case.shapes)(n);
            let arguments: Vec<Value> =
                shapes.iter().zip(1..).map(|(shape, seed)| tensor(shape, seed)).collect();
            let on_ranks = |call: &dyn Fn(Vec<Value>) -> RanRank| {
                run_one(function, (&plan, &mesh), (&arguments, processes.rank()), |given| {
                    let given = given.expect("the arguments fit");
                    processes.run(&mesh, || call(given))
                })
            };
            let mut found = vec![on_ranks(&|given| interpreted(processes, &local, given))];
            if let Some(machine) = &machine {
                found.push(on_ranks(&|given| {
                    machine.call(Arc::clone(processes) as _, "main", &given)
                }));
            }
            let expected = || {
                run_interpreted(function, (&plan, &mesh), &local, &arguments, &Options::default())
                    .result
            };
            for found in found.into_iter().flatten() {
                let alike = match (&expected(), &found.result) {
                    (Ok(expected), Ok(found)) => compare(Relation::Equal, expected, found),
                    (expected, found) => Err(format!("{found:?} is not {expected:?}")),
                };
                alike.map_err(|why| format!("{} at {n}: {why}\n{}", case.name, case.text))?;
                compared += 1;
            }
        }
    }
    Ok(compared)
}

/// What ranks of a local program give here, by `call`, and in one process; on the first rank only.
fn both(
    processes: &Arc<Processes>,
    (module, mesh): (&Module, &Mesh),
    given: &[Vec<Value>],
    call: &dyn Fn(Vec<Value>) -> RanRank,
) -> Option<[Vec<RanRank>; 2]> {
    let own = given[processes.rank()].clone();
    let found = processes.run(mesh, || call(own))?;
    let options = Options::default();
    let expected = interpret(module, mesh, "main", given.to_vec(), &options);
    Some([expected.expect("a mesh of three"), found])
}

fn dtypes(processes: &Arc<Processes>) -> Checked {
    let mut compared = 0;
    for dtype in DType::ALL {
        for (body, is_shard) in collectives(dtype) {
            let (text, mesh) = by_hand(dtype, &body);
            let module = loaded(&text).module;
            // The last is reduced by blocks of elements.
            for n in [0, 1, 4, 7, 2803] {
                let given = given(dtype, n, is_shard);
                let call = |given| interpreted(processes, &module, given);
                let ran = both(processes, (&module, &mesh), &given, &call);
                let Some([expected, found]) = ran else { continue };
                for (rank, (expected, found)) in expected.iter().zip(&found).enumerate() {
                    let alike = match (&expected.result, &found.result) {
                        (Ok(expected), Ok(found)) => compare(Relation::Equal, expected, found),
                        (expected, found) => Err(format!("{found:?} is not {expected:?}")),
                    };
                    alike.map_err(|why| format!("rank {rank}, {n} rows: {why}\n{body}"))?;
                    compared += 1;
                }
            }
        }
    }
    Ok(compared)
}

fn disagree(processes: &Arc<Processes>) -> Checked {
    let mut compared = 0;
    for body in disagreements() {
        let (text, mesh) = by_hand(DType::I64, &body);
        let module = loaded(&text).module;
        for rows in [2, 5] {
            let call = |given| interpreted(processes, &module, given);
            let ran = both(processes, (&module, &mesh), &numbers(rows), &call);
            let Some([expected, found]) = ran.map(|ran| ran.map(shown)) else { continue };
            if expected != found || expected.is_empty() {
                return Err(format!("{found:#?} is not {expected:#?}\n{body}"));
            }
            compared += expected.len();
        }
    }
    Ok(compared)
}

/// Compiled ranks that go on while they take part in a collective, with what they disagree about.
fn go_on(processes: &Arc<Processes>) -> Checked {
    let folder = tempfile::tempdir().expect("a folder for the cache");
    let cache = Cache::at(folder.path());
    let mut compared = 0;
    let later = disagreements().into_iter().map(|body| posted(&body));
    for body in beside().into_iter().chain(later) {
        let (text, mesh) = by_hand(DType::I64, &body);
        let program = loaded(&text);
        let machine = compiled(&program, &program.module, &cache);
        // The last is more than a message holds that is sent at once.
        for rows in [2, 5, 60_000] {
            let call = |given: Vec<Value>| machine.call(Arc::clone(processes) as _, "main", &given);
            let ran = both(processes, (&program.module, &mesh), &numbers(rows), &call);
            let Some([expected, found]) = ran else { continue };
            for (expected, found) in expected.iter().zip(&found) {
                if let (Ok(expected), Ok(found)) = (&expected.result, &found.result) {
                    compare(Relation::Equal, expected, found)
                        .map_err(|why| format!("{why}\n{body}"))?;
                }
                compared += 1;
            }
            let [expected, found] = [expected, found].map(shown);
            if expected != found {
                return Err(format!("{found:#?} is not {expected:#?}\n{body}"));
            }
        }
    }
    Ok(compared)
}

/// One rank hangs or dies where the others wait in a collective.
fn fails(processes: &Arc<Processes>, dies: bool, rank: &str) -> Checked {
    let (text, mesh) =
        by_hand(DType::I64, &disagreements()[2].replace(" 0, \"sum\"", " r, \"sum\""));
    let module = loaded(&text).module;
    let given = numbers(2)[processes.rank()].clone();
    processes.run(&mesh, || {
        if rank.parse() == Ok(processes.rank()) {
            // The others wait for it by then.
            std::thread::sleep(Duration::from_millis(200));
            if dies {
                std::process::abort();
            }
            std::thread::sleep(Duration::from_secs(600));
        }
        interpreted(processes, &module, given)
    });
    Err("no rank failed".to_owned())
}

/// Each rank sends what the textbook says: an all-reduce takes 2 (p - 1) / p of its bytes, an all-gather p - 1 times the own shard.
fn counts(processes: &Arc<Processes>) -> Checked {
    let rows = 3 * 1024;
    let given = given(DType::F32, rows, false);
    let bytes = usize::try_from(rows).expect("it is positive") * 3 * 4;
    for (body, is_shard) in collectives(DType::F32) {
        let (text, mesh) = by_hand(DType::F32, &body);
        let module = loaded(&text).module;
        let before = processes.counts();
        let given =
            if is_shard { crate::by_hand::given(DType::F32, rows, true) } else { given.clone() };
        let own = given[processes.rank()].clone();
        processes.run(&mesh, || interpreted(processes, &module, own));
        let after = processes.counts();
        let moved = (after.messages - before.messages, after.bytes - before.bytes);
        // One rank sends what it has to one other, or to both.
        let times = usize::from(body.contains("spmd.send"))
            + 2 * usize::from(body.contains("spmd.broadcast"));
        let sent = if processes.rank() == 2 { (times, times * bytes) } else { (0, 0) };
        let expected = match body.split("spmd.").nth(1).and_then(|call| call.split('(').next()) {
            Some("own_shard") => (0, 0),
            Some("only") => sent,
            Some("all_reduce") => (4, 4 * bytes / 3),
            Some("reduce_scatter") => (2, 2 * bytes / 3),
            Some("all_gather") => (2, 2 * bytes / 3),
            Some("all_to_all") => (2, 2 * bytes / 9),
            other => return Err(format!("{other:?} has no bytes")),
        };
        if moved != expected {
            return Err(format!("{moved:?} messages and bytes, not {expected:?}\n{body}"));
        }
    }
    Ok(collectives(DType::F32).len())
}
