//! An allocator for commands: the system's, but a failed allocation ends the process with an exit code and the size that
//! was asked for, where Rust's collections would abort.
#![allow(unsafe_code)] // the trait of allocators is unsafe: each call goes to the system's allocator unchanged

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::Write;

/// Ends the process with this exit code when the system has no memory, or [`limited`] work takes too much.
#[derive(Debug)]
pub struct ExitOutOfMemory(pub i32);

/// What a thread does under a limit.
#[derive(Clone, Copy)]
struct Limited {
    what: &'static str,
    bytes: usize,
    left: usize,
}

thread_local! {
    static LIMITED: Cell<Option<Limited>> = const { Cell::new(None) };
}

/// Does something for which this thread may have so many bytes allocated at once, where [`ExitOutOfMemory`] is the allocator: more end
/// the process, and the message names `what`. For libraries that do not limit what they are told to do.
pub fn limited<R>(bytes: usize, what: &'static str, run: impl FnOnce() -> R) -> R {
    struct Ends;
    impl Drop for Ends {
        fn drop(&mut self) {
            LIMITED.set(None);
        }
    }
    LIMITED.set(Some(Limited { what, bytes, left: bytes }));
    let _ends = Ends;
    run()
}

impl ExitOutOfMemory {
    /// Counts bytes that are allocated instead of others.
    fn count(&self, more: usize, instead_of: usize) {
        // It is gone where a thread ends.
        let Ok(Some(limited)) = LIMITED.try_with(Cell::get) else { return };
        let left = (limited.left.saturating_add(instead_of)).checked_sub(more);
        let _ = LIMITED.try_with(|own| own.set(left.map(|left| Limited { left, ..limited })));
        if left.is_none() {
            let Limited { what, bytes, .. } = limited;
            let _ = writeln!(
                std::io::stderr(),
                "error: out of memory: {what} takes more than {bytes} bytes"
            );
            std::process::exit(self.0);
        }
    }

    fn or_exit(&self, data: *mut u8, bytes: usize) -> *mut u8 {
        if data.is_null() {
            // The stream is not buffered and nothing is allocated to write a number.
            let _ = writeln!(
                std::io::stderr(),
                "error: out of memory: the system has no {bytes} bytes more"
            );
            std::process::exit(self.0);
        }
        data
    }
}

// SAFETY: what is returned is what the system's allocator returns.
unsafe impl GlobalAlloc for ExitOutOfMemory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.count(layout.size(), 0);
        // SAFETY: the caller keeps the contract.
        self.or_exit(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        self.count(layout.size(), 0);
        // SAFETY: the caller keeps the contract.
        self.or_exit(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, data: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        self.count(size, layout.size());
        // SAFETY: the caller keeps the contract.
        self.or_exit(unsafe { System.realloc(data, layout, size) }, size)
    }

    unsafe fn dealloc(&self, data: *mut u8, layout: Layout) {
        self.count(0, layout.size());
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(data, layout) }
    }
}
