//! A shared object in the cache, and notes about it in files beside it.

use crate::{Error, Library};
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

/// A shared object in the cache.
#[derive(Clone, Debug)]
pub struct Object {
    path: PathBuf,
}

impl Object {
    pub(crate) fn at(path: PathBuf) -> Self {
        Self { path }
    }

    /// The bytes of the object.
    ///
    /// # Errors
    /// What the system says.
    pub fn bytes(&self) -> Result<Vec<u8>, Error> {
        fs::read(&self.path).map_err(|error| self.failed(&error))
    }

    /// Loads the object.
    ///
    /// # Errors
    /// What the system says.
    pub fn load(&self) -> Result<Library, Error> {
        Library::load(&self.path)
    }

    /// The note of this kind, if there is one.
    #[must_use]
    pub fn note(&self, kind: &str) -> Option<String> {
        fs::read_to_string(self.path.with_extension(kind)).ok()
    }

    /// Writes a note of this kind, which appears whole, by being renamed.
    ///
    /// # Errors
    /// What the system says.
    pub fn write_note(&self, kind: &str, text: &str) -> Result<(), Error> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let new = self.path.with_extension(format!("{kind}-{}-{number}", std::process::id()));
        let written = fs::write(&new, text);
        written.and_then(|()| fs::rename(&new, self.path.with_extension(kind))).map_err(|error| {
            // It may be incomplete, or missing.
            let _ = fs::remove_file(&new);
            self.failed(&error)
        })
    }

    fn failed(&self, error: &std::io::Error) -> Error {
        Error::Cache { path: self.path.clone(), why: error.to_string() }
    }
}
