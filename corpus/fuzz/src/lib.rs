//! Floor 6: generated programs through the whole compiler. An oracle says what must hold of each; what
//! does not is made small. Same seed, same programs, same findings.

mod case;
mod coverage;
mod oracles;
mod session;
mod shrink;
mod times;

pub use case::{Case, Finding};
pub use coverage::Coverage;
pub use oracles::{Backend, Oracle};
pub use session::{Found, Plan, Statistics, program_of, run, try_one};
pub use shrink::shrink;
pub use times::Times;
