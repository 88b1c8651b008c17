//! The entries of a cache: their sizes, and the eviction of those that were not used for longest.

use crate::Cache;
use crate::scratch::{Orphans, sweep};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Files whose names begin with the same hash.
#[derive(Default)]
struct Entry {
    files: Vec<PathBuf>,
    bytes: u64,
    used: Option<SystemTime>,
}

/// Entries by the hashes that name them.
#[derive(Default)]
pub(super) struct Entries(BTreeMap<String, Entry>);

impl Entries {
    /// Of a folder; temporary files and tables of measurements are no entries.
    pub(super) fn of(folder: &Path) -> io::Result<Self> {
        let mut entries = Self::default();
        let files = match fs::read_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(entries),
            files => files?,
        };
        for file in files {
            let file = file?;
            let name = file.file_name();
            let Some(hash) = name.to_str().and_then(hash_of) else { continue };
            // Another process may have removed it.
            let Ok(metadata) = file.metadata() else { continue };
            let entry = entries.0.entry(hash.to_owned()).or_default();
            entry.bytes += metadata.len();
            entry.used = entry.used.max(metadata.modified().ok());
            entry.files.push(file.path());
        }
        Ok(entries)
    }

    /// Removes the least recently used entries until the others have so many bytes at most. One of them stays.
    pub(super) fn evict(self, limit: u64, stays: &str) -> io::Result<()> {
        let mut bytes: u64 = self.0.values().map(|entry| entry.bytes).sum();
        let mut entries: Vec<_> = self.0.into_iter().filter(|(hash, _)| hash != stays).collect();
        entries.sort_by_key(|(_, entry)| entry.used);
        for (_, entry) in entries {
            if bytes <= limit {
                break;
            }
            remove(&entry)?;
            bytes -= entry.bytes;
        }
        Ok(())
    }

    fn usage(&self) -> Usage {
        let bytes = self.0.values().map(|entry| entry.bytes).sum();
        Usage { entries: self.0.len(), bytes }
    }
}

fn remove(entry: &Entry) -> io::Result<()> {
    for file in &entry.files {
        match fs::remove_file(file) {
            // Another process removed it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            removed => removed?,
        }
    }
    Ok(())
}

/// The hash that a file of an entry is named by: of 32 digits, or of 64 for module files.
fn hash_of(name: &str) -> Option<&str> {
    let (hash, rest) = name.split_once('.')?;
    let is_hash = matches!(hash.len(), 32 | 64) && hash.bytes().all(|b| b.is_ascii_hexdigit());
    (is_hash && !rest.contains('-')).then_some(hash)
}

/// Entries of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Hashes that name files.
    pub entries: usize,
    /// Bytes of their files.
    pub bytes: u64,
}

/// What is in a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Texts, objects and verdicts of compiled kernels.
    pub kernels: Usage,
    /// Module files of whole programs.
    pub modules: Usage,
    /// Module files of language models.
    pub models: Usage,
}

impl Cache {
    /// Where module files are.
    #[must_use]
    pub fn modules(&self) -> PathBuf {
        self.folder().join("modules")
    }

    /// Where module files of language models are.
    #[must_use]
    pub fn models(&self) -> PathBuf {
        self.folder().join("models")
    }

    /// What is in it.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn contents(&self) -> io::Result<Contents> {
        let of = |folder: &Path| Entries::of(folder).map(|entries| entries.usage());
        Ok(Contents {
            kernels: of(self.folder())?,
            modules: of(&self.modules())?,
            models: of(&self.models())?,
        })
    }

    /// Removes all entries, and temporary files of processes that ended.
    ///
    /// # Errors
    /// When something cannot be removed.
    pub fn clear(&self) -> io::Result<()> {
        for folder in [self.folder().to_owned(), self.modules(), self.models()] {
            Entries::of(&folder)?.0.values().try_for_each(remove)?;
            if folder.is_dir() {
                sweep(&folder, Orphans::All)?;
            }
        }
        self.clear_findings()
    }
}
