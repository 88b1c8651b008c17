//! Floor 2: the corpus of `.rx` programs and the harness that holds every route against their
//! expectations. The values that directives write (SPEC) are read here, for the command too.

pub mod random;
pub mod spec;
