//! Collectives of two ranks beside MPI's own, at 1 MB, in turns: medians, their ratio, and what was moved.
//!
//! `RELAX_MPI=$PWD/.cache/mpi mpirun -np 2 target/release/examples/collectives [CALLS]`
#![allow(clippy::print_stdout)] // the first rank prints a table

use relax_driver::ranks::{Counts, Processes, Shared};
use relax_mpi::{Collectives, connect};
use relax_runtime::{Tensor, TensorPool};
use relax_semantics::ops::{Combined, Movement, Passed};
use relax_semantics::ranks::{Exchange, Mesh, Peers, Place, RanRank};
use relax_semantics::value::Value;
use relax_syntax::annotation::Reduction;
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Elements of 1 MB.
const ELEMENTS: usize = 1 << 18;

/// Calls that are not counted.
const WARM: usize = 50;

/// A collective of ours, and MPI's own.
struct Pair<'a> {
    name: &'static str,
    ours: &'a dyn Fn() -> Shared,
    /// Into memory that is there.
    own: &'a mut dyn FnMut(),
    /// Into memory that is new, as that of a tensor is.
    own_new: &'a dyn Fn() -> Vec<f32>,
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1e6
}

fn timed<R>(times: &mut Vec<Duration>, call: impl FnOnce() -> R) {
    let started = Instant::now();
    let result = call();
    times.push(started.elapsed());
    drop(result);
}

/// Page faults of this process that took no file, so far; 0 where the system does not tell.
fn faults() -> usize {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name in parentheses may have spaces.
    let fields = stat.rsplit(") ").next().unwrap_or_default();
    fields.split(' ').nth(7).and_then(|field| field.parse().ok()).unwrap_or(0)
}

/// Page faults a call.
fn faults_of(calls: usize, mut call: impl FnMut()) -> usize {
    let before = faults();
    (0..calls).for_each(|_| call());
    (faults() - before + calls / 2) / calls
}

fn measure(processes: &Processes, calls: usize, pair: Pair<'_>) {
    let (mut ours, mut own, mut own_new) = (Vec::new(), Vec::new(), Vec::new());
    let before = processes.counts();
    for _ in 0..calls + WARM {
        timed(&mut ours, pair.ours);
        timed(&mut own, &mut *pair.own);
        timed(&mut own_new, pair.own_new);
    }
    let after = processes.counts();
    let faults = [
        faults_of(WARM, || drop((pair.ours)())),
        faults_of(WARM, &mut *pair.own),
        faults_of(WARM, || drop((pair.own_new)())),
    ];
    let [ours, own, own_new] = [ours, own, own_new].map(|mut times| median(times.split_off(WARM)));
    if processes.rank() == 0 {
        let each = |of: fn(&Counts) -> usize| (of(&after) - of(&before)) / (calls + WARM);
        println!(
            "{}: ours {ours:.0} us; MPI {own:.0} us, ratio {:.2}; MPI into new memory {own_new:.0} us, ratio {:.2}; a rank sends {} bytes in {} messages and {} notices, and copies {} bytes; page faults a call: {}, {} and {}",
            pair.name,
            ours / own,
            ours / own_new,
            each(|counts| counts.bytes),
            each(|counts| counts.messages),
            each(|counts| counts.notices),
            each(|counts| counts.copied),
            faults[0],
            faults[1],
            faults[2],
        );
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let calls = std::env::args().nth(1).map_or(Ok(1000), |calls| calls.parse())?;
    let transport = connect()?;
    let own_collectives = Collectives::of(&*transport)?;
    let processes = Arc::new(Processes::new(transport, Duration::from_secs(60)));
    let (rank, ranks) = (processes.rank(), processes.ranks());
    let mesh = Mesh { name: "mesh[0]".into(), extents: vec![ranks] };
    let elements: Vec<f32> =
        (0..ELEMENTS).map(|at| if at % 7 == rank { 1.0 } else { 0.5 }).collect();
    let rows = i64::try_from(ELEMENTS)?;
    let tensor = Tensor::from_f32(&[rows], &elements)?;
    let tensor = Shared::within(tensor, &TensorPool::new(usize::MAX));
    let call = |combined: Combined| {
        let exchange = Exchange {
            what: format!("{combined:?}"),
            mesh: mesh.name.clone(),
            mesh_dim: 0,
            workers: ranks,
            rank,
            movement: Movement { cut: None, combined },
            tensor: tensor.clone(),
        };
        let place = Place { function: "main".into(), ..Place::default() };
        processes.exchange(exchange, &|_| Ok(()), &place).expect("all ranks call it")
    };
    let (mut sum, mut all) = (vec![0.0; ELEMENTS], vec![0.0; ELEMENTS * ranks]);
    processes.run(&mesh, || {
        let reduced = || call(Combined::Reduced(Reduction::Sum));
        let gathered = || call(Combined::Joined(0));
        let mut own = || own_collectives.all_reduce(&elements, &mut sum);
        let own_new = || {
            let mut sum = vec![0.0; ELEMENTS];
            own_collectives.all_reduce(&elements, &mut sum);
            sum
        };
        let (ours, own_new) = (&reduced, &own_new);
        measure(&processes, calls, Pair { name: "all-reduce", ours, own: &mut own, own_new });
        let mut own = || own_collectives.all_gather(&elements, &mut all);
        let own_new = || {
            let mut all = vec![0.0; ELEMENTS * ranks];
            own_collectives.all_gather(&elements, &mut all);
            all
        };
        let (ours, own_new) = (&gathered, &own_new);
        measure(&processes, calls, Pair { name: "all-gather", ours, own: &mut own, own_new });
        assert_eq!(reduced().dims(), [rows], "invariant: a sum is as long as its terms");
        RanRank { result: Ok(Value::None), printed: Vec::new() }
    });
    Ok(())
}
