//! Positioned reads of an open file, or of bytes in memory.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

/// The bytes of a tensor file.
pub(super) enum Source {
    /// What a pipe gave.
    Memory(Vec<u8>),
    /// A file whose bytes are read when they are needed.
    File { file: Mutex<File>, state: State },
}

/// What shows that somebody wrote into a file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct State {
    length: u64,
    modified: Option<SystemTime>,
}

impl State {
    fn of(file: &File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        Ok(Self { length: metadata.len(), modified: metadata.modified().ok() })
    }
}

impl Source {
    pub(super) fn of_file(file: File) -> io::Result<Self> {
        let state = State::of(&file)?;
        Ok(Source::File { file: Mutex::new(file), state })
    }

    /// The number of bytes.
    pub(super) fn length(&self) -> u64 {
        match self {
            Source::Memory(bytes) => bytes.len() as u64,
            Source::File { state, .. } => state.length,
        }
    }

    /// Fills `into` with the bytes from `at` on.
    ///
    /// # Errors
    /// What the system says; fewer bytes than that.
    pub(super) fn read(&self, at: u64, into: &mut [u8]) -> io::Result<()> {
        match self {
            Source::Memory(bytes) => {
                let at = usize::try_from(at).unwrap_or(usize::MAX);
                let found = bytes.get(at..).and_then(|rest| rest.get(..into.len()));
                into.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
                Ok(())
            }
            Source::File { file, .. } => {
                let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
                file.seek(SeekFrom::Start(at))?;
                file.read_exact(into)
            }
        }
    }

    /// Compares length and time of modification with those at the opening.
    ///
    /// # Errors
    /// A file that was written to.
    pub(super) fn verify_unchanged(&self) -> io::Result<()> {
        let Source::File { file, state } = self else { return Ok(()) };
        let file = file.lock().unwrap_or_else(PoisonError::into_inner);
        if State::of(&file)? == *state {
            Ok(())
        } else {
            Err(io::Error::other("the file was changed after it was opened"))
        }
    }

    /// A reader of all bytes, which fails at the end if the file was written to.
    pub(super) fn reader(&self) -> Whole<'_> {
        Whole { source: self, at: 0 }
    }
}

/// All bytes of a source, from the first to the last.
pub(super) struct Whole<'s> {
    source: &'s Source,
    at: u64,
}

impl Read for Whole<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.source.length() - self.at).unwrap_or(usize::MAX);
        let count = left.min(into.len());
        if left == 0 {
            self.source.verify_unchanged()?;
        }
        self.source.read(self.at, &mut into[..count])?;
        self.at += count as u64;
        Ok(count)
    }
}
