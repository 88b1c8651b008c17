//! Where the cache of a user is, and whether it may be used. Code from it is run, so nobody else may write to it.

use crate::scratch::{Scratch, private_folder};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Removes what was compiled, for messages.
pub const CLEAN_UP: &str = "relax cache --clear";

/// Why a user has no cache.
#[derive(Clone, Debug, Error)]
pub enum Unusable {
    /// The environment names no folder.
    #[error("neither XDG_CACHE_HOME nor HOME names a folder for the cache")]
    NoHome,
    /// Others may have written to the folder, or this user cannot.
    #[error("the cache {path} is not used: {why}")]
    Folder {
        /// The folder that is not used.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
}

/// A relative `XDG_CACHE_HOME` counts as none, as the XDG base directory specification says.
pub(super) fn of_user() -> Option<PathBuf> {
    let named = |name: &str| std::env::var_os(name).map(PathBuf::from);
    let base = named("XDG_CACHE_HOME").filter(|path| path.is_absolute());
    let home = || named("HOME").filter(|path| !path.as_os_str().is_empty());
    let base = base.or_else(|| Some(home()?.join(".cache")));
    base.map(|base| base.join("relax"))
}

/// Makes the folder where there is none.
pub(super) fn make(folder: &Path) -> io::Result<()> {
    if folder.is_dir() {
        return Ok(());
    }
    if let Some(parent) = folder.parent() {
        fs::create_dir_all(parent)?;
    }
    match private_folder(folder) {
        // Another process made it.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => Ok(()),
        made => made,
    }
}

/// Makes the folder where there is none, and refuses one that others may write to or this user cannot.
pub(super) fn opened(folder: &Path) -> Result<(), Unusable> {
    let unusable = |why: String| Unusable::Folder { path: folder.to_owned(), why };
    make(folder).map_err(|error| unusable(error.to_string()))?;
    for folder in [folder.to_owned(), folder.join("modules")] {
        if let Some(why) = refusal(&folder) {
            return Err(Unusable::Folder { path: folder, why });
        }
    }
    // Whether it can be written to is known by writing to it.
    Scratch::folder(folder).map(drop).map_err(|error| unusable(error.to_string()))
}

/// Why a folder is not for this user alone; `None` for one that is, or is not there.
#[cfg(unix)]
#[must_use]
pub fn refusal(folder: &Path) -> Option<String> {
    use std::os::unix::fs::MetadataExt;
    let metadata = fs::metadata(folder).ok()?;
    let (owner, user) = (metadata.uid(), rustix::process::geteuid().as_raw());
    if owner != user {
        return Some(format!("it belongs to user {owner}, not to user {user}"));
    }
    let mode = metadata.mode() & 0o777;
    (mode & 0o022 != 0).then(|| {
        format!("other users may write to it (mode {mode:03o}); remove it, or clean it with chmod go-w and {CLEAN_UP}")
    })
}

/// Why a folder is not for this user alone; elsewhere the system is not asked.
#[cfg(not(unix))]
#[must_use]
pub fn refusal(_folder: &Path) -> Option<String> {
    None
}
