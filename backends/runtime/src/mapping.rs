//! A module file in memory: mapped, so that its constants are read where they lie and pages of several processes
//! are shared. What cannot be mapped, such as a pipe, is read into memory of our own.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, Read};
use std::ops::Deref;
use std::path::Path;

/// The bytes of a file, from the first page on.
#[derive(Debug)]
pub(crate) enum Mapping {
    Mapped(memmap2::Mmap),
    Read(Vec<u8>),
}

impl Mapping {
    pub(crate) fn open(path: &Path) -> io::Result<Mapping> {
        let mut file = File::open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() || metadata.len() == 0 {
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            return Ok(Mapping::Read(bytes));
        }
        // SAFETY: the pages are the process's own and only read. Whoever loads a module leaves its file as it is while the
        // module lives, as with every program that a system maps; `relax build` puts another file in its place.
        // The documentation of `ModuleFile` says so.
        let mapped = unsafe { memmap2::Mmap::map(&file)? };
        // A wish: where the file system keeps files in large pages, weights are read with fewer translations of addresses.
        #[cfg(target_os = "linux")]
        let _ = mapped.advise(memmap2::Advice::HugePage);
        Ok(Mapping::Mapped(mapped))
    }

    /// Whether tensors may lie in it: a page begins where every tensor may.
    pub(crate) fn is_aligned(&self) -> bool {
        matches!(self, Mapping::Mapped(_))
    }
}

impl Deref for Mapping {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Mapping::Mapped(bytes) => bytes,
            Mapping::Read(bytes) => bytes,
        }
    }
}
