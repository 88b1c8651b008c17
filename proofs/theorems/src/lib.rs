//! Floor 2: rewrite rules as theorems. Their text (`rules/*.rx`) is read by [`rules`], which proves them for all
//! shapes by what expressions over tensors denote; by the same denotation [`validation`] compares programs.

mod denotation;
pub mod placement;
pub mod rules;
pub mod validation;
