//! Parts that count what is done to them.

use super::{RawThreads, Workers, count};
use crate::notes::Notes;
use std::ffi::c_void;
use std::sync::atomic::{AtomicI64, Ordering};

/// What the parts see: how often each ran, from where on they stop, and the threads.
struct Seen {
    runs: Vec<AtomicI64>,
    stops: Option<i64>,
    threads: *const RawThreads<'static>,
}

fn seen(parts: usize, workers: &Workers) -> Seen {
    let runs = (0..parts).map(|_| AtomicI64::new(0)).collect();
    Seen { runs, stops: None, threads: workers.raw() }
}

unsafe extern "C" fn count_run(context: *mut c_void, part: i64) -> i32 {
    // SAFETY: `run` passes a `Seen`.
    let seen = unsafe { &*context.cast::<Seen>() };
    seen.runs[usize::try_from(part).expect("parts begin at 0")].fetch_add(1, Ordering::Relaxed);
    match seen.stops {
        Some(first) if part >= first => i32::try_from(part).expect("few parts") + 1,
        _ => 0,
    }
}

unsafe extern "C" fn nest(context: *mut c_void, _: i64) -> i32 {
    // SAFETY: `run` passes a `Seen`, whose threads live.
    let seen = unsafe { &*context.cast::<Seen>() };
    run(seen, count_run)
}

fn run(seen: &Seen, part: super::Part) -> i32 {
    let parts = i64::try_from(seen.runs.len()).expect("few parts");
    let context = std::ptr::from_ref(seen).cast_mut().cast();
    // SAFETY: the workers live, and parts may run at once.
    unsafe { ((*seen.threads).run)(seen.threads, parts, part, context) }
}

#[test]
fn each_part_runs_once_whatever_the_number_of_threads() {
    for threads in [1, 2, 3, 8] {
        let workers = Workers::new(threads, Notes::NONE);
        for parts in [0, 1, 2, 7, 100] {
            for _ in 0..50 {
                let seen = seen(parts, &workers);
                assert_eq!(run(&seen, count_run), 0);
                assert!(seen.runs.iter().all(|runs| runs.load(Ordering::Relaxed) == 1));
            }
        }
    }
}

#[test]
fn of_several_stops_the_first_counts() {
    let workers = Workers::new(4, Notes::NONE);
    for first in 0..40 {
        let seen = Seen { stops: Some(first), ..seen(40, &workers) };
        assert_eq!(i64::from(run(&seen, count_run)), first + 1);
        let before = usize::try_from(first).expect("it is small");
        assert!(seen.runs[..=before].iter().all(|runs| runs.load(Ordering::Relaxed) == 1));
    }
}

#[test]
fn a_part_may_ask_for_parts() {
    let workers = Workers::new(3, Notes::NONE);
    let seen = seen(9, &workers);
    assert_eq!(run(&seen, nest), 0);
    assert!(seen.runs.iter().all(|runs| runs.load(Ordering::Relaxed) == 9));
}

#[test]
fn several_threads_ask_at_once() {
    let workers = Workers::new(3, Notes::NONE);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..200 {
                    let seen = seen(5, &workers);
                    assert_eq!(run(&seen, count_run), 0);
                    assert!(seen.runs.iter().all(|runs| runs.load(Ordering::Relaxed) == 1));
                }
            });
        }
    });
}

#[test]
fn sleeping_helpers_wake() {
    let workers = Workers::new(2, Notes::NONE);
    for _ in 0..3 {
        let seen = seen(4, &workers);
        assert_eq!(run(&seen, count_run), 0);
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}

#[test]
fn a_number_that_is_asked_for_counts() {
    assert_eq!(count(3), 3);
    assert!(count(0) >= 1);
}
