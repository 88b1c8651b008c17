//! Documents that are generated from the tables in the code, and counts of lines. That the committed ones are up to date,
//! and the other rules of the house, are the tests of this crate.

pub mod docs;
pub mod lines;
