//! The C compiler that compiled routes need.

use relax_corpus::requirement;
use relax_cpu::Compiler;

/// Whether there is one; where it is required, that there is none is a failure.
pub(crate) fn is_there() -> bool {
    let is_there = Compiler::of_system().is_ok();
    if !is_there {
        requirement::skip("RELAX_REQUIRE_CC", "there is no C compiler");
    }
    is_there
}
