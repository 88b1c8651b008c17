//! Paths of the programs of the corpus.

use std::path::{Path, PathBuf};

/// The folder of the corpus.
#[must_use]
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All programs of the corpus, in the order of their paths.
#[must_use]
pub fn programs() -> Vec<PathBuf> {
    let mut files = Vec::new();
    collect(root(), &mut files);
    files.sort();
    files
}

/// What a program is called in tests: its path within the corpus.
#[must_use]
pub fn name(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).with_extension("").display().to_string()
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rx") {
            files.push(path);
        }
    }
}
