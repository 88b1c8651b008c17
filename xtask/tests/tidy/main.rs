//! The rules of the house, one test each. A rule fails with every place that breaks it, as
//! `file:line: what is wrong`.

mod codes;
mod corpus;
mod documents;
mod floors;
mod generated;
mod language;
mod names;
mod operators;
mod project;
mod prose;
mod sources;
mod words;
