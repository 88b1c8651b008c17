//! Parts that count what is done to them.

use super::{RawThreads, Workers, count};
use crate::notes::{MOST, Noted, Notes};
use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

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

thread_local! {
    static NOTED: UnsafeCell<Noted> = const { UnsafeCell::new([0; MOST]) };
}

unsafe extern "C" fn noted() -> *mut i64 {
    NOTED.with(|noted| noted.get().cast())
}

/// Two parts that run at once, of which one stops when the other one has: which goes first, who has begun, and who is done.
struct Racing {
    first: i64,
    begun: AtomicI64,
    done: AtomicI64,
}

unsafe extern "C" fn race(context: *mut c_void, part: i64) -> i32 {
    // SAFETY: the test passes a `Racing`.
    let racing = unsafe { &*context.cast::<Racing>() };
    racing.begun.fetch_add(1, Ordering::SeqCst);
    let wait = |seen: &dyn Fn() -> bool| {
        while !seen() {
            std::thread::yield_now();
        }
    };
    wait(&|| racing.begun.load(Ordering::SeqCst) == 2);
    if part != racing.first {
        wait(&|| racing.done.load(Ordering::SeqCst) == 1);
        // What the first one leaves behind, it leaves after it has returned.
        std::thread::sleep(Duration::from_millis(20));
    }
    // SAFETY: the array is that of this thread.
    unsafe { *noted() = part + 10 };
    racing.done.store(1, Ordering::SeqCst);
    i32::try_from(part).expect("few parts") + 1
}

/// Both stop: the earlier part tells why, with its numbers, whichever was first.
#[test]
fn the_earlier_part_tells_why() {
    let workers = Workers::new(2, Notes::in_arrays(noted));
    for first in [0, 1] {
        let racing = Racing { first, begun: AtomicI64::new(0), done: AtomicI64::new(0) };
        let context = std::ptr::from_ref(&racing).cast_mut().cast();
        let threads = workers.raw();
        // SAFETY: the workers live, and parts may run at once.
        assert_eq!(unsafe { ((*threads).run)(threads, 2, race, context) }, 1);
        // SAFETY: the array is that of this thread.
        assert_eq!(unsafe { *noted() }, 10, "part {first} was first");
    }
}

unsafe extern "C" fn stop(_: *mut c_void, _: i64) -> i32 {
    7
}

/// As many parts as are never handed out end with the first that stops, as others do.
#[test]
fn parts_run_in_order_until_one_stops() {
    let workers = Workers::new(2, Notes::NONE);
    let threads = workers.raw();
    let parts = i64::from(i32::MAX) + 1;
    // SAFETY: the workers live, and the part does nothing.
    assert_eq!(unsafe { ((*threads).run)(threads, parts, stop, std::ptr::null_mut()) }, 7);
}
