//! Floor 7: differential testing of the whole compiler with generated programs. An oracle is a property that every
//! program must have; a program that violates it is shrunk. Equal seeds give equal programs and findings.

mod case;
mod coverage;
mod oracles;
mod session;
mod shrink;
mod times;

pub use case::{Case, Finding};
pub use coverage::Coverage;
pub use oracles::Oracle;
pub use session::{Found, Plan, Replayed, Share, Statistics, replay, run, try_one};
pub use shrink::shrink;
pub use times::Times;
