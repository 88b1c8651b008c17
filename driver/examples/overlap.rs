//! Communication beside computation: layers whose weights are cut, on two ranks in threads, over a link that is emulated by sleeping. The
//! same local program with collectives that the ranks go on beside, and with those that they wait for, in turns.
//!
//! `target/release/examples/overlap [ROWS [GIGABYTES-A-SECOND [CALLS]]]`
#![allow(clippy::print_stdout)] // a table is printed

use relax_cpu::{Cache, Compiler};
use relax_driver::ranks::{OneRank, Shared};
use relax_driver::{Artifact, Bound, KernelCheck, Target, Toolchain, compile};
use relax_program::frontend::{Program, print};
use relax_rewrite::pass::Device;
use relax_rewrite::pipeline::Unwatched;
use relax_runtime::Limits;
use relax_runtime::program::Numerics;
use relax_semantics::ops::{self, Passed};
use relax_semantics::ranks::{Alike, Exchange, Mesh, Peers, Place, RanRank, Rank, on_all};
use relax_semantics::stop::Stop;
use relax_semantics::tensor::{Data, Tensor};
use relax_semantics::value::Value;
use relax_sharding::shard;
use relax_symbolic::Prover;
use relax_syntax::span::Source;
use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Products of square matrices, one after the other.
const LAYERS: usize = 8;
/// Rows and columns of each.
const WIDTH: usize = 1024;
/// Workers.
const RANKS: usize = 2;

/// The other ranks, over a link that takes its time for what comes from them.
#[derive(Debug)]
struct Linked {
    rank: Rank<Shared>,
    bytes_a_second: f64,
}

impl Peers<Shared> for Linked {
    fn exchange(
        &self,
        exchange: Exchange<Shared>,
        alike: &Alike<'_>,
        place: &Place,
    ) -> Result<Shared, Stop> {
        let elements: i64 = exchange.tensor.dims().iter().product();
        let result = self.rank.exchange(exchange, alike, place);
        let bytes = elements as f64 * 4.0 * (RANKS - 1) as f64;
        std::thread::sleep(Duration::from_secs_f64(bytes / self.bytes_a_second));
        result
    }
}

fn text() -> String {
    let cut = format!("DTensor(({WIDTH}, {WIDTH}), \"f32\", \"mesh[0]\", \"S[0]\")");
    let params: Vec<String> = (0..LAYERS).map(|at| format!("w{at}: {cut}")).collect();
    let layer = |at: usize| {
        let from = if at == 0 { "x".to_owned() } else { format!("h{}", at - 1) };
        format!("    h{at} = relu(matmul({from}, redistribute(w{at}, \"mesh[0]\", \"R\")))\n")
    };
    let layers: String = (0..LAYERS).map(layer).collect();
    format!(
        "module_attr(\"mesh[0]\", \"{RANKS}\")\n\ndef main(x: DTensor((\"n\", {WIDTH}), \"f32\", \"mesh[0]\", \"S[0]\"), {}):\n{layers}    return h{}\n",
        params.join(", "),
        LAYERS - 1
    )
}

/// The local program on each rank.
fn loaded(text: &str, cache: &Cache) -> Result<Vec<OneRank>, Box<dyn Error>> {
    let program = Program::load(Source::new("local", text));
    let tools = Toolchain {
        compiler: Compiler::of_system()?,
        cache: cache.clone(),
        check: KernelCheck::default(),
    };
    let target = Target::of(Device::Cpu, Numerics::Reassociated).by(tools);
    let image = compile(&program, &target, &Bound::default(), &mut Unwatched)
        .and_then(Artifact::into_file)
        .map_err(|error| error.to_string())?;
    let limits = Limits { threads: 1, ..Limits::default() };
    let load = |_| OneRank::load(&image, limits, &ops::Limits::default());
    Ok((0..RANKS).map(load).collect::<Result<_, _>>()?)
}

fn ones(dims: &[usize], value: f32) -> Value {
    let elements = ndarray::ArrayD::from_elem(dims, value).into_shared();
    Value::Tensor(Tensor::from_data(Data::F32(elements)))
}

/// Calls the program on all ranks: how long it took, and the first element of the result.
fn timed(ranks: &[OneRank], rows: usize, bytes_a_second: f64) -> Result<(f64, f64), Stop> {
    let mesh = Mesh { name: "mesh[0]".into(), extents: vec![RANKS] };
    let extent = i64::try_from(rows).unwrap_or(i64::MAX);
    let given = (0..RANKS).zip(0..).map(|(rank, number)| {
        let mut arguments =
            vec![Value::Shape(vec![number, extent]), ones(&[rows / RANKS, WIDTH], 0.5)];
        arguments.extend((0..LAYERS).map(|_| ones(&[WIDTH / RANKS, WIDTH], 1e-3)));
        (&ranks[rank], arguments)
    });
    let started = Instant::now();
    let ran = on_all(&mesh, given.collect(), |rank, (own, arguments)| -> RanRank {
        own.call(Arc::new(Linked { rank, bytes_a_second }), "main", &arguments)
    })?;
    let seconds = started.elapsed().as_secs_f64();
    for rank in ran {
        if let Value::Tensor(tensor) = rank.result? {
            return Ok((seconds, tensor.to_floats().first().copied().unwrap_or(f64::NAN)));
        }
    }
    Err(Stop::Unsupported("no rank has a tensor".to_owned()))
}

fn median(mut of: Vec<f64>) -> f64 {
    of.sort_by(f64::total_cmp);
    of[of.len() / 2]
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let rows: usize = arguments.next().map_or(Ok(256), |rows| rows.parse())?;
    let speed: f64 = arguments.next().map_or(Ok(1.0), |speed| speed.parse())?;
    let calls: usize = arguments.next().map_or(Ok(15), |calls| calls.parse())?;
    let program = Program::load(Source::new("layers", text()));
    let function = program.module.function("main").ok_or("there is no main")?;
    let sharded = shard(&program.module, function, &BTreeMap::new(), &mut Prover::new());
    let beside = print(&sharded.map_err(|refused| refused.message)?.local);
    let waiting = beside.replace(", async_op=True", "").replace("async_op=True", "async_op=False");
    let folder = tempfile::tempdir()?;
    let cache = Cache::at(folder.path());
    let programs = [loaded(&waiting, &cache)?, loaded(&beside, &cache)?];
    let mut times = [Vec::new(), Vec::new()];
    for call in 0..=calls {
        let mut results = Vec::new();
        for (program, times) in programs.iter().zip(&mut times) {
            let (seconds, first) = timed(program, rows, speed * 1e9)?;
            results.push(first);
            if call > 0 {
                times.push(seconds * 1e3);
            }
        }
        if results[0] != results[1] {
            return Err(format!("{results:?} differ").into());
        }
    }
    let posted = beside.matches("async_op=True").count();
    let [waits, goes_on] = times.map(median);
    println!("| rows | GB/s | collectives beside work | waits, ms | goes on, ms | ratio |");
    println!("|---|---|---|---|---|---|");
    println!(
        "| {rows} | {speed} | {posted} of {} | {waits:.1} | {goes_on:.1} | {:.2} |",
        beside.matches("spmd.").count(),
        waits / goes_on
    );
    Ok(())
}
