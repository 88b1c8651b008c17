//! Runs `python/tests/*.py` with the library that Cargo built: in a virtual environment in `target/python` with pinned packages.

use relax_corpus::requirement;
use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::path::{Path, PathBuf};
use std::process::Command;

/// `target/debug`, in whose `deps` this test lies.
fn built() -> PathBuf {
    let own = std::env::current_exe().expect("a program knows its file");
    let folder = own.ancestors().nth(2).expect("tests lie in target/PROFILE/deps");
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
