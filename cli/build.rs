//! With the feature `z3`: the command finds libz3 also when the target folder lies outside of the
//! project; inside it, `.cargo/config.toml` has paths that survive a move.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=Z3_LIBRARY_PATH_OVERRIDE");
    let unix = env::var_os("CARGO_CFG_UNIX").is_some();
    let folder = env::var("Z3_LIBRARY_PATH_OVERRIDE").ok();
    if let (Some(_), true, Some(folder)) = (env::var_os("CARGO_FEATURE_Z3"), unix, folder) {
        println!("cargo::rustc-link-arg-bins=-Wl,-rpath,{folder}");
    }
}
