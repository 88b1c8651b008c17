//! Runs `python/tests/*.py` with the library that Cargo built: in a virtual environment beside it with pinned packages.

use relax_corpus::requirement;
use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::path::{Path, PathBuf};
use std::process::Command;

/// In `target/PROFILE/deps`, where this test lies too: what Cargo builds for a test is copied to no other place.
fn built() -> PathBuf {
    let own = std::env::current_exe().expect("a program knows its file");
    let folder = own.parent().expect("a file lies in a folder");
    folder.join(format!("{DLL_PREFIX}relaxc{DLL_SUFFIX}"))
}

#[test]
fn the_package_works() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let script = folder.join("test.sh");
    let ran = Command::new("sh").arg(&script).arg(built()).output();
    let ran = ran.expect("there is a shell");
    let [out, err] = [&ran.stdout, &ran.stderr].map(|text| String::from_utf8_lossy(text));
    if ran.status.code() == Some(4) {
        requirement::skip("RELAX_REQUIRE_PYTHON", err.trim_end());
        return;
    }
    assert!(ran.status.success(), "python/test.sh fails:\n{out}\n{err}");
}
