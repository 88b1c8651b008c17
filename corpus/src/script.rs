//! Programs that tests write: shell scripts that stand for a C compiler.

use std::path::Path;

/// Writes a script for the shell that may be executed.
///
/// # Panics
///
/// If the file cannot be written.
#[cfg(unix)]
pub fn executable(path: &Path, script: &str) {
    std::fs::write(path, format!("#!/bin/sh\n{script}")).expect("the folder is writable");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(path, mode).expect("the file is there");
}
