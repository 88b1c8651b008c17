//! Shared objects on disk. The name of an entry is a hash of the C text and of all that decides which code is made of it.
//! The text lies beside the object with a digest of the object in its last line; both are compared, so a collision or
//! damage is a miss. Several processes may write at once: an entry appears whole, by being renamed. The folder is bounded:
//! the least recently used entries are evicted.

mod contents;
mod folder;

pub use contents::{Contents, Usage};
pub use folder::{CLEAN_UP, Unusable, refusal};

use crate::scratch::{Orphans, Scratch, sweep};
use crate::{Compiler, Error, Object, Text};
use contents::Entries;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

/// Bytes of a cache where none are given.
pub const LIMIT: u64 = 2 << 30;

/// A folder of compiled kernels.
#[derive(Clone, Debug)]
pub struct Cache {
    folder: PathBuf,
    /// Bytes of all entries.
    limit: u64,
    /// Guard of a folder that ends with the process.
    _temporary: Option<Arc<Scratch>>,
}

impl Cache {
    /// In this folder, which is made when it is needed.
    #[must_use]
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), limit: LIMIT, _temporary: None }
    }

    /// With so many bytes in its entries at most, but for the newest entry.
    #[must_use]
    pub fn of_at_most(self, limit: u64) -> Self {
        Self { limit, ..self }
    }

    /// In a folder that is removed with the last copy of this value.
    ///
    /// # Errors
    /// When no folder can be made.
    pub fn temporary() -> std::io::Result<Self> {
        let scratch = Scratch::folder(&std::env::temp_dir())?;
        let cache = Self::at(scratch.path());
        Ok(Self { _temporary: Some(Arc::new(scratch)), ..cache })
    }

    /// `$XDG_CACHE_HOME/relax`, or `.cache/relax` in the home folder. It is made where there is none.
    ///
    /// # Errors
    /// Where there is no home, or the folder is not for this user alone, or cannot be written to.
    pub fn of_user() -> Result<Self, Unusable> {
        let path = folder::of_user().ok_or(Unusable::NoHome)?;
        folder::opened(&path)?;
        Ok(Self::at(path))
    }

    /// The folder of the entries.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Bytes of all entries at most.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// The shared object of a text.
    pub(crate) fn object(&self, text: &Text<'_>, compiler: &Compiler) -> Result<Object, Error> {
        let (name, whole) = entry(text.whole, compiler);
        if let Some(object) = self.find(&name, &whole) {
            return Ok(object);
        }
        self.make_folder()?;
        let object = self.make(&name, &Text { whole: &whole, ..*text }, compiler)?;
        let room = sweep(&self.folder, Orphans::Old)
            .and_then(|()| Entries::of(&self.folder)?.evict(self.limit, &name));
        room.map_err(|error| failed(&self.folder, &error))?;
        Ok(object)
    }

    pub(crate) fn make_folder(&self) -> Result<(), Error> {
        folder::make(&self.folder).map_err(|error| failed(&self.folder, &error))
    }

    /// The entry of this name, if it is about this text and its object is the one that was made of it.
    fn find(&self, name: &str, whole: &str) -> Option<Object> {
        let (source, object) = self.paths(name);
        let text = String::from_utf8(read_file(&source)?).ok()?;
        let recorded = text.strip_prefix(whole)?;
        let digest = blake3::hash(&read_file(&object)?);
        if recorded != last_line(&digest) {
            return None;
        }
        // Who cannot note that it was used reads it all the same.
        let _ = fs::File::options()
            .append(true)
            .open(&source)
            .and_then(|file| file.set_modified(SystemTime::now()));
        Some(Object::at(object, digest))
    }

    fn paths(&self, name: &str) -> (PathBuf, PathBuf) {
        (self.folder.join(format!("{name}.c")), self.folder.join(format!("{name}.so")))
    }

    fn make(&self, name: &str, text: &Text<'_>, compiler: &Compiler) -> Result<Object, Error> {
        let work = Scratch::folder(&self.folder).map_err(|error| failed(&self.folder, &error))?;
        let (source, object) = (work.path().join("kernels.c"), work.path().join("kernels.so"));
        fs::write(&source, text.whole).map_err(|error| failed(&source, &error))?;
        if let Err(error) = self.compile(text, compiler, (&source, &object)) {
            return Err(self.refused(error, &source, name));
        }
        self.enter(name, text.whole, (&source, &object))
    }

    fn compile(
        &self,
        text: &Text<'_>,
        compiler: &Compiler,
        (source, object): (&Path, &Path),
    ) -> Result<(), Error> {
        if text.parts < 2 && text.routines.is_none() {
            return compiler.compile(source, object);
        }
        let parts = compiler.start_parts(source, text.parts, object);
        let routines = text.routines.map(|routines| self.routines(routines, compiler));
        let mut objects = parts.objects()?;
        if let Some(bytes) = routines.transpose()? {
            // A copy: another process may evict the entry meanwhile.
            let copy = object.with_extension("routines.o");
            fs::write(&copy, bytes).map_err(|error| failed(&copy, &error))?;
            objects.push(copy);
        }
        compiler.link(source, &objects, object)
    }

    /// The object of a unit that kernels are linked with.
    fn routines(&self, text: &str, compiler: &Compiler) -> Result<Vec<u8>, Error> {
        let compiler = compiler.of_routines();
        let (name, whole) = entry(text, &compiler);
        if let Some(object) = self.find(&name, &whole) {
            return object.bytes();
        }
        let work = Scratch::folder(&self.folder).map_err(|error| failed(&self.folder, &error))?;
        let (source, object) = (work.path().join("routines.c"), work.path().join("routines.o"));
        fs::write(&source, &whole).map_err(|error| failed(&source, &error))?;
        if let Err(error) = compiler.compile_unit(&source, &object) {
            return Err(self.refused(error, &source, &name));
        }
        self.enter(&name, &whole, (&source, &object))?.bytes()
    }

    /// Makes files an entry.
    fn enter(
        &self,
        name: &str,
        whole: &str,
        (source, object): (&Path, &Path),
    ) -> Result<Object, Error> {
        let digest = fs::read(object).map(|bytes| blake3::hash(&bytes));
        let digest = digest.map_err(|error| failed(object, &error))?;
        fs::write(source, format!("{whole}{}", last_line(&digest)))
            .map_err(|error| failed(source, &error))?;
        // The object first: an entry is found by its text.
        let (to_source, to_object) = self.paths(name);
        rename(object, &to_object)?;
        rename(source, &to_source)?;
        Ok(Object::at(to_object, digest))
    }

    /// The text that was refused stays, for whoever wants to read it.
    fn refused(&self, error: Error, source: &Path, name: &str) -> Error {
        let Error::Compile { command, path, output } = error else { return error };
        let kept = self.folder.join(format!("{name}.refused.c"));
        let path = if fs::rename(source, &kept).is_ok() { kept } else { path };
        Error::Compile { command, path, output }
    }
}

