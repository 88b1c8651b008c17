//! Floor 3: the corpus of `.rx` programs and the harness that checks their expectations on every route. Tests of any
//! crate may use it, and nothing else does.

pub mod directive;
pub mod files;
pub mod harness;
pub mod par_map;
pub mod requirement;
pub mod sample;
pub mod script;
pub mod structure;
