//! A shared object in the cache, and notes about it in files beside it.

use crate::scratch::{Scratch, unique};
use crate::{Error, Library};
use std::fs;
use std::path::PathBuf;

/// A shared object in the cache.
#[derive(Clone, Debug)]
pub struct Object {
    path: PathBuf,
    digest: blake3::Hash,
}

impl Object {
    pub(crate) fn at(path: PathBuf, digest: blake3::Hash) -> Self {
        Self { path, digest }
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

    /// The note of this kind, if there is one about this object and it is not damaged.
    #[must_use]
    pub fn note(&self, kind: &str) -> Option<String> {
        let note = fs::read_to_string(self.path.with_extension(kind)).ok()?;
        let (digest, text) = note.split_once('\n')?;
        (digest == self.digest_of_note(text)).then(|| text.to_owned())
    }

    /// Writes a note of this kind, which appears whole, by being renamed.
    ///
    /// # Errors
    /// What the system says.
    pub fn write_note(&self, kind: &str, text: &str) -> Result<(), Error> {
        let note = format!("{}\n{text}", self.digest_of_note(text));
        let new = self.path.with_extension(format!("{kind}-{}", unique()));
        let written = Scratch::holding(|| {
            let written = fs::write(&new, note);
            // A full disk has half of it.
            written.inspect_err(|_| _ = fs::remove_file(&new)).map(|()| new.clone())
        });
        let renamed =
            written.and_then(|(_guard, new)| fs::rename(new, self.path.with_extension(kind)));
        renamed.map_err(|error| self.failed(&error))
    }

    /// In the first line of a note.
    fn digest_of_note(&self, text: &str) -> String {
        let mut hasher = blake3::Hasher::new();
        hasher.update(self.digest.as_bytes()).update(text.as_bytes());
        hasher.finalize().to_hex().to_string()
    }

    fn failed(&self, error: &std::io::Error) -> Error {
        Error::Cache { path: self.path.clone(), why: error.to_string() }
    }
}