/// The name of an entry, and the text that is compared: with all that decides which code is made of it.
fn entry(text: &str, compiler: &Compiler) -> (String, String) {
    let key = compiler.key();
    let whole = format!("{text}\n/*\n{}*/\n", key.replace("*/", "* /"));
    (format!("{:032x}", hash(&whole)), whole)
}

/// The bytes of a file; of what is none, such as a pipe, there are none.
fn read_file(path: &Path) -> Option<Vec<u8>> {
    let is_file = path.symlink_metadata().is_ok_and(|metadata| metadata.is_file());
    is_file.then(|| fs::read(path).ok()).flatten()
}

/// Of the text of an entry.
fn last_line(object: &blake3::Hash) -> String {
    format!("/* object: {} */\n", object.to_hex())
}

fn rename(from: &Path, to: &Path) -> Result<(), Error> {
    fs::rename(from, to).map_err(|error| failed(to, &error))
}

fn failed(path: &Path, error: &std::io::Error) -> Error {
    Error::Cache { path: path.to_owned(), why: error.to_string() }
}

/// FNV-1a with 128 bits.
fn hash(text: &str) -> u128 {
    let start = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128;
    text.bytes().fold(start, |hash, byte| {
        (hash ^ u128::from(byte)).wrapping_mul(0x0100_0000_0000_0000_0000_013b)
    })
}

#[cfg(test)]
mod tests {
    use super::hash;

    #[test]
    fn the_hash_is_the_published_one() {
        assert_eq!(hash(""), 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d);
        assert_eq!(hash("a"), 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964);
    }
}
