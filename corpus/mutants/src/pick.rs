//! Which mutant runs: `RELAX_MUTANT` names one by its number; with `RELAX_MUTANT_REACHED` none runs, and each that would have made
//! a difference is noted in that folder. This file becomes a crate of the mutated copy of the workspace.

use std::cell::Cell;
use std::fs::File;
use std::io::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

/// Nobody has looked at the environment.
const UNREAD: u32 = u32::MAX;
/// What is reached is noted.
const NOTED: u32 = u32::MAX - 1;
/// No mutant runs.
const NONE: u32 = u32::MAX - 2;
/// More than there are numbers.
const MOST: usize = 1 << 16;

static CHOSEN: AtomicU32 = AtomicU32::new(UNREAD);
static REACHED: [AtomicU8; MOST] = [const { AtomicU8::new(0) }; MOST];
static NOTES: Mutex<Option<File>> = Mutex::new(None);

thread_local! {
    /// Whether this thread writes a note, for which it may allocate.
    static IS_NOTING: Cell<bool> = const { Cell::new(false) };
}

/// Does this mutant run?
#[inline]
pub fn pick(number: u32) -> bool {
    let chosen = CHOSEN.load(Ordering::Relaxed);
    if chosen < NOTED { chosen == number } else { ask(number) }
}

#[cold]
fn ask(number: u32) -> bool {
    if CHOSEN.load(Ordering::Relaxed) == UNREAD {
        // Reading it allocates, and the allocator of the command is mutated as well.
        CHOSEN.store(NONE, Ordering::Relaxed);
        CHOSEN.store(of_environment(), Ordering::Relaxed);
        return pick(number);
    }
    if CHOSEN.load(Ordering::Relaxed) == NOTED && !IS_NOTING.replace(true) {
        note(number);
        IS_NOTING.set(false);
    }
    false
}

fn of_environment() -> u32 {
    if std::env::var_os("RELAX_MUTANT_REACHED").is_some() {
        return NOTED;
    }
    std::env::var("RELAX_MUTANT").ok().and_then(|number| number.parse().ok()).unwrap_or(NONE)
}

fn note(number: u32) {
    let Some(seen) = REACHED.get(number as usize) else { return };
    if seen.swap(1, Ordering::Relaxed) != 0 {
        return;
    }
    let mut notes = NOTES.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if notes.is_none() {
        let folder = std::env::var_os("RELAX_MUTANT_REACHED").unwrap_or_default();
        let path = std::path::Path::new(&folder).join(std::process::id().to_string());
        *notes = File::options().create(true).append(true).open(path).ok();
    }
    if let Some(notes) = notes.as_mut() {
        // A note that is lost leaves a mutant unreached, which the table counts against the tests.
        let _ = writeln!(notes, "{number}");
    }
}
