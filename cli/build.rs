//! With the feature `z3`: the command finds libz3 also when the target folder lies outside of the
//! project; inside it, `.cargo/config.toml` has paths that survive a move.
//!
//! `--version` says which commit it is of, where there is a repository.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=Z3_LIBRARY_PATH_OVERRIDE");
    let unix = env::var_os("CARGO_CFG_UNIX").is_some();
    let folder = env::var("Z3_LIBRARY_PATH_OVERRIDE").ok();
    if let (Some(_), true, Some(folder)) = (env::var_os("CARGO_FEATURE_Z3"), unix, folder) {
        println!("cargo::rustc-link-arg-bins=-Wl,-rpath,{folder}");
    }
    let commit = git(&["rev-parse", "--short=12", "HEAD"]);
    println!("cargo::rustc-env=COMMIT={}", commit.as_deref().unwrap_or("unknown"));
    for name in ["HEAD", "logs/HEAD"] {
        // Cargo builds again each time where a file is missing.
        if let Some(path) = git(&["rev-parse", "--git-path", name])
            && Path::new(&path).exists()
        {
            println!("cargo::rerun-if-changed={path}");
        }
    }
}

/// What git prints; `None` without it, or outside of a repository.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
