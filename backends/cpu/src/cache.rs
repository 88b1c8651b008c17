//! Shared objects on disk. The name of an entry is a hash of the text and of all that decides which code
//! is made of it; the text lies beside the object and is compared, so that a collision is no mistake.
//! Several processes may write at once: an object appears whole, by being renamed.

use crate::{Compiler, Error};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A folder of compiled kernels.
#[derive(Clone, Debug)]
pub struct Cache {
    folder: PathBuf,
}

impl Cache {
    /// In this folder, which is made when it is needed.
    #[must_use]
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// `$XDG_CACHE_HOME/relax`, or `.cache/relax` in the home folder; none where the system has neither.
    #[must_use]
    pub fn of_user() -> Option<Self> {
        let named = |name: &str| std::env::var_os(name).filter(|path| !path.is_empty());
        let base = named("XDG_CACHE_HOME").map(PathBuf::from);
        let base = base.or_else(|| Some(PathBuf::from(named("HOME")?).join(".cache")));
        base.map(|base| Self::at(base.join("relax")))
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The shared object of a text.
    pub(crate) fn object(
        &self,
        text: &str,
        parts: u32,
        compiler: &Compiler,
    ) -> Result<PathBuf, Error> {
        let key = compiler.key();
        let whole = format!("{text}\n/*\n{}*/\n", key.replace("*/", "* /"));
        let name = format!("{:032x}", hash(&whole));
        let (source, object) =
            (self.folder.join(format!("{name}.c")), self.folder.join(format!("{name}.so")));
        if object.exists() && fs::read_to_string(&source).is_ok_and(|found| found == whole) {
            return Ok(object);
        }
        fs::create_dir_all(&self.folder).map_err(|error| failed(&self.folder, &error))?;
        self.make(&name, &whole, parts, compiler)
    }

    fn make(
        &self,
        name: &str,
        whole: &str,
        parts: u32,
        compiler: &Compiler,
    ) -> Result<PathBuf, Error> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let own = format!("{name}-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let (source, object) =
            (self.folder.join(format!("{own}.c")), self.folder.join(format!("{own}.so")));
        fs::write(&source, whole).map_err(|error| failed(&source, &error))?;
        if let Err(error) = compiler.compile(&source, parts, &object) {
            // The text stays for whoever wants to see what was refused.
            let _ = fs::remove_file(&object);
            return Err(error);
        }
        // The object first: an entry is found by its text.
        let (to_source, to_object) =
            (self.folder.join(format!("{name}.c")), self.folder.join(format!("{name}.so")));
        rename(&object, &to_object)?;
        rename(&source, &to_source)?;
        Ok(to_object)
    }
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
