//! An allocator for commands: the system's, but a failed allocation ends the process with an exit code and the size that
//! was asked for, where Rust's collections would abort.
#![allow(unsafe_code)] // the trait of allocators is unsafe: each call goes to the system's allocator unchanged

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Write;

/// Ends the process with this exit code when the system has no memory.
#[derive(Debug)]
pub struct ExitOutOfMemory(pub i32);

impl ExitOutOfMemory {
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
        // SAFETY: the caller keeps the contract.
        self.or_exit(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract.
        self.or_exit(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn realloc(&self, data: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller keeps the contract.
        self.or_exit(unsafe { System.realloc(data, layout, size) }, size)
    }

    unsafe fn dealloc(&self, data: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(data, layout) }
    }
}
