//! Caches of compiled kernels that begin with the objects of every build: the findings on the C compiler and the routines of products. To
//! compile them takes 2.5 seconds, which most tests would wait for once more. Tests of the cache itself begin with an empty one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// It needs the routines.
const PROGRAM: &str = "def main(x: Tensor((\"n\", \"k\"), \"f32\"), w: Tensor((\"k\", \"m\"), \"f32\")):\n    return matmul(x, w)\n";

/// The folder, for `XDG_CACHE_HOME`; with these objects where it is not there yet.
pub(crate) fn cache(home: PathBuf) -> PathBuf {
    if let (false, Some(warm)) = (home.exists(), warm()) {
        copied(warm, &home.join("relax")).expect("the cache can be copied");
    }
    home
}

/// A cache after a build; none without a C compiler.
pub(crate) fn warm() -> Option<&'static Path> {
    static WARM: OnceLock<Option<PathBuf>> = OnceLock::new();
    let found = WARM.get_or_init(|| {
        // Test programs that run beside this one build there as well, and later ones find what this one built.
        let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("warm");
        let folder = tempfile::tempdir().ok()?;
        fs::write(folder.path().join("warm.rx"), PROGRAM).ok()?;
        let mut command = Command::new(env!("CARGO_BIN_EXE_relax"));
        command.args(["build", "warm.rx", "-o", "warm.rxm"]).current_dir(folder.path());
        command.env("XDG_CACHE_HOME", &home).stdout(Stdio::null()).stderr(Stdio::null());
        if !command.status().ok()?.success() {
            return None;
        }
        // One for this test program, which may add to it.
        let own = home.with_file_name(concat!("warm-", env!("CARGO_CRATE_NAME")));
        let _ = fs::remove_dir_all(&own);
        copied(&home.join("relax"), &own).ok()?;
        Some(own)
    });
    found.as_deref()
}

/// Copies the files of a folder into a new one that is for this user alone as well.
fn copied(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    fs::set_permissions(to, fs::metadata(from)?.permissions())?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        // Folders are work of programs that run beside this one.
        if entry.file_type()?.is_file() {
            fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
    }
    Ok(())
}
