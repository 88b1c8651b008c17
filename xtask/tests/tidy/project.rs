//! The files of the project, and how a rule reports what breaks it.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A text file of the project.
pub(crate) struct File {
    /// Its path from the project's root, with `/`.
    pub(crate) path: String,
    /// What is in it.
    pub(crate) text: String,
}

/// The folder of the workspace.
pub(crate) fn root() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    root.expect("invariant: xtask is a folder of the workspace").to_path_buf()
}

/// Every text file that git tracks or would track, sorted by path. Tables of NumPy and the like
/// are no text.
pub(crate) fn files() -> Vec<File> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"])
        .current_dir(root())
        .output()
        .expect("tidy asks git which files belong to the project");
    assert!(output.status.success(), "git ls-files: {}", String::from_utf8_lossy(&output.stderr));
    let listed = String::from_utf8(output.stdout).expect("paths of the project are UTF-8");
    let mut paths: Vec<&str> = listed.split('\0').filter(|path| !path.is_empty()).collect();
    paths.sort_unstable();
    paths.dedup();
    let read = |path: &str| {
        let text = std::fs::read_to_string(root().join(path)).ok()?;
        Some(File { path: path.to_owned(), text })
    };
    paths.into_iter().filter_map(read).collect()
}

/// The files whose path ends so.
pub(crate) fn files_ending(end: &str) -> Vec<File> {
    let found: Vec<File> = files().into_iter().filter(|file| file.path.ends_with(end)).collect();
    assert!(!found.is_empty(), "a rule on `{end}` files that finds none checks nothing");
    found
}

/// Fails with every finding.
pub(crate) fn report(rule: &str, findings: &[String]) {
    let count = findings.len();
    assert!(findings.is_empty(), "{rule}: {count} findings\n{}\n", findings.join("\n"));
}
