//! What failed last, one a thread.

use relax_runtime::Stop;
use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::ptr::{null, null_mut};

#[derive(Default)]
struct Failure {
    text: CString,
    trap: Option<CString>,
    line: usize,
    notes: Vec<CString>,
}

thread_local! {
    static LAST: RefCell<Failure> = RefCell::default();
}

/// A text of C has no 0 within.
pub(crate) fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', " ")).unwrap_or_default()
}

fn keep(failure: Failure) {
    LAST.with(|last| *last.borrow_mut() = failure);
}

/// Notes what failed; gives null.
pub(crate) fn fail<T>(text: &str) -> *mut T {
    keep(Failure { text: c_text(text), ..Failure::default() });
    null_mut()
}

/// Notes why a call stopped.
pub(crate) fn fail_with(stop: &Stop, source: &str) {
    let mut notes = Vec::new();
    let (trap, line) = match stop {
        Stop::Trap(trap) => {
            notes = trap.notes.iter().map(|note| c_text(note)).collect();
            let before = source.as_bytes().get(..trap.span.start as usize);
            let breaks = before.map(|text| text.iter().filter(|&&byte| byte == b'\n').count());
            let is_placed = !trap.span.is_synthetic();
            (Some(c_text(&trap.id)), breaks.filter(|_| is_placed).map_or(0, |breaks| breaks + 1))
        }
        _ => (None, 0),
    };
    keep(Failure { text: c_text(&stop.to_string()), trap, line, notes });
}

/// The text, until the next failure of this thread.
#[unsafe(no_mangle)]
pub extern "C" fn rx_error() -> *const c_char {
    LAST.with(|last| last.borrow().text.as_ptr())
}

/// The id of the trap; null without one.
#[unsafe(no_mangle)]
pub extern "C" fn rx_error_trap() -> *const c_char {
    LAST.with(|last| last.borrow().trap.as_ref().map_or(null(), |id| id.as_ptr()))
}

/// The line of the source, from 1; 0 without one.
#[unsafe(no_mangle)]
pub extern "C" fn rx_error_line() -> usize {
    LAST.with(|last| last.borrow().line)
}

/// Another fact about the failure; null behind the last one.
#[unsafe(no_mangle)]
pub extern "C" fn rx_error_note(index: usize) -> *const c_char {
    LAST.with(|last| last.borrow().notes.get(index).map_or(null(), |note| note.as_ptr()))
}

/// The text of the failure of this thread.
pub(crate) fn last() -> String {
    LAST.with(|last| last.borrow().text.to_string_lossy().into_owned())
}
