//! Fuzzing in continuous integration: programs of one fixed seed, and of a fresh one, which is printed.

use relax_fuzz::{Coverage, Found, Oracle, Plan, Replayed, Statistics, replay, run, shrink};
use relax_rewrite::pass::Device;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

/// Programs of the fixed seed; the fresh one runs for some seconds.
const PROGRAMS: u64 = 24;
const SECONDS: u64 = 15;
/// Recursion in the front end is limited by its own limits, not by the thread's.
const STACK: usize = 256 << 20;

fn plan(seed: u64) -> Plan {
    Plan { seed, oracles: Oracle::ALL.to_vec(), backend: Device::Interp, findings: 1 }
}

fn on_stack<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(work);
    thread.expect("a thread can be had").join().expect("the fuzzer does not panic")
}

fn nothing(found: &[Found]) {
    if let Some(found) = found.first() {
        let small = shrink(found, Device::Interp);
        let finding = &small.finding;
        panic!(
            "{} at seed {}: {}: {}\n{}",
            small.oracle, small.seed, finding.kind, finding.why, small.text
        );
    }
}

#[test]
fn programs_of_a_fixed_seed_hold() {
    let (found, statistics) = on_stack(|| {
        let mut statistics = Statistics::default();
        let found = run(&plan(0), &mut |programs| programs < PROGRAMS, &mut statistics);
        (found, statistics)
    });
    eprintln!("{statistics}");
    nothing(&found);
    assert!(statistics.compared > 20 * PROGRAMS, "{statistics}");
    assert!(statistics.refused * 10 < PROGRAMS, "{statistics}");
    for oracle in Oracle::ALL {
        let share = statistics.by_oracle.get(&oracle).copied().unwrap_or_default();
        assert!(share.programs <= PROGRAMS && share.programs * 10 > PROGRAMS * 8, "{share:?}");
        assert!(share.compared * 10 >= share.programs * 8, "{oracle}: {share:?}");
        assert_eq!(share.rate(), None, "there is no clock here");
    }
}

#[test]
fn programs_of_a_fresh_seed_hold() {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let seed = now.map_or(1, |since| since.as_secs()) << 20;
    eprintln!("seed {seed}: relax fuzz --seed {seed}");
    let found = on_stack(move || {
        let start = Instant::now();
        let mut go_on = |_| start.elapsed() < Duration::from_secs(SECONDS);
        run(&plan(seed), &mut go_on, &mut Statistics::default())
    });
    nothing(&found);
}

#[test]
fn a_seed_gives_the_same_program_and_the_same_counts() {
    for oracle in [Oracle::Check, Oracle::Ranks] {
        assert_eq!(oracle.program(7), oracle.program(7));
        assert_ne!(oracle.program(7), oracle.program(8));
    }
    let counts = || {
        on_stack(|| {
            let mut statistics = Statistics::default();
            let only = Plan { oracles: vec![Oracle::Check], ..plan(5) };
            run(&only, &mut |programs| programs < 10, &mut statistics);
            statistics.to_string()
        })
    };
    assert_eq!(counts(), counts());
}

/// What oracles share, a transformed program and a prover, changes nothing that one of them sees.
#[test]
fn oracles_find_together_what_each_finds_alone() {
    let counts = |oracles: &'static [Oracle]| {
        on_stack(move || {
            let mut statistics = Statistics::default();
            let plan = Plan { oracles: oracles.to_vec(), ..plan(70) };
            nothing(&run(&plan, &mut |programs| programs < 4, &mut statistics));
            let Statistics { compared, trapped, exhausted, unsupported, .. } = statistics;
            (statistics.by_oracle, [compared, trapped, exhausted, unsupported])
        })
    };
    let (together, sums) = counts(&Oracle::ALL);
    let alone = Oracle::ALL.each_ref().map(|oracle| counts(std::slice::from_ref(oracle)));
    for (shares, _) in &alone {
        shares.iter().for_each(|(oracle, share)| assert_eq!(together[oracle], *share, "{oracle}"));
    }
    for (at, sum) in sums.iter().enumerate() {
        assert_eq!(*sum, alone.iter().map(|(_, counts)| counts[at]).sum::<u64>());
    }
}

/// Operators that only lowering makes are reached by the passes, in the test of the fixed seed.
#[test]
fn programs_have_every_operator_that_people_write() {
    let mut coverage = Coverage::default();
    for seed in 0..1500 {
        if let Some(case) = relax_fuzz::Case::read(&Oracle::Check.program(seed), seed) {
            coverage.note(&case.checked);
        }
    }
    let made = |name: &&&str| !name.starts_with("memory.") && !name.starts_with("builtin.");
    let missing: Vec<&str> = coverage.missing().iter().filter(made).copied().collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert!(coverage.pairs() > 230, "{}", coverage.pairs());
}

/// The shrunk programs of what `ranks` found.
#[test]
fn regressions_over_a_mesh_hold() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../regressions");
    let files = std::fs::read_dir(folder).expect("the corpus has regressions");
    let mut count = 0;
    for file in files.flatten() {
        let text = std::fs::read_to_string(file.path()).expect("it is a text");
        if !text.contains("module_attr(\"mesh[") {
            continue;
        }
        for seed in 0..4 {
            let mut statistics = Statistics::default();
            let replayed = replay(&text, (Oracle::Ranks, seed), Device::Interp, &mut statistics);
            assert_eq!(replayed, Replayed::Holds, "{}", file.path().display());
            count += statistics.compared;
        }
    }
    assert!(count >= 8, "{count}");
}
