//! Kernels that a test compiled, for the tests that come after it: most run the same few models.

use super::warm::warm;
use std::ffi::OsStr;
use std::path::Path;
use std::{fs, io};

/// Adds what is new in a test's cache to the one that later tests begin with.
pub(crate) fn keep(home: &Path) {
    let Some(warm) = warm() else { return };
    // The object first: an entry is found by its text. Tests may have no cache, or have damaged it: then there is less to keep.
    for extension in ["so", "c"] {
        let _ = keep_all(&home.join("relax"), warm, OsStr::new(extension));
    }
}

fn keep_all(from: &Path, to: &Path, extension: &OsStr) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let kept = to.join(entry.file_name());
        if entry.path().extension() == Some(extension) && !kept.exists() {
            // Whoever copies meanwhile has all of it or nothing.
            let new = tempfile::NamedTempFile::new_in(to.parent().unwrap_or(to))?;
            fs::copy(entry.path(), new.path())?;
            new.persist(&kept)?;
        }
    }
    Ok(())
}
