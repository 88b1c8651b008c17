//! The C compiler that compiled routes need.

use relax_corpus::requirement;
use std::process::Command;

/// Whether there is one; where it is required, that there is none is a failure.
pub(crate) fn is_there() -> bool {
    let name = std::env::var("CC").ok().filter(|name| !name.is_empty());
    let name = name.unwrap_or_else(|| "cc".to_owned());
    let is_there = Command::new(name).arg("--version").output().is_ok();
    if !is_there {
        requirement::skip("RELAX_REQUIRE_CC", "there is no C compiler");
    }
    is_there
}
