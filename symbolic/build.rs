//! With the feature `z3`: refuses to build where libz3 is missing, with what to do about it, and puts
//! it where `cargo test` and `cargo run` find it, wherever the target folder is.

use std::env;
use std::path::{Path, PathBuf};

/// The variable that says in which folder libz3 lies; `.cargo/config.toml` has its default.
const PLACE: &str = "Z3_LIBRARY_PATH_OVERRIDE";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed={PLACE}");
    // Without the variable whoever builds this relies on a libz3 of the system.
    if let (Some(_), Some(folder)) = (env::var_os("CARGO_FEATURE_Z3"), env::var_os(PLACE)) {
        provide(&PathBuf::from(folder));
    }
}

fn provide(folder: &Path) {
    let names = ["libz3.so", "libz3.dylib", "libz3.a", "libz3.lib"];
    let Some(library) = names.iter().map(|name| folder.join(name)).find(|path| path.exists())
    else {
        println!(
            "cargo::error=the SMT solver z3 is not in {}: run ./setup.sh in the root of the project \
             to fetch it, or build with --no-default-features to do without it",
            folder.display()
        );
        return;
    };
    println!("cargo::rerun-if-changed={}", library.display());
    if let Err(error) = link_libraries(folder) {
        println!("cargo::warning=programs may not find libz3 when they start: {error}");
    }
}

/// Links to the libraries of `folder` from a folder of the build. Cargo lets programs that it starts
/// search folders of the build, and only those.
#[cfg(unix)]
fn link_libraries(folder: &Path) -> std::io::Result<()> {
    let own = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets this")).join("z3");
    if own.exists() {
        std::fs::remove_dir_all(&own)?;
    }
    std::fs::create_dir_all(&own)?;
    for entry in std::fs::read_dir(folder)? {
        let name = entry?.file_name();
        if name.to_string_lossy().starts_with("libz3.") {
            std::os::unix::fs::symlink(folder.join(&name), own.join(&name))?;
        }
    }
    println!("cargo::rustc-link-search=native={}", own.display());
    Ok(())
}

#[cfg(not(unix))]
fn link_libraries(_: &Path) -> std::io::Result<()> {
    Ok(())
}
