//! Floor 2: the corpus of `.rx` programs and the harness that holds every route against their
//! expectations. The values that directives write (SPEC) are read here, for the command too.

pub mod compare;
pub mod directive;
pub mod externals;
pub mod files;
pub mod generate;
pub mod harness;
pub mod pipeline;
pub mod reals;
pub mod replay;
pub mod shares;
pub mod signature;
pub mod spec;
pub mod structure;
pub mod tensor_files;
pub mod well_formed_part;
